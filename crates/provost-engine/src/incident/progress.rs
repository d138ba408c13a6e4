//! How an incident moves on by itself (03 §2.4), as far as its parts exist.

use std::time::Duration;

use provost_model::body::{Body, IncidentChanged, IncidentJob};
use provost_model::record::{Class, SubjectKind};
use provost_model::response::{IncidentState, Severity};
use provost_model::runbook::ExecutionState;
use provost_model::scheduler::JobState;
use provost_model::time::Timestamp;

use super::{clock, open_alerts};
use crate::event::{Decisions, Event};
use crate::state::{Alert, Execution, Incident, Job, State, TimerKey};

/// Automation has an incident of SEV3 or SEV4 for so long before a person is asked.
pub(super) const AUTOMATION_GRACE: Duration = Duration::from_secs(180);
/// A resolved incident that needs no review is closed after this time.
pub(super) const CLOSE_AFTER: Duration = Duration::from_secs(72 * 3_600);
/// Schedulers write ends of jobs in whole seconds.
const SECOND: Duration = Duration::from_secs(1);

pub(super) fn react(state: &State, incident: &Incident, now: Timestamp, out: &mut Decisions) {
    if incident.state.is_open() {
        failed_jobs(state, incident, out);
    }
    if let Some((to, why)) = next(state, incident, now) {
        out.push(changed(incident, to, why));
        if to == IncidentState::Resolved {
            out.push(clock::resolved(incident));
        }
    }
}

pub(super) fn changed(incident: &Incident, to: IncidentState, why: &str) -> Event {
    let body = IncidentChanged { incident: incident.id, from: incident.state, to, why: why.to_owned() };
    let event = Event::new(Class::Response, Body::IncidentChanged(body));
    event.about(incident.subject.clone()).of_incident(&incident.number)
}

/// The state that the incident should be in, where it is another.
fn next(state: &State, incident: &Incident, now: Timestamp) -> Option<(IncidentState, &'static str)> {
    let fires = open_alerts(state, incident).next().is_some();
    let finished = executions(state, incident).all(|execution| execution.state.is_final());
    let over = !fires && finished;
    let held = state.timers.get(&TimerKey::Incident(incident.id)).is_some_and(|until| until <= now);
    let served = incident.mitigated_at.is_some() && clock::served(state, incident);
    match incident.state {
        IncidentState::Open
        | IncidentState::Automating
        | IncidentState::Acknowledged
        | IncidentState::Mitigated
            if over =>
        {
            Some((IncidentState::Monitoring, "alerts_resolved"))
        }
        IncidentState::Open | IncidentState::Acknowledged if served => {
            Some((IncidentState::Mitigated, "slot_serves"))
        }
        IncidentState::Open => {
            let graceful = now < incident.opened_at + AUTOMATION_GRACE;
            let automatic =
                incident.severity <= Severity::Sev3 && graceful && automation_works(state, incident);
            automatic.then_some((IncidentState::Automating, "runbook_runs"))
        }
        IncidentState::Automating if held => Some((IncidentState::Open, "grace_over")),
        IncidentState::Automating => {
            (!automation_works(state, incident)).then_some((IncidentState::Open, "needs_a_person"))
        }
        IncidentState::Acknowledged => held.then_some((IncidentState::Open, "ack_expired")),
        IncidentState::Monitoring if fires => Some((IncidentState::Open, "fires_again")),
        IncidentState::Monitoring if !finished => Some((IncidentState::Open, "runbook_runs")),
        IncidentState::Monitoring => held.then_some((IncidentState::Resolved, "resolve_hold")),
        IncidentState::Resolved => held.then_some((IncidentState::Closed, "no_review_needed")),
        IncidentState::Mitigated | IncidentState::OnHold | IncidentState::Closed | IncidentState::Merged => {
            None
        }
    }
}

/// Graver incidents and those that came back stay resolved until somebody has reviewed them.
pub(super) fn needs_review(incident: &Incident) -> bool {
    incident.severity > Severity::Sev3 || incident.reopened > 0
}

