//! Promises of capacity, and the spares that keep them.

use crate::event::Decisions;
use crate::state::State;
use provost_model::body::SlotBound;
use provost_model::body::SlotCreated;
use provost_model::body::SlotUnbound;
use provost_model::time::Timestamp;

pub(crate) fn apply_created(state: &mut State, data: &SlotCreated) {
    _ = (state, data);
}

pub(crate) fn apply_bound(state: &mut State, data: &SlotBound) {
    _ = (state, data);
}

pub(crate) fn apply_unbound(state: &mut State, data: &SlotUnbound) {
    _ = (state, data);
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    _ = (state, now, out);
}
