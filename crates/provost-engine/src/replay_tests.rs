//! Whatever happens, the records alone give the same State again, at every position.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use provost_model::body::{Source, SourceState};
use provost_model::effect::EffectResult;
use provost_model::input::{Action, AgentReport, Input};
use provost_model::policy::{Mode, ModeScope, Role};
use provost_model::record::Record;
use provost_model::scheduler::JobState;

use crate::state::State;
use crate::testing::{Site, signal};
use crate::{apply, outstanding};

/// Something that happens to the site.
#[derive(Clone, Debug)]
enum Event {
    Xid { node: u8, code: u32, gpu: u32 },
    Repeats { count: u64 },
    Job { node: u8, gpu: u32 },
    JobEnds { state: JobState },
    Drained { node: u8, by_us: bool },
    Gone { node: u8 },
    Result { code: u8 },
    CarryOut,
    Source { node: u8, state: SourceState },
    Report { node: u8, boot: u8 },
    Command { role: u8, what: u8, node: u8 },
    Wait { seconds: u64 },
    Start,
    Poll,
}

fn event() -> impl Strategy<Value = Event> {
    let node = 1..=4_u8;
    let code = prop::sample::select(vec![13, 31, 43, 45, 63, 79, 92, 95, 119, 154]);
    let source = prop::sample::select(vec![SourceState::Fresh, SourceState::Silent, SourceState::Blind]);
    let ended = prop::sample::select(vec![JobState::Failed, JobState::Completed, JobState::Pending]);
    prop_oneof![
        4 => (node.clone(), code, 0..3_u32).prop_map(|(node, code, gpu)| Event::Xid { node, code, gpu }),
        1 => (1..100_u64).prop_map(|count| Event::Repeats { count }),
        2 => (node.clone(), 0..3_u32).prop_map(|(node, gpu)| Event::Job { node, gpu }),
        1 => ended.prop_map(|state| Event::JobEnds { state }),
        2 => (node.clone(), any::<bool>()).prop_map(|(node, by_us)| Event::Drained { node, by_us }),
        1 => node.clone().prop_map(|node| Event::Gone { node }),
        4 => (0..4_u8).prop_map(|code| Event::Result { code }),
        3 => Just(Event::CarryOut),
        1 => (node.clone(), source).prop_map(|(node, state)| Event::Source { node, state }),
        1 => (node.clone(), 0..2_u8).prop_map(|(node, boot)| Event::Report { node, boot }),
        3 => (0..4_u8, 0..12_u8, node).prop_map(|(role, what, node)| Event::Command { role, what, node }),
        3 => prop::sample::select(vec![1, 30, 600, 90_000]).prop_map(|seconds| Event::Wait { seconds }),
        1 => Just(Event::Start),
        2 => Just(Event::Poll),
    ]
}

fn name(node: u8) -> String {
    format!("gpu{node:03}")
}

/// Lets it happen.
fn happen(site: &mut Site, event: &Event, jobs: &mut u32) {
    site.now = site.now + Duration::from_millis(10);
    match event {
        Event::Xid { node, code, gpu } => {
            let mut line = signal(&name(*node), *code, Some(*gpu));
            line.fields.recovery_to = (*code == 154).then_some(*gpu);
            line.fields.clears = *code == 154 && *gpu == 0;
            site.signal(line);
        }
        Event::Repeats { count } => {
            if let Some(key) = site.state.episodes.keys().next().cloned() {
                site.feed(Input::Repeats { key, count: *count, last_at: site.now });
            }
        }
        Event::Job { node, gpu } => {
            *jobs += 1;
            site.run_job(*jobs, &[(&name(*node), &[*gpu])]);
        }
        Event::JobEnds { state } => {
            let now = site.now;
            if let Some(job) = site.jobs.first_mut() {
                job.state = *state;
                job.ended_at = state.ended().then_some(now);
            }
            site.poll();
            site.jobs.retain(|job| !job.state.ended());
        }
        Event::Drained { node, by_us } => {
            if let Some(node) = site.nodes.get_mut(&name(*node)) {
                node.drain = !node.drain;
                let reason = if *by_us { "provost INC-2026-000001: x" } else { "dimm" };
                node.reason = if node.drain { reason.to_owned() } else { String::new() };
            }
            site.poll();
        }
        Event::Gone { node } => {
            if let Some(node) = site.nodes.get_mut(&name(*node)) {
                node.not_responding = !node.not_responding;
                node.busy = false;
            }
            site.poll();
        }
        Event::Result { code } => answer(site, *code),
        Event::CarryOut => drop(site.carry_out_once()),
        Event::Source { node, state } => {
            site.feed(Input::Source { source: Source::Agent(name(*node)), state: *state });
        }
        Event::Report { node, boot } => {
            let report = AgentReport {
                node: name(*node),
                boot_id: Some(boot.to_string()),
                actions: ["collect", "step_processes", "validate"].map(str::to_owned).into(),
                gpus: None,
                version: "1".to_owned(),
            };
            site.feed(Input::AgentReport(Box::new(report)));
        }
        Event::Command { role, what, node } => command(site, *role, *what, *node),
        Event::Wait { seconds } => drop(site.wait(Duration::from_secs(*seconds))),
        Event::Start => drop(site.start()),
        Event::Poll => drop(site.poll()),
    }
}

