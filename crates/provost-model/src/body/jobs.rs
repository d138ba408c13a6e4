//! Jobs that hold nodes, without a word of their owners.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::ids::NodeId;
use crate::scheduler::{JobKey, JobState, Tier};
use crate::time::Timestamp;

/// See [`Body::JobObserved`](super::Body::JobObserved).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobObserved {
    /// Identity.
    pub job: JobKey,
    /// Where it stands.
    pub state: JobState,
    /// Project.
    pub project: String,
    /// Tier.
    pub tier: Tier,
    /// Partition.
    pub partition: String,
    /// Nodes that it holds; the last ones where it has ended.
    pub nodes: BTreeSet<NodeId>,
    /// GPU indexes by node; a node is absent where the scheduler does not say.
    pub gpus: BTreeMap<NodeId, BTreeSet<u32>>,
    /// May be requeued.
    pub requeue: bool,
    /// Times it was.
    pub restarts: u32,
    /// Asked for nodes by name.
    pub pinned: BTreeSet<NodeId>,
    /// Start of this run.
    pub started_at: Option<Timestamp>,
    /// End.
    pub ended_at: Option<Timestamp>,
}

/// See [`Body::JobForgotten`](super::Body::JobForgotten).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobForgotten {
    /// Identity.
    pub job: JobKey,
}
