//! First contact: a node that a scheduler shows becomes ours to watch (ruling 2).

use std::collections::BTreeSet;

use provost_model::body::{Body, NodeAdopted, SchedulerName, SlotCreated};
use provost_model::fleet::{NodeFacts, Phase};
use provost_model::ids::NodeId;
use provost_model::record::{Class, Subject, SubjectKind};
use provost_model::response::HoldOwner;
use provost_model::scheduler::ObservedNode;

use crate::event::{Decisions, Event};
use crate::hold;
use crate::state::{Node, State};

/// Adopts a node that this cluster shows for the first time; gives its id. In service without a hold where it is
/// in a production partition, a spare where the spare partition lists it. A drain that somebody else has set
/// becomes their hold as any other does.
pub(super) fn first_contact(
    state: &State,
    cluster: &str,
    name: &str,
    seen: &ObservedNode,
    known: Option<&Node>,
    out: &mut Decisions,
) -> Option<NodeId> {
    if known.is_some() {
        return None;
    }
    let scheduler = SchedulerName { cluster: cluster.to_owned(), node: name.to_owned() };
    let facts = facts_of(state, cluster, name);
    let known_name = facts.map_or(name, |facts| facts.name.as_str());
    // Its agent or the inventory may have told about it before; another cluster's node of that name is another.
    let same = state.node_by_name(known_name);
    let taken = same.is_some_and(|node| node.scheduler.is_some());
    let label = if taken { format!("{cluster}/{name}") } else { known_name.to_owned() };
    let node = same.filter(|_| !taken).map_or_else(|| out.id(), |node| node.id);

    let spare = is_spare(state, cluster, seen);
    let data = NodeAdopted {
        node,
        name: label.clone(),
        serial: facts.and_then(|facts| facts.serial.clone()),
        rack: facts.and_then(|facts| facts.rack.clone()),
        leaf: facts.and_then(|facts| facts.leaf.clone()),
        scheduler: Some(scheduler),
        gpus: facts.map(|facts| facts.gpus.clone()).unwrap_or_default(),
        phase: if spare { Phase::Spare } else { Phase::InService },
    };
    let subject = Subject {
        kind: SubjectKind::Node,
        id: node.to_string(),
        name: Some(label.clone()),
        node: Some(label.clone()),
    };
    out.push(Event::new(Class::System, Body::NodeAdopted(data)).about(subject.clone()));
    let shape = production(state, cluster, seen);
    if !spare && !shape.is_empty() {
        let slot = out.id();
        let body = Body::SlotCreated(SlotCreated { slot, node, partitions: shape });
        out.push(Event::new(Class::System, body).about(Subject {
            kind: SubjectKind::Slot,
            id: slot.to_string(),
            name: Some(label.clone()),
            node: Some(label),
        }));
    }
    keep_old_drain(cluster, node, seen, &subject, out);
    Some(node)
}

/// A drain under a reason of ours that this journal knows nothing about: an earlier installation's. Whatever it
/// was for may still be so, hence it is not ours to end.
fn keep_old_drain(cluster: &str, node: NodeId, seen: &ObservedNode, subject: &Subject, out: &mut Decisions) {
    if seen.drain && seen.reason_is_ours() {
        let hold = out.id();
        let owner = HoldOwner::External(format!("{}{cluster}", hold::EARLIER));
        out.push(hold::place(node, subject.clone(), hold, owner, "drained by an earlier installation"));
    }
}

/// What the inventory says: by the name in the scheduler, or by the name alone where it gives no scheduler.
fn facts_of<'a>(state: &'a State, cluster: &str, name: &str) -> Option<&'a NodeFacts> {
    let full = format!("{cluster}/{name}");
    let inventory = &state.config.inventory;
    inventory
        .iter()
        .find(|facts| facts.slurm.as_ref() == Some(&full))
        .or_else(|| inventory.iter().find(|facts| facts.slurm.is_none() && facts.name == name))
}

fn is_spare(state: &State, cluster: &str, seen: &ObservedNode) -> bool {
    let partition = state.config.clusters.get(cluster).and_then(|policy| policy.spare_partition.as_ref());
    partition.is_some_and(|partition| seen.partitions.contains(partition))
}

/// The node's production partitions: those that the configuration names, or all where it names none.
fn production(state: &State, cluster: &str, seen: &ObservedNode) -> BTreeSet<String> {
    let named =
        state.config.clusters.get(cluster).map(|policy| policy.partitions.as_slice()).unwrap_or_default();
    seen.partitions.iter().filter(|name| named.is_empty() || named.contains(name)).cloned().collect()
}
