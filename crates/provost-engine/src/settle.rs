//! What follows from what was touched, until nothing more follows.
//!
//! Every concern compares what should be with what is, for the things that this turn touched, and decides the
//! difference; it decides nothing where there is none. So the order of the concerns is a matter of speed, and
//! a rule works the same whatever woke it: an input, a timer, a start.

use provost_model::time::Timestamp;

use crate::event::{Decisions, Event};
use crate::state::State;
use crate::{alert, containment, effect, governor, hold, incident, lifecycle, runbook, slot, source};

/// A concern's rule: reads State, decides.
type React = fn(&State, Timestamp, &mut Decisions);

/// In the order of a fault's life.
const CONCERNS: [React; 10] = [
    source::react,
    effect::react,
    alert::react,
    incident::react,
    hold::react,
    containment::react,
    lifecycle::react,
    slot::react,
    governor::react,
    runbook::react,
];

/// More rounds than any input can need; reaching it is a rule that never agrees with itself.
const MAX_ROUNDS: usize = 64;

/// Lets every concern react until a whole round decides nothing. `commit` makes records of a concern's events
/// and applies them before the next concern looks.
pub fn settle(state: &mut State, now: Timestamp, commit: &mut dyn FnMut(&mut State, Vec<Event>)) {
    for _ in 0..MAX_ROUNDS {
        let mut quiet = true;
        for react in CONCERNS {
            let mut decisions = Decisions::new(&state.site, state.seq);
            react(state, now, &mut decisions);
            if !decisions.is_empty() {
                quiet = false;
                commit(state, decisions.into_events());
            }
        }
        if quiet {
            return;
        }
    }
    debug_assert!(false, "the engine does not settle: {:?}", state.dirty);
}
