//! Nodes, slots and who reports about them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use provost_model::bmc::BmcView;
use provost_model::body::{NodeView, SchedulerName, SourceState};
use provost_model::effect::Effect;
use provost_model::fleet::{GpuFacts, Phase};
use provost_model::ids::{NodeId, SlotId};
use provost_model::policy::Mode;
use provost_model::record::{Subject, SubjectKind};
use provost_model::signal::Impact;
use provost_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::State;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Id.
    pub id: NodeId,
    /// Name.
    pub name: String,
    /// Serial.
    pub serial: Option<String>,
    /// Rack.
    pub rack: Option<String>,
    /// Leaf.
    pub leaf: Option<String>,
    /// Name in its scheduler.
    pub scheduler: Option<SchedulerName>,
    /// GPUs, by index.
    pub gpus: BTreeMap<u32, GpuFacts>,
    /// Phase.
    pub phase: Phase,
    /// Since when.
    pub phase_since: Timestamp,
    /// What the scheduler says; none where it said nothing yet or does not know it.
    pub observed: Option<NodeView>,
    /// Since when the scheduler gives it work or, by drain, down or silence, does not.
    pub observed_at: Option<Timestamp>,
    /// When a result of a write of ours came in last. An answer of the scheduler that was asked for before
    /// then may be older than the write, so it says nothing.
    pub written_at: Option<Timestamp>,
    /// The slot that is this node's own.
    pub slot: Option<SlotId>,
    /// The node has the role of a spare (whatever its phase).
    pub spare: bool,
    /// For a spare: the slot that it serves in.
    pub serves: Option<SlotId>,
    /// What its BMC said last. Whether it still says so is told by the state of the source.
    #[serde(default)]
    pub bmc: Option<BmcView>,
    /// When its BMC was asked and first said so.
    #[serde(default)]
    pub bmc_asked_at: Option<Timestamp>,
    /// Boot id, where an agent told.
    pub boot_id: Option<String>,
    /// Actions that its agent allows.
    pub actions: BTreeSet<String>,
    /// Last verified revalidation that passed.
    pub validated_at: Option<Timestamp>,
    /// When a person released an incident's hold last. Evidence up to then holds the node no more.
    pub cleared_at: Option<Timestamp>,
    /// How writing the desired state into its scheduler stands.
    pub containment: Reconcile,
    /// What it has gone through lately.
    pub history: History,
}

/// What a node has gone through; bounded in number and age.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Incidents that began or came back on it, oldest first.
    pub faults: VecDeque<(Timestamp, Impact)>,
    /// When runbooks brought it back into service, oldest first.
    pub returns: VecDeque<Timestamp>,
}

/// How the tries stand to make the outside what it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconcile {
    /// Failed tries in a row.
    pub failures: u32,
    /// No try before this.
    pub not_before: Option<Timestamp>,
    /// Times in a row that somebody outside undid it soon after.
    pub undone: u32,
    /// When somebody undid it last.
    pub undone_at: Option<Timestamp>,
    /// The effect that observe or advise kept from being done last, so that it is told once.
    pub would_have: Option<Effect>,
}

impl Reconcile {
    /// Failed tries count no more, because their cause is over. A wait for somebody outside goes on.
    pub(crate) fn forgive(&mut self) {
        self.failures = 0;
        if self.undone <= 1 {
            self.not_before = None;
        }
    }
}

/// A promise of one node's capacity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Id.
    pub id: SlotId,
    /// Its own node.
    pub node: NodeId,
    /// Shape: a set of partitions.
    pub partitions: BTreeSet<String>,
    /// The spare that serves in it.
    pub spare: Option<NodeId>,
    /// How bringing that spare in or out stands.
    pub membership: Reconcile,
}

/// State of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceHealth {
    /// State.
    pub state: SourceState,
    /// Since when.
    pub since: Timestamp,
}

/// What an agent told about its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFacts {
    /// Boot id.
    pub boot_id: Option<String>,
    /// Actions that it allows.
    pub actions: BTreeSet<String>,
    /// GPUs that it sees; none where it cannot look.
    pub gpus: Option<Vec<GpuFacts>>,
    /// Version of the agent.
    pub version: String,
}

/// A token for enrolment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentToken {
    /// Node names.
    pub nodes: BTreeSet<String>,
    /// Uses left.
    pub uses: u32,
    /// Until.
    pub expires_at: Timestamp,
}

impl Node {
    /// The node as the subject of a record.
    pub fn subject(&self) -> Subject {
        Subject {
            kind: SubjectKind::Node,
            id: self.id.to_string(),
            name: Some(self.name.clone()),
            node: Some(self.name.clone()),
        }
    }
}

impl State {
    /// The node of a name.
    pub fn node_by_name(&self, name: &str) -> Option<&Node> {
        self.nodes.get(self.node_names.get(name)?)
    }

    /// The node of a name in a scheduler.
    pub fn scheduler_node(&self, cluster: &str, node: &str) -> Option<&Node> {
        let name = SchedulerName { cluster: cluster.to_owned(), node: node.to_owned() };
        self.nodes.get(self.scheduler_names.get(&name)?)
    }

    /// The narrowest mode that is set for a node: node, scheduler, site.
    pub fn mode_of(&self, node: &Node) -> Mode {
        let of_node = self.config.node_modes.get(&node.name).copied();
        let of_cluster = node
            .scheduler
            .as_ref()
            .and_then(|name| self.config.clusters.get(&name.cluster))
            .and_then(|cluster| cluster.mode);
        of_node.or(of_cluster).unwrap_or(self.config.mode)
    }
}
