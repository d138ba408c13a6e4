//! Where a node stands.
//!
//! Phases follow what was read back, never what was asked for: a node is quarantined when its scheduler shows it
//! drained *and* empty. Where the mode is not `act`, nothing was done to the node, so faults leave its phase
//! alone; the hold in the journal says what would be. A node is never released except into service (a spare:
//! into its pool) by way of probation.

mod command;
mod history;
#[cfg(test)]
mod tests;

pub(crate) use command::{on_command, on_result};
pub(crate) use history::{lemon_score, note_fault, note_return, returned_too_often};

use provost_model::body::{Body, GpuIdentified, NodeAdopted, NodePhaseChanged, Source, SourceState};
use provost_model::fleet::Phase;
use provost_model::ids::NodeId;
use provost_model::policy::Mode;
use provost_model::record::{Class, Record};
use provost_model::response::HoldOwner;
use provost_model::time::Timestamp;

use crate::event::{Decisions, Event};
use crate::state::{History, Node, Reconcile, State, TimerKey};
use crate::{containment, effect, slot};

/// A node becomes known, or what is known about it becomes complete: the first contact with its scheduler may
/// come after the first word of its agent.
pub(crate) fn apply_adopted(state: &mut State, record: &Record, data: &NodeAdopted) {
    let node = state.nodes.entry(data.node).or_insert_with(|| Node {
        id: data.node,
        name: data.name.clone(),
        serial: None,
        rack: None,
        leaf: None,
        scheduler: None,
        gpus: Default::default(),
        phase: data.phase,
        phase_since: record.at,
        observed: None,
        observed_at: None,
        written_at: None,
        slot: None,
        spare: false,
        serves: None,
        bmc: None,
        bmc_asked_at: None,
        boot_id: None,
        actions: Default::default(),
        validated_at: None,
        cleared_at: None,
        containment: Reconcile::default(),
        history: History::default(),
    });
    node.serial = data.serial.clone().or(node.serial.take());
    node.rack = data.rack.clone().or(node.rack.take());
    node.leaf = data.leaf.clone().or(node.leaf.take());
    node.scheduler = data.scheduler.clone().or(node.scheduler.take());
    for gpu in &data.gpus {
        node.gpus.entry(gpu.index).or_insert_with(|| gpu.clone());
    }
    if data.phase == Phase::Spare {
        node.spare = true;
        if node.phase == Phase::InService {
            node.phase = Phase::Spare;
            node.phase_since = record.at;
        }
    }
    state.node_names.insert(data.name.clone(), data.node);
    if let Some(name) = &data.scheduler {
        state.scheduler_names.insert(name.clone(), data.node);
    }
    state.dirty.nodes.insert(data.node);
}

pub(crate) fn apply_phase(state: &mut State, record: &Record, data: &NodePhaseChanged) {
    let Some(node) = state.nodes.get_mut(&data.node) else { return };
    node.phase = data.to;
    node.phase_since = record.at;
    if data.why == command::VALIDATED {
        node.validated_at = Some(record.at);
    }
    let until = (data.to == Phase::Probation).then(|| record.at + state.config.timers.probation.0);
    state.timers.set(TimerKey::Phase(data.node), until);
    state.dirty.nodes.insert(data.node);
    if let Some(slot) = state.nodes.get(&data.node).and_then(|node| node.slot) {
        state.mark_slot(slot);
    }
    slot::set_timers_of(state, data.node);
}

pub(crate) fn apply_gpu(state: &mut State, data: &GpuIdentified) {
    if let Some(node) = state.nodes.get_mut(&data.node) {
        node.gpus.insert(data.gpu.index, data.gpu.clone());
        state.dirty.nodes.insert(data.node);
    }
}

/// A node in this phase must get no work, so the phase holds it (ruling 3). Not so a lost node: nothing is
/// written to what the scheduler cannot reach either (ruling 10).
pub(crate) const fn forbids_work(phase: Phase) -> bool {
    match phase {
        Phase::Draining
        | Phase::Quarantined
        | Phase::Diagnosing
        | Phase::Remediating
        | Phase::AwaitingRepair
        | Phase::Revalidating
        | Phase::Maintenance => true,
        Phase::InService | Phase::Suspect | Phase::Probation | Phase::Spare | Phase::Lost => false,
    }
}

