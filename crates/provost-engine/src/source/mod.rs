//! Sources of evidence, the start of a controller, configuration and inventory.

mod forget;
mod start;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use provost_model::body::{
    AgentEnrolled, AgentReported, AgentTokenCreated, Body, ConfigApplied, ControllerStarted, GpuIdentified,
    InventoryApplied, NodeAdopted, Source, SourceChanged, SourceState,
};
use provost_model::fleet::{GpuFacts, NodeFacts, Phase};
use provost_model::ids::NodeId;
use provost_model::input::AgentReport;
use provost_model::record::{Actor, Class, Record, Subject, SubjectKind};
use provost_model::time::Timestamp;

pub(crate) use forget::forget;
pub(crate) use start::on_started;

use crate::event::{Decisions, Event};
use crate::state::{AgentFacts, EnrolmentToken, Node, SourceHealth, State, TimerKey};
use crate::{bmc, effect};

/// Tokens that are kept at most; the one that ends first goes first.
const MAX_TOKENS: usize = 10_000;
/// GPUs and actions of one node that are taken from its agent's word, and characters of each text.
const MAX_GPUS: usize = 64;
const MAX_ACTIONS: usize = 64;
const MAX_TEXT: usize = 64;

pub(crate) fn apply_started(state: &mut State, record: &Record, _: &ControllerStarted) {
    state.epoch = record.epoch;
    let mut asked = Vec::new();
    for (intent, open) in &mut state.effects {
        if open.epoch != record.epoch {
            open.unknown = true;
            asked.push((*intent, open.probes));
        }
    }
    for (intent, probes) in asked {
        // Its deadline would only say that it is unknown.
        let due = effect::answer_due(state, record.at, probes);
        state.timers.set(TimerKey::Effect(intent), due);
    }
    bmc::apply_started(state);
    state.dirty.all = true;
}

pub(crate) fn apply_config(state: &mut State, data: &ConfigApplied) {
    let inventory = std::mem::take(&mut state.config.inventory);
    state.config.clone_from(&data.config);
    state.config.inventory = inventory;
    state.file_modes = data.file_modes.clone();
    state.dirty.all = true;
}

pub(crate) fn apply_inventory(state: &mut State, data: &InventoryApplied) {
    let inventory = &mut state.config.inventory;
    inventory.retain(|node| !data.removed.contains(&node.name));
    for node in &data.nodes {
        match inventory.binary_search_by(|known| known.name.cmp(&node.name)) {
            Ok(at) => inventory[at] = node.clone(),
            Err(at) => inventory.insert(at, node.clone()),
        }
    }
    // Where a node stands is what the inventory says now; its serial is the node itself, and only learnt.
    for facts in &data.nodes {
        let known = state.node_names.get(&facts.name).and_then(|id| state.nodes.get_mut(id));
        if let Some(node) = known {
            node.rack.clone_from(&facts.rack);
            node.leaf.clone_from(&facts.leaf);
            node.serial = node.serial.take().or_else(|| facts.serial.clone());
        }
    }
    state.dirty.all = true;
}

pub(crate) fn apply_token(state: &mut State, record: &Record, data: &AgentTokenCreated) {
    state.tokens.retain(|_, token| token.expires_at > record.at);
    let token = EnrolmentToken { nodes: data.nodes.clone(), uses: data.uses, expires_at: data.expires_at };
    state.tokens.insert(data.token_sha256.clone(), token);
    if state.tokens.len() > MAX_TOKENS {
        let first = state.tokens.iter().min_by_key(|(_, token)| token.expires_at);
        if let Some(digest) = first.map(|(digest, _)| digest.clone()) {
            state.tokens.remove(&digest);
        }
    }
}

pub(crate) fn apply_enrolled(state: &mut State, data: &AgentEnrolled) {
    let Some(digest) = &data.token_sha256 else { return };
    if let Some(token) = state.tokens.get_mut(digest) {
        token.uses = token.uses.saturating_sub(1);
        if token.uses == 0 {
            state.tokens.remove(digest);
        }
    }
}

pub(crate) fn apply_reported(state: &mut State, data: &AgentReported) {
    let facts = AgentFacts {
        boot_id: data.boot_id.clone(),
        actions: data.actions.clone(),
        gpus: data.gpus.clone(),
        version: data.version.clone(),
    };
    state.agents.insert(data.node.clone(), facts);
    if let Some(node) = state.node_names.get(&data.node).copied() {
        apply_known(state, node);
    }
}

/// A node and its agent's report come together, whichever came first.
pub(crate) fn apply_known(state: &mut State, node: NodeId) {
    let Some(known) = state.nodes.get_mut(&node) else { return };
    if let Some(agent) = state.agents.get(&known.name) {
        known.boot_id = agent.boot_id.clone();
        known.actions = agent.actions.clone();
    }
    state.dirty.nodes.insert(node);
}

pub(crate) fn apply_changed(state: &mut State, record: &Record, data: &SourceChanged) {
    let health = SourceHealth { state: data.state, since: record.at };
    state.sources.insert(data.source.clone(), health);
    state.dirty.sources.insert(data.source.clone());
    if let Source::Agent(name) | Source::KernelLog(name) | Source::Bmc(name) = &data.source
        && let Some(node) = state.node_names.get(name)
    {
        state.dirty.nodes.insert(*node);
    }
}

pub(crate) fn on_agent_report(state: &State, report: &AgentReport, out: &mut Decisions) {
    let facts = bounded(report);
    if state.agents.get(&report.node) == Some(&facts) {
        return;
    }
    let body = Body::AgentReported(AgentReported {
        node: report.node.clone(),
        boot_id: facts.boot_id,
        actions: facts.actions,
        gpus: facts.gpus,
        version: facts.version,
    });
    out.push(Event::new(Class::System, body).by(Actor::agent(&report.node)));
}

