//! Everything the engine remembers. Only [`crate::apply`] writes it; each part is written by the concern of
//! the same name.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use provost_model::body::{EffectRequested, EpisodeKey, NodeView, SchedulerName, Source, SourceState};
use provost_model::effect::{Approach, Effect, EffectResult};
use provost_model::fleet::{GpuFacts, Phase};
use provost_model::ids::{AlertId, ExecutionId, HoldId, IncidentId, NodeId, SlotId};
use provost_model::policy::{EngineConfig, FileModes, Mode};
use provost_model::record::{Subject, SubjectKind};
use provost_model::response::{AlertState, Classification, HoldOwner, IncidentState, Severity};
use provost_model::runbook::{ExecutionState, Runbook, StepState};
use provost_model::scheduler::{JobKey, JobState, Tier};
use provost_model::signal::{Impact, SignalFields, Trust};
use provost_model::time::Timestamp;
use serde::{Deserialize, Serialize};

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
    /// Episodes that may still repeat; bounded.
    pub episodes: BTreeMap<EpisodeKey, Episode>,
    /// Openings of episodes, oldest first: what is dropped next.
    pub episode_order: VecDeque<(u64, EpisodeKey)>,
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

/// The guard: what stops automation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// A person said stop.
    pub stopped: bool,
    /// Too much was unavailable; a person must reset it.
    pub breaker_tripped: bool,
    /// When a person reset it last; only an outage that began later trips it again.
    pub breaker_reset_at: Option<Timestamp>,
    /// Isolations by automation inside the governor's window, oldest first.
    pub isolations: VecDeque<(Timestamp, NodeId)>,
    /// Isolations that wait for budget.
    pub deferred: BTreeMap<NodeId, Deferred>,
}

/// An isolation that waits for budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deferred {
    /// Incident that asks for it.
    pub incident: IncidentId,
    /// Earliest time.
    pub not_before: Timestamp,
}

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

/// An episode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Episode {
    /// Sequence of its `episode.opened`: the evidence.
    pub seq: u64,
    /// Judgement.
    pub impact: Impact,
    /// Parsed parts.
    pub fields: SignalFields,
    /// When the kernel wrote the first.
    pub first_at: Timestamp,
    /// When the controller took it.
    pub detected_at: Timestamp,
    /// Last one.
    pub last_at: Timestamp,
    /// Times seen.
    pub count: u64,
    /// History.
    pub historic: bool,
    /// Where it came from.
    pub trust: Trust,
    /// Job on the device.
    pub job: Option<JobKey>,
    /// The alert that it belongs to.
    pub alert: Option<AlertId>,
}

/// What makes two alerts of the site the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AlertKey {
    /// Kind of the subject.
    pub kind: SubjectKind,
    /// Stable id of the subject.
    pub subject: String,
    /// Condition.
    pub condition: String,
}

/// An alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// Id.
    pub id: AlertId,
    /// Condition.
    pub condition: String,
    /// Subject.
    pub subject: Subject,
    /// Node.
    pub node: Option<NodeId>,
    /// GPU index.
    pub gpu: Option<u32>,
    /// State.
    pub state: AlertState,
    /// Implications.
    pub classifications: BTreeSet<Classification>,
    /// Gravity.
    pub impact: Impact,
    /// Has no level.
    pub event: bool,
    /// First evidence.
    pub first_at: Timestamp,
    /// Last evidence.
    pub last_at: Timestamp,
    /// When it came to the controller.
    pub raised_at: Timestamp,
    /// Since when it is in its state.
    pub state_since: Timestamp,
    /// Times seen.
    pub count: u64,
    /// Records that are the evidence; the first and the last few.
    pub evidence: Vec<u64>,
    /// Incident.
    pub incident: Option<IncidentId>,
    /// Runbook that the catalogue names.
    pub runbook: Option<String>,
}

/// An incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// Id.
    pub id: IncidentId,
    /// Number.
    pub number: String,
    /// Title.
    pub title: String,
    /// State.
    pub state: IncidentState,
    /// Since when.
    pub state_since: Timestamp,
    /// Severity.
    pub severity: Severity,
    /// A person set it, so rules leave it alone.
    pub severity_set: bool,
    /// Subject of the first alert.
    pub subject: Subject,
    /// Node.
    pub node: Option<NodeId>,
    /// Alerts.
    pub alerts: Vec<AlertId>,
    /// Jobs that were hit.
    pub jobs: Vec<JobKey>,
    /// First evidence.
    pub fault_at: Timestamp,
    /// First signal.
    pub detected_at: Timestamp,
    /// Opened.
    pub opened_at: Timestamp,
    /// Acknowledged.
    pub acked_at: Option<Timestamp>,
    /// Acknowledgement holds until.
    pub ack_until: Option<Timestamp>,
    /// Isolated.
    pub isolated_at: Option<Timestamp>,
    /// Mitigated.
    pub mitigated_at: Option<Timestamp>,
    /// Resolved.
    pub resolved_at: Option<Timestamp>,
    /// Times it came back after it was resolved.
    pub reopened: u32,
    /// Owner.
    pub owner: Option<String>,
    /// Executions, in order.
    pub executions: Vec<ExecutionId>,
    /// Effects that the mode kept from being done, oldest first; bounded.
    pub would_have: Vec<Effect>,
}

