//! The walk of a lost GPU from end to end, and what must not happen on the way.

use std::time::Duration;

use provost_model::body::{Body, Purpose, Source, SourceState};
use provost_model::effect::Effect;
use provost_model::fleet::Phase;
use provost_model::input::{Action, Input, Reply};
use provost_model::policy::{Mode, ModeScope, Role};
use provost_model::response::{AlertState, HoldOwner};
use provost_model::runbook::{ExecutionState, StepState};
use provost_model::scheduler::JobState;

use super::{follow_jobs, go, repaired, run, runbooks, site, site_with, step};
use crate::outstanding;
use crate::state::Outstanding;
use crate::testing::Site;

fn effects(site: &Site) -> Vec<Effect> {
    site.bodies(|body| match body {
        Body::EffectRequested(data) => Some(&data.effect),
        _ => None,
    })
    .into_iter()
    .cloned()
    .collect()
}

fn notes(site: &Site) -> Vec<String> {
    let text = |effect: Effect| match effect {
        Effect::JobNote { text, .. } => Some(text),
        _ => None,
    };
    effects(site).into_iter().filter_map(text).collect()
}

fn requeued(site: &Site) -> Vec<u32> {
    let id = |effect: Effect| match effect {
        Effect::JobRequeue { job, .. } => Some(job.id),
        _ => None,
    };
    effects(site).into_iter().filter_map(id).collect()
}

#[test]
fn a_lost_gpu_is_recovered_from_end_to_end() {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[0, 1, 2, 3, 4, 5, 6, 7])]);
    site.xid("gpu001", 79, 3);
    assert_eq!(run(&site).state, ExecutionState::Running);
    assert_eq!(step(&site, "collect").state, StepState::Acting);
    go(&mut site);
    assert_eq!(requeued(&site), [1]);
    assert_eq!(run(&site).state, ExecutionState::AwaitingHuman);
    assert_eq!(run(&site).why, "human:repair");
    assert_eq!(site.node("gpu001").phase, Phase::AwaitingRepair);
    assert_eq!(site.node("spare01").serves, site.node("gpu001").slot);
    assert_eq!(step(&site, "requeue").result.as_deref(), Some("1 requeued, 0 noted, 0 gone"));
    assert_eq!(step(&site, "spare").result.as_deref(), Some("spare01 serves"));
    assert_eq!(step(&site, "drain").result.as_deref(), Some("no job, no step process"));
    assert!(step(&site, "repair").until.is_some(), "the deadline is visible");
    assert!(site.nodes["gpu001"].drain);

    repaired(&mut site);
    assert_eq!(site.node("gpu001").phase, Phase::Revalidating);
    site.carry_out();
    assert_eq!(step(&site, "revalidate").why, "validated");
    assert_eq!(site.alert("xid.79").state, AlertState::Resolved);
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Waiting, "soak"));
    assert!(site.nodes["gpu001"].drain, "it stays contained while it is watched");
    go(&mut site);
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Succeeded, "verified"));
    assert!(!site.nodes["gpu001"].drain);
    assert_eq!(site.node("gpu001").phase, Phase::Probation);
    assert!(site.node("spare01").serves.is_none());
    assert_eq!(site.state.holds_on(site.node("gpu001").id).count(), 0);
    assert!(site.state.open_executions.is_empty());
}

#[test]
fn a_spare_that_its_scheduler_does_not_know_yet_is_waited_for() {
    let check = |back_after: u64, state: StepState| {
        let mut site = site();
        site.nodes.get_mut("spare01").unwrap().not_responding = true;
        site.look();
        site.xid("gpu001", 79, 3);
        site.carry_out();
        assert_eq!(
            (step(&site, "spare").state, step(&site, "spare").why.as_str()),
            (StepState::Waiting, "spare")
        );
        site.wait(Duration::from_secs(back_after));
        site.nodes.get_mut("spare01").unwrap().not_responding = false;
        site.look();
        site.carry_out();
        assert_eq!(step(&site, "spare").state, state, "back after {back_after} s");
    };
    check(5, StepState::Succeeded);
    // It was given up as one that is away, and the other attempt comes later.
    check(61, StepState::Retrying);
}

