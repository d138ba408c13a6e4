//! The outbox: intents, their results, and what is unknown.

use crate::event::Decisions;
use crate::state::State;
use provost_model::body::EffectCompleted;
use provost_model::body::EffectRequested;
use provost_model::body::EffectVoided;
use provost_model::body::WouldHave;
use provost_model::effect::EffectResult;
use provost_model::record::Record;
use provost_model::time::Timestamp;

pub(crate) fn apply_requested(state: &mut State, record: &Record, data: &EffectRequested) {
    _ = (state, record, data);
}

pub(crate) fn apply_completed(state: &mut State, record: &Record, data: &EffectCompleted) {
    _ = (state, record, data);
}

pub(crate) fn apply_voided(state: &mut State, data: &EffectVoided) {
    _ = (state, data);
}

pub(crate) fn apply_would_have(state: &mut State, data: &WouldHave) {
    _ = (state, data);
}

pub(crate) fn on_result(state: &State, intent: u64, result: &EffectResult, out: &mut Decisions) {
    _ = (state, intent, result, out);
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    _ = (state, now, out);
}
