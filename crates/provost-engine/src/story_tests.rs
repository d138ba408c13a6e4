//! Whole stories, from a kernel line to a closed incident.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use provost_model::fleet::Phase;
use provost_model::input::{Action, AgentReport, Input, Reply};
use provost_model::policy::{Mode, Role};
use provost_model::response::{IncidentState, Severity};
use provost_model::runbook::ExecutionState;
use provost_model::scheduler::{JobState, ObservedNode};
use provost_model::signal::SignalKind;

use crate::outstanding;
use crate::testing::{Site, T0, signal};

/// Twenty nodes with agents, a spare, the built-in runbooks.
fn site() -> Site {
    let mut site = Site::new(20);
    site.with_runbooks();
    let spare = ObservedNode {
        state: "IDLE".to_owned(),
        partitions: vec!["spare".to_owned()],
        ..ObservedNode::default()
    };
    site.nodes.insert("spare01".to_owned(), spare);
    for name in site.nodes.keys().cloned().collect::<Vec<_>>() {
        let report = AgentReport {
            node: name,
            boot_id: Some("boot".to_owned()),
            actions: ["collect", "step_processes", "validate"].map(str::to_owned).into(),
            gpus: None,
            version: "1".to_owned(),
        };
        site.feed(Input::AgentReport(Box::new(report)));
    }
    site.look();
    site
}

/// A node is empty once its jobs have gone elsewhere.
fn empty(site: &mut Site, node: &str) {
    site.jobs.retain(|job| job.state != JobState::Pending);
    if let Some(seen) = site.nodes.get_mut(node) {
        seen.busy = false;
        seen.state = seen.state.replace("MIXED", "IDLE");
    }
    site.look();
}

/// Does what is asked for, and lets the seconds pass that it takes.
fn go_on(site: &mut Site) {
    for _ in 0..20 {
        site.carry_out();
        site.wait(Duration::from_secs(5));
        site.look();
    }
}

fn execution(site: &Site) -> (ExecutionState, String) {
    let run = site.state.executions.values().next_back().expect("a runbook runs");
    (run.state, run.why.clone())
}

/// The main job: a GPU is lost under a job; the node is contained, the job moves, a spare serves, a technician
/// answers, the node is tested and comes back.
fn main_job(lose: impl Fn(&mut Site) -> Vec<&'static str>) {
    let mut site = site();
    let job = site.run_job(1, &[("gpu003", &[2, 3])]);
    let kinds = lose(&mut site);
    let position = |kind: &str| kinds.iter().position(|other| *other == kind).expect(kind);
    assert!(position("episode.opened") < position("alert.raised"));
    assert!(position("alert.raised") < position("incident.opened"));
    assert!(position("incident.opened") < position("hold.placed"));
    assert!(outstanding(&site.state).any(|order| order.effect.name() == "scheduler_hold"));

    site.carry_out();
    let incident = site.incident(1);
    assert_eq!((incident.severity, &incident.jobs), (Severity::Sev2, &vec![job.clone()]));
    assert!(incident.isolated_at.is_some_and(|at| at.since(T0) < Duration::from_secs(1)));
    assert!(
        site.nodes["gpu003"].drain && site.nodes["gpu003"].reason.starts_with("provost INC-2026-000001: ")
    );
    go_on(&mut site);
    assert_eq!(site.jobs[0].state, JobState::Pending, "requeued");
    assert!(site.incident(1).mitigated_at.is_some(), "the spare serves");
    assert_eq!(site.incident(1).state, IncidentState::Mitigated);
    assert!(site.nodes["spare01"].partitions.contains(&"batch".to_owned()));

    empty(&mut site, "gpu003");
    go_on(&mut site);
    assert_eq!(execution(&site).0, ExecutionState::AwaitingHuman, "{}", execution(&site).1);
    answer(&mut site);
    go_on(&mut site);
    assert_eq!(execution(&site), (ExecutionState::Waiting, "soak".to_owned()));
    assert!(site.nodes["gpu003"].drain, "tested and not released yet");
    site.wait(Duration::from_secs(1_800));
    go_on(&mut site);
    assert_eq!(execution(&site).0, ExecutionState::Succeeded, "{}", execution(&site).1);
    let node = site.node("gpu003");
    assert_eq!(node.phase, Phase::Probation);
    assert!(!site.nodes["gpu003"].drain && site.nodes["gpu003"].comment.is_empty());
    assert!(site.state.holds.is_empty() && site.state.open_alerts.is_empty());
    assert_eq!(site.incident(1).state, IncidentState::Monitoring);
    site.wait(Duration::from_secs(900));
    assert_eq!(site.incident(1).state, IncidentState::Resolved);
    site.wait(Duration::from_secs(86_400));
    assert_eq!(site.node("gpu003").phase, Phase::InService);
    assert_eq!(outstanding(&site.state).count(), 0);
}

