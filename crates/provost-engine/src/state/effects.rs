//! Intents without a final result: the outbox, which is no table of its own.

use provost_model::body::EffectRequested;
use provost_model::effect::{Approach, Effect};
use provost_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::State;

/// An intent without a final result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenEffect {
    /// What and why.
    pub requested: EffectRequested,
    /// When it was recorded.
    pub at: Timestamp,
    /// Epoch that recorded it.
    pub epoch: u64,
    /// Nobody knows whether it is done: only probe.
    pub unknown: bool,
    /// Probes that gave no answer.
    pub probes: u32,
}

/// What executors must be doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// Sequence of the intent; the key.
    pub intent: u64,
    /// Epoch that is in force.
    pub epoch: u64,
    /// What.
    pub effect: Effect,
    /// Whether to act or only to ask.
    pub approach: Approach,
    /// Probes that were tried before; an executor waits longer each time.
    pub probes: u32,
    /// Until when a result is expected.
    pub deadline: Timestamp,
}

/// The outbox: intents without a final result. Empty in a quiet system.
pub fn outstanding(state: &State) -> impl Iterator<Item = Outstanding> + '_ {
    state.effects.iter().map(|(seq, open)| Outstanding {
        intent: *seq,
        epoch: state.epoch,
        effect: open.requested.effect.clone(),
        approach: if open.unknown || open.epoch != state.epoch { Approach::Probe } else { Approach::Act },
        probes: open.probes,
        deadline: open.requested.deadline,
    })
}
