//! Which episodes raise an alert, and on what.

use std::collections::BTreeSet;

use provost_model::body::EpisodeKey;
use provost_model::ids::AlertId;
use provost_model::record::{Subject, SubjectKind};
use provost_model::response::AlertState;
use provost_model::signal::SignalKind;
use provost_model::time::Timestamp;

use super::companion::{self, Cleanup};
use super::{Raise, changed, push_changed, repeat, subject};
use crate::detect;
use crate::event::Decisions;
use crate::state::{Alert, AlertKey, Episode, Node, State};

/// Open alerts of one node beyond which a code or a device that nobody knows raises no other: a broken or forged
/// log may name any number of both. What is known is limited by itself.
const MAX_UNKNOWN: usize = 64;

pub(super) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    // Two episodes of one turn may be the same condition (Xid 79 and the lines without a code): the second is
    // attached in the next round.
    let mut raised = BTreeSet::new();
    for key in &state.dirty.episodes {
        consider(state, now, key, &mut raised, out);
        if let Some(episode) = state.episodes.get(key) {
            repeat::react(state, key, episode, &mut raised, out);
        }
    }
    for node in state.touched_nodes() {
        late(state, now, node, &mut raised, out);
    }
}

/// Episodes that were seen before their node was known.
fn late(state: &State, now: Timestamp, node: &Node, raised: &mut BTreeSet<AlertKey>, out: &mut Decisions) {
    let from = EpisodeKey {
        node: node.name.as_str().into(),
        kind: SignalKind::Xid,
        code: None,
        pci: None,
        mig: None,
        link: None,
    };
    for (key, episode) in state.episodes.range(from..).take_while(|(key, _)| key.node == node.name) {
        let application = detect::assess(key, &episode.fields, episode.impact).entry.application;
        if episode.alert.is_none() && !application {
            consider(state, now, key, raised, out);
        }
    }
}

fn consider(
    state: &State,
    now: Timestamp,
    key: &EpisodeKey,
    raised: &mut BTreeSet<AlertKey>,
    out: &mut Decisions,
) {
    let Some(episode) = state.episodes.get(key) else { return };
    if companion::waits_until(state, key, episode).is_some_and(|until| until > now) {
        return;
    }
    companion::all_clear(state, key, episode, out);
    match companion::cleanup(state, key, episode) {
        Cleanup::No => {}
        Cleanup::Of(alert) if !episode.historic && episode.alert.is_none() => {
            let mut evidence = changed(alert, alert.state, "companion");
            evidence.episode = Some(key.clone());
            return push_changed(alert, evidence, out);
        }
        Cleanup::Of(_) | Cleanup::OfAnother => return,
    }
    let Some(raise) = judge(state, key, episode) else { return };
    match open_alert(state, &raise, key) {
        // The episode carries the job; one alert tells its owner once.
        Some(alert) if alert.subject.kind == SubjectKind::Job => {}
        Some(alert) if episode.alert == Some(alert.id) => {}
        Some(alert) => {
            let mut again = changed(alert, AlertState::Firing, "seen_again");
            again.count = again.count.saturating_add(episode.count);
            again.last_at = again.last_at.max(episode.last_at);
            if raise.impact > alert.impact || alert.runbook.is_none() {
                again.runbook = raise.runbook;
            }
            again.impact = again.impact.max(raise.impact);
            again.classifications.extend(&raise.classifications);
            again.episode = Some(key.clone());
            push_changed(alert, again, out);
        }
        None => {
            let news = is_news(state, key, episode) && !is_flood(state, key, &raise);
            if news && raised.insert(raise.key()) {
                raise.push(out);
            }
        }
    }
}

/// The node has many open alerts already, and this one is about something that nobody knows.
fn is_flood(state: &State, key: &EpisodeKey, raise: &Raise) -> bool {
    let known_code = detect::is_listed(key);
    let known_place = raise.subject.kind == SubjectKind::Node || raise.gpu.is_some();
    let on_node = |id: &&AlertId| state.alerts.get(id).is_some_and(|alert| alert.node == raise.node);
    !(known_code && known_place) && state.open_alerts.values().filter(on_node).nth(MAX_UNKNOWN - 1).is_some()
}

/// The episode has not led to an alert yet, or was seen again after its alert was over.
fn is_news(state: &State, key: &EpisodeKey, episode: &Episode) -> bool {
    let Some(id) = episode.alert else { return true };
    match state.alerts.get(&id) {
        Some(alert) => alert.state == AlertState::Resolved && episode.last_at > alert.state_since,
        None => state.dirty.episodes.contains(key),
    }
}

/// The open alert of the same condition on the same subject; a GPU that has got its name is still the same.
fn open_alert<'a>(state: &'a State, raise: &Raise, key: &EpisodeKey) -> Option<&'a Alert> {
    let find = |subject: String| {
        let key = AlertKey { kind: raise.subject.kind, subject, condition: raise.condition.clone() };
        state.open_alerts.get(&key).and_then(|id| state.alerts.get(id))
    };
    find(raise.subject.id.clone()).or_else(|| {
        let node = state.nodes.get(&raise.node?)?;
        (raise.subject.kind == SubjectKind::Gpu).then_some(())?;
        find(subject::provisional(node, key.pci?))
    })
}

/// What the episode should raise, if anything.
fn judge(state: &State, key: &EpisodeKey, episode: &Episode) -> Option<Raise> {
    if episode.historic || episode.fields.clears {
        return None;
    }
    let node = state.node_by_name(&key.node)?;
    let gpu = key.pci.filter(|_| subject::is_gpu(key.kind)).and_then(|pci| subject::gpu_index(node, pci));
    let assessment = detect::assess(key, &episode.fields, episode.impact);
    let entry = assessment.entry;
    let base = |subject: Subject| Raise {
        condition: condition(key),
        subject,
        node: Some(node.id),
        gpu,
        impact: assessment.impact,
        classifications: assessment.classifications.iter().copied().collect(),
        first_at: episode.first_at,
        event: true,
        runbook: assessment.runbook.map(str::to_owned),
        episode: Some(key.clone()),
    };
    if entry.application {
        // Ruling 7: a note on the job. Without a job there is nobody to tell, and the episode is the record.
        let job = state.jobs.get(episode.job.as_ref()?).filter(|job| !job.state.ended())?;
        return Some(Raise { classifications: BTreeSet::new(), ..base(subject::of_job(job)) });
    }
    if !assessment.raises() {
        return None;
    }
    let mut raise = base(subject::of_episode(key, Some(node)));
    companion::contain(state, key, episode, &mut raise);
    Some(raise)
}

/// A lost GPU is the same condition whether the driver wrote Xid 79 or no code at all (case B01).
pub(super) fn condition(key: &EpisodeKey) -> String {
    match (key.kind, key.code) {
        (SignalKind::GpuLost, _) => "xid.79".to_owned(),
        (SignalKind::Xid, Some(code)) => format!("xid.{code}"),
        (SignalKind::Sxid, Some(code)) => format!("sxid.{code}"),
        (kind, _) => kind.name().to_owned(),
    }
}
