//! Promises about what is recorded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use provost_engine::State;
use provost_engine::state::{Alert, Execution, Incident};
use provost_model::body::{Body, ExecutionChanged, HoldPlaced};
use provost_model::effect::Effect;
use provost_model::fleet::Phase;
use provost_model::ids::{ExecutionId, NodeId};
use provost_model::record::Record;
use provost_model::response::{AlertState, Classification, HoldOwner};
use provost_model::runbook::{ExecutionState, OnFail, Risk, StepState};
use provost_model::time::Timestamp;

use super::Violation;

/// Conditions of programs, not of hardware (ruling 7).
const APPLICATION: [&str; 4] = ["xid.13", "xid.31", "xid.43", "xid.45"];

/// Waits in which an execution does nothing.
const IDLE_WAITS: [&str; 7] = ["all_clear", "jobs", "quiet", "second_look", "soak", "spare", "spare_jobs"];

/// A hold without an alert that blocks placement: a runbook that an open fault on this very GPU names has come to its
/// step `node.hold`, and either no job is on the node or the fault has waited for its day (ruling 8).
fn is_held_by_step(state: &State, now: Timestamp, incident: &Incident, data: &HoldPlaced) -> bool {
    let open = incident.state.is_open();
    let runs = incident.executions.iter().filter_map(|id| state.executions.get(id));
    let mut runs =
        runs.filter(|run| open && run.node == Some(data.node) && run.state == ExecutionState::Running);
    runs.any(|run| {
        let named = alerts_at(state, incident, data).find(|a| a.runbook.as_deref() == Some(&run.runbook));
        let idle = state.jobs_on(data.node).next().is_none();
        let waited = |alert: &Alert| now >= alert.raised_at + state.config.timers.remap.0;
        is_at(state, run, "node.hold") && named.is_some_and(|alert| idle || waited(alert))
    })
}

/// The execution carries out this action now.
fn is_at(state: &State, run: &Execution, action: &str) -> bool {
    state.runbooks.get(&run.version).is_some_and(|runbook| {
        let mut steps = runbook.steps.iter().zip(&run.steps);
        steps
            .any(|(step, record)| step.action.as_deref() == Some(action) && record.state == StepState::Acting)
    })
}

/// The faults of an incident that are not over and are about what is to be held.
fn alerts_at<'a>(
    state: &'a State,
    incident: &'a Incident,
    data: &'a HoldPlaced,
) -> impl Iterator<Item = &'a Alert> {
    let alerts = incident.alerts.iter().filter_map(|id| state.alerts.get(id));
    alerts.filter(|alert| {
        (alert.node, alert.gpu) == (Some(data.node), data.gpu) && alert.state != AlertState::Resolved
    })
}

/// What is remembered about the records.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Isolations by automation, oldest first.
    isolations: VecDeque<(Timestamp, NodeId)>,
    /// Executions that were ever said to be over.
    ended: BTreeMap<ExecutionId, ExecutionState>,
    /// Nodes whose release was asked for in this turn.
    releases: Vec<(u64, String)>,
    last_at: Timestamp,
}

impl Records {
    /// What must be so before the record is folded in.
    pub(super) fn before(&mut self, state: &State, record: &Record) -> Option<Violation> {
        let fail = |promise, detail: String| {
            Some(Violation::new(record.at, promise, format!("record {}: {detail}", record.seq)))
        };
        if record.seq != state.seq || record.at < self.last_at {
            return fail("records come in order", format!("at {}, after {}", record.at, self.last_at));
        }
        self.last_at = record.at;
        match &record.body {
            Body::IncidentOpened(data) => {
                let condition = state.alerts.get(&data.alert).map(|alert| alert.condition.as_str());
                if condition.is_some_and(|condition| APPLICATION.contains(&condition)) {
                    return fail("a fault of a program opens no incident", format!("{condition:?}"));
                }
                None
            }
            Body::HoldPlaced(data) => self.hold(state, record, data),
            Body::ExecutionChanged(data) => self.execution(state, record, data),
            Body::EffectRequested(data) => {
                if let Effect::SchedulerRelease { node, .. } = &data.effect {
                    self.releases.push((record.seq, node.clone()));
                }
                None
            }
            _ => None,
        }
    }

    /// What must be so after the record was folded in.
    pub(super) fn after(&mut self, state: &State, record: &Record) -> Option<Violation> {
        if !matches!(record.body, Body::ExecutionChanged(_)) {
            return None;
        }
        // A wait for jobs, time or a spare takes nothing away from anybody.
        let acts = |run: &&Execution| match run.state {
            ExecutionState::Waiting => {
                !IDLE_WAITS.contains(&run.why.as_str()) && !run.why.starts_with("lock:")
            }
            // It waits for the other before anything is undone.
            ExecutionState::Compensating => !run.why.starts_with("lock:"),
            ExecutionState::Running | ExecutionState::Paused => true,
            _ => false,
        };
        let mut busy = BTreeSet::new();
        for run in state.executions.values().filter(acts) {
            if run.node.is_some_and(|node| !busy.insert(node)) {
                let detail = format!("record {}: {} is the second on its node", record.seq, run.id);
                return Some(Violation::new(record.at, "one execution acts on a node at a time", detail));
            }
        }
        let disrupts =
            |run: &&Execution| state.runbooks.get(&run.version).is_some_and(|book| book.risk >= Risk::R2);
        // One that has begun may go on when a person answers, whatever others began since.
        let fresh = match &record.body {
            Body::ExecutionChanged(data) if data.to == ExecutionState::Running => {
                let run = state.executions.get(&data.execution).filter(disrupts);
                run.is_some_and(|run| run.steps.iter().all(|step| step.attempts == 0))
            }
            _ => false,
        };
        let running = state.executions.values().filter(acts).filter(disrupts).count();
        let limit = state.config.governor.concurrent_disruptions as usize;
        (fresh && running > limit).then(|| {
            let detail = format!("record {}: {running} disruptions at once, {limit} are allowed", record.seq);
            Violation::new(record.at, "disruptions stay inside their budget", detail)
        })
    }

