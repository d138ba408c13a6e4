//! Tests of recovery, over a pretended site.

mod broken;
mod definition;
mod faults;
mod people;
mod reach;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use provost_model::input::{Action, AgentReport, Input, Reply};
use provost_model::policy::Role;
use provost_model::runbook::{ExecutionState, Runbook};
use provost_model::scheduler::{JobState, ObservedNode};
use provost_model::time::Span;

use super::{builtin, parse};
use crate::outstanding;
use crate::state::{Execution, StepRun};
use crate::testing::Site;

/// A version for tests: 64 hex digits made of one.
fn version(digit: char) -> String {
    digit.to_string().repeat(64)
}

fn runbooks() -> Vec<(String, Runbook)> {
    builtin().iter().zip('a'..).map(|((_, yaml), digit)| (version(digit), parse(yaml).unwrap())).collect()
}

/// Four nodes and a spare, the runbooks that come along, short timers, and an agent on gpu001 that allows
/// everything.
fn site() -> Site {
    site_with(runbooks(), &["evidence", "no_steps", "validate"])
}

fn site_with(runbooks: Vec<(String, Runbook)>, actions: &[&str]) -> Site {
    let mut site = Site::new(4);
    let spare = ObservedNode {
        state: "IDLE".to_owned(),
        partitions: vec!["spare".to_owned()],
        ..ObservedNode::default()
    };
    site.nodes.insert("spare01".to_owned(), spare);
    site.config.timers.soak = Span(Duration::from_secs(20));
    site.config.timers.poll = Span(Duration::from_secs(1));
    site.runbooks = runbooks;
    site.start();
    site.look();
    report(&mut site, actions);
    site
}

fn report(site: &mut Site, actions: &[&str]) {
    site.feed(Input::AgentReport(Box::new(AgentReport {
        node: "gpu001".to_owned(),
        boot_id: Some("boot-1".to_owned()),
        actions: actions.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>(),
        gpus: None,
        version: "0.0.0".to_owned(),
    })));
}

/// The newest execution.
fn run(site: &Site) -> &Execution {
    site.state.executions.values().next_back().expect("an execution was made")
}

fn step<'a>(site: &'a Site, id: &str) -> &'a StepRun {
    run(site).steps.iter().find(|step| step.id == id).expect("the runbook has this step")
}

/// Nodes are busy as their jobs say.
fn follow_jobs(site: &mut Site) {
    let running = |name: &str, site: &Site| {
        site.jobs
            .iter()
            .any(|job| job.state == JobState::Running && job.nodes.iter().any(|node| node == name))
    };
    let names: Vec<String> = site.nodes.keys().cloned().collect();
    for name in names {
        let busy = running(&name, site);
        if let Some(node) = site.nodes.get_mut(&name) {
            node.busy = busy;
        }
    }
    site.look();
}

/// Carries out, polls and lets a second pass until the execution is in a state that only a person or a long time
/// changes.
fn go(site: &mut Site) {
    for _ in 0..200 {
        site.carry_out();
        follow_jobs(site);
        let state = run(site).state;
        let rests = state.is_final()
            || matches!(
                state,
                ExecutionState::AwaitingHuman
                    | ExecutionState::NeedsOperator
                    | ExecutionState::Paused
                    | ExecutionState::AwaitingApproval
            );
        if rests && outstanding(&site.state).next().is_none() {
            return;
        }
        site.wait(Duration::from_secs(1));
    }
    let run = run(site);
    panic!("the execution comes to no rest: {:?} {} {:#?}", run.state, run.why, run.steps);
}

fn answers(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned())).collect()
}

fn answer(site: &mut Site, pairs: &[(&str, &str)]) -> Reply {
    let execution = run(site).id;
    let action = Action::RunAnswer { execution, step: "repair".to_owned(), answers: answers(pairs) };
    site.ask(Role::Operator, action)
}

/// The technician has reseated the GPU.
fn repaired(site: &mut Site) {
    let reply = answer(site, &[("outcome", "reseated")]);
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
}
