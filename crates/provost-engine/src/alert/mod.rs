//! From episodes to deduplicated conditions on one subject.

use crate::event::Decisions;
use crate::state::State;
use provost_model::body::AlertChanged;
use provost_model::body::AlertRaised;
use provost_model::record::Record;
use provost_model::time::Timestamp;

pub(crate) fn apply_raised(state: &mut State, record: &Record, data: &AlertRaised) {
    _ = (state, record, data);
}

pub(crate) fn apply_changed(state: &mut State, record: &Record, data: &AlertChanged) {
    _ = (state, record, data);
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    _ = (state, now, out);
}
