//! The walks of faults that a reset mends, from the line to the node's return.

use std::time::Duration;

use provost_model::body::{Body, Source, SourceState};
use provost_model::effect::{Effect, EffectResult};
use provost_model::input::{Action, Input, Reply};
use provost_model::policy::Role;
use provost_model::response::AlertState;
use provost_model::runbook::{ExecutionState, StepState};
use provost_model::scheduler::JobState;
use provost_model::signal::SignalKind;

use super::{answers, follow_jobs, go, run, runbooks, site, site_with, step};
use crate::testing::{Site, pci, signal};

/// A site whose agent can reset.
fn able() -> Site {
    site_with(runbooks(), &["evidence", "no_steps", "validate", "gpu_reset", "fabric_reset"])
}

/// What was asked for besides the scheduler's own: jobs that were requeued, actions of the agent with their GPU.
fn asked(site: &Site) -> Vec<String> {
    let told = |effect: &Effect| match effect {
        Effect::JobRequeue { job, .. } => Some(format!("requeue {}", job.id)),
        Effect::AgentAction { action, pci: Some(at), .. } if *at == pci(3) => Some(format!("{action} 3")),
        Effect::AgentAction { action, pci: None, .. } => Some(action.clone()),
        Effect::AgentAction { action, pci: Some(at), .. } => Some(format!("{action} {at}")),
        _ => None,
    };
    let effects = site.bodies(|body| match body {
        Body::EffectRequested(data) => Some(&data.effect),
        _ => None,
    });
    effects.into_iter().filter_map(told).collect()
}

fn is_back(site: &Site) -> bool {
    let node = site.node("gpu001");
    !site.nodes["gpu001"].drain && site.state.holds_on(node.id).next().is_none()
}

fn by_hand(site: &mut Site) {
    assert_eq!((run(site).state, run(site).why.as_str()), (ExecutionState::AwaitingHuman, "human:by_hand"));
    let action = Action::RunAnswer {
        execution: run(site).id,
        step: "by_hand".to_owned(),
        answers: answers(&[("outcome", "rebooted")]),
    };
    let reply = site.ask(Role::Operator, action);
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
}

#[test]
fn memory_that_failed_is_reset_once_its_jobs_have_moved() {
    for code in [95, 64, 140] {
        let mut site = able();
        site.run_job(1, &[("gpu001", &[3])]);
        site.xid("gpu001", code, 3);
        go(&mut site);
        assert_eq!(asked(&site), ["evidence 3", "requeue 1", "no_steps 3", "gpu_reset 3", "validate 3"]);
        assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Succeeded, "verified"));
        assert_eq!(step(&site, "by_hand").state, StepState::Skipped);
        assert!(is_back(&site) && site.state.open_alerts.is_empty(), "{code}");
    }
}

#[test]
fn a_reset_that_cannot_be_done_from_here_is_a_persons() {
    for code in [95, 119] {
        let mut site = site();
        site.xid("gpu001", code, 3);
        go(&mut site);
        assert_eq!(step(&site, "reset").why, "not_configured");
        by_hand(&mut site);
        go(&mut site);
        let end = (run(&site).state, run(&site).why.as_str());
        assert_eq!(end, (ExecutionState::Succeeded, "done_with_failures"));
        assert!(is_back(&site));
    }
}

#[test]
fn a_row_that_waits_costs_nobody_anything() {
    for code in [63, 94] {
        let mut site = able();
        site.run_job(1, &[("gpu001", &[0])]);
        site.xid("gpu001", code, 3);
        for _ in 0..60 {
            site.carry_out();
            follow_jobs(&mut site);
            site.wait(Duration::from_secs(1));
        }
        assert!(is_back(&site), "it was never taken away: new jobs may come");
        assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Waiting, "jobs"));
        assert!(asked(&site).is_empty());
        site.jobs[0].state = JobState::Completed;
        go(&mut site);
        assert_eq!(asked(&site), ["evidence 3", "no_steps 3", "gpu_reset 3", "validate 3"]);
        assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Succeeded, "verified"));
        assert!(is_back(&site) && site.state.open_alerts.is_empty(), "{code}");
    }
}

#[test]
fn a_row_waits_for_a_busy_node_a_day_and_then_for_its_jobs() {
    let mut site = able();
    site.run_job(1, &[("gpu001", &[0])]);
    site.xid("gpu001", 63, 3);
    site.wait(site.config.timers.remap.0 - Duration::from_secs(1));
    assert!(is_back(&site));
    site.wait(Duration::from_secs(1));
    for _ in 0..60 {
        site.carry_out();
        follow_jobs(&mut site);
        site.wait(Duration::from_secs(1));
    }
    assert!(site.nodes["gpu001"].drain, "no new work comes");
    assert_eq!(site.jobs[0].state, JobState::Running, "what runs goes on");
    site.jobs[0].state = JobState::Completed;
    go(&mut site);
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Succeeded, "verified"));
    assert!(is_back(&site) && !asked(&site).iter().any(|what| what.starts_with("requeue")));
}

