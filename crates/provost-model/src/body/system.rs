//! What the controller, its configuration and its guard say about themselves.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::fleet::NodeFacts;
use crate::policy::{EngineConfig, FileModes, Mode, ModeScope};
use crate::runbook::Runbook;
use crate::time::Timestamp;

/// No data beyond the record's own fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// See [`Body::ControllerStarted`](super::Body::ControllerStarted). Every intent of an older epoch is unknown from here on (ruling 27).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerStarted {
    /// Version of the program.
    pub version: String,
}

/// See [`Body::ConfigApplied`](super::Body::ConfigApplied).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigApplied {
    /// Everything but the inventory, which may be larger than a record: `inventory` is empty here. Modes are those
    /// in force: a person's change outlives a restart until the file's own word changes.
    pub config: Box<EngineConfig>,
    /// Modes as the file gives them, so that the next start can tell whether the file changed its word.
    pub file_modes: FileModes,
}

/// See [`Body::InventoryApplied`](super::Body::InventoryApplied).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryApplied {
    /// Nodes that are new or differ; a record holds as many as fit.
    pub nodes: Vec<NodeFacts>,
    /// Names that the inventory no longer lists.
    pub removed: BTreeSet<String>,
}

/// See [`Body::RunbookPublished`](super::Body::RunbookPublished).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunbookPublished {
    /// SHA-256 of the file, in hex.
    pub version: String,
    /// The runbook.
    pub runbook: Runbook,
}

/// See [`Body::ModeChanged`](super::Body::ModeChanged).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeChanged {
    /// Where.
    pub scope: ModeScope,
    /// What; null removes the setting of a node or scheduler.
    pub mode: Option<Mode>,
}

/// See [`Body::BreakerTripped`](super::Body::BreakerTripped).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerTripped {
    /// Nodes that are unavailable.
    pub unavailable: u32,
    /// Nodes in all.
    pub nodes: u32,
}

/// See [`Body::CommandDenied`](super::Body::CommandDenied).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandDenied {
    /// Name of the command.
    pub command: String,
    /// Why: `forbidden`, or a rule's code.
    pub code: String,
}

/// See [`Body::EmergencyMerged`](super::Body::EmergencyMerged).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmergencyMerged {
    /// Number of records taken over.
    pub entries: u64,
    /// When the journal became unavailable.
    pub since: Timestamp,
}

/// See [`Body::SignalsNotRecorded`](super::Body::SignalsNotRecorded).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalsNotRecorded {
    /// How many.
    pub count: u64,
}
