//! A small scheduler that behaves as Slurm was seen to: the last writer wins, a drain needs a reason, there is no
//! compare-and-swap, partitions changed at run time are forgotten at a reconfigure.
//!
//! It also remembers every change of a node with who made it, as Slurm's accounting does; the checkers and the
//! adapter's look for lost drains read that.

use std::collections::{BTreeMap, BTreeSet};

use provost_model::scheduler::{Observation, ObservedNode, REASON_PREFIX};
use provost_model::time::Timestamp;

use super::layout::{self, Layout};
use super::queue::Queue;

/// Slurm's own name for itself as the author of a reason.
pub const SLURM_USER: &str = "slurm";

/// A node as the scheduler knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// DRAIN.
    pub drain: bool,
    /// DOWN.
    pub down: bool,
    /// NOT_RESPONDING.
    pub not_responding: bool,
    /// Reason; empty where none.
    pub reason: String,
    /// Who set it.
    pub reason_user: Option<String>,
    /// When.
    pub reason_at: Option<Timestamp>,
    /// Comment.
    pub comment: String,
    /// GPUs that jobs hold: index to JobId.
    pub used: BTreeMap<u32, u32>,
}

impl Node {
    /// New work may come.
    pub fn is_schedulable(&self) -> bool {
        !self.drain && !self.down && !self.not_responding
    }

    /// No new work comes: drained or down.
    pub fn is_closed(&self) -> bool {
        self.drain || self.down
    }

    /// The reason starts as ours do.
    pub fn reason_is_ours(&self) -> bool {
        self.reason.starts_with(REASON_PREFIX)
    }

    /// Flags as Slurm writes them.
    pub fn state(&self) -> String {
        let base = match self.used.len() {
            _ if self.down => "DOWN",
            0 => "IDLE",
            used if used >= layout::GPUS as usize => "ALLOCATED",
            _ => "MIXED",
        };
        let flags = [(self.drain, "+DRAIN"), (self.not_responding, "+NOT_RESPONDING")];
        flags.iter().filter(|(set, _)| *set).fold(base.to_owned(), |text, (_, flag)| text + flag)
    }
}

/// A change of a node, as `sacctmgr show event` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// When.
    pub at: Timestamp,
    /// Node.
    pub node: String,
    /// Who.
    pub user: String,
    /// Drained with this reason; none where the drain ended.
    pub drained: Option<String>,
}

/// The scheduler.
#[derive(Debug)]
pub struct Slurm {
    nodes: BTreeMap<String, Node>,
    /// As slurm.conf says; what a reconfigure goes back to.
    configured: BTreeMap<String, BTreeSet<String>>,
    partitions: BTreeMap<String, BTreeSet<String>>,
    events: Vec<NodeEvent>,
    /// Jobs.
    pub queue: Queue,
    /// slurmctld does not answer. Running jobs run on, nothing starts.
    pub away: bool,
}

impl Slurm {
    /// The scheduler of a site, with every node idle. `cred_expire` is the wait of a requeued job.
    pub fn new(layout: &Layout, cred_expire: std::time::Duration) -> Slurm {
        let partitions: BTreeMap<String, BTreeSet<String>> = layout
            .partitions()
            .into_iter()
            .map(|(name, nodes)| (name, nodes.into_iter().collect()))
            .collect();
        Slurm {
            nodes: layout.names().into_iter().map(|name| (name, Node::default())).collect(),
            configured: partitions.clone(),
            partitions,
            events: Vec::new(),
            queue: Queue::new(cred_expire),
            away: false,
        }
    }

    /// A node; none where there is none of that name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// Every node by name.
    pub fn nodes(&self) -> &BTreeMap<String, Node> {
        &self.nodes
    }

    /// Nodes of a partition.
    pub fn partition(&self, name: &str) -> impl Iterator<Item = &String> {
        self.partitions.get(name).into_iter().flatten()
    }

    /// Partitions that list a node.
    pub fn partitions_of(&self, node: &str) -> Vec<String> {
        let lists = self.partitions.iter().filter(|(_, nodes)| nodes.contains(node));
        lists.map(|(name, _)| name.clone()).collect()
    }

    /// Changes of nodes, oldest first.
    pub fn events(&self) -> &[NodeEvent] {
        &self.events
    }

