//! One authority for disruption.

use crate::event::Decisions;
use crate::state::State;
use provost_model::body::IsolationDeferred;
use provost_model::time::Timestamp;

pub(crate) fn apply_stopped(state: &mut State, on: bool) {
    _ = (state, on);
}

pub(crate) fn apply_breaker(state: &mut State, on: bool) {
    _ = (state, on);
}

pub(crate) fn apply_deferred(state: &mut State, data: &IsolationDeferred) {
    _ = (state, data);
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    _ = (state, now, out);
}
