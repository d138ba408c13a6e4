//! From signals to episodes.

use crate::event::Decisions;
use crate::state::State;
use provost_model::body::EpisodeKey;
use provost_model::body::EpisodeOpened;
use provost_model::body::EpisodeRepeated;
use provost_model::input::EmergencyHold;
use provost_model::record::Record;
use provost_model::signal::Signal;
use provost_model::time::Timestamp;

pub(crate) fn apply_opened(state: &mut State, record: &Record, data: &EpisodeOpened) {
    _ = (state, record, data);
}

pub(crate) fn apply_repeated(state: &mut State, data: &EpisodeRepeated) {
    _ = (state, data);
}

pub(crate) fn on_signal(state: &State, now: Timestamp, signal: &Signal, out: &mut Decisions) {
    _ = (state, now, signal, out);
}

pub(crate) fn on_repeats(
    state: &State,
    key: &EpisodeKey,
    count: u64,
    last_at: Timestamp,
    out: &mut Decisions,
) {
    _ = (state, key, count, last_at, out);
}

pub(crate) fn on_emergency_merge(
    state: &State,
    now: Timestamp,
    since: Timestamp,
    holds: &[EmergencyHold],
    signals_lost: u64,
    out: &mut Decisions,
) {
    _ = (state, now, since, holds, signals_lost, out);
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    _ = (state, now, out);
}
