//! What the scheduler says, compared with what is known.
//!
//! An answer is compared as a whole: what it shows anew becomes known, what changed is recorded, what it does
//! not list is unknown before it is gone. Texts of people are sealed; only whose they are stays readable.

mod adopt;
mod jobs;
#[cfg(test)]
mod tests;

pub(crate) use jobs::{apply_forgotten, apply_job, on_command};

use std::collections::BTreeMap;

use provost_model::body::{Body, NodeObserved, NodeView, ReasonOwner};
use provost_model::ids::{HoldId, NodeId};
use provost_model::record::{Actor, Class, Record};
use provost_model::scheduler::{COMMENT_PREFIX, Observation, ObservedNode};
use provost_model::time::Timestamp;

use crate::event::{Decisions, Event};
use crate::state::{Node, State};
use crate::{containment, effect};

pub(crate) fn apply_node(state: &mut State, record: &Record, data: &NodeObserved) {
    let Some(node) = state.nodes.get_mut(&data.node) else { return };
    let before = node.observed.take();
    node.observed.clone_from(&data.observed);
    if containment::availability(before.as_ref()) != containment::availability(node.observed.as_ref()) {
        node.observed_at = Some(record.at);
    }
    state.dirty.nodes.insert(data.node);
    if let Some(slot) = state.nodes.get(&data.node).and_then(|node| node.serves) {
        state.mark_slot(slot);
    }
    containment::apply_observed(state, data.node, record.at, before.as_ref());
}

/// One successful poll of one cluster.
pub(crate) fn on_observed(state: &State, now: Timestamp, observation: &Observation, out: &mut Decisions) {
    let cluster = observation.cluster.as_str();
    let known: BTreeMap<&str, &Node> = state
        .nodes
        .values()
        .filter_map(|node| Some((node.scheduler.as_ref()?, node)))
        .filter(|(name, _)| name.cluster == cluster)
        .map(|(name, node)| (name.node.as_str(), node))
        .collect();
    let viewed = |name: &str| observation.nodes.get(name).map(view_of);
    effect::settled_by_observation(state, cluster, observation.at, viewed, out);

    let mut ids: BTreeMap<&str, NodeId> = known.iter().map(|(name, node)| (*name, node.id)).collect();
    for (name, seen) in &observation.nodes {
        let node = known.get(name.as_str()).copied();
        let id = adopt::first_contact(state, cluster, name, seen, node, out);
        if let Some(id) = id.or(node.map(|node| node.id)) {
            ids.insert(name, id);
            compare(observation, cluster, id, node, seen, out);
        }
    }
    missing(observation, cluster, &known, out);
    jobs::compare(state, now, observation, &ids, out);
}

/// Records a node's view where it changed.
fn compare(
    observation: &Observation,
    cluster: &str,
    id: NodeId,
    node: Option<&Node>,
    seen: &ObservedNode,
    out: &mut Decisions,
) {
    // Asked for before our last write came back: it may show what was before.
    if node.is_some_and(|node| node.written_at.is_some_and(|written| observation.at <= written)) {
        return;
    }
    let view = view_of(seen);
    if node.and_then(|node| node.observed.as_ref()) == Some(&view) {
        return;
    }
    let sealed = if view.reason == ReasonOwner::Foreign { seen.reason.as_str() } else { "" };
    let body = Body::NodeObserved(NodeObserved { node: id, observed: Some(view) });
    let mut event =
        Event::new(Class::Detection, body).by(Actor::scheduler(cluster)).sealing("reason", sealed);
    event.subject = node.map(Node::subject);
    out.push(event);
}

/// A node that a complete answer does not list is not the scheduler's any more. An answer without any node, or
/// with parts that could not be understood, says nothing about what it does not list.
fn missing(observation: &Observation, cluster: &str, known: &BTreeMap<&str, &Node>, out: &mut Decisions) {
    if observation.unparsed > 0 || observation.nodes.is_empty() {
        return;
    }
    for (_, node) in known.iter().filter(|(name, _)| !observation.nodes.contains_key(**name)) {
        let stale = node.written_at.is_some_and(|written| observation.at <= written);
        if node.observed.is_some() && !stale {
            let body = Body::NodeObserved(NodeObserved { node: node.id, observed: None });
            let event = Event::new(Class::Detection, body).by(Actor::scheduler(cluster));
            out.push(event.about(node.subject()));
        }
    }
}

/// Until when a node that does not answer its scheduler is believed to be about to: a scheduler that was restarted
/// knows no node's state for some seconds. It is given twice as long as a scheduler itself that says nothing.
pub(crate) fn may_answer_until(state: &State, now: Timestamp, node: &Node) -> Option<Timestamp> {
    let until = node.observed_at? + state.config.timers.blind_after.0.saturating_mul(2);
    (until > now).then_some(until)
}

/// The part of a node that decisions need.
pub(crate) fn view_of(seen: &ObservedNode) -> NodeView {
    let reason = match seen.reason.as_str() {
        "" => ReasonOwner::None,
        _ if seen.reason_is_ours() => ReasonOwner::Ours,
        _ => ReasonOwner::Foreign,
    };
    NodeView {
        drain: seen.drain,
        down: seen.down,
        not_responding: seen.not_responding,
        busy: seen.busy,
        state: seen.state.clone(),
        reason,
        mark: mark_in(&seen.comment),
        comment_taken: !seen.comment.is_empty() && !seen.comment.starts_with(COMMENT_PREFIX),
        partitions: seen.partitions.iter().cloned().collect(),
    }
}

/// The hold that our mark in a node's comment names. Only a comment that begins with our prefix is ours.
fn mark_in(comment: &str) -> Option<HoldId> {
    comment.strip_prefix(COMMENT_PREFIX)?.split_whitespace().next()?.parse().ok()
}
