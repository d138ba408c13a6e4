//! Which nodes are out, and since when.

use std::collections::BTreeMap;
use std::time::Duration;

use provost_model::ids::NodeId;
use provost_model::time::Timestamp;

use super::{out_by_scheduler, phase_is_out};
use crate::state::State;

/// A node that is out for longer and whose slot is served by a spare leaves the disruption count (ruling 10).
const LONG_OUTAGE: Duration = Duration::from_secs(24 * 3_600);

/// Nodes that are unavailable, whatever the cause, with the time since which they are. Long outages that a spare
/// covers are left out.
pub(crate) fn unavailable(state: &State, now: Timestamp) -> BTreeMap<NodeId, Timestamp> {
    let mut out: BTreeMap<NodeId, Timestamp> = BTreeMap::new();
    let mut note = |node: NodeId, since: Timestamp| {
        out.entry(node).and_modify(|first| *first = since.min(*first)).or_insert(since);
    };
    for hold in state.holds.values() {
        note(hold.node, hold.since);
    }
    for node in state.nodes.values() {
        if phase_is_out(node.phase) {
            note(node.id, node.phase_since);
        }
        if let Some(since) = out_by_scheduler(state, now, node) {
            note(node.id, since);
        }
    }
    out.retain(|node, since| !(now.since(*since) > LONG_OUTAGE && served_by_a_spare(state, *node)));
    out
}

fn served_by_a_spare(state: &State, node: NodeId) -> bool {
    let slot = state.nodes.get(&node).and_then(|node| node.slot).and_then(|slot| state.slots.get(&slot));
    slot.is_some_and(|slot| slot.spare.is_some())
}