/// Moves a node to `to`; nothing where it is there already. Where the mode keeps everything from being done, a
/// fault's phases are not entered either.
pub(crate) fn enter(state: &State, node: NodeId, to: Phase, why: &str, out: &mut Decisions) {
    let Some(node) = state.nodes.get(&node) else { return };
    let by_fault = to == Phase::Suspect || (forbids_work(to) && to != Phase::Maintenance);
    // Nothing was done to a node that never left service, so there is nothing to come back from.
    let needless = to == Phase::Probation && matches!(node.phase, Phase::InService | Phase::Spare);
    if node.phase == to || needless || (by_fault && state.mode_of(node) != Mode::Act) {
        return;
    }
    out.push(changed(state, node, to, why));
}

fn changed(state: &State, node: &Node, to: Phase, why: &str) -> Event {
    let data = NodePhaseChanged { node: node.id, from: node.phase, to, why: why.to_owned() };
    let mut event = Event::new(Class::Response, Body::NodePhaseChanged(data)).about(node.subject());
    event.corr.incident = effect::incident_on(state, node.id);
    event
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    for node in state.touched_nodes() {
        if let Some((to, why)) = next(state, now, node) {
            enter(state, node.id, to, why, out);
        }
    }
}

/// The phase that follows from what is known, and the code of the rule.
fn next(state: &State, now: Timestamp, node: &Node) -> Option<(Phase, &'static str)> {
    let faulted = state.holds_on(node.id).any(|hold| matches!(hold.owner, HoldOwner::Incident(_)));
    let contained = containment::is_contained(node);
    // Unknown counts as busy (B20).
    let empty = node.observed.as_ref().is_some_and(|view| !view.busy);
    match node.phase {
        Phase::InService | Phase::Spare | Phase::Probation if faulted => Some((Phase::Suspect, "fault")),
        Phase::InService | Phase::Spare | Phase::Probation if is_lost(state, node) => {
            Some((Phase::Lost, "silent"))
        }
        Phase::Probation if node.phase_since + state.config.timers.probation.0 <= now => {
            Some((home(node), "probation_over"))
        }
        Phase::InService | Phase::Spare | Phase::Probation => None,
        Phase::Suspect if !faulted => Some((home(node), "cleared")),
        Phase::Suspect | Phase::Draining if contained && empty && faulted => {
            Some((Phase::Quarantined, "empty"))
        }
        Phase::Suspect if contained => Some((Phase::Draining, "contained")),
        Phase::Suspect => None,
        Phase::Draining
        | Phase::Quarantined
        | Phase::Diagnosing
        | Phase::Remediating
        | Phase::AwaitingRepair
        | Phase::Revalidating => {
            (!faulted && !is_worked_on(state, node)).then_some((Phase::Probation, "released"))
        }
        Phase::Lost => (!stays_lost(state, node)).then_some((Phase::Probation, "returned")),
        // A person ends it.
        Phase::Maintenance => None,
    }
}

/// Where a node is at home once nothing is wrong with it.
pub(crate) const fn home(node: &Node) -> Phase {
    if node.spare { Phase::Spare } else { Phase::InService }
}

/// Neither its agent nor its scheduler hears from it. A source that never reported is no witness.
fn is_lost(state: &State, node: &Node) -> bool {
    agent(state, node) == Some(SourceState::Silent) && is_unheard(node)
}

/// A lost node comes back when somebody hears from it, and not because nobody listens any more.
fn stays_lost(state: &State, node: &Node) -> bool {
    matches!(agent(state, node), Some(SourceState::Silent | SourceState::Gone)) && is_unheard(node)
}

fn agent(state: &State, node: &Node) -> Option<SourceState> {
    state.sources.get(&Source::Agent(node.name.clone())).map(|source| source.state)
}

fn is_unheard(node: &Node) -> bool {
    node.observed.as_ref().is_some_and(|view| view.not_responding)
}

/// A runbook or a test of a person's still has the node in hand.
fn is_worked_on(state: &State, node: &Node) -> bool {
    let mut runs = state.open_executions.iter().filter_map(|id| state.executions.get(id));
    let by_runbook = runs.any(|run| run.node == Some(node.id));
    by_runbook || command::validation_of(state, node).is_some()
}
