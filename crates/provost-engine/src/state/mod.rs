//! Everything the engine remembers. Only [`crate::apply`] writes it; each part is written by the concern of
//! the same name.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use provost_model::body::{EpisodeKey, SchedulerName, Source};
use provost_model::ids::{AlertId, ExecutionId, HoldId, IncidentId, NodeId, SlotId};
use provost_model::policy::{EngineConfig, FileModes};
use provost_model::runbook::Runbook;
use provost_model::scheduler::JobKey;
use provost_model::time::Timestamp;
use serde::{Deserialize, Serialize};

mod detection;
mod dirty;
mod effects;
mod fleet;
mod jobs;
mod recovery;
mod response;
mod timers;

pub use detection::{Alert, AlertKey, Episode, Occurrence};
pub use dirty::Dirty;
pub use effects::{OpenEffect, Outstanding, outstanding};
pub use fleet::{AgentFacts, EnrolmentToken, History, Node, Reconcile, Slot, SourceHealth};
pub use jobs::Job;
pub use recovery::{Execution, StepRun};
pub use response::{Deferred, Guard, Hold, Incident};
pub use timers::{TimerKey, Timers, next_deadline};

/// The fold of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Site; given when the journal is made and never changed.
    pub site: String,
    /// Sequence that the next record gets.
    pub seq: u64,
    /// Epoch of the controller that writes now; 0 before the first start.
    pub epoch: u64,
    /// Configuration in force, with the changes that people made to modes.
    pub config: EngineConfig,
    /// Modes as the file gave them last.
    pub file_modes: FileModes,
    /// Runbooks in force by id: version.
    pub runbooks_current: BTreeMap<String, String>,
    /// Runbook versions that are in force or in use, by version.
    pub runbooks: BTreeMap<String, Runbook>,
    /// The guard.
    pub guard: Guard,
    /// Nodes by id.
    pub nodes: BTreeMap<NodeId, Node>,
    /// Node names to ids.
    pub node_names: BTreeMap<String, NodeId>,
    /// (cluster, name there) to ids.
    pub scheduler_names: BTreeMap<SchedulerName, NodeId>,
    /// Slots by id.
    pub slots: BTreeMap<SlotId, Slot>,
    /// Sources that reported once.
    pub sources: BTreeMap<Source, SourceHealth>,
    /// What agents told last, by node name; an agent may report before its node is adopted.
    pub agents: BTreeMap<String, AgentFacts>,
    /// Enrolment tokens by SHA-256, with the uses that are left.
    pub tokens: BTreeMap<String, EnrolmentToken>,
    /// Jobs that hold nodes, and those that ended lately.
    pub jobs: BTreeMap<JobKey, Job>,
    /// Jobs that hold a node now, by node.
    pub jobs_by_node: BTreeMap<NodeId, BTreeSet<JobKey>>,
    /// Clusters in which notes of ours may stand at jobs.
    pub noted: BTreeSet<String>,
    /// Episodes that may still repeat; bounded.
    pub episodes: BTreeMap<EpisodeKey, Episode>,
    /// Openings of episodes with their sequence, oldest first: what is dropped next.
    pub episode_order: VecDeque<(u64, Timestamp, EpisodeKey)>,
    /// Open alerts, resolved ones of incidents that are kept, and other resolved ones for a while; bounded.
    pub alerts: BTreeMap<AlertId, Alert>,
    /// Open alerts by what makes two alerts the same.
    pub open_alerts: BTreeMap<AlertKey, AlertId>,
    /// Resolved alerts without an incident, oldest first: what is dropped next.
    pub ended_alerts: VecDeque<AlertId>,
    /// Open incidents, and ended ones for a while; bounded.
    pub incidents: BTreeMap<IncidentId, Incident>,
    /// Ended incidents, oldest first: what is dropped next.
    pub ended_incidents: VecDeque<IncidentId>,
    /// Incident numbers to ids.
    pub incident_numbers: BTreeMap<String, IncidentId>,
    /// Last incident number of a year.
    pub incident_counter: BTreeMap<i64, u32>,
    /// Holds in force.
    pub holds: BTreeMap<HoldId, Hold>,
    /// Intents without a final result, by sequence.
    pub effects: BTreeMap<u64, OpenEffect>,
    /// Executions that are not final, and final ones for a while; bounded.
    pub executions: BTreeMap<ExecutionId, Execution>,
    /// Those that are not final.
    pub open_executions: BTreeSet<ExecutionId>,
    /// Deadlines.
    pub timers: Timers,
    /// What the current turn touched. Not part of the fold: empty after a turn, ignored by comparison.
    #[serde(skip)]
    pub dirty: Dirty,
}

impl State {
    /// The State of an empty journal.
    pub fn new(site: &str) -> State {
        State {
            site: site.to_owned(),
            seq: 0,
            epoch: 0,
            config: EngineConfig { site: site.to_owned(), ..EngineConfig::default() },
            file_modes: FileModes::default(),
            runbooks_current: BTreeMap::new(),
            runbooks: BTreeMap::new(),
            guard: Guard::default(),
            nodes: BTreeMap::new(),
            node_names: BTreeMap::new(),
            scheduler_names: BTreeMap::new(),
            slots: BTreeMap::new(),
            sources: BTreeMap::new(),
            agents: BTreeMap::new(),
            tokens: BTreeMap::new(),
            jobs: BTreeMap::new(),
            noted: BTreeSet::new(),
            jobs_by_node: BTreeMap::new(),
            episodes: BTreeMap::new(),
            episode_order: VecDeque::new(),
            alerts: BTreeMap::new(),
            open_alerts: BTreeMap::new(),
            ended_alerts: VecDeque::new(),
            incidents: BTreeMap::new(),
            ended_incidents: VecDeque::new(),
            incident_numbers: BTreeMap::new(),
            incident_counter: BTreeMap::new(),
            holds: BTreeMap::new(),
            effects: BTreeMap::new(),
            executions: BTreeMap::new(),
            open_executions: BTreeSet::new(),
            timers: Timers::default(),
            dirty: Dirty::default(),
        }
    }
}
