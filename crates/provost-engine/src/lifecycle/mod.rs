//! Where a node stands.

use crate::event::Decisions;
use crate::state::State;
use provost_model::body::GpuIdentified;
use provost_model::body::NodeAdopted;
use provost_model::body::NodePhaseChanged;
use provost_model::record::Record;
use provost_model::time::Timestamp;

pub(crate) fn apply_adopted(state: &mut State, record: &Record, data: &NodeAdopted) {
    _ = (state, record, data);
}

pub(crate) fn apply_phase(state: &mut State, record: &Record, data: &NodePhaseChanged) {
    _ = (state, record, data);
}

pub(crate) fn apply_gpu(state: &mut State, data: &GpuIdentified) {
    _ = (state, data);
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    _ = (state, now, out);
}
