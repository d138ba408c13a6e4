//! When a program's fault is the GPU's after all: two different jobs had it on the same GPU. One job that fails in
//! a loop makes no GPU suspect, and one that takes its fault from node to node clears them all.

use std::collections::BTreeSet;
use std::time::Duration;

use provost_model::body::EpisodeKey;
use provost_model::scheduler::JobKey;
use provost_model::signal::Impact;
use provost_model::time::Timestamp;

use super::{Raise, subject};
use crate::detect;
use crate::event::Decisions;
use crate::state::{Alert, AlertKey, Episode, Occurrence, State};

/// A job that has one fault on so many nodes…
const NODES: usize = 3;
/// …inside this time is what they have in common.
const SPREAD: Duration = Duration::from_secs(3_600);

pub(super) fn react(
    state: &State,
    key: &EpisodeKey,
    episode: &Episode,
    raised: &mut BTreeSet<AlertKey>,
    out: &mut Decisions,
) {
    let assessment = detect::assess(key, &episode.fields, episode.impact);
    if episode.historic || !assessment.entry.application || assessment.impact < Impact::Minor {
        return;
    }
    let Some(now) = Occurrence::of(episode) else { return };
    let same = |other: &&Occurrence| {
        other.job != now.job
            && now.at.since(other.at) <= state.config.timers.repeat.0
            && place(key, &now).is_some_and(|here| place(key, other) == Some(here))
    };
    let mut others = episode.earlier.iter().filter(same).peekable();
    // Looking at every node is dear: it comes last.
    if others.peek().is_some()
        && let Some(raise) = suspicion(state, key, episode)
        && !spreads(state, key, &now.job, now.at)
        && others.any(|other| !spreads(state, key, &other.job, other.at))
        && raised.insert(raise.key())
    {
        raise.push(out);
    }
}

/// Where on the GPU it was, as far as it matters: a defect lies in one place, a program error goes everywhere.
/// Xid 13 names its cluster; one that does not says nothing about a place.
fn place(key: &EpisodeKey, seen: &Occurrence) -> Option<(u32, u32)> {
    match key.code {
        Some(13) => seen.gpc.zip(seen.tpc),
        _ => Some((0, 0)),
    }
}

/// The job had the same fault on several nodes: it goes where the job goes.
fn spreads(state: &State, key: &EpisodeKey, job: &JobKey, at: Timestamp) -> bool {
    let near = |seen: &Occurrence| seen.job == *job && seen.at <= at + SPREAD && at <= seen.at + SPREAD;
    let here = |other: &EpisodeKey| (other.kind, other.code) == (key.kind, key.code);
    let mut nodes = BTreeSet::new();
    state
        .episodes
        .iter()
        .filter(|(other, _)| here(other))
        .filter(|(_, episode)| Occurrence::of(episode).iter().chain(&episode.earlier).any(&near))
        // So many are enough: a job that fails everywhere is not looked for to the end.
        .any(|(other, _)| nodes.insert(other.node.as_str()) && nodes.len() >= NODES)
}

/// What to raise about the GPU; nothing where that is known.
fn suspicion(state: &State, key: &EpisodeKey, episode: &Episode) -> Option<Raise> {
    let (node, pci) = state.node_by_name(&key.node).zip(key.pci)?;
    let gpu = subject::gpu_index(node, pci)?;
    let raise = Raise {
        condition: format!("{}.repeat", super::episode::condition(key)),
        subject: subject::of_gpu(node, pci),
        node: Some(node.id),
        gpu: Some(gpu),
        impact: Impact::Minor,
        classifications: BTreeSet::new(),
        first_at: episode.first_at,
        event: true,
        runbook: None,
        episode: None,
    };
    // One that is as new as this episode has judged it already, even where a person has ended it since.
    let judged = |alert: &Alert| {
        alert.condition == raise.condition
            && (alert.node, alert.gpu) == (Some(node.id), Some(gpu))
            && alert.raised_at >= episode.detected_at
    };
    let known = state.open_alerts.contains_key(&raise.key()) || state.alerts.values().any(judged);
    (!known).then_some(raise)
}