#[test]
fn only_jobs_on_the_lost_gpu_are_requeued_and_no_job_is_ended() {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[3])]);
    site.run_job(2, &[("gpu001", &[4])]);
    site.run_job(3, &[("gpu001", &[3]), ("gpu002", &[0])]);
    site.jobs[2].requeue = false;
    site.run_job(4, &[("gpu001", &[3])]);
    site.jobs[3].pinned = vec!["gpu001".to_owned()];
    site.run_job(5, &[("gpu002", &[3])]);
    site.look();
    site.xid("gpu001", 79, 3);
    for _ in 0..30 {
        site.carry_out();
        follow_jobs(&mut site);
        site.wait(Duration::from_secs(1));
    }
    assert_eq!(requeued(&site), [1, 4]);
    let notes = notes(&site);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0].contains("does not allow a requeue")
            && notes[0].starts_with("provost INC-2026-000001: GPU 3")
    );
    assert!(notes[1].contains("asks for this node by name"));
    // Jobs 2 and 3 run on until their deadline; then a person decides.
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Waiting, "jobs"));
    site.wait(site.config.timers.drain.0);
    assert_eq!(run(&site).state, ExecutionState::NeedsOperator);
    assert_eq!(run(&site).why, "drain:drain_deadline");
    assert_eq!(site.jobs[1].state, JobState::Running);
}

#[test]
fn no_job_is_requeued_before_its_node_is_contained() {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[3])]);
    site.xid("gpu001", 79, 3);
    let is_hold = |order: &Outstanding| matches!(order.effect, Effect::SchedulerHold { .. });
    let evidence = outstanding(&site.state).find(|order| !is_hold(order)).unwrap();
    let result = site.perform(&evidence);
    site.answer(&evidence, result);
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Waiting, "containment"));
    let hold = outstanding(&site.state).find(is_hold).unwrap();
    let result = site.perform(&hold);
    site.answer(&hold, result);
    assert_eq!(requeued(&site), [1]);
}

#[test]
fn a_job_that_failed_on_the_node_after_the_fault_is_requeued() {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[0])]);
    site.run_job(2, &[("gpu001", &[1])]);
    site.now = site.now + Duration::from_secs(60);
    site.jobs[1].state = JobState::Failed;
    site.jobs[1].ended_at = Some(site.now);
    site.look();
    site.now = site.now + Duration::from_secs(60);
    site.xid("gpu001", 79, 0);
    site.jobs[0].state = JobState::Failed;
    site.jobs[0].ended_at = Some(site.now + Duration::from_secs(5));
    go(&mut site);
    // Job 2 failed a minute before the fault; it has its own reason.
    assert_eq!(requeued(&site), [1]);
}

#[test]
fn a_job_that_the_scheduler_shows_late_is_requeued_too() {
    let mut site = site();
    site.xid("gpu001", 79, 3);
    site.carry_out();
    site.look();
    site.carry_out();
    assert_eq!(step(&site, "drain").why, "second_look");
    // It had started just before the node was drained, and the poll of then did not show it.
    site.run_job(7, &[("gpu001", &[3])]);
    go(&mut site);
    assert_eq!(requeued(&site), [7]);
    assert_eq!(run(&site).state, ExecutionState::AwaitingHuman);
}

#[test]
fn in_observe_everything_is_listed_and_nothing_is_done() {
    let mut site = site();
    site.ask(Role::Admin, Action::ModeSet { scope: ModeScope::Site, mode: Some(Mode::Observe) });
    site.run_job(1, &[("gpu001", &[3])]);
    site.xid("gpu001", 79, 3);
    site.wait(Duration::from_secs(60));
    assert_eq!(outstanding(&site.state).count(), 0);
    assert_eq!(effects(&site), []);
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Cancelled, "mode_observe"));
    let listed: Vec<&str> = site.incident(1).would_have.iter().map(Effect::name).collect();
    for name in ["scheduler_hold", "agent_action", "job_requeue", "partition_join", "scheduler_release"] {
        assert!(listed.contains(&name), "{name}: {listed:?}");
    }
    // The same fault again, and again: nothing new is listed.
    let before = site.state.executions.len();
    site.now = site.now + Duration::from_secs(60);
    site.xid("gpu001", 79, 3);
    assert_eq!(site.state.executions.len(), before);
    // Once Provost may act, it does.
    site.ask(Role::Admin, Action::ModeSet { scope: ModeScope::Site, mode: Some(Mode::Act) });
    assert_eq!(run(&site).state, ExecutionState::Running);
}

#[test]
fn in_advise_it_is_proposed() {
    let mut site = site();
    site.ask(Role::Admin, Action::ModeSet { scope: ModeScope::Site, mode: Some(Mode::Advise) });
    site.xid("gpu001", 79, 3);
    assert_eq!(
        (run(&site).state, run(&site).why.as_str()),
        (ExecutionState::AwaitingApproval, "mode_advise")
    );
    assert_eq!(effects(&site), []);
    site.ask(Role::Admin, Action::ModeSet { scope: ModeScope::Site, mode: Some(Mode::Act) });
    assert_eq!(run(&site).state, ExecutionState::Running);
}

