//! A controller takes the journal over: epoch, configuration, inventory, runbooks.

use std::collections::{BTreeMap, BTreeSet};

use provost_model::body::{Body, ConfigApplied, ControllerStarted, InventoryApplied, RunbookPublished};
use provost_model::fleet::NodeFacts;
use provost_model::policy::{EngineConfig, FileModes, Mode};
use provost_model::record::Class;
use provost_model::runbook::Runbook;

use super::forget;
use crate::event::{Decisions, Event};
use crate::state::State;

pub(crate) fn on_started(
    state: &State,
    version: &str,
    config: &EngineConfig,
    runbooks: &[(String, Runbook)],
    out: &mut Decisions,
) {
    let body = Body::ControllerStarted(ControllerStarted { version: version.to_owned() });
    out.push(Event::new(Class::System, body));
    apply_file(state, config, out);
    apply_inventory(&state.config.inventory, &config.inventory, out);
    forget::left_configuration(state, config, out);
    for (version, runbook) in runbooks {
        if state.runbooks_current.get(&runbook.id) != Some(version) {
            let body = RunbookPublished { version: version.clone(), runbook: runbook.clone() };
            out.push(Event::new(Class::Administration, Body::RunbookPublished(body)));
        }
    }
}

/// Records the file's configuration where it differs from what is in force. A mode that a person changed stays
/// until the file says something else than it said before.
fn apply_file(state: &State, file: &EngineConfig, out: &mut Decisions) {
    let (before, after) = (&state.file_modes, FileModes::of(file));
    let keep = |before: Option<&Mode>, after: Option<&Mode>, now: Option<Mode>| {
        if before == after { now } else { after.copied() }
    };
    let mut config = EngineConfig { inventory: Vec::new(), ..file.clone() };
    // The first file of a journal always counts: before it nobody can have changed anything.
    let first = state.epoch == 0;
    if before.site == after.site && !first {
        config.mode = state.config.mode;
    }
    for (name, policy) in &mut config.clusters {
        let now = state.config.clusters.get(name).and_then(|policy| policy.mode);
        policy.mode = keep(before.clusters.get(name), after.clusters.get(name), now);
    }
    let names: BTreeSet<&String> = file.node_modes.keys().chain(state.config.node_modes.keys()).collect();
    config.node_modes = names
        .into_iter()
        .filter_map(|name| {
            let now = state.config.node_modes.get(name).copied();
            Some((name.clone(), keep(before.nodes.get(name), after.nodes.get(name), now)?))
        })
        .collect();
    let in_force = EngineConfig { inventory: Vec::new(), ..state.config.clone() };
    if config != in_force || *before != after {
        let body = Body::ConfigApplied(ConfigApplied { config: Box::new(config), file_modes: after });
        out.push(Event::new(Class::Administration, body));
    }
}

/// Largest part of the inventory in one record, in bytes of JSON.
const PART_BYTES: usize = 32 * 1024;

/// Records what the inventory changed, in parts that fit into a record.
fn apply_inventory(known: &[NodeFacts], file: &[NodeFacts], out: &mut Decisions) {
    let known: BTreeMap<&str, &NodeFacts> = known.iter().map(|node| (node.name.as_str(), node)).collect();
    let file: BTreeMap<&str, &NodeFacts> = file.iter().map(|node| (node.name.as_str(), node)).collect();
    let mut part = InventoryApplied { nodes: Vec::new(), removed: BTreeSet::new() };
    let mut bytes = 0;
    let mut push = |part: &mut InventoryApplied| {
        let part = std::mem::replace(part, InventoryApplied { nodes: Vec::new(), removed: BTreeSet::new() });
        out.push(Event::new(Class::Administration, Body::InventoryApplied(part)));
    };
    for name in known.keys().chain(file.keys()).collect::<BTreeSet<_>>() {
        if known.get(name) == file.get(name) {
            continue;
        }
        // Facts are strings and numbers: writing them as JSON cannot fail; were it to, the record would say so.
        let size =
            file.get(name).map_or(name.len(), |node| serde_json::to_string(node).map_or(0, |t| t.len()));
        if bytes > 0 && bytes + size > PART_BYTES {
            push(&mut part);
            bytes = 0;
        }
        bytes += size;
        match file.get(name) {
            Some(node) => part.nodes.push((*node).clone()),
            None => drop(part.removed.insert((*name).to_owned())),
        }
    }
    if bytes > 0 {
        push(&mut part);
    }
}
