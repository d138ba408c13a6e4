//! Whether an execution still has a reason to go on.

use provost_model::response::AlertState;
use provost_model::runbook::{ExecutionState, Runbook};
use provost_model::time::Timestamp;

use crate::state::{Alert, Execution, Incident, State};

/// Why the execution is to end now, before its own end; none where it goes on.
pub(super) fn over(state: &State, run: &Execution, runbook: &Runbook) -> Option<&'static str> {
    if run.state.is_final() || run.state == ExecutionState::Compensating || has_open_intents(state, run) {
        return None;
    }
    if superseded(state, run) {
        return Some("superseded");
    }
    let incident = run.incident.and_then(|id| state.incidents.get(&id))?;
    let alerts: Vec<&Alert> = alerts_of(state, incident, &run.runbook).collect();
    match point_of_no_return(run, runbook) {
        None if super::precedence::yields(state, incident, &run.runbook, run.gpu) => Some("superseded"),
        None => {
            let cleared = !alerts.is_empty() && alerts.iter().all(|a| a.state == AlertState::Resolved);
            (cleared || !incident.state.is_open()).then_some("cause_cleared")
        }
        // What was tested is not what is so any more: a new execution starts from the beginning.
        Some(since) if alerts.iter().any(|a| a.state != AlertState::Resolved && a.last_at > since) => {
            Some("fault_recurred")
        }
        Some(_) => {
            let asks = matches!(run.state, ExecutionState::AwaitingHuman | ExecutionState::NeedsOperator);
            (asks && !incident.state.is_open()).then_some("incident_over")
        }
    }
}

/// Since when the execution cannot be rolled back.
pub(super) fn point_of_no_return(run: &Execution, runbook: &Runbook) -> Option<Timestamp> {
    let steps = run.steps.iter().zip(&runbook.steps);
    steps.filter(|(_, step)| step.point_of_no_return).find_map(|(record, _)| record.started_at)
}

/// The alerts of an incident that name a runbook; all of them where none does, as when a person chose it.
pub(super) fn alerts_of<'a>(
    state: &'a State,
    incident: &'a Incident,
    runbook: &str,
) -> impl Iterator<Item = &'a Alert> {
    let names = |alert: &Alert| alert.runbook.as_deref() == Some(runbook);
    let all = || incident.alerts.iter().filter_map(|id| state.alerts.get(id));
    let named: Vec<&Alert> = all().filter(|alert| names(alert)).collect();
    if named.is_empty() { all().collect() } else { named }.into_iter()
}

/// An intent of it has no final result yet.
pub(super) fn has_open_intents(state: &State, run: &Execution) -> bool {
    run.steps.iter().flat_map(|step| step.intents.keys()).any(|seq| state.effects.contains_key(seq))
}

/// A newer execution does the same on the same subject.
fn superseded(state: &State, run: &Execution) -> bool {
    let same = |other: &Execution| {
        (&other.runbook, other.node, other.gpu, &other.job, &other.condition)
            == (&run.runbook, run.node, run.gpu, &run.job, &run.condition)
    };
    let newer = state.open_executions.range(run.id..).skip(1).filter_map(|id| state.executions.get(id));
    newer.into_iter().any(same)
}