fn answer(site: &mut Site) {
    let run = site.state.executions.values().next_back().expect("a runbook runs").id;
    let answers = BTreeMap::from([("outcome".to_owned(), "reseated".to_owned())]);
    let action = Action::RunAnswer { execution: run, step: "repair".to_owned(), answers };
    let reply = site.ask(Role::Operator, action);
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
}

#[test]
fn a_gpu_is_lost_and_everything_follows() {
    main_job(|site| site.xid("gpu003", 79, 3));
}

#[test]
fn b01_without_an_xid_everything_follows_too() {
    main_job(|site| {
        let mut line = signal("gpu003", 79, Some(3));
        line.kind = SignalKind::GpuLost;
        let kinds = site.signal(line);
        // Xid 79 comes as well.
        site.xid("gpu003", 79, 3);
        kinds
    });
}

#[test]
fn in_observe_everything_is_said_and_nothing_is_done() {
    for mode in [Mode::Observe, Mode::Advise] {
        let mut site = site();
        site.config.mode = mode;
        site.start();
        site.run_job(1, &[("gpu003", &[2, 3])]);
        let before = (site.nodes.clone(), site.jobs.clone());
        site.xid("gpu003", 79, 3);
        go_on(&mut site);
        assert!(before == (site.nodes.clone(), site.jobs.clone()));
        assert!(site.records.iter().all(|record| record.kind() != "effect.requested"));
        let would: BTreeSet<&str> = site.incident(1).would_have.iter().map(|effect| effect.name()).collect();
        assert!(would.contains("scheduler_hold") && would.contains("job_requeue"), "{would:?}");
        assert!(site.incident(1).isolated_at.is_none(), "nothing is claimed that is not so");
    }
}

#[test]
fn an_application_fault_leaves_a_note_and_nothing_else() {
    for code in [13, 31, 43, 45] {
        let mut site = site();
        site.run_job(1, &[("gpu003", &[3])]);
        let before = site.nodes.clone();
        site.xid("gpu003", code, 3);
        site.xid("gpu003", code, 3);
        let effects: Vec<&str> = outstanding(&site.state).map(|order| order.effect.name()).collect();
        assert_eq!(effects, ["job_note"], "{code}");
        go_on(&mut site);
        assert!(before == site.nodes && site.state.incidents.is_empty() && site.state.holds.is_empty());
        let notes = site.records.iter().filter(|record| record.kind() == "effect.requested").count();
        assert_eq!(notes, 1, "once for a job and a condition");
    }
}

#[test]
fn a_start_in_the_middle_loses_nothing_and_acts_on_nothing_twice() {
    let mut site = site();
    site.run_job(1, &[("gpu003", &[2, 3])]);
    site.xid("gpu003", 79, 3);
    let intents =
        |site: &Site| site.records.iter().filter(|record| record.kind() == "effect.requested").count();
    let before = intents(&site);
    site.start();
    assert_eq!(intents(&site), before);
    assert!(outstanding(&site.state).all(|order| order.approach == provost_model::effect::Approach::Probe));
    assert_eq!(site.state.incidents.len(), 1);
    go_on(&mut site);
    assert!(site.nodes["gpu003"].drain, "what a probe found not done is done");
}
