//! From episodes to deduplicated conditions on one subject.
//!
//! The same condition on the same subject is one alert, whoever saw it and however often. What an alert implies
//! stands in its classifications; nobody decides by the name of a condition. An event such as an Xid has no
//! level: only a verified step newer than its last occurrence ends it, or a person with a reason (ruling 9).

pub(crate) mod companion;
mod episode;
mod level;
mod repeat;
pub(crate) mod subject;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use provost_model::body::{AlertChanged, AlertRaised, Body, EpisodeKey};
use provost_model::ids::NodeId;
use provost_model::record::{Class, Record, SubjectKind};
use provost_model::response::{AlertState, Classification};
use provost_model::signal::Impact;
use provost_model::time::Timestamp;

use crate::event::{Decisions, Event};
use crate::state::{Alert, AlertKey, State, TimerKey, Timers};

/// Records that are kept as evidence: the first, and the last ones.
const MAX_EVIDENCE: usize = 8;
/// Resolved alerts without an incident that are kept at most.
const MAX_ENDED: usize = 10_000;

pub(crate) fn apply_raised(state: &mut State, record: &Record, data: &AlertRaised) {
    let episode = data.episode.as_ref().and_then(|key| state.episodes.get_mut(key));
    let (evidence, count, last_at) = match episode {
        Some(episode) => {
            episode.alert = Some(data.alert);
            (episode.seq, episode.count, episode.last_at)
        }
        None => (record.seq, 1, record.at),
    };
    let alert = Alert {
        id: data.alert,
        condition: data.condition.clone(),
        subject: data.subject.clone(),
        node: data.node,
        gpu: data.gpu,
        state: AlertState::Firing,
        classifications: data.classifications.clone(),
        impact: data.impact,
        event: data.event,
        first_at: data.first_at,
        last_at,
        raised_at: record.at,
        state_since: record.at,
        count,
        evidence: vec![evidence],
        incident: None,
        runbook: data.runbook.clone(),
    };
    judged(&mut state.timers, data.episode.as_ref());
    state.open_alerts.insert(key_of(&alert), alert.id);
    state.dirty.alerts.insert(alert.id);
    state.dirty.nodes.extend(alert.node);
    state.alerts.insert(alert.id, alert);
}

/// The episode waits for nothing any more.
fn judged(timers: &mut Timers, episode: Option<&EpisodeKey>) {
    if let Some(key) = episode {
        timers.set(TimerKey::Episode(key.clone()), None);
    }
}

pub(crate) fn apply_changed(state: &mut State, record: &Record, data: &AlertChanged) {
    let Some(alert) = state.alerts.get_mut(&data.alert) else { return };
    if alert.state != data.state {
        alert.state = data.state;
        alert.state_since = record.at;
    }
    alert.count = data.count;
    alert.last_at = data.last_at;
    alert.impact = data.impact;
    alert.classifications = data.classifications.clone();
    if data.runbook.is_some() {
        alert.runbook.clone_from(&data.runbook);
    }
    judged(&mut state.timers, data.episode.as_ref());
    if let Some(episode) = data.episode.as_ref().and_then(|key| state.episodes.get_mut(key)) {
        episode.alert = Some(alert.id);
        alert.evidence.push(episode.seq);
        if alert.evidence.len() > MAX_EVIDENCE {
            alert.evidence.remove(1);
        }
    }
    let (id, key) = (alert.id, key_of(alert));
    state.dirty.nodes.extend(alert.node);
    state.dirty.incidents.extend(alert.incident);
    state.dirty.alerts.insert(id);
    let clearing = data.state == AlertState::Clearing;
    state.timers.set(TimerKey::Alert(id), clearing.then(|| record.at + state.config.timers.clear_hold.0));
    if data.state == AlertState::Resolved {
        state.open_alerts.remove(&key);
        if state.alerts.get(&id).is_some_and(|alert| alert.incident.is_none()) {
            state.ended_alerts.push_back(id);
        }
        forget_old(state, record.at);
    }
}

/// Drops resolved alerts that no repeat rule can need any more; those of incidents go with their incident.
fn forget_old(state: &mut State, now: Timestamp) {
    while let Some(id) = state.ended_alerts.front() {
        let alert = state.alerts.get(id);
        let old = alert.is_none_or(|alert| now.since(alert.state_since) > state.config.timers.repeat.0);
        if !old && state.ended_alerts.len() <= MAX_ENDED {
            break;
        }
        if alert.is_some_and(|alert| alert.incident.is_none()) {
            let id = *id;
            state.alerts.remove(&id);
        }
        state.ended_alerts.pop_front();
    }
}

