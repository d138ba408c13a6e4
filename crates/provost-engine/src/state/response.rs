//! Incidents, holds, and the guard over automation.

use std::collections::{BTreeMap, VecDeque};

use provost_model::effect::Effect;
use provost_model::ids::{AlertId, ExecutionId, HoldId, IncidentId, NodeId};
use provost_model::record::Subject;
use provost_model::response::{HoldOwner, IncidentState, Severity};
use provost_model::scheduler::JobKey;
use provost_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::State;

/// The guard: what stops automation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// A person said stop.
    pub stopped: bool,
    /// Too much was unavailable; a person must reset it.
    pub breaker_tripped: bool,
    /// When a person reset it last; only an outage that began later trips it again.
    pub breaker_reset_at: Option<Timestamp>,
    /// Isolations by automation inside the governor's window, oldest first.
    pub isolations: VecDeque<(Timestamp, NodeId)>,
    /// Isolations that wait for budget.
    pub deferred: BTreeMap<NodeId, Deferred>,
}

/// An isolation that waits for budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deferred {
    /// Incident that asks for it.
    pub incident: IncidentId,
    /// Earliest time.
    pub not_before: Timestamp,
}

/// An incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// Id.
    pub id: IncidentId,
    /// Number.
    pub number: String,
    /// Title.
    pub title: String,
    /// State.
    pub state: IncidentState,
    /// Since when.
    pub state_since: Timestamp,
    /// Severity.
    pub severity: Severity,
    /// A person set it, so rules leave it alone.
    pub severity_set: bool,
    /// Subject of the first alert.
    pub subject: Subject,
    /// Node.
    pub node: Option<NodeId>,
    /// Alerts.
    pub alerts: Vec<AlertId>,
    /// Jobs that were hit.
    pub jobs: Vec<JobKey>,
    /// First evidence.
    pub fault_at: Timestamp,
    /// First signal.
    pub detected_at: Timestamp,
    /// Opened.
    pub opened_at: Timestamp,
    /// Acknowledged.
    pub acked_at: Option<Timestamp>,
    /// Acknowledgement holds until.
    pub ack_until: Option<Timestamp>,
    /// Isolated.
    pub isolated_at: Option<Timestamp>,
    /// Mitigated.
    pub mitigated_at: Option<Timestamp>,
    /// Resolved.
    pub resolved_at: Option<Timestamp>,
    /// Times it came back after it was resolved.
    pub reopened: u32,
    /// Owner.
    pub owner: Option<String>,
    /// Executions, in order.
    pub executions: Vec<ExecutionId>,
    /// Effects that the mode kept from being done, oldest first; bounded.
    pub would_have: Vec<Effect>,
}

/// A hold in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Id.
    pub id: HoldId,
    /// Owner.
    pub owner: HoldOwner,
    /// Node.
    pub node: NodeId,
    /// GPU index.
    pub gpu: Option<u32>,
    /// Short reason.
    pub reason: String,
    /// Since.
    pub since: Timestamp,
    /// Until.
    pub until: Option<Timestamp>,
}

impl State {
    /// The incident of a number.
    pub fn incident_by_number(&self, number: &str) -> Option<&Incident> {
        self.incidents.get(self.incident_numbers.get(number)?)
    }

    /// Holds on a node or on one of its GPUs.
    pub fn holds_on(&self, node: NodeId) -> impl Iterator<Item = &Hold> {
        self.holds.values().filter(move |hold| hold.node == node)
    }
}
