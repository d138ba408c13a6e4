//! Deadlines. The engine has no clock; whoever drives it asks for the next one.

use std::collections::{BTreeMap, BTreeSet};

use provost_model::body::EpisodeKey;
use provost_model::ids::{AlertId, ExecutionId, HoldId, IncidentId, NodeId, SlotId};
use provost_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::State;

/// What a deadline belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TimerKey {
    /// End of an episode's wait for companions.
    Episode(EpisodeKey),
    /// `clear_hold` of an alert.
    Alert(AlertId),
    /// `resolve_hold`, acknowledgement of an incident.
    Incident(IncidentId),
    /// End of a hold.
    Hold(HoldId),
    /// Phase limit of a node.
    Phase(NodeId),
    /// Next try of containment, or a deferred isolation.
    Containment(NodeId),
    /// Next try to bring a slot's spare in or out.
    Slot(SlotId),
    /// Deadline of an intent.
    Effect(u64),
    /// Deadline of an execution's step.
    Execution(ExecutionId),
}

/// Deadlines in order of time, at most one a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timers {
    by_key: BTreeMap<TimerKey, Timestamp>,
    by_time: BTreeSet<(Timestamp, TimerKey)>,
}

impl Timers {
    /// Sets or removes the deadline of `key`.
    pub fn set(&mut self, key: TimerKey, at: Option<Timestamp>) {
        if let Some(old) = self.by_key.remove(&key) {
            self.by_time.remove(&(old, key.clone()));
        }
        if let Some(at) = at {
            self.by_key.insert(key.clone(), at);
            self.by_time.insert((at, key));
        }
    }

    /// The deadline of `key`.
    pub fn get(&self, key: &TimerKey) -> Option<Timestamp> {
        self.by_key.get(key).copied()
    }

    /// The first deadline.
    pub fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Keys whose deadline is not after `now`.
    pub fn due(&self, now: Timestamp) -> impl Iterator<Item = &TimerKey> {
        self.by_time.iter().take_while(move |(at, _)| *at <= now).map(|(_, key)| key)
    }
}

/// When the engine must be woken although nothing happens.
pub fn next_deadline(state: &State) -> Option<Timestamp> {
    state.timers.next()
}