/// A hold in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Id.
    pub id: HoldId,
    /// Owner.
    pub owner: HoldOwner,
    /// Node.
    pub node: NodeId,
    /// GPU index.
    pub gpu: Option<u32>,
    /// Short reason.
    pub reason: String,
    /// Since.
    pub since: Timestamp,
    /// Until.
    pub until: Option<Timestamp>,
}

/// An intent without a final result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenEffect {
    /// What and why.
    pub requested: EffectRequested,
    /// When it was recorded.
    pub at: Timestamp,
    /// Epoch that recorded it.
    pub epoch: u64,
    /// Nobody knows whether it is done: only probe.
    pub unknown: bool,
    /// Probes that gave no answer.
    pub probes: u32,
}

/// An execution of a runbook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// Id.
    pub id: ExecutionId,
    /// Runbook.
    pub runbook: String,
    /// Version that it keeps.
    pub version: String,
    /// State.
    pub state: ExecutionState,
    /// Since when.
    pub state_since: Timestamp,
    /// Why.
    pub why: String,
    /// Incident.
    pub incident: Option<IncidentId>,
    /// Node.
    pub node: Option<NodeId>,
    /// GPU index.
    pub gpu: Option<u32>,
    /// Job.
    pub job: Option<JobKey>,
    /// Condition that it answers, where it runs without an incident.
    pub condition: Option<String>,
    /// What an approval binds to.
    pub plan: String,
    /// Who asked for it: a person, or the engine's rules. May not approve it.
    pub requested_by: String,
    /// Who approved the plan so far.
    pub approvals: BTreeSet<String>,
    /// Enough people approved the plan.
    pub approved: bool,
    /// Asked to stop between steps.
    pub pause_requested: bool,
    /// Steps, in the order of the runbook.
    pub steps: Vec<StepRun>,
    /// Made.
    pub created_at: Timestamp,
    /// Over.
    pub ended_at: Option<Timestamp>,
}

/// A step of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRun {
    /// Id.
    pub id: String,
    /// State.
    pub state: StepState,
    /// Attempts, counting the running one.
    pub attempts: u32,
    /// Begin.
    pub started_at: Option<Timestamp>,
    /// End.
    pub ended_at: Option<Timestamp>,
    /// Deadline or next attempt.
    pub until: Option<Timestamp>,
    /// Code of the last change.
    pub why: String,
    /// What it found.
    pub result: Option<String>,
    /// Begin of the running attempt, or of the wait; its time limit counts from here.
    pub attempt_at: Option<Timestamp>,
    /// Intents of the running attempt and what became of them.
    pub intents: BTreeMap<u64, Option<EffectResult>>,
    /// What these intents are for.
    pub wanted: BTreeMap<u64, Effect>,
    /// Effects that the mode kept from being done in the running attempt.
    pub would_have: u32,
    /// Answers, where a person acted.
    pub answers: BTreeMap<String, String>,
}

/// What a deadline belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TimerKey {
    /// `clear_hold` of an alert.
    Alert(AlertId),
    /// `resolve_hold`, acknowledgement of an incident.
    Incident(IncidentId),
    /// End of a hold.
    Hold(HoldId),
    /// Phase limit of a node.
    Phase(NodeId),
    /// Next try of containment, or a deferred isolation.
    Containment(NodeId),
    /// Next try to bring a slot's spare in or out.
    Slot(SlotId),
    /// Deadline of an intent.
    Effect(u64),
    /// Deadline of an execution's step.
    Execution(ExecutionId),
}

/// Deadlines in order of time, at most one a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timers {
    by_key: BTreeMap<TimerKey, Timestamp>,
    by_time: BTreeSet<(Timestamp, TimerKey)>,
}

impl Timers {
    /// Sets or removes the deadline of `key`.
    pub fn set(&mut self, key: TimerKey, at: Option<Timestamp>) {
        if let Some(old) = self.by_key.remove(&key) {
            self.by_time.remove(&(old, key.clone()));
        }
        if let Some(at) = at {
            self.by_key.insert(key.clone(), at);
            self.by_time.insert((at, key));
        }
    }

    /// The deadline of `key`.
    pub fn get(&self, key: &TimerKey) -> Option<Timestamp> {
        self.by_key.get(key).copied()
    }

    /// The first deadline.
    pub fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Keys whose deadline is not after `now`.
    pub fn due(&self, now: Timestamp) -> impl Iterator<Item = &TimerKey> {
        self.by_time.iter().take_while(move |(at, _)| *at <= now).map(|(_, key)| key)
    }
}

