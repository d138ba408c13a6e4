//! Keeps new work off a node: compares the desired state with what the scheduler says.

use crate::event::Decisions;
use crate::state::State;
use provost_model::time::Timestamp;

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    _ = (state, now, out);
}