#[test]
fn the_mode_can_be_lowered_in_the_middle() {
    let mut site = site();
    site.xid("gpu001", 79, 3);
    site.ask(
        Role::Admin,
        Action::ModeSet { scope: ModeScope::Node("gpu001".to_owned()), mode: Some(Mode::Observe) },
    );
    site.carry_out();
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Paused, "mode_observe"));
    site.ask(Role::Admin, Action::ModeSet { scope: ModeScope::Node("gpu001".to_owned()), mode: None });
    go(&mut site);
    assert_eq!(run(&site).state, ExecutionState::AwaitingHuman);
}

#[test]
fn guard_stop_lets_what_is_under_way_finish_and_begins_nothing() {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[3])]);
    site.xid("gpu001", 79, 3);
    site.ask(Role::Operator, Action::GuardStop);
    site.carry_out();
    assert_eq!(step(&site, "collect").state, StepState::Succeeded);
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Paused, "guard_stopped"));
    assert_eq!(requeued(&site), [] as [u32; 0]);
    site.ask(Role::Operator, Action::GuardStart);
    go(&mut site);
    assert_eq!(requeued(&site), [1]);
}

#[test]
fn a_fault_that_comes_again_after_the_test_starts_from_the_beginning() {
    let mut site = site();
    site.xid("gpu001", 79, 3);
    go(&mut site);
    repaired(&mut site);
    site.carry_out();
    assert_eq!(run(&site).why, "soak");
    let first = run(&site).id;
    site.now = site.now + Duration::from_secs(10);
    site.xid("gpu001", 79, 3);
    let ended = &site.state.executions[&first];
    assert_eq!((ended.state, ended.why.as_str()), (ExecutionState::Cancelled, "fault_recurred"));
    assert_ne!(run(&site).id, first);
    assert!(!run(&site).state.is_final());
    assert!(site.nodes["gpu001"].drain, "the node never took work in between");
    go(&mut site);
    assert_eq!(run(&site).state, ExecutionState::AwaitingHuman);
}

/// Case B23: repeats are told late, so the line may be older than the end of the execution that it begins again.
#[test]
fn a_fault_that_comes_again_during_the_last_steps_begins_a_new_execution() {
    let mut site = site();
    site.xid("gpu001", 79, 3);
    go(&mut site);
    repaired(&mut site);
    site.carry_out();
    let key = site.state.episodes.keys().next().cloned().expect("an episode");
    let last_at = site.now + Duration::from_secs(1);
    go(&mut site);
    let first = run(&site).id;
    let ended = run(&site).ended_at.expect("the execution has ended");
    assert!(last_at < ended);
    site.feed(Input::Repeats { key, count: 1, last_at });
    assert_ne!(run(&site).id, first);
    go(&mut site);
    assert_eq!(run(&site).state, ExecutionState::AwaitingHuman);
}

#[test]
fn an_execution_that_is_aborted_undoes_what_it_did() {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[3])]);
    site.xid("gpu001", 79, 3);
    go(&mut site);
    let execution = run(&site).id;
    site.ask(Role::Operator, Action::RunAbort { execution });
    assert_eq!(step(&site, "spare").state, StepState::Compensating);
    site.carry_out();
    assert_eq!(step(&site, "spare").state, StepState::Compensated);
    assert!(site.node("spare01").serves.is_none());
    // The requeue stays done, and the record says so.
    assert_eq!(
        (run(&site).state, run(&site).why.as_str()),
        (ExecutionState::RolledBack, "undone_except:requeue")
    );
    assert!(site.nodes["gpu001"].drain, "the isolation is kept");
    site.now = site.now + Duration::from_secs(60);
    site.xid("gpu001", 79, 3);
    assert_eq!(run(&site).id, execution, "what a person ended does not begin again");
    site.resolve(1);
    site.carry_out();
    site.look();
    site.carry_out();
    assert!(!site.nodes["gpu001"].drain, "the node is not left behind");
}

#[test]
fn a_cause_that_is_over_cancels_what_is_left() {
    let mut site = site();
    let source = Source::Agent("gpu001".to_owned());
    site.feed(Input::Source { source: source.clone(), state: SourceState::Silent });
    // Silence holds no node; the person who starts the runbook does.
    site.ask(Role::Operator, Action::NodeHold { node: "gpu001".to_owned(), until: None });
    let incident = "INC-2026-000001".to_owned();
    let reply = site.ask(Role::Operator, Action::RunStart { runbook: "gpu-lost".to_owned(), incident });
    assert!(matches!(&reply, Reply::Accepted { created, .. } if created.len() == 1), "{reply:?}");
    go(&mut site);
    assert_eq!(run(&site).state, ExecutionState::AwaitingHuman);
    site.feed(Input::Source { source, state: SourceState::Fresh });
    assert_eq!(run(&site).state, ExecutionState::AwaitingHuman, "clearing is not over");
    site.wait(site.config.timers.clear_hold.0);
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Cancelled, "cause_cleared"));
}

