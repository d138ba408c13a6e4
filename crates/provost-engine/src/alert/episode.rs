//! Which episodes raise an alert, and on what.

use std::collections::BTreeSet;

use provost_model::body::EpisodeKey;
use provost_model::ids::{AlertId, NodeId};
use provost_model::record::{Subject, SubjectKind};
use provost_model::response::AlertState;
use provost_model::signal::{Impact, SignalKind};

use super::{Raise, changed, push_changed, subject};
use crate::detect;
use crate::event::Decisions;
use crate::state::{Alert, AlertKey, Episode, Node, State};

/// Runbook of a critical GPU code that has none of its own (ruling 5).
const UNCLASSIFIED: &str = "gpu-fault-unclassified";
/// Open alerts of one node beyond which a code or a device that nobody knows raises no other: a broken or forged
/// log may name any number of both. What is known is limited by itself.
const MAX_UNKNOWN: usize = 64;

pub(super) fn react(state: &State, out: &mut Decisions) {
    // Two episodes of one turn may be the same condition (Xid 79 and the lines without a code): the second is
    // attached in the next round.
    let mut raised = BTreeSet::new();
    for key in &state.dirty.episodes {
        consider(state, key, &mut raised, out);
    }
    for node in state.touched_nodes() {
        late(state, node, &mut raised, out);
    }
    for alert in state.dirty.alerts.iter().filter_map(|id| state.alerts.get(id)) {
        repeated(state, alert, out);
    }
}

/// Episodes that were seen before their node was known.
fn late(state: &State, node: &Node, raised: &mut BTreeSet<AlertKey>, out: &mut Decisions) {
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
            consider(state, key, raised, out);
        }
    }
}

fn consider(state: &State, key: &EpisodeKey, raised: &mut BTreeSet<AlertKey>, out: &mut Decisions) {
    let Some(episode) = state.episodes.get(key) else { return };
    let Some(raise) = judge(state, key, episode) else { return };
    match open_alert(state, &raise, key) {
        // The episode carries the job; one alert tells its owner once.
        Some(alert) if alert.subject.kind == SubjectKind::Job => {}
        Some(alert) if episode.alert == Some(alert.id) => {}
        Some(alert) => {
            let mut again = changed(alert, alert.state, "seen_again");
            again.count = again.count.saturating_add(episode.count);
            again.last_at = again.last_at.max(episode.last_at);
            again.impact = again.impact.max(raise.impact);
            again.classifications.extend(&raise.classifications);
            again.episode = Some(key.clone());
            push_changed(alert, again, out);
        }
        None => {
            let id = AlertKey {
                kind: raise.subject.kind,
                subject: raise.subject.id.clone(),
                condition: raise.condition.clone(),
            };
            let news = is_news(state, key, episode) && !is_flood(state, key, &raise);
            if news && raised.insert(id) {
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
        runbook: entry.runbook.clone(),
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
    if raise.runbook.is_none() && raise.impact == Impact::Critical && subject::is_gpu(key.kind) {
        raise.runbook = Some(UNCLASSIFIED.to_owned());
    }
    Some(raise)
}

/// A lost GPU is the same condition whether the driver wrote Xid 79 or no code at all (case B01).
fn condition(key: &EpisodeKey) -> String {
    match (key.kind, key.code) {
        (SignalKind::GpuLost, _) => "xid.79".to_owned(),
        (SignalKind::Xid, Some(code)) => format!("xid.{code}"),
        (SignalKind::Sxid, Some(code)) => format!("sxid.{code}"),
        (kind, _) => kind.name().to_owned(),
    }
}

/// The repeat rule of application faults: two different jobs with the same fault on one GPU inside
/// `timers.repeat` make the GPU suspect; one job that fails in a loop does not. Xid 13 needs its GPC and TPC
/// compared and is not judged here.
fn repeated(state: &State, alert: &Alert, out: &mut Decisions) {
    let (Some(node), Some(gpu)) = (alert.node, alert.gpu) else { return };
    let counts = alert.subject.kind == SubjectKind::Job
        && alert.state == AlertState::Firing
        && alert.impact >= Impact::Minor
        && alert.condition != "xid.13";
    if !counts {
        return;
    }
    let condition = format!("{}.repeat", alert.condition);
    let on_gpu = |other: &&Alert| other.node == Some(node) && other.gpu == Some(gpu);
    let mut others = state.alerts.values().filter(on_gpu);
    let another_job = others.clone().any(|other| {
        other.condition == alert.condition
            && other.subject.kind == SubjectKind::Job
            && other.subject.id != alert.subject.id
            && alert.raised_at.since(other.raised_at) <= state.config.timers.repeat.0
    });
    // One that is as new as this alert has judged it already, even where a person has ended it since.
    let judged = others.any(|other| other.condition == condition && other.raised_at >= alert.raised_at);
    if another_job && !judged {
        raise_repeated(state, alert, node, gpu, condition, out);
    }
}

fn raise_repeated(
    state: &State,
    alert: &Alert,
    node: NodeId,
    gpu: u32,
    condition: String,
    out: &mut Decisions,
) {
    let Some(node) = state.nodes.get(&node) else { return };
    let Some(pci) = node.gpus.get(&gpu).map(|gpu| gpu.pci) else { return };
    let subject = subject::of_gpu(node, pci);
    let key = AlertKey { kind: subject.kind, subject: subject.id.clone(), condition: condition.clone() };
    if state.open_alerts.contains_key(&key) {
        return;
    }
    Raise {
        condition,
        subject,
        node: Some(node.id),
        gpu: Some(gpu),
        impact: Impact::Minor,
        classifications: BTreeSet::new(),
        first_at: alert.first_at,
        event: true,
        runbook: None,
        episode: None,
    }
    .push(out);
}
