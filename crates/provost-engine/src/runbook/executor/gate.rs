//! What may keep an execution from acting. Each code says what would free it.

use provost_model::body::Purpose;
use provost_model::policy::Mode;
use provost_model::time::Timestamp;

use super::super::{disrupts, is_at_work, mode_of};
use super::{MODE_ADVISE, MODE_OBSERVE};
use crate::governor;
use crate::state::{Execution, State};

/// What keeps any new step from acting.
pub(super) fn closed(state: &State, run: &Execution) -> Option<&'static str> {
    if state.guard.stopped {
        return Some("guard_stopped");
    }
    match mode_of(state, run) {
        Mode::Act => None,
        Mode::Advise => Some(MODE_ADVISE),
        Mode::Observe => Some(MODE_OBSERVE),
    }
}

/// What keeps an execution from being let in.
pub(super) fn admission(state: &State, now: Timestamp, run: &Execution) -> Option<String> {
    if let Some(why) = closed(state, run) {
        return Some(why.to_owned());
    }
    if let Some(lock) = lock(state, run) {
        return Some(lock);
    }
    // What disrupted its node already is over it: nothing more is taken away by going on.
    let begun = run.steps.iter().any(|step| step.attempts > 0);
    if !disrupts(state, run) || begun {
        return None;
    }
    governor::may_disrupt(state, now, run).err()
}

/// The lock that another execution holds: one acts on a node at a time, and what one has asked for must be
/// answered before the next begins.
pub(in super::super) fn lock(state: &State, run: &Execution) -> Option<String> {
    let node = run.node?;
    let others = || {
        let open = state.open_executions.iter().filter(|id| **id != run.id);
        open.filter_map(|id| state.executions.get(id)).filter(|other| other.node == Some(node))
    };
    let left_over = || {
        state.effects.values().any(|open| match &open.requested.purpose {
            Purpose::Step { execution, .. } | Purpose::Undo { execution, .. } => {
                *execution != run.id
                    && state.executions.get(execution).is_some_and(|other| other.node == Some(node))
            }
            _ => false,
        })
    };
    if !others().any(is_at_work) && !left_over() {
        return None;
    }
    let name = state.nodes.get(&node).map_or("-", |node| node.name.as_str());
    Some(format!("lock:{name}"))
}