pub(super) fn executions<'a>(
    state: &'a State,
    incident: &'a Incident,
) -> impl Iterator<Item = &'a Execution> {
    incident.executions.iter().filter_map(|id| state.executions.get(id))
}

/// A runbook is at work and asks for nobody.
fn automation_works(state: &State, incident: &Incident) -> bool {
    let asks = |execution: &Execution| match execution.state {
        ExecutionState::Proposed
        | ExecutionState::AwaitingApproval
        | ExecutionState::AwaitingHuman
        | ExecutionState::Paused
        | ExecutionState::NeedsOperator
        | ExecutionState::RolledBack
        | ExecutionState::Cancelled => true,
        ExecutionState::Queued
        | ExecutionState::Running
        | ExecutionState::Waiting
        | ExecutionState::Compensating
        | ExecutionState::Succeeded => false,
    };
    executions(state, incident).last().is_some_and(|execution| !asks(execution))
}

/// Jobs that failed on the node inside `timers.failed_job` after the fault were hit by it (ruling 18).
fn failed_jobs(state: &State, incident: &Incident, out: &mut Decisions) {
    let Some(node) = incident.node.filter(|_| incident.subject.kind != SubjectKind::Source) else { return };
    let until = incident.fault_at + state.config.timers.failed_job.0 + SECOND;
    let hit = |job: &&Job| {
        let failed = matches!(job.state, JobState::Failed | JobState::NodeFailed);
        let at = job.ended_at.filter(|at| *at + SECOND >= incident.fault_at && *at <= until);
        failed && at.is_some() && job.nodes.contains(&node) && !incident.jobs.contains(&job.key)
    };
    let room = super::MAX_JOBS.saturating_sub(incident.jobs.len());
    let looked_at = || state.dirty.all || state.dirty.incidents.contains(&incident.id);
    let all = looked_at().then(|| state.jobs.values()).into_iter().flatten();
    let touched = state.dirty.jobs.iter().filter_map(|key| state.jobs.get(key)).filter(|_| !looked_at());
    for job in all.chain(touched).filter(hit).take(room) {
        let reason = "failed_after_fault".to_owned();
        let body = IncidentJob { incident: incident.id, job: job.key.clone(), reason };
        let event = Event::new(Class::Response, Body::IncidentJob(body));
        out.push(event.about(incident.subject.clone()).of_incident(&incident.number));
    }
}

/// The title: what and where, in words of ours.
pub(super) fn title(alert: &Alert) -> String {
    let node = alert.subject.node.as_deref().unwrap_or("the site");
    let place = match (alert.subject.kind, alert.gpu) {
        (SubjectKind::Gpu, Some(gpu)) => format!("GPU {gpu} of {node}"),
        (SubjectKind::Gpu, None) => format!("A GPU of {node}"),
        (SubjectKind::Switch, _) => format!("NVSwitch of {node}"),
        _ => node.to_owned(),
    };
    match alert.condition.as_str() {
        "xid.79" => return format!("{place} lost (Xid 79)"),
        "source.silent" => return format!("{} is silent", source_name(alert)),
        "source.blind" => return format!("{} cannot be understood", source_name(alert)),
        _ => {}
    }
    let (condition, repeated) = match alert.condition.strip_suffix(".repeat") {
        Some(condition) => (condition, " in different jobs"),
        None => (alert.condition.as_str(), ""),
    };
    let code = match condition.split_once('.') {
        Some(("xid", code)) => format!(" (Xid {code})"),
        Some(("sxid", code)) => format!(" (SXid {code})"),
        _ => String::new(),
    };
    let meaning = crate::detect::meaning(condition).trim_end_matches('.');
    format!("{place}: {meaning}{repeated}{code}")
}

fn source_name(alert: &Alert) -> String {
    let label = alert.subject.name.as_deref().unwrap_or(&alert.subject.id);
    match label.split_once(':') {
        Some(("agent", node)) => format!("Agent of {node}"),
        Some(("kernel_log", node)) => format!("Kernel log of {node}"),
        Some(("bmc", node)) => format!("BMC of {node}"),
        Some(("scheduler", name)) => format!("Scheduler {name}"),
        _ => label.to_owned(),
    }
}
