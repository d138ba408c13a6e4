//! One cause, one owner, one set of clocks.
//!
//! Opening never waits. An alert joins the open incident of its subject, brings back one that was resolved within
//! a day, or opens its own. Recovery, paging and correlation come later and by themselves.

mod clock;
mod command;
mod open;
mod progress;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use provost_model::body::{
    IncidentAcknowledged, IncidentAttached, IncidentChanged, IncidentClock, IncidentJob, IncidentOpened,
    IncidentRef, IncidentSeverity,
};
use provost_model::ids::{AlertId, IncidentId, NodeId};
use provost_model::record::{ActorKind, Record, SubjectKind};
use provost_model::response::{AlertState, Clock, IncidentState};
use provost_model::time::Timestamp;

pub(crate) use command::on_command;

use crate::event::Decisions;
use crate::lifecycle;
use crate::state::{Alert, Incident, State, TimerKey};

/// Ended incidents that are kept at most; the journal has them all.
const MAX_ENDED: usize = 1_000;
/// Jobs of one incident that are named at most.
const MAX_JOBS: usize = 256;

pub(crate) fn apply_opened(state: &mut State, record: &Record, data: &IncidentOpened) {
    let year = data.number.split('-').nth(1).and_then(|year| year.parse().ok());
    let count = data.number.rsplit('-').next().and_then(|count| count.parse().ok());
    if let (Some(year), Some(count)) = (year, count) {
        state.incident_counter.insert(year, count);
    }
    let incident = Incident {
        id: data.incident,
        number: data.number.clone(),
        title: data.title.clone(),
        state: IncidentState::Open,
        state_since: record.at,
        severity: data.severity,
        severity_set: false,
        subject: data.subject.clone(),
        node: data.node,
        alerts: vec![data.alert],
        jobs: data.jobs.clone(),
        fault_at: data.fault_at,
        detected_at: data.detected_at,
        opened_at: record.at,
        acked_at: None,
        ack_until: None,
        isolated_at: None,
        mitigated_at: None,
        resolved_at: None,
        reopened: 0,
        owner: None,
        executions: Vec::new(),
        would_have: Vec::new(),
    };
    state.incident_numbers.insert(data.number.clone(), data.incident);
    state.incidents.insert(data.incident, incident);
    join(state, data.alert, data.incident);
    count_fault(state, data.alert, record.at);
}

/// The node of an alert keeps that an incident began on it. A source that fell silent says nothing about its node.
fn count_fault(state: &mut State, alert: AlertId, at: Timestamp) {
    let Some(alert) = state.alerts.get(&alert).filter(|alert| alert.subject.kind != SubjectKind::Source)
    else {
        return;
    };
    if let Some(node) = alert.node.and_then(|node| state.nodes.get_mut(&node)) {
        lifecycle::note_fault(&mut node.history, at, alert.impact);
    }
}

pub(crate) fn apply_attached(state: &mut State, data: &IncidentAttached) {
    if let Some(incident) = state.incidents.get_mut(&data.incident)
        && !incident.alerts.contains(&data.alert)
    {
        incident.alerts.push(data.alert);
    }
    join(state, data.alert, data.incident);
}

fn join(state: &mut State, alert: AlertId, incident: IncidentId) {
    if let Some(alert) = state.alerts.get_mut(&alert) {
        alert.incident = Some(incident);
        state.dirty.nodes.extend(alert.node);
    }
    state.dirty.alerts.insert(alert);
    state.dirty.incidents.insert(incident);
}

pub(crate) fn apply_changed(state: &mut State, record: &Record, data: &IncidentChanged) {
    let timers = state.config.timers;
    let Some(incident) = state.incidents.get_mut(&data.incident) else { return };
    let again = !incident.state.is_open() && data.to.is_open();
    incident.reopened += u32::from(again);
    incident.state = data.to;
    incident.state_since = record.at;
    let limit = match data.to {
        IncidentState::Automating => Some(record.at + progress::AUTOMATION_GRACE),
        IncidentState::Acknowledged => incident.ack_until,
        IncidentState::Monitoring => Some(record.at + timers.resolve_hold.0),
        IncidentState::Resolved if progress::needs_review(incident) => None,
        IncidentState::Resolved => Some(record.at + progress::CLOSE_AFTER),
        IncidentState::Open
        | IncidentState::Mitigated
        | IncidentState::OnHold
        | IncidentState::Closed
        | IncidentState::Merged => None,
    };
    if data.to.is_open() {
        // The clock resumes: what was reached before stays, the end is not reached any more.
        incident.resolved_at = None;
        state.ended_incidents.retain(|id| *id != data.incident);
    } else if !state.ended_incidents.contains(&data.incident) {
        state.ended_incidents.push_back(data.incident);
    }
    let came_back = incident.alerts.last().copied().filter(|_| again);
    state.timers.set(TimerKey::Incident(data.incident), limit);
    if let Some(alert) = came_back {
        count_fault(state, alert, record.at);
    }
    touch(state, data.incident);
    forget_old(state);
}

