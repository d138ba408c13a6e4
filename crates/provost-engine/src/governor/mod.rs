//! One authority for disruption.

use crate::event::Decisions;
use crate::state::State;
use provost_model::body::IsolationDeferred;
use provost_model::ids::NodeId;
use provost_model::time::Timestamp;

pub(crate) fn apply_stopped(state: &mut State, on: bool) {
    state.guard.stopped = on;
    state.dirty.all = true;
}

pub(crate) fn apply_breaker(state: &mut State, on: bool) {
    _ = (state, on);
}

pub(crate) fn apply_deferred(state: &mut State, data: &IsolationDeferred) {
    _ = (state, data);
}

/// Whether automation may isolate `node` now; otherwise the earliest time at which the budget has room.
pub(crate) fn may_isolate(state: &State, now: Timestamp, node: NodeId) -> Result<(), Timestamp> {
    _ = (state, now, node);
    Ok(())
}

/// Counts an isolation by automation. Called where a hold is applied that says that it counts.
pub(crate) fn count_isolation(state: &mut State, at: Timestamp, node: NodeId) {
    state.guard.isolations.push_back((at, node));
    state.guard.deferred.remove(&node);
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    _ = (state, now, out);
}
