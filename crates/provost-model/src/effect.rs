//! What must be done outside, and what became of it.
//!
//! An effect is carried out only from an `effect.requested` record that is durable; the record's sequence is
//! its idempotency key. Each effect can be probed: asked whether it is done, without doing it.

use serde::{Deserialize, Serialize};

use crate::ids::HoldId;
use crate::scheduler::JobKey;
use crate::signal::PciAddress;

/// One thing to do outside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Effect {
    /// Keep new work off a node: DRAIN, our reason where the reason is free, our mark in the comment.
    SchedulerHold {
        /// Cluster.
        cluster: String,
        /// Name of the node there.
        node: String,
        /// The hold that the comment names.
        hold: HoldId,
        /// Full reason, `provost INC-…: …`.
        reason: String,
    },
    /// Take our mark away, and resume where the drain is ours and nobody else holds the node.
    SchedulerRelease {
        /// Cluster.
        cluster: String,
        /// Name of the node there.
        node: String,
    },
    /// Put a job back into the queue.
    JobRequeue {
        /// The job.
        job: JobKey,
        /// Times it had been requeued when this was decided: a probe sees by it whether it is done, because
        /// a requeue gives the job a new submit time.
        restarts: u32,
    },
    /// Leave a note at a job for its owner (AdminComment).
    JobNote {
        /// The job.
        job: JobKey,
        /// The note; our own words, no personal data.
        text: String,
    },
    /// Take every note of ours off the jobs of a cluster that have not ended.
    NotesOff {
        /// Cluster.
        cluster: String,
    },
    /// Let a spare serve in these partitions.
    PartitionJoin {
        /// Cluster.
        cluster: String,
        /// Name of the node there.
        node: String,
        /// Partitions.
        partitions: Vec<String>,
    },
    /// Take a spare out of these partitions.
    PartitionLeave {
        /// Cluster.
        cluster: String,
        /// Name of the node there.
        node: String,
        /// Partitions.
        partitions: Vec<String>,
    },
    /// Run one of the actions that the node's agent allows.
    AgentAction {
        /// Node name.
        node: String,
        /// Name of the `[[action]]`.
        action: String,
        /// The device, where the action is about one.
        pci: Option<PciAddress>,
    },
    /// Switch the power of a node by its BMC, at once and whatever runs there.
    NodePower {
        /// Node name.
        node: String,
        /// On or off. Off and on again are two effects, because each of them can be read back.
        on: bool,
    },
}

impl Effect {
    /// Short name: `scheduler_hold`.
    pub const fn name(&self) -> &'static str {
        match self {
            Effect::SchedulerHold { .. } => "scheduler_hold",
            Effect::SchedulerRelease { .. } => "scheduler_release",
            Effect::JobRequeue { .. } => "job_requeue",
            Effect::JobNote { .. } => "job_note",
            Effect::NotesOff { .. } => "notes_off",
            Effect::PartitionJoin { .. } => "partition_join",
            Effect::PartitionLeave { .. } => "partition_leave",
            Effect::AgentAction { .. } => "agent_action",
            Effect::NodePower { .. } => "node_power",
        }
    }

    /// May be repeated without harm when its outcome is unknown and a probe says that it is not done.
    pub const fn idempotent(&self) -> bool {
        !matches!(self, Effect::AgentAction { .. } | Effect::JobRequeue { .. } | Effect::NodePower { .. })
    }
}

/// How the executor must treat an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approach {
    /// Do it and read back.
    Act,
    /// Only ask whether it is done: its outcome is unknown.
    Probe,
}

/// What became of an effect. Success is what was read back, never a return code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum EffectResult {
    /// Read back as done.
    Done {
        /// What was read back, in one short line without personal data: `MIXED+DRAIN`.
        observed: String,
        /// Something worth knowing: `foreign_reason_kept`, `already`, `restored_foreign_drain`.
        notes: Vec<String>,
    },
    /// Certainly not done.
    NotDone {
        /// Code: `refused`, `not_found`, `not_requeueable`, `not_configured`, `away`, `failed`.
        code: String,
        /// May be tried again.
        retry: bool,
    },
    /// Nobody can say. Only a probe may follow.
    Unknown {
        /// Code: `timeout`, `connection_lost`, `restarted`.
        code: String,
    },
}
