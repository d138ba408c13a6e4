//! Alerts, incidents and holds: what an organisation does about a signal.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What an alert implies. Decisions read classifications, never the name of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Classification {
    /// The subject must get no new work.
    BlocksPlacement,
    /// A person must know now.
    Pages,
    /// Counts as lost service.
    CountsForSla,
    /// No automation may touch the subject.
    BlocksAutomation,
}

/// SEV1 is the gravest; the order is by gravity, so `Sev1 > Sev4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Predictive or cosmetic.
    Sev4,
    /// Isolated, a spare serves.
    Sev3,
    /// A job is lost or a slot is down without a spare.
    Sev2,
    /// Contracted capacity or the serving tier is down.
    Sev1,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Sev1 => "SEV1",
            Severity::Sev2 => "SEV2",
            Severity::Sev3 => "SEV3",
            Severity::Sev4 => "SEV4",
        })
    }
}

/// Where an alert stands (03 §2.3). An event condition such as an Xid has no level and goes from firing to
/// resolved only by a verified step or a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// True.
    Firing,
    /// Became false; waits for `clear_hold`.
    Clearing,
    /// Its source is silent.
    Stale,
    /// Over.
    Resolved,
}

/// Where an incident stands (03 §2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IncidentState {
    /// Nobody has it.
    Open,
    /// Automation works on it.
    Automating,
    /// A person has it.
    Acknowledged,
    /// The slot serves again.
    Mitigated,
    /// Waits for somebody outside.
    OnHold,
    /// Handled; watched until `resolve_hold` is over.
    Monitoring,
    /// Over.
    Resolved,
    /// Closed for good.
    Closed,
    /// Part of another incident.
    Merged,
}

impl IncidentState {
    /// Still somebody's work.
    pub const fn is_open(self) -> bool {
        !matches!(self, IncidentState::Resolved | IncidentState::Closed | IncidentState::Merged)
    }

    /// The name as written.
    pub const fn name(self) -> &'static str {
        match self {
            IncidentState::Open => "open",
            IncidentState::Automating => "automating",
            IncidentState::Acknowledged => "acknowledged",
            IncidentState::Mitigated => "mitigated",
            IncidentState::OnHold => "on_hold",
            IncidentState::Monitoring => "monitoring",
            IncidentState::Resolved => "resolved",
            IncidentState::Closed => "closed",
            IncidentState::Merged => "merged",
        }
    }
}

/// The points of an incident's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Every subject was read back as unschedulable.
    Isolated,
    /// The slot serves again.
    Mitigated,
    /// Over.
    Resolved,
}

/// Who owns a hold. Nobody removes another owner's hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "name")]
pub enum HoldOwner {
    /// An incident, by number.
    Incident(String),
    /// A person, by subject.
    Operator(String),
    /// Somebody outside: `slurm:main`.
    External(String),
    /// A rule of ours: `lifecycle:quarantined`.
    Policy(String),
    /// A legal matter.
    Legal(String),
}

impl fmt::Display for HoldOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HoldOwner::Incident(name) => write!(f, "incident:{name}"),
            HoldOwner::Operator(name) => write!(f, "operator:{name}"),
            HoldOwner::External(name) => write!(f, "external:{name}"),
            HoldOwner::Policy(name) => write!(f, "policy:{name}"),
            HoldOwner::Legal(name) => write!(f, "legal:{name}"),
        }
    }
}
