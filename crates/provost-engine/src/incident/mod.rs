//! One cause, one owner, one set of clocks.

use crate::event::Decisions;
use crate::state::State;
use provost_model::body::IncidentAcknowledged;
use provost_model::body::IncidentAttached;
use provost_model::body::IncidentChanged;
use provost_model::body::IncidentClock;
use provost_model::body::IncidentJob;
use provost_model::body::IncidentOpened;
use provost_model::body::IncidentRef;
use provost_model::body::IncidentSeverity;
use provost_model::record::Record;
use provost_model::time::Timestamp;

pub(crate) fn apply_opened(state: &mut State, record: &Record, data: &IncidentOpened) {
    _ = (state, record, data);
}

pub(crate) fn apply_attached(state: &mut State, data: &IncidentAttached) {
    _ = (state, data);
}

pub(crate) fn apply_changed(state: &mut State, record: &Record, data: &IncidentChanged) {
    _ = (state, record, data);
}

pub(crate) fn apply_severity(state: &mut State, data: &IncidentSeverity) {
    _ = (state, data);
}

pub(crate) fn apply_acknowledged(state: &mut State, record: &Record, data: &IncidentAcknowledged) {
    _ = (state, record, data);
}

pub(crate) fn apply_clock(state: &mut State, record: &Record, data: &IncidentClock) {
    _ = (state, record, data);
}

pub(crate) fn apply_noted(state: &mut State, data: &IncidentRef) {
    _ = (state, data);
}

pub(crate) fn apply_job(state: &mut State, data: &IncidentJob) {
    _ = (state, data);
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    _ = (state, now, out);
}
