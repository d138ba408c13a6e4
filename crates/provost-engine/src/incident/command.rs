//! What people do with an incident.

use std::time::Duration;

use provost_model::body::{Body, IncidentAcknowledged, IncidentChanged, IncidentRef, IncidentSeverity};
use provost_model::input::{Action, Reply};
use provost_model::policy::Role;
use provost_model::record::{Class, SubjectKind};
use provost_model::response::{AlertState, IncidentState, Severity};
use provost_model::time::Timestamp;

use super::{clock, open_alerts, progress};
use crate::alert;
use crate::command::Asked;
use crate::event::{Decisions, Event};
use crate::state::{Alert, Incident, State};

pub(crate) fn on_command(state: &State, now: Timestamp, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    let number = match &asked.command.action {
        Action::IncidentAck { incident }
        | Action::IncidentNote { incident }
        | Action::IncidentSeverity { incident, .. }
        | Action::IncidentResolve { incident } => incident,
        // `command` sends nothing else here.
        _ => return Reply::NotFound { what: "incident".to_owned() },
    };
    let Some(incident) = state.incident_by_number(number) else {
        return Reply::NotFound { what: format!("incident {number}") };
    };
    match &asked.command.action {
        Action::IncidentAck { .. } => acknowledge(state, incident, now, asked, out),
        Action::IncidentNote { .. } => note(state, incident, now, asked, out),
        Action::IncidentSeverity { severity, .. } => set_severity(state, incident, *severity, asked, out),
        _ => resolve(state, incident, asked, out),
    }
}

fn event(incident: &Incident, asked: &Asked<'_>, body: Body) -> Event {
    let event = asked.event(Class::Response, body);
    event.about(incident.subject.clone()).of_incident(&incident.number)
}

/// An acknowledgement that nobody renews expires: SEV2 after `timers.ack`, SEV1 after half, others after four
/// times of it (03 §2.4).
fn ack_until(state: &State, severity: Severity, now: Timestamp) -> Timestamp {
    let ack: Duration = state.config.timers.ack.0;
    now + match severity {
        Severity::Sev1 => ack / 2,
        Severity::Sev2 => ack,
        Severity::Sev3 | Severity::Sev4 => ack * 4,
    }
}

fn acknowledge(
    state: &State,
    incident: &Incident,
    now: Timestamp,
    asked: &Asked<'_>,
    out: &mut Decisions,
) -> Reply {
    if !incident.state.is_open() {
        return ended(incident);
    }
    let owner = asked.command.actor.sub.clone();
    let until = ack_until(state, incident.severity, now);
    let body = IncidentAcknowledged { incident: incident.id, owner, until };
    out.push(event(incident, asked, Body::IncidentAcknowledged(body)));
    if matches!(incident.state, IncidentState::Open | IncidentState::Automating) {
        let why = "acknowledged".to_owned();
        let to = IncidentState::Acknowledged;
        let body = IncidentChanged { incident: incident.id, from: incident.state, to, why };
        out.push(event(incident, asked, Body::IncidentChanged(body)));
    }
    asked.accepted(state, Vec::new())
}

/// A note of the owner is an update: it renews the acknowledgement.
fn note(state: &State, incident: &Incident, now: Timestamp, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    let body = Body::IncidentNoted(IncidentRef { incident: incident.id });
    let mut noted = event(incident, asked, body);
    // Here the reason is the note.
    noted.sensitive.clear();
    out.push(noted.sealing("note", &asked.command.reason));
    let owner = &asked.command.actor.sub;
    if incident.state == IncidentState::Acknowledged && incident.owner.as_ref() == Some(owner) {
        let until = ack_until(state, incident.severity, now);
        let body = IncidentAcknowledged { incident: incident.id, owner: owner.clone(), until };
        out.push(event(incident, asked, Body::IncidentAcknowledged(body)));
    }
    asked.accepted(state, Vec::new())
}

fn set_severity(
    state: &State,
    incident: &Incident,
    to: Severity,
    asked: &Asked<'_>,
    out: &mut Decisions,
) -> Reply {
    if !incident.state.is_open() {
        return ended(incident);
    }
    if to == incident.severity {
        return Reply::Already;
    }
    if to < incident.severity && !asked.command.roles.contains(&Role::Admin) {
        return Reply::Conflict {
            code: "lowering_severity".to_owned(),
            detail: format!(
                "{} is {}; an operator may raise it, an administrator may lower it",
                incident.number, incident.severity
            ),
        };
    }
    let from = incident.severity;
    let body = Body::IncidentSeverity(IncidentSeverity { incident: incident.id, from, to });
    let path = format!("incident/{}/severity", incident.number);
    let event = event(incident, asked, body);
    out.push(event.changing(path, Some(from.to_string()), Some(to.to_string())));
    asked.accepted(state, Vec::new())
}

fn resolve(state: &State, incident: &Incident, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    if !incident.state.is_open() {
        return Reply::Already;
    }
    if let Some(running) = progress::executions(state, incident).find(|execution| !execution.state.is_final())
    {
        return Reply::Conflict {
            code: "execution_open".to_owned(),
            detail: format!(
                "{} of {} is {}; finish it or abort it first",
                running.runbook,
                incident.number,
                running.state.name()
            ),
        };
    }
    let (events, levels): (Vec<&Alert>, Vec<&Alert>) =
        open_alerts(state, incident).partition(|alert| alert.event);
    if let Some(level) = levels.first() {
        return Reply::Conflict { code: "still_true".to_owned(), detail: still_true(level) };
    }
    if !events.is_empty() {
        for over in events {
            let body = Body::AlertChanged(alert::changed(over, AlertState::Resolved, "person"));
            out.push(event(incident, asked, body).about(over.subject.clone()));
        }
        return asked.accepted(state, Vec::new());
    }
    let to = IncidentState::Resolved;
    let body = IncidentChanged { incident: incident.id, from: incident.state, to, why: "person".to_owned() };
    out.push(event(incident, asked, Body::IncidentChanged(body)));
    out.push(clock::resolved(incident));
    asked.accepted(state, Vec::new())
}

/// What ends an alert that has a level.
fn still_true(alert: &Alert) -> String {
    let node = alert.subject.node.as_ref().filter(|_| alert.subject.kind == SubjectKind::Source);
    let end = match node {
        Some(node) => format!(
            "it ends when the agent of {node} reports, or with `provost node forget {node}` where it is gone for good"
        ),
        None => "it ends by itself when it is over".to_owned(),
    };
    format!("{} is still true; {end}", alert.condition)
}

fn ended(incident: &Incident) -> Reply {
    Reply::Conflict {
        code: "incident_ended".to_owned(),
        detail: format!("{} is {}; a new fault opens it again", incident.number, incident.state.name()),
    }
}