    fn hold(&mut self, state: &State, record: &Record, data: &HoldPlaced) -> Option<Violation> {
        let fail = |promise, detail: String| {
            Some(Violation::new(record.at, promise, format!("record {}: {detail}", record.seq)))
        };
        if let HoldOwner::Incident(number) = &data.owner {
            let incident = state.incident_by_number(number);
            let blocks = |alert: &Alert| alert.classifications.contains(&Classification::BlocksPlacement);
            let is_right = incident.is_some_and(|incident| {
                alerts_at(state, incident, data).any(blocks)
                    || is_held_by_step(state, record.at, incident, data)
            });
            if !is_right {
                let promise = "only what blocks placement, or an idle node's runbook, holds a node";
                return fail(promise, number.clone());
            }
        }
        // A node that is held already loses nothing by another hold.
        if !data.isolation || state.holds_on(data.node).next().is_some() {
            return None;
        }
        let limits = &state.config.governor;
        let window = limits.window.0;
        self.isolations.push_back((record.at, data.node));
        self.isolations.retain(|(at, _)| *at + window > record.at);
        let share = state.nodes.len() * limits.isolations_percent as usize / 100;
        let allowed = share.max(limits.isolations_per_window as usize);
        if self.isolations.len() > allowed {
            let detail =
                format!("{} isolations inside {window:?}, {allowed} are allowed", self.isolations.len());
            return fail("isolations stay inside their budget", detail);
        }
        None
    }

    fn execution(&mut self, state: &State, record: &Record, data: &ExecutionChanged) -> Option<Violation> {
        let fail = |promise, detail: String| {
            let detail = format!("record {}: {} {detail}", record.seq, data.execution);
            Some(Violation::new(record.at, promise, detail))
        };
        if let Some(ended) = self.ended.get(&data.execution) {
            return fail("what is over stays over", format!("from {} to {}", ended.name(), data.to.name()));
        }
        let Some(run) = state.executions.get(&data.execution) else {
            return fail("an execution is known before it changes", String::new());
        };
        if run.state != data.from || !may_follow(data.from, data.to) {
            let detail = format!(
                "{} is {}, goes from {} to {}",
                run.runbook,
                run.state.name(),
                data.from.name(),
                data.to.name()
            );
            return fail("an execution moves by its state machine", detail);
        }
        if data.why.is_empty() {
            return fail("every state says why", data.to.name().to_owned());
        }
        if data.to.is_final() {
            self.ended.insert(data.execution, data.to);
        }
        if data.to == ExecutionState::Succeeded
            && let Some(step) = unfinished(state, run)
        {
            return fail("succeeded means that every step was verified", step);
        }
        None
    }

    /// A turn is over: what was released in it stands where work is allowed.
    pub(super) fn turned(&mut self, now: Timestamp, state: &State) -> Option<Violation> {
        for (seq, name) in std::mem::take(&mut self.releases) {
            let Some(node) = state
                .nodes
                .values()
                .find(|node| node.scheduler.as_ref().is_some_and(|scheduler| scheduler.node == name))
            else {
                continue;
            };
            if !matches!(node.phase, Phase::InService | Phase::Probation | Phase::Spare | Phase::Lost) {
                let detail = format!("record {seq}: {name} is {}", node.phase.name());
                return Some(Violation::new(
                    now,
                    "a node is released only into service or probation",
                    detail,
                ));
            }
        }
        None
    }
}

/// A step that is neither verified, skipped, nor one that the runbook goes on without.
fn unfinished(state: &State, run: &Execution) -> Option<String> {
    let book = state.runbooks.get(&run.version)?;
    let bad = |id: &str, step: StepState| match step {
        StepState::Succeeded | StepState::Skipped => false,
        StepState::Failed => book.steps.iter().any(|step| step.id == *id && step.on_fail != OnFail::Continue),
        _ => true,
    };
    let step = run.steps.iter().find(|step| bad(&step.id, step.state))?;
    Some(format!("{} is {:?}", step.id, step.state))
}

/// The moves of an execution (03 §4.2).
fn may_follow(from: ExecutionState, to: ExecutionState) -> bool {
    use ExecutionState::*;
    match from {
        Succeeded | RolledBack | Cancelled => false,
        // A cause that is gone, or a person, may end anything that is not over.
        _ if to == Cancelled => true,
        _ if from == to => true,
        Proposed => matches!(to, AwaitingApproval | Queued),
        AwaitingApproval => matches!(to, Queued),
        Queued => matches!(to, Running | AwaitingApproval | Compensating | Paused | NeedsOperator),
        Running | Waiting => matches!(
            to,
            Running | Waiting | AwaitingHuman | Paused | NeedsOperator | Compensating | Succeeded | Queued
        ),
        AwaitingHuman => matches!(to, Running | Queued | Paused | NeedsOperator | Compensating),
        Paused => matches!(to, Running | Waiting | Queued | AwaitingHuman | Compensating | NeedsOperator),
        NeedsOperator => matches!(to, Running | Queued | Compensating | Paused | AwaitingHuman),
        Compensating => matches!(to, RolledBack | NeedsOperator),
    }
}