/// What makes two alerts the same; the site is the same for all of them.
pub(crate) fn key_of(alert: &Alert) -> AlertKey {
    AlertKey {
        kind: alert.subject.kind,
        subject: alert.subject.id.clone(),
        condition: alert.condition.clone(),
    }
}

/// Judges what this turn touched: episodes, sources, jobs that ended, waits that are over.
pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    episode::react(state, now, out);
    level::react(state, now, out);
    end_of_jobs(state, out);
}

/// A job that is over takes its alerts with it: there is nothing left that could be done for it.
fn end_of_jobs(state: &State, out: &mut Decisions) {
    for key in &state.dirty.jobs {
        if state.jobs.get(key).is_some_and(|job| !job.state.ended()) {
            continue;
        }
        let id = key.to_string();
        let from = AlertKey { kind: SubjectKind::Job, subject: id.clone(), condition: String::new() };
        let of_job = state
            .open_alerts
            .range(from..)
            .take_while(|(key, _)| key.kind == SubjectKind::Job && key.subject == id);
        for alert in of_job.filter_map(|(_, alert)| state.alerts.get(alert)) {
            push_changed(alert, changed(alert, AlertState::Resolved, "job_ended"), out);
        }
    }
}

/// A change that keeps everything but the state.
pub(crate) fn changed(alert: &Alert, to: AlertState, why: &str) -> AlertChanged {
    AlertChanged {
        alert: alert.id,
        state: to,
        count: alert.count,
        last_at: alert.last_at,
        why: why.to_owned(),
        impact: alert.impact,
        classifications: alert.classifications.clone(),
        runbook: None,
        episode: None,
    }
}

fn push_changed(alert: &Alert, changed: AlertChanged, out: &mut Decisions) {
    let event = Event::new(Class::Detection, Body::AlertChanged(changed));
    out.push(event.about(alert.subject.clone()));
}

/// The event alerts of a node that end by a verified step begun at `at`: those of one GPU, or of the node with
/// everything in it. What was seen again since then stays.
pub(crate) fn resolve_verified(
    state: &State,
    node: NodeId,
    gpu: Option<u32>,
    at: Timestamp,
    out: &mut Decisions,
) {
    for alert in state.open_alerts.values().filter_map(|id| state.alerts.get(id)) {
        let covered = alert.node == Some(node) && (gpu.is_none() || alert.gpu == gpu);
        let hardware = !matches!(alert.subject.kind, SubjectKind::Job | SubjectKind::Source);
        if covered && hardware && alert.event && alert.last_at < at {
            push_changed(alert, changed(alert, AlertState::Resolved, "verified"), out);
        }
    }
}

/// A short reason for a scheduler's line, without personal data: `GPU 3 lost`, `GPU 3 Xid 95`.
pub(crate) fn short(alert: &Alert) -> String {
    let place = match (alert.subject.kind, alert.gpu) {
        (SubjectKind::Gpu, Some(gpu)) => format!("GPU {gpu} "),
        (SubjectKind::Gpu, None) => "GPU ".to_owned(),
        _ => String::new(),
    };
    match alert.condition.split_once('.') {
        Some(("xid", "79")) => format!("{place}lost"),
        Some(("xid", code)) => format!("{place}Xid {code}"),
        Some(("sxid", code)) => format!("NVSwitch SXid {code}"),
        _ => format!("{place}{}", alert.condition.replace(['_', '.'], " ")),
    }
}

/// What to raise.
struct Raise {
    condition: String,
    subject: provost_model::record::Subject,
    node: Option<NodeId>,
    gpu: Option<u32>,
    impact: Impact,
    classifications: BTreeSet<Classification>,
    first_at: Timestamp,
    event: bool,
    runbook: Option<String>,
    episode: Option<EpisodeKey>,
}

impl Raise {
    fn key(&self) -> AlertKey {
        let (kind, subject) = (self.subject.kind, self.subject.id.clone());
        AlertKey { kind, subject, condition: self.condition.clone() }
    }

    fn push(self, out: &mut Decisions) {
        let about = self.subject.clone();
        let body = Body::AlertRaised(AlertRaised {
            alert: out.id(),
            condition: self.condition,
            subject: self.subject,
            node: self.node,
            gpu: self.gpu,
            classifications: self.classifications,
            impact: self.impact,
            first_at: self.first_at,
            event: self.event,
            runbook: self.runbook,
            episode: self.episode,
        });
        out.push(Event::new(Class::Detection, body).about(about));
    }
}
