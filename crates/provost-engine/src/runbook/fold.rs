//! Executions, folded in.

use provost_model::body::{
    ApprovalDecided, EffectRequested, ExecutionChanged, ExecutionCreated, HumanAnswered, Purpose,
    RunbookPublished, StepChanged,
};
use provost_model::ids::ExecutionId;
use provost_model::record::Record;
use provost_model::runbook::{ExecutionState, Risk, StepState};
use provost_model::time::Timestamp;

use super::executor::{
    APPROVAL_OVERDUE, APPROVAL_TIME, MODE_ADVISE, PAUSE_REQUESTED, RELEASED, RESUMED, VALIDATED,
};
use crate::lifecycle;
use crate::state::{Execution, State, StepRun, TimerKey};

/// Final executions that are kept.
const MAX_FINAL: usize = 1_000;

pub(crate) fn apply_published(state: &mut State, data: &RunbookPublished) {
    state.runbooks_current.insert(data.runbook.id.clone(), data.version.clone());
    state.runbooks.insert(data.version.clone(), data.runbook.clone());
    forget_versions(state);
    state.dirty.all = true;
}

/// Drops versions that are neither in force nor in use.
fn forget_versions(state: &mut State) {
    let State { runbooks, runbooks_current, executions, .. } = state;
    runbooks.retain(|version, _| {
        runbooks_current.values().any(|current| current == version)
            || executions.values().any(|run| run.version == *version)
    });
}

pub(crate) fn apply_created(state: &mut State, record: &Record, data: &ExecutionCreated) {
    let steps = state.runbooks.get(&data.version).map(|runbook| runbook.steps.as_slice()).unwrap_or_default();
    let run = Execution {
        id: data.execution,
        runbook: data.runbook.clone(),
        version: data.version.clone(),
        state: ExecutionState::Proposed,
        state_since: record.at,
        why: "created".to_owned(),
        incident: data.incident,
        node: data.node,
        gpu: data.gpu,
        job: data.job.clone(),
        condition: data.condition.clone(),
        plan: data.plan.clone(),
        requested_by: record.actor.sub.clone(),
        approvals: Default::default(),
        approved: false,
        pause_requested: false,
        steps: steps.iter().map(|step| pending(&step.id)).collect(),
        created_at: record.at,
        ended_at: None,
    };
    if let Some(incident) = data.incident.and_then(|id| state.incidents.get_mut(&id)) {
        incident.executions.push(run.id);
    }
    state.open_executions.insert(run.id);
    state.executions.insert(run.id, run);
    touch(state, data.execution);
}

fn pending(id: &str) -> StepRun {
    StepRun {
        id: id.to_owned(),
        state: StepState::Pending,
        attempts: 0,
        started_at: None,
        ended_at: None,
        until: None,
        why: String::new(),
        result: None,
        attempt_at: None,
        intents: Default::default(),
        wanted: Default::default(),
        would_have: 0,
        answers: Default::default(),
    }
}

pub(crate) fn apply_changed(state: &mut State, record: &Record, data: &ExecutionChanged) {
    let Some(run) = state.executions.get_mut(&data.execution) else { return };
    changed(run, record.at, data);
    if data.to.is_final() {
        state.open_executions.remove(&data.execution);
        forget_executions(state);
    }
    touch(state, data.execution);
}

/// One change of an execution.
pub(super) fn changed(run: &mut Execution, at: Timestamp, data: &ExecutionChanged) {
    if run.state != data.to {
        run.state_since = at;
    }
    match data.why.as_str() {
        PAUSE_REQUESTED => run.pause_requested = true,
        RESUMED => run.pause_requested = false,
        _ => {}
    }
    // A wish that changes nothing yet does not hide what the execution waits for.
    let wish = run.state == data.to && matches!(data.why.as_str(), PAUSE_REQUESTED | RESUMED);
    if !wish {
        run.why.clone_from(&data.why);
    }
    run.state = data.to;
    if data.to.is_final() {
        run.ended_at = Some(at);
    }
}

/// Keeps the newest final executions, and all of incidents that are open.
fn forget_executions(state: &mut State) {
    if state.executions.len() - state.open_executions.len() <= MAX_FINAL {
        return;
    }
    let of_open_incident = |run: &Execution| {
        run.incident.and_then(|id| state.incidents.get(&id)).is_some_and(|incident| incident.state.is_open())
    };
    // Ids grow with time.
    let oldest = state.executions.values().find(|run| run.state.is_final() && !of_open_incident(run));
    if let Some(oldest) = oldest.map(|run| run.id) {
        state.executions.remove(&oldest);
    }
}

