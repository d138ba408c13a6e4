//! Promises of capacity, and the spares that keep them (ruling 20).
//!
//! A spare serves in a slot once it was read back in the slot's partitions. It serves until the slot's own node
//! is released and the spare is idle, then goes back. Partitions that a scheduler forgets (Slurm does at each
//! reconfigure) are written again.

mod command;
#[cfg(test)]
mod tests;

pub(crate) use command::on_command;

use provost_model::body::{Body, Purpose, SlotBound, SlotCreated, SlotUnbound};
use provost_model::effect::{Effect, EffectResult};
use provost_model::fleet::Phase;
use provost_model::ids::{NodeId, SlotId};
use provost_model::record::{Class, Subject, SubjectKind};
use provost_model::time::Timestamp;

use crate::effect::{self, Permission};
use crate::event::{Decisions, Event};
use crate::scheduler;
use crate::state::{Node, OpenEffect, Reconcile, Slot, State, TimerKey};

pub(crate) fn apply_created(state: &mut State, data: &SlotCreated) {
    let slot = Slot {
        id: data.slot,
        node: data.node,
        partitions: data.partitions.clone(),
        spare: None,
        membership: Reconcile::default(),
    };
    state.slots.insert(slot.id, slot);
    if let Some(node) = state.nodes.get_mut(&data.node) {
        node.slot = Some(data.slot);
    }
    state.dirty.nodes.insert(data.node);
}

pub(crate) fn apply_bound(state: &mut State, data: &SlotBound) {
    set_spare(state, data.slot, data.spare, true);
}

pub(crate) fn apply_unbound(state: &mut State, data: &SlotUnbound) {
    set_spare(state, data.slot, data.spare, false);
}

fn set_spare(state: &mut State, id: SlotId, spare: NodeId, serves: bool) {
    if let Some(slot) = state.slots.get_mut(&id) {
        slot.spare = serves.then_some(spare);
        slot.membership = Reconcile::default();
    }
    if let Some(node) = state.nodes.get_mut(&spare) {
        node.serves = serves.then_some(id);
    }
    state.dirty.nodes.insert(spare);
    state.mark_slot(id);
    set_timer(state, id);
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    let mut slots: Vec<SlotId> =
        state.touched_nodes().into_iter().flat_map(|node| node.slot.into_iter().chain(node.serves)).collect();
    slots.sort_unstable();
    slots.dedup();
    for slot in slots.iter().filter_map(|id| state.slots.get(id)) {
        let purpose = Purpose::Slot { slot: slot.id };
        let waits = slot.membership.not_before.is_some_and(|at| at > now);
        if waits || effect::is_open(state, &purpose) {
            continue;
        }
        if let Some(effect) = difference(state, slot) {
            effect::request(state, now, effect, purpose, out);
        }
    }
}

/// What a slot's spare must do next: come back into its partitions, or go home.
fn difference(state: &State, slot: &Slot) -> Option<Effect> {
    let spare = state.nodes.get(&slot.spare?)?;
    let view = spare.observed.as_ref()?;
    let own = state.nodes.get(&slot.node)?;
    let idle = !view.busy && !view.not_responding;
    if is_released(state, own) && idle {
        return leave(slot, spare);
    }
    let missing = slot.partitions.iter().any(|partition| !view.partitions.contains(partition));
    if missing { join(slot, spare) } else { None }
}

/// The node gives its own capacity again.
fn is_released(state: &State, node: &Node) -> bool {
    matches!(node.phase, Phase::InService | Phase::Probation) && state.holds_on(node.id).next().is_none()
}

/// Lets `spare` serve in the slot: to be asked for with [`effect::request`]. None where no scheduler has it.
pub(crate) fn join(slot: &Slot, spare: &Node) -> Option<Effect> {
    let name = spare.scheduler.as_ref()?;
    Some(Effect::PartitionJoin {
        cluster: name.cluster.clone(),
        node: name.node.clone(),
        partitions: slot.partitions.iter().cloned().collect(),
    })
}

/// Sends `spare` home from the slot. None where no scheduler has it.
pub(crate) fn leave(slot: &Slot, spare: &Node) -> Option<Effect> {
    let name = spare.scheduler.as_ref()?;
    Some(Effect::PartitionLeave {
        cluster: name.cluster.clone(),
        node: name.node.clone(),
        partitions: slot.partitions.iter().cloned().collect(),
    })
}

/// The first spare by name that could serve in the slot now. It is free until its join is recorded; of two slots
/// that choose it in the same round, [`effect::request`] gives it to the first.
pub(crate) fn choose_spare(state: &State, slot: SlotId) -> Option<NodeId> {
    let slot = state.slots.get(&slot)?;
    let own = state.nodes.get(&slot.node)?;
    let cluster = &own.scheduler.as_ref()?.cluster;
    let mut ready: Vec<&Node> = state
        .nodes
        .values()
        .filter(|node| node.scheduler.as_ref().is_some_and(|name| name.cluster == *cluster))
        .filter(|node| is_ready(state, node))
        .collect();
    ready.sort_by(|a, b| a.name.cmp(&b.name));
    ready.first().map(|node| node.id)
}

/// A spare of the slot's scheduler is ready but for an answer to its scheduler, and may still give it: until when.
pub(crate) fn spare_may_answer(state: &State, now: Timestamp, slot: &Slot) -> Option<Timestamp> {
    let cluster = &state.nodes.get(&slot.node)?.scheduler.as_ref()?.cluster;
    state
        .nodes
        .values()
        .filter(|node| node.scheduler.as_ref().is_some_and(|name| name.cluster == *cluster))
        .filter(|node| node.observed.as_ref().is_some_and(|view| view.not_responding))
        .filter(|node| is_ready_but_for_answer(state, node))
        .filter_map(|node| scheduler::may_answer_until(state, now, node))
        .max()
}