/// What an agent says, cut to what a node can have; a record holds all of it.
fn bounded(report: &AgentReport) -> AgentFacts {
    let cut = |text: &String| text.chars().take(MAX_TEXT).collect::<String>();
    let gpu = |gpu: &GpuFacts| GpuFacts {
        index: gpu.index,
        pci: gpu.pci,
        uuid: gpu.uuid.as_ref().map(cut),
        model: gpu.model.as_ref().map(cut),
        serial: gpu.serial.as_ref().map(cut),
    };
    AgentFacts {
        boot_id: report.boot_id.as_ref().map(cut),
        actions: report.actions.iter().take(MAX_ACTIONS).map(cut).collect(),
        gpus: report.gpus.as_ref().map(|gpus| gpus.iter().take(MAX_GPUS).map(gpu).collect()),
        version: cut(&report.version),
    }
}

pub(crate) fn on_agent_enrolled(
    node: &str,
    serial: &str,
    token_sha256: Option<&str>,
    expires_at: Timestamp,
    out: &mut Decisions,
) {
    let body = Body::AgentEnrolled(AgentEnrolled {
        node: node.to_owned(),
        serial: serial.to_owned(),
        token_sha256: token_sha256.map(str::to_owned),
        expires_at,
    });
    out.push(Event::new(Class::Administration, body).by(Actor::agent(node)));
}

pub(crate) fn on_source(state: &State, source: &Source, to: SourceState, out: &mut Decisions) {
    let before = state.sources.get(source).map(|health| health.state);
    // Nobody misses what is not expected any more, until it reports again. What we ask ourselves is expected while it is
    // configured: only then does anyone tell of a BMC.
    let configured = match source {
        Source::Bmc(_) => true,
        Source::Scheduler(name) => state.config.clusters.contains_key(name),
        Source::Agent(_) | Source::KernelLog(_) => false,
    };
    let expected = configured || before != Some(SourceState::Gone) || to != SourceState::Silent;
    if before == Some(to) || !expected {
        return;
    }
    let body = Body::SourceChanged(SourceChanged { source: source.clone(), state: to });
    out.push(Event::new(Class::Detection, body).about(subject(source)));
}

/// The subject that a source is.
pub(crate) fn subject(source: &Source) -> Subject {
    let node = match source {
        Source::Agent(node) | Source::KernelLog(node) | Source::Bmc(node) => Some(node.clone()),
        Source::Scheduler(_) => None,
    };
    Subject { kind: SubjectKind::Source, id: source.label(), name: Some(source.label()), node }
}

/// Adopts nodes that no scheduler can show us, and learns the names of GPUs.
pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    _ = now;
    if state.dirty.all {
        for facts in &state.config.inventory {
            if facts.slurm.is_none() && !state.node_names.contains_key(&facts.name) {
                adopt(facts, out);
            }
        }
    }
    for node in state.touched_nodes() {
        identify(state, node, out);
    }
}

fn adopt(facts: &NodeFacts, out: &mut Decisions) {
    let node = out.id();
    let body = Body::NodeAdopted(NodeAdopted {
        node,
        name: facts.name.clone(),
        serial: facts.serial.clone(),
        rack: facts.rack.clone(),
        leaf: facts.leaf.clone(),
        scheduler: None,
        gpus: facts.gpus.clone(),
        phase: Phase::InService,
    });
    let subject = Subject {
        kind: SubjectKind::Node,
        id: node.to_string(),
        name: Some(facts.name.clone()),
        node: Some(facts.name.clone()),
    };
    out.push(Event::new(Class::System, body).about(subject));
}

/// What the agent sees goes before what the inventory says, and the inventory only fills what is unknown.
fn identify(state: &State, node: &Node, out: &mut Decisions) {
    let reported = state.agents.get(&node.name).and_then(|agent| agent.gpus.as_deref()).unwrap_or_default();
    let mut seen = BTreeSet::new();
    for gpu in reported.iter().filter(|gpu| gpu.uuid.is_some()) {
        seen.insert(gpu.pci);
        let known = node.gpus.values().find(|known| known.pci == gpu.pci);
        match known {
            Some(known) if known.uuid == gpu.uuid => {}
            // The index stays: schedulers and people know the device by it.
            Some(known) => push_identified(node, GpuFacts { index: known.index, ..gpu.clone() }, out),
            None if !node.gpus.contains_key(&gpu.index) => push_identified(node, gpu.clone(), out),
            // Another device has this index; which of the two moved is not for us to guess.
            None => {}
        }
    }
    let Ok(at) = state.config.inventory.binary_search_by(|facts| facts.name.cmp(&node.name)) else { return };
    for gpu in state.config.inventory[at].gpus.iter().filter(|gpu| gpu.uuid.is_some()) {
        let unnamed =
            node.gpus.get(&gpu.index).is_some_and(|known| known.pci == gpu.pci && known.uuid.is_none());
        if unnamed && !seen.contains(&gpu.pci) {
            push_identified(node, gpu.clone(), out);
        }
    }
}

fn push_identified(node: &Node, gpu: GpuFacts, out: &mut Decisions) {
    let subject = Subject {
        kind: SubjectKind::Gpu,
        id: gpu.uuid.clone().unwrap_or_default(),
        name: Some(format!("{}/{}", node.name, gpu.index)),
        node: Some(node.name.clone()),
    };
    let body = Body::GpuIdentified(GpuIdentified { node: node.id, gpu });
    out.push(Event::new(Class::System, body).about(subject));
}
