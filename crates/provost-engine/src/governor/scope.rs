//! Parts of the site that have limits of their own: each rack, each leaf switch, a project.

use std::collections::{BTreeMap, BTreeSet};

use provost_model::ids::NodeId;
use provost_model::policy::ScopeLimits;

use super::larger;
use crate::state::State;

/// One part and its nodes.
pub(super) struct Scope<'a> {
    /// `rack:r1`.
    pub(super) name: String,
    pub(super) nodes: BTreeSet<NodeId>,
    limits: &'a ScopeLimits,
}

impl Scope<'_> {
    /// Nodes that may be out.
    pub(super) fn max_unavailable(&self) -> Option<u32> {
        self.allowed(self.limits.max_unavailable, self.limits.max_unavailable_percent)
    }

    /// Isolations inside the window.
    pub(super) fn max_isolations(&self) -> Option<u32> {
        self.allowed(self.limits.isolations_per_window, self.limits.isolations_percent)
    }

    /// Disruptions at the same time.
    pub(super) fn max_disruptions(&self) -> Option<u32> {
        self.limits.concurrent_disruptions
    }

    fn allowed(&self, absolute: Option<u32>, percent: Option<u32>) -> Option<u32> {
        let is_set = absolute.or(percent).is_some();
        is_set.then(|| larger(absolute.unwrap_or(0), percent.unwrap_or(0), self.nodes.len()))
    }
}

/// The parts of the site that have limits and nodes, in the order of their names.
pub(super) fn all(state: &State) -> Vec<Scope<'_>> {
    let limits = &state.config.governor;
    let mut scopes: BTreeMap<String, Scope<'_>> = BTreeMap::new();
    let mut add = |kind: &str, name: &str, limits, node| {
        let name = format!("{kind}:{name}");
        let scope =
            scopes.entry(name.clone()).or_insert_with(|| Scope { name, nodes: BTreeSet::new(), limits });
        scope.nodes.insert(node);
    };
    for node in state.nodes.values() {
        if let Some(rack) = node.rack.as_deref().filter(|_| !limits.rack.is_empty()) {
            add("rack", rack, &limits.rack, node.id);
        }
        if let Some(leaf) = node.leaf.as_deref().filter(|_| !limits.leaf.is_empty()) {
            add("leaf", leaf, &limits.leaf, node.id);
        }
    }
    if !limits.project.is_empty() {
        for (project, node) in projects(state) {
            if let Some(limits) = limits.project.get(project) {
                add("project", project, limits, node);
            }
        }
    }
    scopes.into_values().collect()
}

/// The parts that a node is in.
pub(super) fn of(state: &State, node: NodeId) -> impl Iterator<Item = Scope<'_>> {
    all(state).into_iter().filter(move |scope| scope.nodes.contains(&node))
}

/// Projects and nodes that their jobs hold. A node that an open incident took away from a job is still counted, or the
/// limit would be forgotten the moment the job is requeued.
fn projects(state: &State) -> impl Iterator<Item = (&str, NodeId)> {
    let held =
        state.jobs_by_node.keys().flat_map(|node| state.jobs_on(*node).map(|job| (&*job.project, *node)));
    let hit = state.incidents.values().filter(|incident| incident.state.is_open()).flat_map(|incident| {
        let jobs = incident.jobs.iter().filter_map(|key| state.jobs.get(key));
        jobs.filter_map(|job| Some((&*job.project, incident.node?)))
    });
    held.chain(hit)
}
