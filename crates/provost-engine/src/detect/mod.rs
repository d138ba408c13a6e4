//! From signals to episodes.
//!
//! An episode is the evidence: what the kernel said, when, and which job was on the device. It costs one record
//! and decides nothing; `alert` judges it.

mod merge;

use std::sync::LazyLock;

use provost_model::body::{
    AlertChanged, Body, EmergencyMerged, EpisodeKey, EpisodeOpened, EpisodeRepeated, SignalsNotRecorded,
};
use provost_model::catalogue::{Assessment, Catalogue};
use provost_model::input::EmergencyHold;
use provost_model::record::{Actor, Class, Record};
use provost_model::response::AlertState;
use provost_model::signal::{Impact, Signal, SignalFields, SignalKind};
use provost_model::time::Timestamp;
use serde::Deserialize;
use serde::de::value::StrDeserializer;

pub use merge::Merger;

use crate::alert::{companion, subject};
use crate::event::{Decisions, Event};
use crate::state::{Episode, Job, Node, Occurrence, State, TimerKey};

/// Episodes that are kept at most; the oldest goes first.
const MAX_EPISODES: usize = 65_536;
/// Occurrences before the last that an episode remembers.
const MAX_EARLIER: usize = 32;
/// Texts of a signal that stand in plain fields are cut to this many characters.
const MAX_TEXT: usize = 64;

/// A line is cut to this many characters before it is sealed.
const MAX_LINE: usize = 1_024;

/// The catalogue that this program judges by. Only decisions look at it: what a record says is complete.
static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::embedded);

/// The judgement on an episode; the same whenever it is asked.
pub(crate) fn assess(key: &EpisodeKey, fields: &SignalFields, stated: Impact) -> Assessment<'static> {
    CATALOGUE.assess(key.kind, key.code, fields, Some(stated))
}

/// The catalogue lists the code of a line that has one.
pub(crate) fn is_listed(key: &EpisodeKey) -> bool {
    let entry = CATALOGUE.entry(key.kind, key.code);
    !matches!(key.kind, SignalKind::Xid | SignalKind::Sxid) || (key.code.is_some() && entry.code == key.code)
}

/// The catalogue's sentence on a condition: `xid.95`, `nic_link`.
pub(crate) fn meaning(condition: &str) -> &'static str {
    let code = |text: &str| text.parse().unwrap_or(u32::MAX);
    let entry = match condition.split_once('.') {
        Some(("xid", number)) => CATALOGUE.xid(code(number)),
        Some(("sxid", number)) => CATALOGUE.sxid(code(number)),
        _ => {
            let name = StrDeserializer::<serde::de::value::Error>::new(condition);
            SignalKind::deserialize(name).map_or(CATALOGUE.xid(u32::MAX), |kind| CATALOGUE.kernel(kind))
        }
    };
    &entry.meaning
}

/// What makes two signals the same episode.
pub(crate) fn key_of(signal: &Signal) -> EpisodeKey {
    EpisodeKey {
        node: signal.node.as_str().into(),
        kind: signal.kind,
        code: signal.code,
        pci: signal.pci,
        mig: signal.fields.mig,
        link: signal.fields.link,
    }
}

pub(crate) fn apply_opened(state: &mut State, record: &Record, data: &EpisodeOpened) {
    let before = state.episodes.remove(&data.key);
    let episode = Episode {
        seq: record.seq,
        impact: data.impact,
        fields: data.fields.clone(),
        // A node whose clock is ahead cannot have seen the fault after we heard of it.
        first_at: data.written_at.min(record.at),
        detected_at: record.at,
        last_at: record.at,
        count: 1,
        historic: data.historic,
        trust: data.trust,
        job: data.job.clone(),
        earlier: before.map(|before| earlier(state, before, record.at)).unwrap_or_default(),
        alert: None,
    };
    let wait = companion::waits_until(state, &data.key, &episode);
    state.timers.set(TimerKey::Episode(data.key.clone()), wait);
    state.episodes.insert(data.key.clone(), episode);
    state.episode_order.push_back((record.seq, record.at, data.key.clone()));
    forget_old(state, record.at);
    state.dirty.episodes.insert(data.key.clone());
}

/// What an episode and those before it have seen, as far as the repeat rules may still need it.
fn earlier(state: &State, before: Episode, now: Timestamp) -> Vec<Occurrence> {
    let last = Occurrence::of(&before);
    let recent = |seen: &Occurrence| now.since(seen.at) <= state.config.timers.repeat.0;
    let mut seen: Vec<Occurrence> = before.earlier.into_iter().chain(last).filter(recent).collect();
    seen.drain(..seen.len().saturating_sub(MAX_EARLIER));
    seen
}

