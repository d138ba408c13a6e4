//! What became known or changed of agents, sources, nodes, GPUs and slots.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::bmc::BmcView;
use crate::fleet::{GpuFacts, Phase};
use crate::ids::{HoldId, NodeId, SlotId};
use crate::time::Timestamp;

/// See [`Body::AgentTokenCreated`](super::Body::AgentTokenCreated).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTokenCreated {
    /// SHA-256 of the token, in hex.
    pub token_sha256: String,
    /// Node names that it may enrol.
    pub nodes: BTreeSet<String>,
    /// How often.
    pub uses: u32,
    /// Until when.
    pub expires_at: Timestamp,
}

/// See [`Body::AgentEnrolled`](super::Body::AgentEnrolled).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentEnrolled {
    /// Node name.
    pub node: String,
    /// Serial of the certificate, in hex.
    pub serial: String,
    /// SHA-256 of the token used, in hex; null for a renewal.
    pub token_sha256: Option<String>,
    /// End of validity.
    pub expires_at: Timestamp,
}

/// See [`Body::AgentReported`](super::Body::AgentReported).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReported {
    /// Name of the node; an agent may report before its node is adopted.
    pub node: String,
    /// Boot id.
    pub boot_id: Option<String>,
    /// Actions that it allows.
    pub actions: BTreeSet<String>,
    /// GPUs that it sees; null where it cannot look.
    pub gpus: Option<Vec<GpuFacts>>,
    /// Version of the agent.
    pub version: String,
}

/// See [`Body::SourceChanged`](super::Body::SourceChanged).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceChanged {
    /// The source.
    pub source: Source,
    /// Its state.
    pub state: SourceState,
}

/// A source of evidence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "name")]
pub enum Source {
    /// The agent of a node, by node name.
    Agent(String),
    /// The kernel log of a node, by node name.
    KernelLog(String),
    /// A scheduler, by its name.
    Scheduler(String),
    /// The BMC of a node, by node name.
    Bmc(String),
}

impl Source {
    /// `agent:gpu001`.
    pub fn label(&self) -> String {
        match self {
            Source::Agent(name) => format!("agent:{name}"),
            Source::KernelLog(name) => format!("kernel_log:{name}"),
            Source::Scheduler(name) => format!("scheduler:{name}"),
            Source::Bmc(name) => format!("bmc:{name}"),
        }
    }
}

/// Whether a source can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// It reports.
    Fresh,
    /// Nothing comes.
    Silent,
    /// Something comes that cannot be understood.
    Blind,
    /// A person, or the inventory, says that nothing is expected from it any more. Ends when it reports again.
    Gone,
}

/// See [`Body::NodeAdopted`](super::Body::NodeAdopted).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAdopted {
    /// Its id from here on.
    pub node: NodeId,
    /// Name.
    pub name: String,
    /// Serial, where the inventory gives one.
    pub serial: Option<String>,
    /// Rack.
    pub rack: Option<String>,
    /// Leaf.
    pub leaf: Option<String>,
    /// Cluster and name there, where a scheduler serves it.
    pub scheduler: Option<SchedulerName>,
    /// GPUs.
    pub gpus: Vec<GpuFacts>,
    /// First phase: in service, or spare.
    pub phase: Phase,
}

/// A node's name in a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SchedulerName {
    /// Cluster.
    pub cluster: String,
    /// Name there.
    pub node: String,
}

/// See [`Body::NodeObserved`](super::Body::NodeObserved).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeObserved {
    /// Node.
    pub node: NodeId,
    /// What the scheduler says; null where it does not know the node (any more).
    pub observed: Option<NodeView>,
}

/// The part of a scheduler's node that decisions need. The reason's text is free text of people: only whose
/// it is stands here; the text is sealed in the record and shown live.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// No new work.
    pub drain: bool,
    /// Down.
    pub down: bool,
    /// Not heard from.
    pub not_responding: bool,
    /// Jobs run or complete on it.
    pub busy: bool,
    /// Flags as written by the scheduler.
    pub state: String,
    /// Whose the reason is.
    pub reason: ReasonOwner,
    /// The hold that our mark in the comment names.
    pub mark: Option<HoldId>,
    /// The comment is somebody else's, which leaves no room for our mark.
    #[serde(default)]
    pub comment_taken: bool,
    /// Partitions.
    pub partitions: BTreeSet<String>,
}

/// Whose the reason of a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonOwner {
    /// There is none.
    #[default]
    None,
    /// Ours.
    Ours,
    /// Somebody else's.
    Foreign,
}

/// See [`Body::BmcObserved`](super::Body::BmcObserved).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BmcObserved {
    /// Node.
    pub node: NodeId,
    /// When the BMC was asked.
    pub asked_at: Timestamp,
    /// What it says.
    pub view: BmcView,
}

/// See [`Body::NodePhaseChanged`](super::Body::NodePhaseChanged).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePhaseChanged {
    /// Node.
    pub node: NodeId,
    /// Before.
    pub from: Phase,
    /// After.
    pub to: Phase,
    /// Code of the rule: `contained`, `empty`, `released`.
    pub why: String,
}

/// See [`Body::GpuIdentified`](super::Body::GpuIdentified).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuIdentified {
    /// Node.
    pub node: NodeId,
    /// Facts with the UUID.
    pub gpu: GpuFacts,
}

/// See [`Body::SlotCreated`](super::Body::SlotCreated).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotCreated {
    /// Its id.
    pub slot: SlotId,
    /// The slot's own node.
    pub node: NodeId,
    /// Its shape: the partitions of that node at adoption.
    pub partitions: BTreeSet<String>,
}

/// See [`Body::SlotBound`](super::Body::SlotBound).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotBound {
    /// Slot.
    pub slot: SlotId,
    /// The spare.
    pub spare: NodeId,
}

/// See [`Body::SlotUnbound`](super::Body::SlotUnbound).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotUnbound {
    /// Slot.
    pub slot: SlotId,
    /// The spare.
    pub spare: NodeId,
}
