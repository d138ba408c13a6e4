//! Recovery, step by step.
//!
//! A runbook is data ([`definition`], [`lint`]); an execution is one run of one version of it for one incident or
//! job. [`propose`] makes executions, `executor` moves them on, [`command`] lets people take part, and `actions`
//! holds what a step can do. Containment is another layer and never waits for any of this (ruling 4).

mod actions;
mod answer;
mod cause;
mod command;
mod condition;
mod definition;
mod executor;
mod fold;
mod lint;
mod neighbours;
mod phase;
mod precedence;
mod propose;
mod schema;

#[cfg(test)]
mod tests;

pub(crate) use command::on_command;
pub use condition::{Condition, ConditionError};
pub use definition::{MAX_BYTES, ParseError, builtin, parse};
pub(crate) use fold::{
    apply_answered, apply_approval, apply_changed, apply_created, apply_intent, apply_published, apply_step,
};
pub use lint::{Finding, MAX_STEPS, lint};
pub use schema::schema;

use provost_model::body::Body;
use provost_model::policy::Mode;
use provost_model::record::Class;
use provost_model::runbook::{ExecutionState, Risk};
use provost_model::time::Timestamp;

use crate::event::{Decisions, Event};
use crate::state::{Execution, State};

/// Name and meaning of each action, for the reference and for `runbook lint`.
pub fn actions() -> impl Iterator<Item = (&'static str, &'static str)> {
    actions::ACTIONS.into_iter().map(|action| (action.name, action.about))
}

/// An execution in this state holds its node's lock: it acts, or is about to.
pub(crate) const fn acts(state: ExecutionState) -> bool {
    match state {
        ExecutionState::Running
        | ExecutionState::Waiting
        | ExecutionState::Paused
        | ExecutionState::Compensating => true,
        ExecutionState::Proposed
        | ExecutionState::AwaitingApproval
        | ExecutionState::Queued
        | ExecutionState::AwaitingHuman
        | ExecutionState::NeedsOperator
        | ExecutionState::Succeeded
        | ExecutionState::RolledBack
        | ExecutionState::Cancelled => false,
    }
}

/// Waits in which an execution does nothing to its node: another may act in the meantime, as when the jobs that
/// the first waits for hold a second GPU that is lost.
const PASSIVE: [&str; 7] = ["all_clear", "jobs", "quiet", "second_look", "soak", "spare", "spare_jobs"];

/// The execution acts and does not merely wait for others: it holds its node's lock and counts as a disruption.
pub(crate) fn is_at_work(run: &Execution) -> bool {
    let passive = run.state == ExecutionState::Waiting && PASSIVE.contains(&run.why.as_str());
    acts(run.state) && !passive && !waits_for_lock(run)
}

/// It is to be undone, and another execution has its node: nothing of it is done until that one rests.
fn waits_for_lock(run: &Execution) -> bool {
    run.state == ExecutionState::Compensating && run.why.starts_with("lock:")
}

/// The execution takes something away from users while it acts.
pub(crate) fn disrupts(state: &State, run: &Execution) -> bool {
    state.runbooks.get(&run.version).is_none_or(|runbook| runbook.risk >= Risk::R2)
}

/// The mode that holds for an execution: of its node, else of its job's scheduler.
fn mode_of(state: &State, run: &Execution) -> Mode {
    if let Some(node) = run.node.and_then(|id| state.nodes.get(&id)) {
        return state.mode_of(node);
    }
    let cluster = run.job.as_ref().and_then(|job| state.config.clusters.get(&job.cluster));
    cluster.and_then(|cluster| cluster.mode).unwrap_or(state.config.mode)
}

/// An event about an execution.
fn event(state: &State, run: &Execution, step: Option<&str>, body: Body) -> Event {
    let mut event = Event::new(Class::Response, body);
    let incident = run.incident.and_then(|id| state.incidents.get(&id));
    event.subject = incident.map(|incident| incident.subject.clone());
    event.corr.incident = incident.map(|incident| incident.number.clone());
    event.corr.execution = Some(run.id);
    event.corr.step = step.map(str::to_owned);
    event
}

pub(crate) fn on_tick(_: &State, _: Timestamp, _: &mut Decisions) {
    // The deadlines of executions mark them as touched; `react` does the rest.
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    propose::react(state, now, out);
    executor::react(state, now, out);
}
