//! What the scheduler says, compared with what is known.

use crate::event::Decisions;
use crate::state::State;
use provost_model::body::JobForgotten;
use provost_model::body::JobObserved;
use provost_model::body::NodeObserved;
use provost_model::record::Record;
use provost_model::scheduler::Observation;
use provost_model::time::Timestamp;

pub(crate) fn apply_node(state: &mut State, record: &Record, data: &NodeObserved) {
    _ = (state, record, data);
}

pub(crate) fn apply_job(state: &mut State, data: &JobObserved) {
    _ = (state, data);
}

pub(crate) fn apply_forgotten(state: &mut State, data: &JobForgotten) {
    _ = (state, data);
}

pub(crate) fn on_observed(state: &State, now: Timestamp, observation: &Observation, out: &mut Decisions) {
    _ = (state, now, observation, out);
}
