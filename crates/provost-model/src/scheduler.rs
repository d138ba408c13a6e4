//! What a scheduler says about itself, in our words. Adapters translate; the engine compares with its State.
//!
//! Names of jobs and users are absent on purpose: they are shown live from the scheduler and never stored.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// One poll of one cluster. Everything in it was read after [`Observation::at`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Name of the `[[slurm]]` entry.
    pub cluster: String,
    /// When the poll began.
    pub at: Timestamp,
    /// Every node that the scheduler knows, by its name there.
    pub nodes: BTreeMap<String, ObservedNode>,
    /// Jobs that hold a node, and jobs that ended or were requeued lately. Not the whole queue.
    pub jobs: Vec<ObservedJob>,
    /// Number of jobs that wait.
    pub jobs_pending: u64,
    /// Nodes of each partition.
    pub partitions: BTreeMap<String, Vec<String>>,
    /// Entries that could not be understood; they are unknown, not absent.
    pub unparsed: u64,
}

/// A node as its scheduler sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedNode {
    /// New work is kept out: DRAIN (also while jobs still run). FAIL counts too.
    pub drain: bool,
    /// DOWN.
    pub down: bool,
    /// The scheduler does not hear from it (NOT_RESPONDING), or does not know it yet (UNKNOWN).
    pub not_responding: bool,
    /// Jobs run or complete on it: ALLOCATED, MIXED or COMPLETING.
    pub busy: bool,
    /// In a maintenance reservation.
    pub maintenance: bool,
    /// Flags as the scheduler writes them, for people: `MIXED+DRAIN`.
    pub state: String,
    /// The reason, cut to 256 characters; empty where none.
    pub reason: String,
    /// Who set the reason.
    pub reason_user: Option<String>,
    /// When the reason was set.
    pub reason_at: Option<Timestamp>,
    /// The node's comment; ours reads `provost:<hold id>`.
    pub comment: String,
    /// Partitions that list it.
    pub partitions: Vec<String>,
    /// Generic resources of the kind gpu that are configured.
    pub gpus: Option<u32>,
}

impl ObservedNode {
    /// The reason was written by us (`09`: only what starts with `provost ` is ours).
    pub fn reason_is_ours(&self) -> bool {
        self.reason.starts_with(REASON_PREFIX)
    }
}

/// What every reason of ours starts with.
pub const REASON_PREFIX: &str = "provost ";
/// What every node comment of ours starts with.
pub const COMMENT_PREFIX: &str = "provost:";

/// A job's identity: JobId alone is given twice after a crash of slurmctld (seen; 06-slurm).
/// Written `slurm:main:123@<submit time>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobKey {
    /// Name of the `[[slurm]]` entry.
    pub cluster: String,
    /// JobId; for a task of an array that runs, its own id.
    pub id: u32,
    /// When it was submitted.
    pub submitted_at: Timestamp,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slurm:{}:{}@{}", self.cluster, self.id, self.submitted_at)
    }
}

/// The text is not a job's identity.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a job such as slurm:main:123@2026-11-30T19:00:00.000Z")]
pub struct ParseJobError {
    text: String,
}

impl FromStr for JobKey {
    type Err = ParseJobError;

    fn from_str(text: &str) -> Result<JobKey, ParseJobError> {
        let parse = || {
            let (name, submitted_at) = text.strip_prefix("slurm:")?.rsplit_once('@')?;
            let (cluster, id) = name.rsplit_once(':')?;
            let submitted_at = submitted_at.parse().ok()?;
            Some(JobKey { cluster: cluster.to_owned(), id: id.parse().ok()?, submitted_at })
        };
        parse().ok_or_else(|| ParseJobError { text: text.chars().take(80).collect() })
    }
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waits.
    Pending,
    /// Runs.
    Running,
    /// Suspended but holds its nodes.
    Suspended,
    /// Ending; still holds its nodes.
    Completing,
    /// Ended with exit code 0.
    Completed,
    /// Ended with another exit code.
    Failed,
    /// Ended by a person.
    Cancelled,
    /// Ended because a node failed.
    NodeFailed,
    /// Ended by its time limit.
    TimedOut,
    /// A state we have no word for.
    Unknown,
}

impl JobState {
    /// The job holds its nodes.
    pub fn holds_nodes(self) -> bool {
        matches!(self, JobState::Running | JobState::Suspended | JobState::Completing)
    }

    /// The job will not run again by itself.
    pub fn ended(self) -> bool {
        matches!(
            self,
            JobState::Completed
                | JobState::Failed
                | JobState::Cancelled
                | JobState::NodeFailed
                | JobState::TimedOut
        )
    }
}

/// Tiers of work; the order is: serving is the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Runs on what is left over.
    Scavenger,
    /// Training and other batch work.
    Batch,
    /// A person waits in front of it.
    Interactive,
    /// Answers requests of users.
    Serving,
}

impl Tier {
    /// The tier that a Slurm QOS or partition is named after; batch where the name says nothing.
    pub fn from_name(name: &str) -> Tier {
        match name {
            "serving" => Tier::Serving,
            "interactive" => Tier::Interactive,
            "scavenger" => Tier::Scavenger,
            _ => Tier::Batch,
        }
    }
}

/// A job as its scheduler sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedJob {
    /// Identity.
    pub key: JobKey,
    /// Where it stands.
    pub state: JobState,
    /// Slurm's account; the project that pays.
    pub project: String,
    /// Tier, from its QOS.
    pub tier: Tier,
    /// Partition.
    pub partition: String,
    /// Nodes that it holds, by their names in the scheduler.
    pub nodes: Vec<String>,
    /// Indexes of the GPUs that it holds on each node; absent where the scheduler does not say.
    pub gpus: BTreeMap<String, Vec<u32>>,
    /// May be requeued (`--requeue`).
    pub requeue: bool,
    /// Times it was requeued.
    pub restarts: u32,
    /// Nodes it asked for by name (`-w`).
    pub pinned: Vec<String>,
    /// When it started last.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}