#[test]
fn a_node_that_somebody_else_holds_is_released_by_us_alone() {
    let mut site = site();
    site.xid("gpu001", 79, 3);
    go(&mut site);
    site.ask(Role::Operator, Action::NodeHold { node: "gpu001".to_owned(), until: None });
    repaired(&mut site);
    go(&mut site);
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Succeeded, "verified"));
    assert!(site.node("spare01").serves.is_some(), "the spare serves on");
    assert!(
        step(&site, "release").result.as_deref().is_some_and(|text| text.contains("1 holds of others stay"))
    );
    let holds: Vec<&HoldOwner> =
        site.state.holds_on(site.node("gpu001").id).map(|hold| &hold.owner).collect();
    assert!(matches!(holds.as_slice(), [HoldOwner::Operator(_)]), "{holds:?}");
    assert!(site.nodes["gpu001"].drain);
}

#[test]
fn two_executions_do_not_act_on_one_node_at_once() {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[3])]);
    site.run_job(2, &[("gpu001", &[5])]);
    site.xid("gpu001", 79, 3);
    site.xid("gpu001", 79, 5);
    let acting = |site: &Site| {
        let open = site.state.open_executions.iter().filter_map(|id| site.state.executions.get(id));
        open.filter(|run| crate::runbook::cause::has_open_intents(&site.state, run)).count()
    };
    let all: Vec<(ExecutionState, String)> =
        site.state.executions.values().map(|run| (run.state, run.why.clone())).collect();
    if all.len() == 2 {
        assert_eq!(all[1], (ExecutionState::Queued, "lock:gpu001".to_owned()));
    }
    for _ in 0..60 {
        assert!(acting(&site) <= 1);
        site.carry_out();
        follow_jobs(&mut site);
        site.wait(Duration::from_secs(1));
    }
    // While a technician has the first, the second moves its jobs.
    assert_eq!(requeued(&site), [1, 2]);
}

#[test]
fn an_application_fault_is_a_note_and_nothing_else() {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[3])]);
    for _ in 0..3 {
        site.xid("gpu001", 31, 3);
        site.carry_out();
        site.now = site.now + Duration::from_secs(60);
    }
    let notes = notes(&site);
    assert_eq!(notes.len(), 1, "told once: {notes:?}");
    assert!(notes[0].starts_with("provost Xid 31: ") && notes[0].contains("compute-sanitizer"));
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Succeeded, "verified"));
    assert!(site.state.incidents.is_empty() && site.state.holds.is_empty());
}

#[test]
fn an_agent_that_allows_nothing_leaves_it_to_people() {
    let mut site = site_with(runbooks(), &[]);
    site.xid("gpu001", 79, 3);
    go(&mut site);
    assert_eq!(step(&site, "collect").why, "not_configured");
    assert_eq!(step(&site, "collect").state, StepState::Failed);
    assert_eq!(step(&site, "drain").result.as_deref(), Some("no job; the agent cannot tell about processes"));
    repaired(&mut site);
    go(&mut site);
    assert_eq!(
        (run(&site).state, run(&site).why.as_str()),
        (ExecutionState::NeedsOperator, "revalidate:not_configured")
    );
    assert_eq!(site.alert("xid.79").state, AlertState::Firing, "nothing was tested");
    let execution = run(&site).id;
    site.ask_because(Role::Operator, "tested by hand", Action::RunSkip { execution });
    assert_eq!(site.alert("xid.79").state, AlertState::Resolved);
    go(&mut site);
    assert_eq!(
        (run(&site).state, run(&site).why.as_str()),
        (ExecutionState::Succeeded, "done_with_failures")
    );
    assert!(!site.nodes["gpu001"].drain);
}

#[test]
fn every_intent_of_a_step_names_its_attempt() {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[3])]);
    site.xid("gpu001", 79, 3);
    go(&mut site);
    let purposes = site.bodies(|body| match body {
        Body::EffectRequested(data) => Some(&data.purpose),
        _ => None,
    });
    let steps: Vec<&str> = purposes
        .iter()
        .filter_map(|purpose| match purpose {
            Purpose::Step { step, attempt: 1, .. } => Some(step.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(steps, ["collect", "requeue", "spare", "drain"]);
}