    /// `scontrol update State=DRAIN Reason=…`: overwrites whatever reason there was. An empty reason (which
    /// slurmrestd takes) keeps the old one.
    pub fn drain(&mut self, now: Timestamp, name: &str, user: &str, reason: &str) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.drain = true;
        if !reason.is_empty() {
            node.reason = reason.to_owned();
            node.reason_user = Some(user.to_owned());
            node.reason_at = Some(now);
        }
        self.note(now, name, user, Some(reason.to_owned()));
    }

    /// `scontrol update State=UNDRAIN` or, where a node is down, `RESUME`: the reason goes too.
    pub fn resume(&mut self, now: Timestamp, name: &str, user: &str) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.drain = false;
        if !node.not_responding {
            node.down = false;
        }
        (node.reason, node.reason_user, node.reason_at) = (String::new(), None, None);
        self.note(now, name, user, None);
        self.queue.wake();
    }

    /// `scontrol update Comment=…`.
    pub fn comment(&mut self, name: &str, text: &str) {
        if let Some(node) = self.nodes.get_mut(name) {
            text.clone_into(&mut node.comment);
        }
    }

    fn note(&mut self, at: Timestamp, node: &str, user: &str, drained: Option<String>) {
        self.events.push(NodeEvent { at, node: node.to_owned(), user: user.to_owned(), drained });
    }

    /// slurmd of a node is not heard from, or is again.
    pub fn set_responding(&mut self, name: &str, responding: bool) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.not_responding = !responding;
        if responding && node.down {
            // ReturnToService=1.
            node.down = false;
            if node.reason_user.as_deref() == Some(SLURM_USER) {
                (node.reason, node.reason_user, node.reason_at) = (String::new(), None, None);
            }
        }
        self.queue.wake();
    }

    /// SlurmdTimeout is over: the node is down, and its jobs are requeued or have failed.
    pub fn set_down(&mut self, now: Timestamp, name: &str) {
        let Some(node) = self.nodes.get_mut(name).filter(|node| node.not_responding) else { return };
        node.down = true;
        if node.reason.is_empty() {
            node.reason = "Not responding".to_owned();
            node.reason_user = Some(SLURM_USER.to_owned());
            node.reason_at = Some(now);
        }
        let jobs: BTreeSet<u32> = node.used.values().copied().collect();
        for job in jobs {
            self.queue.lose_node(now, job, &mut self.nodes);
        }
    }

    /// `scontrol reconfigure`: partitions are as in slurm.conf again, and nodes are not heard for a moment.
    pub fn reconfigure(&mut self) {
        self.partitions.clone_from(&self.configured);
        for node in self.nodes.values_mut() {
            node.not_responding = true;
        }
    }

    /// Adds a node to partitions, or takes it out.
    pub fn set_membership(&mut self, name: &str, partitions: &[String], member: bool) {
        for (_, nodes) in self.partitions.iter_mut().filter(|(partition, _)| partitions.contains(partition)) {
            if member {
                nodes.insert(name.to_owned());
            } else {
                nodes.remove(name);
            }
        }
        self.queue.wake();
    }

    /// When something happens by itself.
    pub fn next_change(&self) -> Option<Timestamp> {
        self.queue.next_change().filter(|_| !self.away)
    }

    /// Lets everything happen that is due: jobs end, wait no longer, start.
    pub fn advance(&mut self, now: Timestamp) {
        if !self.away {
            self.queue.advance(now, &mut self.nodes, &self.partitions);
        }
    }

    /// What a poll that began at `at` reads now. A squeue lists waiting jobs only where they ran before, as the
    /// adapter gives them on.
    pub fn observe(&self, at: Timestamp) -> Observation {
        let nodes = self.nodes.iter().map(|(name, node)| (name.clone(), self.observed(name, node)));
        Observation {
            cluster: layout::CLUSTER.to_owned(),
            at,
            nodes: nodes.collect(),
            jobs: self.queue.observed(),
            jobs_pending: self.queue.pending(),
            partitions: self
                .partitions
                .iter()
                .map(|(name, nodes)| (name.clone(), nodes.iter().cloned().collect()))
                .collect(),
            unparsed: 0,
        }
    }

    fn observed(&self, name: &str, node: &Node) -> ObservedNode {
        ObservedNode {
            drain: node.drain,
            down: node.down,
            not_responding: node.not_responding,
            busy: !node.used.is_empty(),
            maintenance: false,
            state: node.state(),
            reason: node.reason.clone(),
            reason_user: node.reason_user.clone(),
            reason_at: node.reason_at,
            comment: node.comment.clone(),
            partitions: self.partitions_of(name),
            gpus: Some(layout::GPUS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::layout::BEGIN;

    #[test]
    fn the_last_writer_wins_and_all_are_remembered() {
        let mut slurm = Slurm::new(&Layout { nodes: 2, spares: 1 }, std::time::Duration::from_secs(5));
        slurm.drain(BEGIN, "gpu001", "provost", "provost INC-1: x");
        slurm.drain(BEGIN, "gpu001", "alice", "dimm");
        let node = slurm.node("gpu001").unwrap();
        assert_eq!((node.reason.as_str(), node.state().as_str()), ("dimm", "IDLE+DRAIN"));
        slurm.resume(BEGIN, "gpu001", "bob");
        assert!(slurm.node("gpu001").unwrap().is_schedulable());
        let told: Vec<_> = slurm.events().iter().map(|e| (e.user.as_str(), e.drained.as_deref())).collect();
        assert_eq!(told, [("provost", Some("provost INC-1: x")), ("alice", Some("dimm")), ("bob", None)]);
    }

    #[test]
    fn a_reconfigure_forgets_what_was_not_in_the_file() {
        let mut slurm = Slurm::new(&Layout { nodes: 2, spares: 1 }, std::time::Duration::from_secs(5));
        slurm.set_membership("spare01", &["batch".to_owned()], true);
        assert_eq!(slurm.partitions_of("spare01"), ["batch", "spare"]);
        slurm.reconfigure();
        assert_eq!(slurm.partitions_of("spare01"), ["spare"]);
        assert!(!slurm.node("gpu001").unwrap().is_schedulable());
        slurm.set_responding("gpu001", true);
        assert!(slurm.node("gpu001").unwrap().is_schedulable());
    }
}
