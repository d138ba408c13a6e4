//! From alerts to incidents: open, join, bring back.

use std::collections::BTreeSet;
use std::time::Duration;

use provost_model::body::{Body, IncidentAttached, IncidentChanged, IncidentOpened, IncidentSeverity};
use provost_model::record::{Class, SubjectKind};
use provost_model::response::{AlertState, IncidentState, Severity};
use provost_model::signal::Impact;
use provost_model::time::Timestamp;

use super::alerts;
use super::progress;
use crate::alert::subject;
use crate::event::{Decisions, Event};
use crate::state::{Alert, Incident, State};

/// A condition that comes back within this time on the same subject is the same incident (03 §2.4).
const REOPEN: Duration = Duration::from_secs(24 * 3_600);

/// Runbook of faults that break NVLink.
const NVLINK: &str = "nvlink-fatal";

pub(super) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    // Two alerts of one subject in one turn: the second joins in the next round.
    let mut handled = BTreeSet::new();
    let mut opened = 0;
    let all = state.dirty.all.then(|| state.open_alerts.values()).into_iter().flatten();
    for alert in all.chain(&state.dirty.alerts).filter_map(|id| state.alerts.get(id)) {
        if let Some(incident) = alert.incident.and_then(|id| state.incidents.get(&id)) {
            raise_severity(state, incident, alert, out);
        } else if needs_incident(alert) && handled.insert(place_of(alert)) {
            opened += u32::from(place(state, alert, opened, now, out));
        }
    }
}

/// Ruling 6: information is a note. Ruling 7: a fault of an application is a note on its job.
fn needs_incident(alert: &Alert) -> bool {
    alert.state != AlertState::Resolved
        && alert.impact >= Impact::Minor
        && alert.subject.kind != SubjectKind::Job
}

/// What one incident is about: a GPU by its place, which stays when its name becomes known; else the subject.
fn place_of(alert: &Alert) -> (SubjectKind, String) {
    match (alert.subject.kind, alert.node, alert.gpu) {
        (SubjectKind::Gpu, Some(node), Some(gpu)) => (SubjectKind::Gpu, format!("{node}/{gpu}")),
        (kind, _, _) => (kind, alert.subject.id.clone()),
    }
}

/// Finds or makes the incident of an alert; true where one was opened.
fn place(state: &State, alert: &Alert, opened: u32, now: Timestamp, out: &mut Decisions) -> bool {
    let about = place_of(alert);
    let same = |incident: &&Incident| alerts(state, incident).any(|other| place_of(other) == about);
    let same_domain =
        |incident: &&Incident| alerts(state, incident).any(|other| is_same_domain(alert, other));
    let mut candidates = state.incidents.values().rev();
    if let Some(incident) = candidates.clone().filter(|incident| incident.state.is_open()).find(same) {
        attach(incident, alert, "same_subject", out);
        return false;
    }
    if let Some(incident) = candidates.clone().filter(|incident| incident.state.is_open()).find(same_domain) {
        attach(incident, alert, "same_nvlink_domain", out);
        return false;
    }
    let came_back = candidates.find(|incident| {
        let recent = incident.resolved_at.is_some_and(|at| now.since(at) <= REOPEN);
        let condition = |other: &Alert| other.condition == alert.condition && place_of(other) == about;
        incident.state == IncidentState::Resolved && recent && alerts(state, incident).any(condition)
    });
    if let Some(incident) = came_back {
        attach(incident, alert, "recurrence", out);
        let to = IncidentState::Open;
        let changed =
            IncidentChanged { incident: incident.id, from: incident.state, to, why: "recurrence".to_owned() };
        let event = Event::new(Class::Response, Body::IncidentChanged(changed));
        out.push(event.about(incident.subject.clone()).of_incident(&incident.number));
        return false;
    }
    open(state, alert, opened, now, out);
    true
}

/// A link has two ends, and a switch has many links: what breaks NVLink on one node is one fault, whoever says so.
fn is_same_domain(alert: &Alert, other: &Alert) -> bool {
    let breaks =
        |alert: &Alert| alert.runbook.as_deref() == Some(NVLINK) && alert.state != AlertState::Resolved;
    alert.node.is_some() && alert.node == other.node && breaks(alert) && breaks(other)
}

fn attach(incident: &Incident, alert: &Alert, reason: &str, out: &mut Decisions) {
    let body = IncidentAttached { incident: incident.id, alert: alert.id, reason: reason.to_owned() };
    let event = Event::new(Class::Response, Body::IncidentAttached(body));
    out.push(event.about(alert.subject.clone()).of_incident(&incident.number));
}

fn open(state: &State, alert: &Alert, opened: u32, now: Timestamp, out: &mut Decisions) {
    let year = now.year();
    let count = state.incident_counter.get(&year).copied().unwrap_or(0) + opened + 1;
    let number = format!("INC-{year}-{count:06}");
    let on_hardware = alert.subject.kind != SubjectKind::Source;
    let jobs = alert.node.filter(|_| on_hardware).map(|node| subject::jobs_on(state, node, alert.gpu));
    let jobs = jobs.into_iter().flatten().take(super::MAX_JOBS).map(|job| job.key.clone()).collect();
    let body = IncidentOpened {
        incident: out.id(),
        title: progress::title(alert),
        severity: severity(state, alert),
        alert: alert.id,
        subject: alert.subject.clone(),
        node: alert.node,
        jobs,
        fault_at: alert.first_at,
        detected_at: alert.raised_at,
        number: number.clone(),
    };
    let event = Event::new(Class::Response, Body::IncidentOpened(body));
    out.push(event.about(alert.subject.clone()).of_incident(&number));
}

/// Ruling 6.
fn severity(state: &State, alert: &Alert) -> Severity {
    let busy = alert.node.is_some_and(|node| state.jobs_on(node).next().is_some());
    match alert.impact {
        Impact::Critical if busy => Severity::Sev2,
        Impact::Critical | Impact::Major => Severity::Sev3,
        Impact::Minor | Impact::Info | Impact::None => Severity::Sev4,
    }
}

/// A graver alert raises its incident, until a person has set the severity; nothing but a person lowers one.
fn raise_severity(state: &State, incident: &Incident, alert: &Alert, out: &mut Decisions) {
    let judged = !incident.state.is_open() || incident.severity_set || alert.state == AlertState::Resolved;
    let to = severity(state, alert);
    if !judged && to > incident.severity {
        let body = IncidentSeverity { incident: incident.id, from: incident.severity, to };
        let event = Event::new(Class::Response, Body::IncidentSeverity(body));
        out.push(event.about(incident.subject.clone()).of_incident(&incident.number));
    }
}