/// What the current turn touched; concerns look at these only.
#[derive(Clone, Debug, Default)]
pub struct Dirty {
    /// A start, a new configuration, the guard: everything must be looked at.
    pub all: bool,
    /// Nodes.
    pub nodes: BTreeSet<NodeId>,
    /// Jobs.
    pub jobs: BTreeSet<JobKey>,
    /// Episodes.
    pub episodes: BTreeSet<EpisodeKey>,
    /// Alerts.
    pub alerts: BTreeSet<AlertId>,
    /// Incidents.
    pub incidents: BTreeSet<IncidentId>,
    /// Executions.
    pub executions: BTreeSet<ExecutionId>,
    /// Sources.
    pub sources: BTreeSet<Source>,
}

impl PartialEq for Dirty {
    /// Always equal: it is no part of the fold.
    fn eq(&self, _: &Dirty) -> bool {
        true
    }
}

impl Dirty {
    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Dirty::default();
    }
}

/// What executors must be doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// Sequence of the intent; the key.
    pub intent: u64,
    /// Epoch that is in force.
    pub epoch: u64,
    /// What.
    pub effect: Effect,
    /// Whether to act or only to ask.
    pub approach: Approach,
    /// Probes that were tried before; an executor waits longer each time.
    pub probes: u32,
    /// Until when a result is expected.
    pub deadline: Timestamp,
}

/// The outbox: intents without a final result. Empty in a quiet system.
pub fn outstanding(state: &State) -> impl Iterator<Item = Outstanding> + '_ {
    state.effects.iter().map(|(seq, open)| Outstanding {
        intent: *seq,
        epoch: state.epoch,
        effect: open.requested.effect.clone(),
        approach: if open.unknown || open.epoch != state.epoch { Approach::Probe } else { Approach::Act },
        probes: open.probes,
        deadline: open.requested.deadline,
    })
}

/// When the engine must be woken although nothing happens.
pub fn next_deadline(state: &State) -> Option<Timestamp> {
    state.timers.next()
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

    /// The node of a name.
    pub fn node_by_name(&self, name: &str) -> Option<&Node> {
        self.nodes.get(self.node_names.get(name)?)
    }

    /// The node of a name in a scheduler.
    pub fn scheduler_node(&self, cluster: &str, node: &str) -> Option<&Node> {
        let name = SchedulerName { cluster: cluster.to_owned(), node: node.to_owned() };
        self.nodes.get(self.scheduler_names.get(&name)?)
    }

    /// The incident of a number.
    pub fn incident_by_number(&self, number: &str) -> Option<&Incident> {
        self.incidents.get(self.incident_numbers.get(number)?)
    }

    /// Holds on a node or on one of its GPUs.
    pub fn holds_on(&self, node: NodeId) -> impl Iterator<Item = &Hold> {
        self.holds.values().filter(move |hold| hold.node == node)
    }

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

    /// Marks what the deadlines up to `now` belong to as touched.
    pub(crate) fn mark_due(&mut self, now: Timestamp) {
        let due: Vec<TimerKey> = self.timers.due(now).cloned().collect();
        for key in due {
            match key {
                TimerKey::Alert(id) => drop(self.dirty.alerts.insert(id)),
                TimerKey::Incident(id) => drop(self.dirty.incidents.insert(id)),
                TimerKey::Hold(id) => {
                    if let Some(hold) = self.holds.get(&id) {
                        self.dirty.nodes.insert(hold.node);
                    }
                }
                TimerKey::Phase(id) | TimerKey::Containment(id) => drop(self.dirty.nodes.insert(id)),
                TimerKey::Slot(id) => self.mark_slot(id),
                TimerKey::Effect(seq) => self.mark_effect(seq),
                TimerKey::Execution(id) => drop(self.dirty.executions.insert(id)),
            }
        }
    }

    /// Marks what an intent belongs to as touched.
    pub(crate) fn mark_effect(&mut self, seq: u64) {
        use provost_model::body::Purpose;
        match self.effects.get(&seq).map(|open| open.requested.purpose.clone()) {
            Some(Purpose::Containment { node }) => drop(self.dirty.nodes.insert(node)),
            Some(Purpose::Step { execution, .. } | Purpose::Undo { execution, .. }) => {
                self.dirty.executions.insert(execution);
            }
            Some(Purpose::Slot { slot }) => self.mark_slot(slot),
            Some(Purpose::Detach | Purpose::Command { .. }) | None => {}
        }
    }

    /// Marks a slot's own node and its spare as touched.
    pub(crate) fn mark_slot(&mut self, id: SlotId) {
        if let Some(slot) = self.slots.get(&id) {
            self.dirty.nodes.insert(slot.node);
            self.dirty.nodes.extend(slot.spare);
        }
    }

    /// Nodes that this turn touched.
    pub(crate) fn touched_nodes(&self) -> Vec<&Node> {
        if self.dirty.all {
            self.nodes.values().collect()
        } else {
            self.dirty.nodes.iter().filter_map(|id| self.nodes.get(id)).collect()
        }
    }
}