#[test]
fn an_execution_that_is_aborted_gives_back_the_node_that_it_held_itself() {
    let mut site = able();
    site.xid("gpu001", 63, 3);
    site.carry_out_once();
    assert_eq!(step(&site, "hold").state, StepState::Succeeded);
    let execution = run(&site).id;
    site.ask(Role::Operator, Action::RunAbort { execution });
    for _ in 0..10 {
        site.carry_out();
        site.wait(Duration::from_secs(1));
        site.look();
    }
    assert_eq!(run(&site).state, ExecutionState::RolledBack, "{}", run(&site).why);
    assert!(is_back(&site));
}

#[test]
fn a_row_that_cannot_be_replaced_takes_over_from_one_that_waits() {
    let mut site = able();
    site.run_job(1, &[("gpu001", &[3])]);
    site.xid("gpu001", 63, 3);
    let first = run(&site).id;
    site.xid("gpu001", 64, 3);
    let ended = &site.state.executions[&first];
    assert_eq!((ended.state, ended.why.as_str()), (ExecutionState::Cancelled, "superseded"));
    assert_eq!(run(&site).runbook, "gpu-memory-uncorrectable");
    go(&mut site);
    assert_eq!(run(&site).state, ExecutionState::Succeeded);
    assert!(is_back(&site) && site.state.open_alerts.is_empty());
    assert_eq!(site.state.executions.len(), 2, "what was mended is not mended again");
}

#[test]
fn nvlink_takes_the_whole_node() {
    let switch = || {
        let mut line = signal("gpu001", 20034, None);
        (line.kind, line.pci) = (SignalKind::Sxid, Some(pci(0)));
        line.fields.fatal = Some(true);
        line
    };
    let first = format!("evidence {}", pci(0));
    for (line, evidence) in [(signal("gpu001", 74, Some(3)), "evidence 3"), (switch(), first.as_str())] {
        let mut site = able();
        site.run_job(1, &[("gpu001", &[3])]);
        site.run_job(2, &[("gpu001", &[5])]);
        site.signal(line);
        assert_eq!((run(&site).runbook.as_str(), run(&site).gpu), ("nvlink-fatal", None));
        go(&mut site);
        assert_eq!(
            asked(&site),
            [evidence, "requeue 1", "requeue 2", "no_steps", "fabric_reset", "validate"]
        );
        assert_eq!(run(&site).state, ExecutionState::Succeeded);
        assert!(is_back(&site) && site.state.open_alerts.is_empty());
    }
}

#[test]
fn the_driver_says_what_is_done() {
    let check = |advice: u32, resets: bool| {
        let mut site = able();
        let mut line = signal("gpu001", 154, Some(3));
        line.fields.recovery_to = Some(advice);
        site.signal(line);
        go(&mut site);
        assert_eq!(asked(&site).contains(&"gpu_reset 3".to_owned()), resets, "{advice}");
        if !resets {
            by_hand(&mut site);
            go(&mut site);
        }
        assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Succeeded, "verified"));
        assert_eq!(site.alert("xid.154").state, AlertState::Resolved);
        assert!(is_back(&site));
    };
    check(1, true);
    check(4, true);
    check(6, true);
    // A reboot, a drain of peers, a memory domain, and what nobody knows are people's.
    for advice in [2, 3, 5, 7, 42] {
        check(advice, false);
    }
}

/// The BMC of gpu001 says so.
fn bmc(site: &mut Site, state: SourceState) {
    site.feed(Input::Source { source: Source::Bmc("gpu001".to_owned()), state });
}

fn agent(site: &mut Site, state: SourceState) {
    site.feed(Input::Source { source: Source::Agent("gpu001".to_owned()), state });
}

/// What was asked of the BMC.
fn switched(site: &Site) -> Vec<bool> {
    site.bodies(|body| match body {
        Body::EffectRequested(data) => Some(&data.effect),
        _ => None,
    })
    .into_iter()
    .filter_map(|effect| match effect {
        Effect::NodePower { node, on } if node == "gpu001" => Some(*on),
        _ => None,
    })
    .collect()
}

#[test]
fn where_a_bmc_answers_more_than_a_reset_is_a_power_cycle() {
    let mut site = able();
    agent(&mut site, SourceState::Fresh);
    bmc(&mut site, SourceState::Fresh);
    let mut line = signal("gpu001", 154, Some(3));
    line.fields.recovery_to = Some(2);
    site.signal(line);
    pass(&mut site, 60);
    assert_eq!(switched(&site), [false, true]);
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Waiting, "boot"));
    agent(&mut site, SourceState::Silent);
    pass(&mut site, 60);
    assert_eq!(run(&site).why, "boot");
    agent(&mut site, SourceState::Fresh);
    go(&mut site);
    assert_eq!(
        (run(&site).state, step(&site, "by_hand").state),
        (ExecutionState::Succeeded, StepState::Skipped)
    );
    assert!(is_back(&site));
}

