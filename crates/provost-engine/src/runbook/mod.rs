//! Recovery, step by step.

use crate::event::Decisions;
use crate::state::State;
use provost_model::body::ApprovalDecided;
use provost_model::body::ExecutionChanged;
use provost_model::body::ExecutionCreated;
use provost_model::body::HumanAnswered;
use provost_model::body::RunbookPublished;
use provost_model::body::StepChanged;
use provost_model::record::Record;
use provost_model::time::Timestamp;

pub(crate) fn apply_published(state: &mut State, data: &RunbookPublished) {
    _ = (state, data);
}

pub(crate) fn apply_created(state: &mut State, record: &Record, data: &ExecutionCreated) {
    _ = (state, record, data);
}

pub(crate) fn apply_changed(state: &mut State, record: &Record, data: &ExecutionChanged) {
    _ = (state, record, data);
}

pub(crate) fn apply_step(state: &mut State, record: &Record, data: &StepChanged) {
    _ = (state, record, data);
}

pub(crate) fn apply_answered(state: &mut State, data: &HumanAnswered) {
    _ = (state, data);
}

pub(crate) fn apply_approval(state: &mut State, data: &ApprovalDecided) {
    _ = (state, data);
}

pub(crate) fn on_tick(state: &State, now: Timestamp, out: &mut Decisions) {
    _ = (state, now, out);
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    _ = (state, now, out);
}

pub(crate) fn on_command(
    state: &State,
    now: Timestamp,
    asked: &crate::command::Asked<'_>,
    out: &mut Decisions,
) -> provost_model::input::Reply {
    _ = (state, now, asked, out);
    provost_model::input::Reply::Already
}
