//! What people and services ask for: authorized, then decided.

mod asked;

pub(crate) use asked::Asked;

use crate::event::Decisions;
use crate::state::State;
use provost_model::body::ModeChanged;
use provost_model::input::Command;
use provost_model::input::Reply;
use provost_model::time::Timestamp;

pub(crate) fn apply_mode(state: &mut State, data: &ModeChanged) {
    _ = (state, data);
}

pub(crate) fn on_command(state: &State, now: Timestamp, command: &Command, out: &mut Decisions) -> Reply {
    _ = (state, now, command, out);
    Reply::Already
}