/// A spare that could serve: at home, unfaulted since its last test, idle, heard from and not promised already.
pub(crate) fn is_ready(state: &State, node: &Node) -> bool {
    node.observed.as_ref().is_some_and(|view| !view.not_responding) && is_ready_but_for_answer(state, node)
}

fn is_ready_but_for_answer(state: &State, node: &Node) -> bool {
    let idle = node.observed.as_ref().is_some_and(|view| !view.drain && !view.down && !view.busy);
    let faulted = || {
        state.incidents.values().any(|incident| incident.node == Some(node.id) && incident.state.is_open())
    };
    let promised = || {
        state.effects.values().any(|open| match &open.requested.effect {
            Effect::PartitionJoin { cluster, node: name, .. }
            | Effect::PartitionLeave { cluster, node: name, .. } => {
                node.scheduler.as_ref().is_some_and(|s| s.cluster == *cluster && s.node == *name)
            }
            _ => false,
        })
    };
    node.spare
        && node.phase == Phase::Spare
        && node.serves.is_none()
        && idle
        && state.holds_on(node.id).next().is_none()
        && !faulted()
        && !promised()
}

/// A spare was read back in or out of partitions: it serves, or serves no longer.
pub(crate) fn on_result(state: &State, open: &OpenEffect, result: &EffectResult, out: &mut Decisions) {
    if !matches!(result, EffectResult::Done { .. }) {
        return;
    }
    match &open.requested.effect {
        Effect::PartitionJoin { cluster, node, .. } => {
            let slot = slot_of(state, &open.requested.purpose).and_then(|id| state.slots.get(&id));
            let (Some(slot), Some(spare)) = (slot, state.scheduler_node(cluster, node)) else { return };
            if slot.spare.is_none() && spare.serves.is_none() {
                let body = Body::SlotBound(SlotBound { slot: slot.id, spare: spare.id });
                out.push(part_of(state, open, slot, body));
            }
        }
        Effect::PartitionLeave { cluster, node, .. } => {
            let Some(spare) = state.scheduler_node(cluster, node) else { return };
            if let Some(slot) = spare.serves.and_then(|id| state.slots.get(&id)) {
                let body = Body::SlotUnbound(SlotUnbound { slot: slot.id, spare: spare.id });
                out.push(part_of(state, open, slot, body));
            }
        }
        _ => {}
    }
}

fn part_of(state: &State, open: &OpenEffect, slot: &Slot, body: Body) -> Event {
    let mut event = Event::new(Class::Response, body).about(subject(state, slot));
    event.corr = effect::corr_of(state, &open.requested.purpose);
    event
}

/// The slot that an intent is about: a runbook works for its node's.
fn slot_of(state: &State, purpose: &Purpose) -> Option<SlotId> {
    match purpose {
        Purpose::Slot { slot } => Some(*slot),
        Purpose::Step { execution, .. } | Purpose::Undo { execution, .. } => {
            state.nodes.get(&state.executions.get(execution)?.node?)?.slot
        }
        Purpose::Containment { .. } | Purpose::Detach | Purpose::Command { .. } => None,
    }
}

fn subject(state: &State, slot: &Slot) -> Subject {
    let name = state.nodes.get(&slot.node).map(|node| node.name.clone());
    Subject { kind: SubjectKind::Slot, id: slot.id.to_string(), name: name.clone(), node: name }
}

/// Sets the slot's next try, where one is due later and may be made.
pub(crate) fn set_timer(state: &mut State, id: SlotId) {
    let Some(slot) = state.slots.get(&id) else { return };
    let purpose = Purpose::Slot { slot: id };
    let next = slot.membership.not_before.filter(|_| {
        let acts = |effect| effect::permission(state, &effect, &purpose) == Permission::Act;
        difference(state, slot).is_some_and(acts) && !effect::is_open(state, &purpose)
    });
    state.timers.set(TimerKey::Slot(id), next);
}

/// What a change of a node means for the tries of its slots.
pub(crate) fn set_timers_of(state: &mut State, node: NodeId) {
    let Some(node) = state.nodes.get(&node) else { return };
    for id in [node.slot, node.serves].into_iter().flatten() {
        set_timer(state, id);
    }
}

/// The scheduler answers again: what failed because it did not is tried at once.
pub(crate) fn apply_scheduler_back(state: &mut State, cluster: &str) {
    let of_cluster = |slot: &Slot| {
        let own = state.nodes.get(&slot.node).and_then(|node| node.scheduler.as_ref());
        own.is_some_and(|name| name.cluster == cluster)
    };
    let failed = state.slots.values().filter(|slot| slot.membership.failures > 0 && of_cluster(slot));
    for id in failed.map(|slot| slot.id).collect::<Vec<_>>() {
        if let Some(slot) = state.slots.get_mut(&id) {
            slot.membership.forgive();
        }
        state.mark_slot(id);
        set_timer(state, id);
    }
}

/// Modes, guard or configuration changed: what may be tried again did too.
pub(crate) fn set_all_timers(state: &mut State) {
    let waiting: Vec<SlotId> = state
        .slots
        .values()
        .filter(|slot| slot.membership.not_before.is_some())
        .map(|slot| slot.id)
        .collect();
    for id in waiting {
        set_timer(state, id);
    }
}
