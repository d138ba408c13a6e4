//! Makes executions: one for an incident and a runbook that its alerts name, one for a job and a condition.

use std::collections::{BTreeMap, BTreeSet};

use provost_model::body::{Body, ExecutionCreated};
use provost_model::ids::{ExecutionId, IncidentId};
use provost_model::policy::Mode;
use provost_model::record::{Class, SubjectKind};
use provost_model::response::AlertState;
use provost_model::runbook::{ExecutionState, IncidentUse, Runbook, Scope};
use provost_model::scheduler::JobKey;
use provost_model::time::Timestamp;

use super::executor::MODE_OBSERVE;
use super::precedence;
use crate::event::{Decisions, Event};
use crate::state::{Alert, Execution, Incident, State};

pub(super) fn react(state: &State, _: Timestamp, out: &mut Decisions) {
    for id in touched_incidents(state) {
        if let Some(incident) = state.incidents.get(&id).filter(|incident| incident.state.is_open()) {
            for_incident(state, incident, out);
        }
    }
    if state.dirty.all {
        state.alerts.values().for_each(|alert| for_job(state, alert, out));
    } else {
        let touched = state.dirty.alerts.iter().filter_map(|id| state.alerts.get(id));
        touched.for_each(|alert| for_job(state, alert, out));
    }
}

fn touched_incidents(state: &State) -> BTreeSet<IncidentId> {
    if state.dirty.all {
        return state.incidents.keys().copied().collect();
    }
    let of_alert = |id| state.alerts.get(id).and_then(|alert: &Alert| alert.incident);
    let by_alerts = state.dirty.alerts.iter().filter_map(of_alert);
    state.dirty.incidents.iter().copied().chain(by_alerts).collect()
}

fn for_incident(state: &State, incident: &Incident, out: &mut Decisions) {
    // The first alert that names a runbook says which GPU it is about.
    let mut wanted: BTreeMap<&str, &Alert> = BTreeMap::new();
    for alert in incident.alerts.iter().filter_map(|id| state.alerts.get(id)) {
        if let Some(runbook) = alert.runbook.as_deref().filter(|_| alert.state != AlertState::Resolved) {
            wanted.entry(runbook).or_insert(alert);
        }
    }
    for (name, alert) in wanted {
        let Some((version, _)) = published(state, name, IncidentUse::Required) else { continue };
        if precedence::yields(state, incident, name, alert.gpu) {
            continue;
        }
        if alert.node.or(incident.node).is_some() && due(state, incident, name) {
            let created = create(state, incident, name, version, Some(alert), out.id());
            out.push(created);
        }
    }
}

/// The version in force of a runbook of this use.
pub(super) fn published<'a>(
    state: &'a State,
    name: &str,
    used: IncidentUse,
) -> Option<(&'a str, &'a Runbook)> {
    let version = state.runbooks_current.get(name)?;
    let runbook = state.runbooks.get(version)?;
    (runbook.incident == used).then_some((version.as_str(), runbook))
}

/// Whether the incident needs an execution of this runbook: it never had one, or the fault came again after the
/// last one had ended by itself. What a person ended is not begun again.
fn due(state: &State, incident: &Incident, runbook: &str) -> bool {
    let runs = incident.executions.iter().rev().filter_map(|id| state.executions.get(id));
    let Some(last) = runs.into_iter().find(|run| run.runbook == runbook) else { return true };
    let Some(ended) = last.ended_at.filter(|_| last.state.is_final()) else { return false };
    if last.why == MODE_OBSERVE {
        return super::mode_of(state, last) != Mode::Observe;
    }
    let by_itself = match last.why.as_str() {
        // What took its place is over, and this fault is not.
        "fault_recurred" | "superseded" => return true,
        "cause_cleared" => true,
        _ => last.state == ExecutionState::Succeeded,
    };
    // A line that came during the last steps may have raised its alert only after them.
    let again =
        |alert: &Alert| alert.state != AlertState::Resolved && alert.last_at.max(alert.raised_at) > ended;
    by_itself && super::cause::alerts_of(state, incident, runbook).any(again)
}

/// An execution for an incident; about the GPU of `alert` where one is given.
pub(super) fn create(
    state: &State,
    incident: &Incident,
    runbook: &str,
    version: &str,
    alert: Option<&Alert>,
    id: ExecutionId,
) -> Event {
    let node = alert.and_then(|alert| alert.node).or(incident.node);
    let scope = state.runbooks.get(version).map(|runbook| runbook.scope).unwrap_or_default();
    let gpu = alert.and_then(|alert| alert.gpu).filter(|_| scope == Scope::Gpu);
    let name = node.and_then(|id| state.nodes.get(&id)).map_or("-", |node| node.name.as_str());
    let gpu_name = gpu.map_or_else(|| "-".to_owned(), |gpu| gpu.to_string());
    let body = Body::ExecutionCreated(ExecutionCreated {
        execution: id,
        runbook: runbook.to_owned(),
        version: version.to_owned(),
        incident: Some(incident.id),
        node,
        gpu,
        job: None,
        condition: None,
        plan: format!("{version}:{}:{name}:{gpu_name}", incident.number),
    });
    let mut event =
        Event::new(Class::Response, body).about(incident.subject.clone()).of_incident(&incident.number);
    event.corr.execution = Some(id);
    event
}

/// An alert about a job alone, whose runbook needs no incident.
fn for_job(state: &State, alert: &Alert, out: &mut Decisions) {
    let about_job = alert.subject.kind == SubjectKind::Job && alert.state != AlertState::Resolved;
    let Some(name) = alert.runbook.as_deref().filter(|_| about_job && alert.incident.is_none()) else {
        return;
    };
    let Some((version, _)) = published(state, name, IncidentUse::None) else { return };
    let Ok(job) = alert.subject.id.parse::<JobKey>() else { return };
    let told = |run: &Execution| {
        run.job.as_ref() == Some(&job)
            && run.condition.as_ref() == Some(&alert.condition)
            && !(run.why == MODE_OBSERVE && super::mode_of(state, run) != Mode::Observe)
    };
    if state.executions.values().any(told) {
        return;
    }
    let id = out.id();
    let body = Body::ExecutionCreated(ExecutionCreated {
        execution: id,
        runbook: name.to_owned(),
        version: version.to_owned(),
        incident: None,
        node: None,
        gpu: None,
        plan: format!("{version}:-:{job}:{}", alert.condition),
        job: Some(job),
        condition: Some(alert.condition.clone()),
    });
    let mut event = Event::new(Class::Response, body).about(alert.subject.clone());
    event.corr.execution = Some(id);
    out.push(event);
}
