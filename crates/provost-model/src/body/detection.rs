//! Episodes of a condition, and the alerts that they raise.

use std::collections::BTreeSet;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::ids::{AlertId, NodeId};
use crate::record::Subject;
use crate::response::{AlertState, Classification};
use crate::scheduler::JobKey;
use crate::signal::{Impact, PciAddress, SignalFields, SignalKind, Trust};
use crate::time::Timestamp;

/// What makes two signals the same episode. The node comes first, so that those of a node stand together. Its name
/// stands in the key itself and not behind a pointer: keys are compared and copied many times a signal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EpisodeKey {
    /// Name of the node.
    pub node: CompactString,
    /// Code.
    pub code: Option<u32>,
    /// Device.
    pub pci: Option<PciAddress>,
    /// MIG instance.
    pub mig: Option<u32>,
    /// Link.
    pub link: Option<u32>,
    /// Kind.
    pub kind: SignalKind,
}

/// See [`Body::EpisodeOpened`](super::Body::EpisodeOpened). The kernel line is sealed.
/// Fields in canonical order, which spares the sorting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpisodeOpened {
    /// Boot.
    pub boot_id: Option<String>,
    /// Parsed parts.
    pub fields: SignalFields,
    /// History from before the agent's first start on this boot.
    pub historic: bool,
    /// Catalogue's judgement at that time.
    pub impact: Impact,
    /// Job that was on the device, where known.
    pub job: Option<JobKey>,
    /// Key.
    pub key: EpisodeKey,
    /// Where it came from.
    pub trust: Trust,
    /// When the kernel wrote it.
    pub written_at: Timestamp,
}

/// See [`Body::EpisodeRepeated`](super::Body::EpisodeRepeated).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpisodeRepeated {
    /// Key.
    pub key: EpisodeKey,
    /// Times seen since the last record of this episode.
    pub count: u64,
    /// Last time.
    pub last_at: Timestamp,
}

/// See [`Body::AlertRaised`](super::Body::AlertRaised).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertRaised {
    /// Id.
    pub alert: AlertId,
    /// Condition: `xid.79`, `source.silent`.
    pub condition: String,
    /// Subject.
    pub subject: Subject,
    /// Node that the subject belongs to.
    pub node: Option<NodeId>,
    /// GPU index on that node, where it is one.
    pub gpu: Option<u32>,
    /// Implications.
    pub classifications: BTreeSet<Classification>,
    /// Gravity.
    pub impact: Impact,
    /// First evidence.
    pub first_at: Timestamp,
    /// Has no level; only a verified step or a person ends it.
    pub event: bool,
    /// Runbook that the catalogue names.
    pub runbook: Option<String>,
    /// Episode that is the first evidence; null where a source is the subject.
    pub episode: Option<EpisodeKey>,
}

/// See [`Body::AlertChanged`](super::Body::AlertChanged).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertChanged {
    /// Id.
    pub alert: AlertId,
    /// State from here on.
    pub state: AlertState,
    /// Times seen, in all.
    pub count: u64,
    /// Last evidence.
    pub last_at: Timestamp,
    /// Code of the rule: `seen_again`, `level_false`, `level_true`, `clear_hold`, `verified`, `person`,
    /// `job_ended`, `companion`, `all_clear`.
    pub why: String,
    /// Gravity from here on; only the worst evidence counts.
    pub impact: Impact,
    /// Implications from here on.
    pub classifications: BTreeSet<Classification>,
    /// Runbook from here on, where the evidence calls for another.
    #[serde(default)]
    pub runbook: Option<String>,
    /// Episode that is new evidence.
    pub episode: Option<EpisodeKey>,
}