#[test]
fn a_power_cycle_is_no_answer_to_what_needs_more_or_something_else() {
    // Drained peers, a memory domain, and what nobody knows are people's, BMC or not.
    for advice in [3, 5, 42] {
        let mut site = able();
        bmc(&mut site, SourceState::Fresh);
        advise(&mut site, advice);
        go(&mut site);
        by_hand(&mut site);
        assert!(switched(&site).is_empty(), "{advice}");
    }
}

#[test]
fn no_bmc_or_one_that_is_silent_leaves_it_to_a_person() {
    for state in [None, Some(SourceState::Silent), Some(SourceState::Gone)] {
        let mut site = able();
        if let Some(state) = state {
            bmc(&mut site, state);
        }
        advise(&mut site, 2);
        go(&mut site);
        by_hand(&mut site);
        assert!(switched(&site).is_empty(), "{state:?}");
    }
}

#[test]
fn an_ambiguous_power_answer_is_a_persons_and_never_sent_again() {
    let mut site = able();
    bmc(&mut site, SourceState::Fresh);
    advise(&mut site, 2);
    for _ in 0..4_000 {
        for order in crate::outstanding(&site.state).collect::<Vec<_>>() {
            let result = match &order.effect {
                Effect::NodePower { .. } => EffectResult::Unknown { code: "timeout".to_owned() },
                _ => site.perform(&order),
            };
            site.answer(&order, result);
        }
        follow_jobs(&mut site);
        site.wait(Duration::from_secs(1));
    }
    assert_eq!(switched(&site), [false], "once, whatever became of it");
    let waits = matches!(run(&site).state, ExecutionState::AwaitingHuman | ExecutionState::NeedsOperator);
    assert!(waits, "{:?} {}", run(&site).state, run(&site).why);
}

fn advise(site: &mut Site, advice: u32) {
    let mut line = signal("gpu001", 154, Some(3));
    line.fields.recovery_to = Some(advice);
    line.fields.clears = advice == 0;
    site.signal(line);
}

fn pass(site: &mut Site, seconds: u64) {
    for _ in 0..seconds {
        site.carry_out();
        follow_jobs(site);
        site.wait(Duration::from_secs(1));
    }
}

#[test]
fn an_advice_that_is_taken_back_leaves_a_row_to_wait_for_its_hour() {
    let mut site = able();
    site.run_job(1, &[("gpu001", &[3])]);
    site.xid("gpu001", 63, 3);
    advise(&mut site, 1);
    assert_eq!(run(&site).runbook, "gpu-reset-needed");
    pass(&mut site, 1);
    advise(&mut site, 0);
    pass(&mut site, 400);
    assert_eq!(asked(&site), ["evidence 3"], "what nobody asks for any more is not done");
    let now = (run(&site).runbook.as_str(), run(&site).state, run(&site).why.as_str());
    assert_eq!(now, ("row-remap-pending", ExecutionState::Waiting, "jobs"));
    site.jobs[0].state = JobState::Completed;
    go(&mut site);
    assert_eq!(asked(&site), ["evidence 3", "evidence 3", "no_steps 3", "gpu_reset 3", "validate 3"]);
    assert!(is_back(&site) && site.state.open_alerts.is_empty());
}

#[test]
fn a_node_that_got_a_job_while_its_hold_had_to_wait_is_left_to_the_job() {
    let mut site = able();
    site.run_job(1, &[("gpu001", &[3])]);
    site.xid("gpu001", 63, 3);
    let row = run(&site).id;
    pass(&mut site, 5);
    // Two of five are out: no more may be taken.
    site.xid("gpu002", 79, 3);
    site.xid("gpu003", 79, 3);
    site.jobs[0].state = JobState::Completed;
    pass(&mut site, 5);
    let hold = |site: &Site| {
        site.state.executions[&row].steps.iter().find(|step| step.id == "hold").unwrap().clone()
    };
    assert_eq!((hold(&site).state, hold(&site).why.as_str()), (StepState::Retrying, "governor"));
    site.run_job(2, &[("gpu001", &[3])]);
    let others: Vec<_> = site.state.open_executions.iter().copied().filter(|id| *id != row).collect();
    for execution in others {
        site.ask(Role::Operator, Action::RunAbort { execution });
    }
    pass(&mut site, 5);
    for number in [2, 3] {
        let incident = site.incident(number).number.clone();
        let reply = site.ask(Role::Operator, Action::IncidentResolve { incident });
        assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    }
    pass(&mut site, 3_600);
    assert!(is_back(&site), "there is room again, and a job: {:?}", hold(&site));
    site.jobs[1].state = JobState::Completed;
    pass(&mut site, 1_800);
    let end = &site.state.executions[&row];
    assert_eq!((end.state, end.why.as_str()), (ExecutionState::Succeeded, "verified"));
    assert!(is_back(&site) && site.state.open_alerts.is_empty());
}
