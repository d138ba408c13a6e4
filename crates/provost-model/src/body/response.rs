//! Incidents and their clocks, and the holds that keep work off a node.

use serde::{Deserialize, Serialize};

use crate::ids::{AlertId, HoldId, IncidentId, NodeId};
use crate::record::Subject;
use crate::response::{Clock, HoldOwner, IncidentState, Severity};
use crate::scheduler::JobKey;
use crate::time::Timestamp;

/// See [`Body::IncidentOpened`](super::Body::IncidentOpened).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentOpened {
    /// Id.
    pub incident: IncidentId,
    /// Number.
    pub number: String,
    /// Title, our own words.
    pub title: String,
    /// Severity.
    pub severity: Severity,
    /// First alert.
    pub alert: AlertId,
    /// Subject.
    pub subject: Subject,
    /// Node.
    pub node: Option<NodeId>,
    /// Jobs that were on the subject.
    pub jobs: Vec<JobKey>,
    /// First evidence.
    pub fault_at: Timestamp,
    /// First signal at the controller.
    pub detected_at: Timestamp,
}

/// See [`Body::IncidentAttached`](super::Body::IncidentAttached).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentAttached {
    /// Incident.
    pub incident: IncidentId,
    /// Alert.
    pub alert: AlertId,
    /// Why: `same_subject`, `recurrence`.
    pub reason: String,
}

/// See [`Body::IncidentChanged`](super::Body::IncidentChanged).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentChanged {
    /// Incident.
    pub incident: IncidentId,
    /// Before.
    pub from: IncidentState,
    /// After.
    pub to: IncidentState,
    /// Code of the rule.
    pub why: String,
}

/// See [`Body::IncidentSeverity`](super::Body::IncidentSeverity).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentSeverity {
    /// Incident.
    pub incident: IncidentId,
    /// Before.
    pub from: Severity,
    /// After.
    pub to: Severity,
}

/// See [`Body::IncidentAcknowledged`](super::Body::IncidentAcknowledged).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentAcknowledged {
    /// Incident.
    pub incident: IncidentId,
    /// Who has it.
    pub owner: String,
    /// Until when, without an update.
    pub until: Timestamp,
}

/// See [`Body::IncidentClock`](super::Body::IncidentClock).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentClock {
    /// Incident.
    pub incident: IncidentId,
    /// Which point.
    pub clock: Clock,
}

/// An incident and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentRef {
    /// Incident.
    pub incident: IncidentId,
}

/// See [`Body::IncidentJob`](super::Body::IncidentJob).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentJob {
    /// Incident.
    pub incident: IncidentId,
    /// Job.
    pub job: JobKey,
    /// Why: `failed_after_fault`.
    pub reason: String,
}

/// See [`Body::HoldPlaced`](super::Body::HoldPlaced).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldPlaced {
    /// Id.
    pub hold: HoldId,
    /// Owner.
    pub owner: HoldOwner,
    /// Node.
    pub node: NodeId,
    /// GPU index, where the hold is on one GPU.
    pub gpu: Option<u32>,
    /// Short reason of ours (`GPU 3 lost`), without personal data. A person's own words are sealed.
    pub reason: String,
    /// Ends by itself then.
    pub until: Option<Timestamp>,
    /// Counts against the isolation budget.
    pub isolation: bool,
}

/// See [`Body::HoldReleased`](super::Body::HoldReleased).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldReleased {
    /// Hold.
    pub hold: HoldId,
    /// Whose it was.
    pub owner: HoldOwner,
    /// Code: `owner`, `expired`, `verified`, `external_gone`.
    pub why: String,
}

/// See [`Body::IsolationDeferred`](super::Body::IsolationDeferred).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationDeferred {
    /// Node.
    pub node: NodeId,
    /// Incident that asks for it.
    pub incident: IncidentId,
    /// Earliest time at which the budget may allow it.
    pub not_before: Timestamp,
}