/// Drops what cannot repeat any more, and the oldest where there are too many.
fn forget_old(state: &mut State, now: Timestamp) {
    let repeat = state.config.timers.repeat.0;
    while let Some((seq, opened_at, key)) = state.episode_order.front() {
        let too_many = state.episodes.len() > MAX_EPISODES;
        if !too_many && now.since(*opened_at) <= repeat {
            break;
        }
        if let Some(episode) = state.episodes.get(key).filter(|episode| episode.seq == *seq) {
            if !too_many && now.since(episode.last_at) <= repeat {
                break;
            }
            state.timers.set(TimerKey::Episode(key.clone()), None);
            state.episodes.remove(key);
        }
        state.episode_order.pop_front();
    }
    if state.episode_order.len() > 2 * MAX_EPISODES {
        let episodes = &state.episodes;
        let is_last = |seq, key: &EpisodeKey| episodes.get(key).is_some_and(|episode| episode.seq == seq);
        state.episode_order.retain(|(seq, _, key)| is_last(*seq, key));
    }
}

pub(crate) fn apply_repeated(state: &mut State, data: &EpisodeRepeated) {
    if let Some(episode) = state.episodes.get_mut(&data.key) {
        episode.count = episode.count.saturating_add(data.count);
        episode.last_at = episode.last_at.max(data.last_at);
        state.dirty.episodes.insert(data.key.clone());
    }
}

pub(crate) fn on_signal(state: &State, now: Timestamp, signal: &Signal, out: &mut Decisions) {
    let assessment = CATALOGUE.assess_signal(signal);
    if assessment.impact == Impact::None {
        return;
    }
    let key = key_of(signal);
    let node = state.node_by_name(&signal.node);
    let job = node.and_then(|node| job_on(state, node, &key)).map(|job| job.key.clone());
    let cut = |text: &String| beginning(text, MAX_TEXT).to_owned();
    let mut fields = signal.fields.clone();
    fields.unit = fields.unit.as_ref().map(cut);
    let body = EpisodeOpened {
        impact: assessment.impact,
        fields,
        written_at: signal.at.min(now),
        historic: signal.historic,
        trust: signal.trust,
        boot_id: signal.boot_id.as_ref().map(cut),
        job,
        key,
    };
    let about = subject::of_episode(&body.key, node);
    let event = Event::new(Class::Detection, Body::EpisodeOpened(body)).by(Actor::agent(&signal.node));
    out.push(event.about(about).sealing("kernel_line", beginning(&signal.line, MAX_LINE)));
}

/// The first `chars` characters.
fn beginning(text: &str, chars: usize) -> &str {
    // No text has more characters than bytes.
    let cut = (text.len() > chars).then(|| text.char_indices().nth(chars)).flatten();
    cut.map_or(text, |(end, _)| &text[..end])
}

/// The job on the device that the line is about: the one that holds this GPU, or the only one on the node.
fn job_on<'a>(state: &'a State, node: &Node, key: &EpisodeKey) -> Option<&'a Job> {
    if !subject::is_gpu(key.kind) {
        return None;
    }
    let gpu = key.pci.and_then(|pci| subject::gpu_index(node, pci));
    match subject::jobs_on(state, node.id, gpu)[..] {
        [job] => Some(job),
        // Nobody, or several: a guess would leave a note with the wrong owner.
        _ => None,
    }
}

pub(crate) fn on_repeats(
    state: &State,
    key: &EpisodeKey,
    count: u64,
    last_at: Timestamp,
    out: &mut Decisions,
) {
    let Some(episode) = state.episodes.get(key) else { return };
    let about = subject::of_episode(key, state.node_by_name(&key.node));
    let body = Body::EpisodeRepeated(EpisodeRepeated { key: key.clone(), count, last_at });
    out.push(Event::new(Class::Detection, body).by(Actor::agent(&key.node)).about(about));
    let Some(alert) = episode.alert.and_then(|id| state.alerts.get(&id)) else { return };
    if alert.state == AlertState::Resolved {
        return;
    }
    let changed = AlertChanged {
        alert: alert.id,
        state: alert.state,
        count: alert.count.saturating_add(count),
        last_at: alert.last_at.max(last_at),
        why: "seen_again".to_owned(),
        impact: alert.impact,
        classifications: alert.classifications.clone(),
        runbook: None,
        episode: None,
    };
    let event = Event::new(Class::Detection, Body::AlertChanged(changed));
    out.push(event.about(alert.subject.clone()));
}

/// What was done on the strength of the emergency journal becomes part of the record: the same signals take the
/// same way now.
pub(crate) fn on_emergency_merge(
    state: &State,
    now: Timestamp,
    since: Timestamp,
    holds: &[EmergencyHold],
    signals_lost: u64,
    out: &mut Decisions,
) {
    let entries = u64::try_from(holds.len()).unwrap_or(u64::MAX);
    let body = Body::EmergencyMerged(EmergencyMerged { entries, since });
    out.push(Event::new(Class::System, body));
    if signals_lost > 0 {
        let body = Body::SignalsNotRecorded(SignalsNotRecorded { count: signals_lost });
        out.push(Event::new(Class::System, body));
    }
    for hold in holds {
        on_signal(state, now, &hold.signal, out);
    }
}

#[cfg(test)]
mod tests;
