//! Jobs, and the index that tells which of them hold a node.

use std::collections::{BTreeMap, BTreeSet};

use provost_model::ids::NodeId;
use provost_model::scheduler::{JobKey, JobState, Tier};
use provost_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::State;

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Identity.
    pub key: JobKey,
    /// Where it stands.
    pub state: JobState,
    /// Project.
    pub project: String,
    /// Tier.
    pub tier: Tier,
    /// Partition.
    pub partition: String,
    /// Nodes that it holds, or held last.
    pub nodes: BTreeSet<NodeId>,
    /// GPU indexes by node.
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

impl State {
    /// Jobs that hold a node now.
    pub fn jobs_on(&self, node: NodeId) -> impl Iterator<Item = &Job> {
        self.jobs_by_node.get(&node).into_iter().flatten().filter_map(|key| self.jobs.get(key))
    }

    /// Takes a job out of the index of nodes, before it changes.
    pub(crate) fn unindex_job(&mut self, key: &JobKey) {
        let Some(job) = self.jobs.get(key) else { return };
        for node in &job.nodes {
            if let Some(jobs) = self.jobs_by_node.get_mut(node) {
                jobs.remove(key);
                if jobs.is_empty() {
                    self.jobs_by_node.remove(node);
                }
            }
        }
    }

    /// Puts a job into the index of nodes, after it changed.
    pub(crate) fn index_job(&mut self, key: &JobKey) {
        let Some(job) = self.jobs.get(key).filter(|job| job.state.holds_nodes()) else { return };
        for node in &job.nodes {
            self.jobs_by_node.entry(*node).or_default().insert(key.clone());
        }
    }
}