/// Drops the oldest ended incidents with their alerts.
fn forget_old(state: &mut State) {
    while state.ended_incidents.len() > MAX_ENDED {
        let Some(incident) = state.ended_incidents.pop_front().and_then(|id| state.incidents.remove(&id))
        else {
            continue;
        };
        state.timers.set(TimerKey::Incident(incident.id), None);
        state.incident_numbers.remove(&incident.number);
        for id in incident.alerts {
            let resolved = state.alerts.get(&id).is_some_and(|alert| alert.state == AlertState::Resolved);
            if resolved {
                state.alerts.remove(&id);
            }
        }
    }
}

fn touch(state: &mut State, id: IncidentId) {
    if let Some(incident) = state.incidents.get(&id) {
        state.dirty.nodes.extend(incident.node);
    }
    state.dirty.incidents.insert(id);
}

pub(crate) fn apply_severity(state: &mut State, record: &Record, data: &IncidentSeverity) {
    if let Some(incident) = state.incidents.get_mut(&data.incident) {
        incident.severity = data.to;
        incident.severity_set |= record.actor.kind != ActorKind::System;
        state.dirty.incidents.insert(data.incident);
    }
}

pub(crate) fn apply_acknowledged(state: &mut State, record: &Record, data: &IncidentAcknowledged) {
    let Some(incident) = state.incidents.get_mut(&data.incident) else { return };
    incident.owner = Some(data.owner.clone());
    incident.acked_at.get_or_insert(record.at);
    incident.ack_until = Some(data.until);
    if incident.state == IncidentState::Acknowledged {
        state.timers.set(TimerKey::Incident(data.incident), Some(data.until));
    }
    state.dirty.incidents.insert(data.incident);
}

pub(crate) fn apply_clock(state: &mut State, record: &Record, data: &IncidentClock) {
    let Some(incident) = state.incidents.get_mut(&data.incident) else { return };
    match data.clock {
        Clock::Isolated => incident.isolated_at = Some(record.at),
        Clock::Mitigated => incident.mitigated_at = Some(record.at),
        Clock::Resolved => incident.resolved_at = Some(record.at),
    }
    state.dirty.incidents.insert(data.incident);
}

pub(crate) fn apply_noted(state: &mut State, data: &IncidentRef) {
    state.dirty.incidents.insert(data.incident);
}

pub(crate) fn apply_job(state: &mut State, data: &IncidentJob) {
    if let Some(incident) = state.incidents.get_mut(&data.incident)
        && !incident.jobs.contains(&data.job)
    {
        incident.jobs.push(data.job.clone());
    }
    touch(state, data.incident);
}

/// Opens, joins, and moves on what this turn touched.
pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    open::react(state, now, out);
    for incident in touched(state) {
        clock::react(state, incident, out);
        progress::react(state, incident, now, out);
    }
}

/// Incidents that this turn touched, by themselves or through what belongs to them.
fn touched(state: &State) -> Vec<&Incident> {
    let dirty = &state.dirty;
    if dirty.all {
        return state.incidents.values().collect();
    }
    let mut ids: BTreeSet<IncidentId> = dirty.incidents.clone();
    ids.extend(dirty.alerts.iter().filter_map(|id| state.alerts.get(id)?.incident));
    ids.extend(dirty.executions.iter().filter_map(|id| state.executions.get(id)?.incident));
    if !dirty.nodes.is_empty() || !dirty.jobs.is_empty() {
        let touches = |incident: &&Incident| {
            incident.state.is_open() && incident.node.is_some_and(|node| concerns(state, node))
        };
        ids.extend(state.incidents.values().filter(touches).map(|incident| incident.id));
    }
    ids.iter().filter_map(|id| state.incidents.get(id)).collect()
}

/// The turn touched this node, the spare that serves for it, or a job on it.
fn concerns(state: &State, node: NodeId) -> bool {
    let dirty = &state.dirty;
    let spare = || {
        let slot = state.slots.get(&state.nodes.get(&node)?.slot?)?;
        slot.spare
    };
    dirty.nodes.contains(&node)
        || spare().is_some_and(|spare| dirty.nodes.contains(&spare))
        || dirty.jobs.iter().any(|key| state.jobs.get(key).is_some_and(|job| job.nodes.contains(&node)))
}

/// The alerts of an incident that are still known.
pub(crate) fn alerts<'a>(state: &'a State, incident: &'a Incident) -> impl Iterator<Item = &'a Alert> {
    incident.alerts.iter().filter_map(|id| state.alerts.get(id))
}

/// Alerts that are not over.
pub(crate) fn open_alerts<'a>(state: &'a State, incident: &'a Incident) -> impl Iterator<Item = &'a Alert> {
    alerts(state, incident).filter(|alert| alert.state != AlertState::Resolved)
}