pub(crate) fn apply_step(state: &mut State, record: &Record, data: &StepChanged) {
    let Some(run) = state.executions.get_mut(&data.execution) else { return };
    step_changed(run, record.at, data);
    if data.why == VALIDATED
        && let Some(node) = run.node.and_then(|id| state.nodes.get_mut(&id))
    {
        node.validated_at = Some(record.at);
    }
    if data.why == RELEASED
        && let Some(node) = run.node.and_then(|id| state.nodes.get_mut(&id))
    {
        lifecycle::note_return(&mut node.history, record.at);
    }
    touch(state, data.execution);
}

/// One change of a step.
pub(super) fn step_changed(run: &mut Execution, at: Timestamp, data: &StepChanged) {
    let Some(step) = run.steps.iter_mut().find(|step| step.id == data.step) else { return };
    let begins =
        data.attempt != step.attempts || (data.to == StepState::Compensating && step.state != data.to);
    if begins {
        step.attempts = data.attempt;
        step.attempt_at = Some(at);
        step.intents.clear();
        step.wanted.clear();
        step.would_have = 0;
    }
    step.state = data.to;
    step.why.clone_from(&data.why);
    step.until = data.until;
    if data.result.is_some() {
        step.result.clone_from(&data.result);
    }
    match data.to {
        StepState::Succeeded
        | StepState::Failed
        | StepState::Skipped
        | StepState::Compensated
        | StepState::CompensationFailed => step.ended_at = Some(at),
        StepState::Pending => {}
        StepState::Acting
        | StepState::Waiting
        | StepState::Retrying
        | StepState::Unknown
        | StepState::Compensating => {
            step.started_at.get_or_insert(at);
            step.ended_at = None;
        }
    }
}

/// An intent of a step: what it is for stays known until the next attempt.
pub(crate) fn apply_intent(state: &mut State, record: &Record, data: &EffectRequested) {
    let (Purpose::Step { execution, step, .. } | Purpose::Undo { execution, step }) = &data.purpose else {
        return;
    };
    let run = state.executions.get_mut(execution);
    if let Some(step) = run.and_then(|run| run.steps.iter_mut().find(|run| run.id == *step)) {
        step.intents.entry(record.seq).or_insert(None);
        step.wanted.insert(record.seq, data.effect.clone());
    }
    state.dirty.executions.insert(*execution);
}

pub(crate) fn apply_answered(state: &mut State, data: &HumanAnswered) {
    let Some(run) = state.executions.get_mut(&data.execution) else { return };
    if let Some(step) = run.steps.iter_mut().find(|step| step.id == data.step) {
        step.answers.clone_from(&data.answers);
    }
    touch(state, data.execution);
}

pub(crate) fn apply_approval(state: &mut State, record: &Record, data: &ApprovalDecided) {
    let Some(run) = state.executions.get_mut(&data.execution) else { return };
    if data.approved {
        run.approvals.insert(record.actor.sub.clone());
        let two = state.runbooks.get(&run.version).is_some_and(|runbook| runbook.risk == Risk::R4);
        run.approved = run.approvals.len() >= if two { 2 } else { 1 };
    }
    touch(state, data.execution);
}

/// What follows from any change of an execution: its deadline, and who must look.
fn touch(state: &mut State, id: ExecutionId) {
    state.dirty.executions.insert(id);
    let Some(run) = state.executions.get(&id) else { return state.timers.set(TimerKey::Execution(id), None) };
    state.timers.set(TimerKey::Execution(id), deadline(run));
    if let Some(node) = run.node {
        state.dirty.nodes.insert(node);
    }
    if let Some(incident) = run.incident {
        state.dirty.incidents.insert(incident);
    }
}

/// When an execution must be looked at although nothing happens.
fn deadline(run: &Execution) -> Option<Timestamp> {
    match run.state {
        ExecutionState::AwaitingApproval => {
            let told = matches!(run.why.as_str(), APPROVAL_OVERDUE | MODE_ADVISE);
            (!told).then(|| run.state_since + APPROVAL_TIME)
        }
        ExecutionState::Running
        | ExecutionState::Waiting
        | ExecutionState::AwaitingHuman
        | ExecutionState::Compensating => {
            let moving = run.steps.iter().filter(|step| match step.state {
                StepState::Acting
                | StepState::Waiting
                | StepState::Retrying
                | StepState::Unknown
                | StepState::Compensating => true,
                StepState::Pending
                | StepState::Succeeded
                | StepState::Failed
                | StepState::Skipped
                | StepState::Compensated
                | StepState::CompensationFailed => false,
            });
            moving.filter_map(|step| step.until).min()
        }
        ExecutionState::Proposed
        | ExecutionState::Queued
        | ExecutionState::Paused
        | ExecutionState::NeedsOperator
        | ExecutionState::Succeeded
        | ExecutionState::RolledBack
        | ExecutionState::Cancelled => None,
    }
}
