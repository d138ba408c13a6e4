//! Reasons why a node gets no new work, each with an owner.

use crate::event::Decisions;
use crate::state::State;
use provost_model::body::HoldPlaced;
use provost_model::body::HoldReleased;
use provost_model::record::Record;
use provost_model::time::Timestamp;

pub(crate) fn apply_placed(state: &mut State, record: &Record, data: &HoldPlaced) {
    _ = (state, record, data);
}

pub(crate) fn apply_released(state: &mut State, data: &HoldReleased) {
    _ = (state, data);
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    _ = (state, now, out);
}