/// One open intent gets a result.
fn answer(site: &mut Site, code: u8) {
    let Some(intent) = outstanding(&site.state).next().map(|open| open.intent) else { return };
    let result = match code {
        0 | 1 => EffectResult::Done { observed: "IDLE+DRAIN".to_owned(), notes: Vec::new() },
        2 => EffectResult::NotDone { code: "failed".to_owned(), retry: true },
        _ => EffectResult::Unknown { code: "timeout".to_owned() },
    };
    site.feed(Input::EffectResult { intent, result });
}

fn command(site: &mut Site, role: u8, what: u8, node: u8) {
    let role = [Role::Viewer, Role::Operator, Role::Service, Role::Admin][usize::from(role % 4)];
    let incident = site.state.incidents.values().next_back().map(|incident| incident.number.clone());
    let incident = incident.unwrap_or_else(|| "INC-2026-000001".to_owned());
    let node = name(node);
    let hold = site.state.holds.keys().next().copied();
    let execution = site.state.executions.values().next_back().map(|execution| execution.id);
    let action = match (what, hold, execution) {
        (0, _, _) => Action::NodeHold { node, until: Some(site.now + Duration::from_secs(100)) },
        (1, Some(hold), _) => Action::HoldRelease { hold },
        (2, _, _) => Action::NodeDrain { node },
        (3, _, _) => Action::NodeResume { node },
        (4, _, _) => Action::IncidentAck { incident },
        (5, _, _) => Action::IncidentResolve { incident },
        (6, _, _) => Action::GuardStop,
        (7, _, _) => Action::GuardStart,
        (8, _, _) => Action::ModeSet { scope: ModeScope::Node(node), mode: Some(Mode::Observe) },
        (9, _, _) => Action::Detach,
        (12, _, _) => Action::NodeForget { node },
        (10, _, Some(execution)) => Action::RunAbort { execution },
        (11, _, Some(execution)) => {
            let answers = BTreeMap::from([("outcome".to_owned(), "reseated".to_owned())]);
            Action::RunAnswer { execution, step: "repair".to_owned(), answers }
        }
        _ => Action::IncidentNote { incident },
    };
    site.ask(role, action);
}

/// Three nodes and a spare, with the runbooks that come along.
fn site() -> Site {
    let mut site = Site::new(4);
    site.with_runbooks();
    site.nodes.get_mut("gpu004").expect("a node").partitions = vec!["spare".to_owned()];
    site
}

/// Folds the records that a site has made since `from` into `replayed`.
fn replay(replayed: &mut State, records: &[Record]) {
    for record in records {
        let bytes = record.canonical().expect("every record has a canonical form");
        let read = Record::parse(&bytes).expect("what was written is read back");
        assert_eq!(&read, record);
        apply(replayed, &read);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_inputs_give_the_same_records_byte_for_byte(events in prop::collection::vec(event(), 1..30)) {
        let live = || {
            let (mut site, mut jobs) = (site(), 0);
            events.iter().for_each(|event| happen(&mut site, event, &mut jobs));
            let bytes = |record: &Record| record.canonical().expect("every record has a canonical form");
            site.records.iter().map(bytes).collect::<Vec<_>>()
        };
        prop_assert_eq!(live(), live());
    }

    #[test]
    fn replay_equals_live_at_every_position(events in prop::collection::vec(event(), 1..50)) {
        let mut site = site();
        let mut replayed = State::new("test");
        let mut done = 0;
        let mut jobs = 0;
        for event in &events {
            replay(&mut replayed, &site.records[done..]);
            done = site.records.len();
            // What the turn touched is no part of the fold.
            prop_assert!(replayed == site.state, "before {event:?}");
            happen(&mut site, event, &mut jobs);
        }
        replay(&mut replayed, &site.records[done..]);
        prop_assert!(replayed == site.state, "at the end");
        // The same records again from the start, as a verifier does it.
        let mut again = State::new("test");
        replay(&mut again, &site.records);
        prop_assert!(again == site.state, "from the start");
    }
}
