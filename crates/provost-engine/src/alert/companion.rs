//! What one code means beside others on the same GPU: a memory error beside the codes that say what it hit, the
//! cleanup after an error beside that error, an advice beside its withdrawal.

use provost_model::body::EpisodeKey;
use provost_model::record::SubjectKind;
use provost_model::response::AlertState;
use provost_model::signal::{Impact, SignalKind};
use provost_model::time::Timestamp;

use super::{Raise, changed, push_changed, subject};
use crate::event::Decisions;
use crate::state::{Alert, Episode, State};

/// Uncorrectable memory errors: 48, and 171 and 172, which tell where it lies.
const MEMORY_ERRORS: [u32; 3] = [48, 171, 172];
/// The error was contained: a row is to be replaced, or only the program that owned the data ended.
const CONTAINED: [u32; 2] = [63, 94];
/// It was not: the row could not be replaced, or any program may be hit.
const UNCONTAINED: [u32; 3] = [64, 95, 140];
/// Runbook of a memory error that was contained.
const REMAP: &str = "row-remap-pending";
/// Cleanup of channels after an error.
const CLEANUP: u32 = 45;
/// The driver's advice to recover.
const ADVICE: u32 = 154;

/// The code is an Xid of these.
fn is_xid(key: &EpisodeKey, codes: &[u32]) -> bool {
    key.kind == SignalKind::Xid && key.code.is_some_and(|code| codes.contains(&code))
}

/// Until when an episode waits for companions before it is judged. A line that names no GPU has none.
pub(crate) fn waits_until(state: &State, key: &EpisodeKey, episode: &Episode) -> Option<Timestamp> {
    let named = key.pci.is_some() && !episode.historic && !episode.fields.clears;
    let waits = named && is_xid(key, &MEMORY_ERRORS);
    waits.then(|| episode.detected_at + state.config.timers.companions.0)
}

/// A memory error that was contained lets jobs go on: it is less grave than alone, and has a runbook that waits
/// for the node to become idle.
pub(super) fn contain(state: &State, key: &EpisodeKey, episode: &Episode, raise: &mut Raise) {
    if is_xid(key, &MEMORY_ERRORS) && is_contained(state, key, episode.detected_at) {
        raise.impact = Impact::Major;
        raise.classifications.clear();
        raise.runbook = Some(REMAP.to_owned());
    }
}

/// Since shortly before `from`, the driver said of this GPU that its memory error was contained, and nothing that
/// says otherwise.
pub(crate) fn is_contained(state: &State, key: &EpisodeKey, from: Timestamp) -> bool {
    let seen = |codes: &[u32]| codes.iter().any(|code| seen_since(state, key, *code, from));
    seen(&CONTAINED) && !seen(&UNCONTAINED)
}

/// An Xid was seen on the same GPU since `from`, or within one episode before it.
fn seen_since(state: &State, key: &EpisodeKey, code: u32, from: Timestamp) -> bool {
    let merge = state.config.timers.merge.0;
    let first = EpisodeKey { code: Some(code), mig: None, link: None, ..key.clone() };
    // Those of other nodes may stand in between.
    let at_place = state
        .episodes
        .range(first..)
        .take_while(|(other, _)| (other.code, other.pci) == (Some(code), key.pci))
        .filter(|(other, _)| (&other.node, other.kind) == (&key.node, key.kind));
    at_place.into_iter().any(|(_, episode)| !episode.historic && episode.last_at + merge >= from)
}

/// What a cleanup belongs to.
pub(super) enum Cleanup<'a> {
    /// It is none, or an error of its own.
    No,
    /// Evidence of this alert.
    Of(&'a Alert),
    /// The driver names a cause that raised nothing, or is over.
    OfAnother,
}

/// Xid 45 that follows an error raises nothing of its own: the driver names the error, or the GPU has one that is
/// not older than an episode.
pub(super) fn cleanup<'a>(state: &'a State, key: &EpisodeKey, episode: &Episode) -> Cleanup<'a> {
    if !is_xid(key, &[CLEANUP]) {
        return Cleanup::No;
    }
    let Some(node) = state.node_by_name(&key.node) else { return Cleanup::No };
    let gpu = key.pci.and_then(|pci| subject::gpu_index(node, pci));
    let on_gpu = |alert: &&Alert| {
        alert.node == Some(node.id) && alert.gpu == gpu && alert.state == AlertState::Firing && alert.event
    };
    let mut open = state.open_alerts.values().filter_map(|id| state.alerts.get(id)).filter(on_gpu);
    if let Some(code) = episode.fields.caused_by {
        let named = format!("xid.{code}");
        return open.find(|alert| alert.condition == named).map_or(Cleanup::OfAnother, Cleanup::Of);
    }
    let merge = state.config.timers.merge.0;
    let recent = |alert: &&Alert| {
        alert.subject.kind == SubjectKind::Gpu && alert.last_at + merge >= episode.detected_at
    };
    if let Some(alert) = gpu.and_then(|_| open.find(recent)) {
        return Cleanup::Of(alert);
    }
    // One that is not judged yet.
    let waits = MEMORY_ERRORS.iter().any(|code| seen_since(state, key, *code, episode.detected_at));
    if waits { Cleanup::OfAnother } else { Cleanup::No }
}

/// The driver takes its advice back: the alert has a level and clears by its hold.
pub(super) fn all_clear(state: &State, key: &EpisodeKey, episode: &Episode, out: &mut Decisions) {
    if !is_xid(key, &[ADVICE]) || !episode.fields.clears || episode.historic {
        return;
    }
    let Some(node) = state.node_by_name(&key.node) else { return };
    let gpu = key.pci.and_then(|pci| subject::gpu_index(node, pci));
    let advice = format!("xid.{ADVICE}");
    let of_gpu = |alert: &&Alert| {
        alert.condition == advice
            && alert.node == Some(node.id)
            && alert.gpu == gpu
            && alert.state == AlertState::Firing
    };
    for alert in state.open_alerts.values().filter_map(|id| state.alerts.get(id)).filter(of_gpu) {
        let mut cleared = changed(alert, AlertState::Clearing, "all_clear");
        cleared.episode = Some(key.clone());
        push_changed(alert, cleared, out);
    }
}
