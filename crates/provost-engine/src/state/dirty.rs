//! What the current turn touched, so that concerns look at that only.

use std::collections::BTreeSet;

use provost_model::body::{EpisodeKey, Purpose, Source};
use provost_model::ids::{AlertId, ExecutionId, IncidentId, NodeId, SlotId};
use provost_model::scheduler::JobKey;
use provost_model::time::Timestamp;

use super::{Node, State, TimerKey};

/// What the current turn touched; concerns look at these only.
#[derive(Clone, Debug, Default)]
pub struct Dirty {
    /// A start, a new configuration, the guard: everything must be looked at.
    pub all: bool,
    /// Nodes.
    pub nodes: BTreeSet<NodeId>,
    /// Jobs.
    pub jobs: BTreeSet<JobKey>,
    /// Episodes.
    pub episodes: BTreeSet<EpisodeKey>,
    /// Alerts.
    pub alerts: BTreeSet<AlertId>,
    /// Incidents.
    pub incidents: BTreeSet<IncidentId>,
    /// Executions.
    pub executions: BTreeSet<ExecutionId>,
    /// Sources.
    pub sources: BTreeSet<Source>,
}

impl PartialEq for Dirty {
    /// Always equal: it is no part of the fold.
    fn eq(&self, _: &Dirty) -> bool {
        true
    }
}

impl Dirty {
    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Dirty::default();
    }
}

impl State {
    /// Marks what the deadlines up to `now` belong to as touched.
    pub(crate) fn mark_due(&mut self, now: Timestamp) {
        let due: Vec<TimerKey> = self.timers.due(now).cloned().collect();
        for key in due {
            match key {
                TimerKey::Episode(key) => drop(self.dirty.episodes.insert(key)),
                TimerKey::Alert(id) => drop(self.dirty.alerts.insert(id)),
                TimerKey::Incident(id) => drop(self.dirty.incidents.insert(id)),
                TimerKey::Hold(id) => {
                    if let Some(hold) = self.holds.get(&id) {
                        self.dirty.nodes.insert(hold.node);
                    }
                }
                TimerKey::Phase(id) | TimerKey::Containment(id) => drop(self.dirty.nodes.insert(id)),
                TimerKey::Slot(id) => self.mark_slot(id),
                TimerKey::Effect(seq) => self.mark_effect(seq),
                TimerKey::Execution(id) => drop(self.dirty.executions.insert(id)),
            }
        }
    }

    /// Marks what an intent belongs to as touched.
    pub(crate) fn mark_effect(&mut self, seq: u64) {
        match self.effects.get(&seq).map(|open| open.requested.purpose.clone()) {
            Some(Purpose::Containment { node }) => drop(self.dirty.nodes.insert(node)),
            Some(Purpose::Step { execution, .. } | Purpose::Undo { execution, .. }) => {
                self.dirty.executions.insert(execution);
            }
            Some(Purpose::Slot { slot }) => self.mark_slot(slot),
            Some(Purpose::Detach | Purpose::Command { .. }) | None => {}
        }
    }

    /// Marks a slot's own node and its spare as touched.
    pub(crate) fn mark_slot(&mut self, id: SlotId) {
        if let Some(slot) = self.slots.get(&id) {
            self.dirty.nodes.insert(slot.node);
            self.dirty.nodes.extend(slot.spare);
        }
    }

    /// Nodes that this turn touched.
    pub(crate) fn touched_nodes(&self) -> Vec<&Node> {
        if self.dirty.all {
            self.nodes.values().collect()
        } else {
            self.dirty.nodes.iter().filter_map(|id| self.nodes.get(id)).collect()
        }
    }
}
