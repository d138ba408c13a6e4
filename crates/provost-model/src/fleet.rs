//! Nodes and GPUs, what they are and where they stand in their life.

use serde::{Deserialize, Serialize};

use crate::signal::PciAddress;

/// Where a node stands. Only `in_service`, `suspect`, `probation` and an active `spare` may be given work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Bound to its slot and serving.
    InService,
    /// A fault was seen; containment is on its way and not read back yet.
    Suspect,
    /// Contained; jobs still run on it.
    Draining,
    /// Contained and empty.
    Quarantined,
    /// Evidence is taken and tests run.
    Diagnosing,
    /// An automatic repair is tried.
    Remediating,
    /// A person must act on the hardware.
    AwaitingRepair,
    /// A test newer than the fault runs.
    Revalidating,
    /// Released, watched.
    Probation,
    /// Taken out by a person for planned work.
    Maintenance,
    /// Ready to serve in another node's slot, or serving there.
    Spare,
    /// Neither its agent nor its scheduler hears from it.
    Lost,
}

impl Phase {
    /// The name as written.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::InService => "in_service",
            Phase::Suspect => "suspect",
            Phase::Draining => "draining",
            Phase::Quarantined => "quarantined",
            Phase::Diagnosing => "diagnosing",
            Phase::Remediating => "remediating",
            Phase::AwaitingRepair => "awaiting_repair",
            Phase::Revalidating => "revalidating",
            Phase::Probation => "probation",
            Phase::Maintenance => "maintenance",
            Phase::Spare => "spare",
            Phase::Lost => "lost",
        }
    }
}

/// What is known about one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuFacts {
    /// Index on its node; moves with resets, so only for people and for Slurm's GRES indexes.
    pub index: u32,
    /// PCI address.
    pub pci: PciAddress,
    /// UUID as NVML gives it; absent until somebody reported it.
    #[serde(default)]
    pub uuid: Option<String>,
    /// Model, as in `catalogue/`.
    #[serde(default)]
    pub model: Option<String>,
    /// Serial of the board.
    #[serde(default)]
    pub serial: Option<String>,
}

/// What the inventory says about one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFacts {
    /// Name of the node; the name that its agent uses.
    pub name: String,
    /// Serial of the chassis.
    #[serde(default)]
    pub serial: Option<String>,
    /// Rack.
    #[serde(default)]
    pub rack: Option<String>,
    /// Leaf switch.
    #[serde(default)]
    pub leaf: Option<String>,
    /// Scheduler and name there: `main/gpu001`.
    #[serde(default)]
    pub slurm: Option<String>,
    /// GPUs.
    #[serde(default)]
    pub gpus: Vec<GpuFacts>,
}

/// Health of a node or gpu. Silence makes it unknown, never ok.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Its source reports and no alert is open.
    Ok,
    /// An alert that does not block placement is open.
    Degraded,
    /// An alert that blocks placement is open.
    Failed,
    /// Its source is silent, or never reported.
    Unknown,
}
