//! What a record says: one variant a type of event. `type` and `data` of the journal are exactly this enum.
//!
//! A variant says what was decided, completely enough that `apply` needs nothing else: no catalogue, no
//! configuration, no clock. Adding a variant is compatible; changing one needs a new name.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::effect::{Effect, EffectResult};
use crate::fleet::{GpuFacts, NodeFacts, Phase};
use crate::ids::{AlertId, ExecutionId, HoldId, IncidentId, NodeId, SlotId};
use crate::policy::{EngineConfig, FileModes, Mode, ModeScope};
use crate::record::Subject;
use crate::response::{AlertState, Classification, Clock, HoldOwner, IncidentState, Severity};
use crate::runbook::{ExecutionState, Runbook, StepState};
use crate::scheduler::{JobKey, JobState, Tier};
use crate::signal::{Impact, PciAddress, SignalFields, SignalKind, Trust};
use crate::time::Timestamp;

macro_rules! bodies {
    ($($(#[$doc:meta])* $variant:ident($payload:ident) = $name:literal,)*) => {
        /// One event.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "type", content = "data")]
        pub enum Body {
            $($(#[$doc])* #[serde(rename = $name)] $variant($payload),)*
        }

        impl Body {
            /// The type as written.
            pub const fn kind(&self) -> &'static str {
                match self { $(Body::$variant(_) => $name,)* }
            }
        }

        /// Every type of event, in the order of the enum.
        pub const KINDS: &[&str] = &[$($name),*];
    };
}

bodies! {
    /// A controller took the journal over.
    ControllerStarted(ControllerStarted) = "controller.started",
    /// The configuration that holds from here on.
    ConfigApplied(ConfigApplied) = "config.applied",
    /// Part of the inventory changed.
    InventoryApplied(InventoryApplied) = "inventory.applied",
    /// A version of a runbook became known.
    RunbookPublished(RunbookPublished) = "runbook.published",
    /// A mode was changed by a person.
    ModeChanged(ModeChanged) = "mode.changed",
    /// No new action from here on.
    GuardStopped(Empty) = "guard.stopped",
    /// Actions are allowed again.
    GuardStarted(Empty) = "guard.started",
    /// Too much is unavailable: no new automatic disruption.
    BreakerTripped(BreakerTripped) = "breaker.tripped",
    /// A person reset the breaker.
    BreakerReset(Empty) = "breaker.reset",
    /// A command was refused.
    CommandDenied(CommandDenied) = "command.denied",
    /// Records of the emergency journal were taken over.
    EmergencyMerged(EmergencyMerged) = "journal.emergency_merged",
    /// Signals came while the journal could not be written.
    SignalsNotRecorded(SignalsNotRecorded) = "signals.not_recorded",

    /// A token for enrolment was made.
    AgentTokenCreated(AgentTokenCreated) = "agent.token_created",
    /// An agent got a certificate.
    AgentEnrolled(AgentEnrolled) = "agent.enrolled",
    /// An agent reported its boot and devices.
    AgentReported(AgentReported) = "agent.reported",
    /// A source fell silent, went blind or came back.
    SourceChanged(SourceChanged) = "source.changed",

    /// A node became known.
    NodeAdopted(NodeAdopted) = "node.adopted",
    /// The scheduler's view of a node changed.
    NodeObserved(NodeObserved) = "node.observed",
    /// A node's phase changed.
    NodePhaseChanged(NodePhaseChanged) = "node.phase_changed",
    /// A GPU that was known by its place is known by its UUID.
    GpuIdentified(GpuIdentified) = "gpu.identified",
    /// A production node's capacity became a slot.
    SlotCreated(SlotCreated) = "slot.created",
    /// A spare serves in a slot.
    SlotBound(SlotBound) = "slot.bound",
    /// The spare serves there no longer.
    SlotUnbound(SlotUnbound) = "slot.unbound",

    /// A job that holds nodes appeared or changed, or one that we know ended.
    JobObserved(JobObserved) = "job.observed",
    /// A job is not followed any more.
    JobForgotten(JobForgotten) = "job.forgotten",

    /// A condition was seen for the first time, or again after its episode was over.
    EpisodeOpened(EpisodeOpened) = "episode.opened",
    /// The same condition was seen again inside its episode.
    EpisodeRepeated(EpisodeRepeated) = "episode.repeated",
    /// An alert fires.
    AlertRaised(AlertRaised) = "alert.raised",
    /// An alert moved on.
    AlertChanged(AlertChanged) = "alert.changed",

    /// An incident was opened.
    IncidentOpened(IncidentOpened) = "incident.opened",
    /// An alert was attached to an incident.
    IncidentAttached(IncidentAttached) = "incident.attached",
    /// An incident moved on.
    IncidentChanged(IncidentChanged) = "incident.changed",
    /// Its severity changed.
    IncidentSeverity(IncidentSeverity) = "incident.severity_changed",
    /// A person took it, until a time.
    IncidentAcknowledged(IncidentAcknowledged) = "incident.acknowledged",
    /// A point of its clock was reached.
    IncidentClock(IncidentClock) = "incident.clock",
    /// A note; the text is sealed.
    IncidentNoted(IncidentRef) = "incident.noted",
    /// A job turned out to be hit.
    IncidentJob(IncidentJob) = "incident.job_attached",

    /// A hold was placed.
    HoldPlaced(HoldPlaced) = "hold.placed",
    /// A hold was released by its owner.
    HoldReleased(HoldReleased) = "hold.released",
    /// An isolation waits for the governor.
    IsolationDeferred(IsolationDeferred) = "isolation.deferred",

    /// Intent: to be done outside. Its sequence is its key.
    EffectRequested(EffectRequested) = "effect.requested",
    /// Result of an intent.
    EffectCompleted(EffectCompleted) = "effect.completed",
    /// An intent is given up: nobody will act on it any more.
    EffectVoided(EffectVoided) = "effect.voided",
    /// In observe or advise: would have been done.
    WouldHave(WouldHave) = "effect.would_have",

    /// An execution was made.
    ExecutionCreated(ExecutionCreated) = "execution.created",
    /// An execution moved on.
    ExecutionChanged(ExecutionChanged) = "execution.changed",
    /// A step moved on.
    StepChanged(StepChanged) = "step.changed",
    /// A person answered a human step; free text is sealed.
    HumanAnswered(HumanAnswered) = "human.answered",
    /// A person decided on an approval.
    ApprovalDecided(ApprovalDecided) = "approval.decided",
}

/// No data beyond the record's own fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// See [`Body::ControllerStarted`]. Every intent of an older epoch is unknown from here on (ruling 27).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerStarted {
    /// Version of the program.
    pub version: String,
}

/// See [`Body::ConfigApplied`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigApplied {
    /// Everything but the inventory, which may be larger than a record: `inventory` is empty here. Modes are those
    /// in force: a person's change outlives a restart until the file's own word changes.
    pub config: EngineConfig,
    /// Modes as the file gives them, so that the next start can tell whether the file changed its word.
    pub file_modes: FileModes,
}

/// See [`Body::InventoryApplied`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryApplied {
    /// Nodes that are new or differ; a record holds as many as fit.
    pub nodes: Vec<NodeFacts>,
    /// Names that the inventory no longer lists.
    pub removed: BTreeSet<String>,
}

/// See [`Body::RunbookPublished`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunbookPublished {
    /// SHA-256 of the file, in hex.
    pub version: String,
    /// The runbook.
    pub runbook: Runbook,
}

/// See [`Body::ModeChanged`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeChanged {
    /// Where.
    pub scope: ModeScope,
    /// What; null removes the setting of a node or scheduler.
    pub mode: Option<Mode>,
}

/// See [`Body::BreakerTripped`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerTripped {
    /// Nodes that are unavailable.
    pub unavailable: u32,
    /// Nodes in all.
    pub nodes: u32,
}

/// See [`Body::CommandDenied`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandDenied {
    /// Name of the command.
    pub command: String,
    /// Why: `forbidden`, or a rule's code.
    pub code: String,
}

/// See [`Body::EmergencyMerged`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmergencyMerged {
    /// Number of records taken over.
    pub entries: u64,
    /// When the journal became unavailable.
    pub since: Timestamp,
}

/// See [`Body::SignalsNotRecorded`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalsNotRecorded {
    /// How many.
    pub count: u64,
}

/// See [`Body::AgentTokenCreated`].
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

/// See [`Body::AgentEnrolled`].
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

/// See [`Body::AgentReported`].
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

/// See [`Body::SourceChanged`].
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
}

impl Source {
    /// `agent:gpu001`.
    pub fn label(&self) -> String {
        match self {
            Source::Agent(name) => format!("agent:{name}"),
            Source::KernelLog(name) => format!("kernel_log:{name}"),
            Source::Scheduler(name) => format!("scheduler:{name}"),
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
}

/// See [`Body::NodeAdopted`].
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

/// See [`Body::NodeObserved`].
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

/// See [`Body::NodePhaseChanged`].
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

/// See [`Body::GpuIdentified`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuIdentified {
    /// Node.
    pub node: NodeId,
    /// Facts with the UUID.
    pub gpu: GpuFacts,
}

/// See [`Body::SlotCreated`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotCreated {
    /// Its id.
    pub slot: SlotId,
    /// The slot's own node.
    pub node: NodeId,
    /// Its shape: the partitions of that node at adoption.
    pub partitions: BTreeSet<String>,
}

/// See [`Body::SlotBound`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotBound {
    /// Slot.
    pub slot: SlotId,
    /// The spare.
    pub spare: NodeId,
}

/// See [`Body::SlotUnbound`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotUnbound {
    /// Slot.
    pub slot: SlotId,
    /// The spare.
    pub spare: NodeId,
}

/// See [`Body::JobObserved`].
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

/// See [`Body::JobForgotten`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobForgotten {
    /// Identity.
    pub job: JobKey,
}

/// What makes two signals the same episode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EpisodeKey {
    /// Name of the node.
    pub node: String,
    /// Kind.
    pub kind: SignalKind,
    /// Code.
    pub code: Option<u32>,
    /// Device.
    pub pci: Option<PciAddress>,
    /// MIG instance.
    pub mig: Option<u32>,
    /// Link.
    pub link: Option<u32>,
}

/// See [`Body::EpisodeOpened`]. The kernel line is sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpisodeOpened {
    /// Key.
    pub key: EpisodeKey,
    /// Catalogue's judgement at that time.
    pub impact: Impact,
    /// Parsed parts.
    pub fields: SignalFields,
    /// When the kernel wrote it.
    pub written_at: Timestamp,
    /// History from before the agent's first start on this boot.
    pub historic: bool,
    /// Where it came from.
    pub trust: Trust,
    /// Boot.
    pub boot_id: Option<String>,
    /// Job that was on the device, where known.
    pub job: Option<JobKey>,
}

/// See [`Body::EpisodeRepeated`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpisodeRepeated {
    /// Key.
    pub key: EpisodeKey,
    /// Times seen since the last record of this episode.
    pub count: u64,
    /// Last time.
    pub last_at: Timestamp,
}

/// See [`Body::AlertRaised`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertRaised {
    /// Id.
    pub alert: AlertId,
    /// Condition: `xid.79`, `source.silent`.
    pub condition: String,
    /// Subject.
    pub subject: Subject,
    /// Node that the subject belongs to.
    pub node: Option<NodeId>,
    /// GPU index on that node, where it is one.
    pub gpu: Option<u32>,
    /// Implications.
    pub classifications: BTreeSet<Classification>,
    /// Gravity.
    pub impact: Impact,
    /// First evidence.
    pub first_at: Timestamp,
    /// Has no level; only a verified step or a person ends it.
    pub event: bool,
    /// Runbook that the catalogue names.
    pub runbook: Option<String>,
    /// Episode that is the first evidence; null where a source is the subject.
    pub episode: Option<EpisodeKey>,
}

/// See [`Body::AlertChanged`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertChanged {
    /// Id.
    pub alert: AlertId,
    /// State from here on.
    pub state: AlertState,
    /// Times seen, in all.
    pub count: u64,
    /// Last evidence.
    pub last_at: Timestamp,
    /// Code of the rule: `seen_again`, `level_false`, `level_true`, `clear_hold`, `verified`, `person`,
    /// `job_ended`.
    pub why: String,
    /// Gravity from here on; only the worst evidence counts.
    pub impact: Impact,
    /// Implications from here on.
    pub classifications: BTreeSet<Classification>,
    /// Episode that is new evidence.
    pub episode: Option<EpisodeKey>,
}

/// See [`Body::IncidentOpened`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentOpened {
    /// Id.
    pub incident: IncidentId,
    /// Number.
    pub number: String,
    /// Title, our own words.
    pub title: String,
    /// Severity.
    pub severity: Severity,
    /// First alert.
    pub alert: AlertId,
    /// Subject.
    pub subject: Subject,
    /// Node.
    pub node: Option<NodeId>,
    /// Jobs that were on the subject.
    pub jobs: Vec<JobKey>,
    /// First evidence.
    pub fault_at: Timestamp,
    /// First signal at the controller.
    pub detected_at: Timestamp,
}

/// See [`Body::IncidentAttached`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentAttached {
    /// Incident.
    pub incident: IncidentId,
    /// Alert.
    pub alert: AlertId,
    /// Why: `same_subject`, `recurrence`.
    pub reason: String,
}

/// See [`Body::IncidentChanged`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentChanged {
    /// Incident.
    pub incident: IncidentId,
    /// Before.
    pub from: IncidentState,
    /// After.
    pub to: IncidentState,
    /// Code of the rule.
    pub why: String,
}

/// See [`Body::IncidentSeverity`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentSeverity {
    /// Incident.
    pub incident: IncidentId,
    /// Before.
    pub from: Severity,
    /// After.
    pub to: Severity,
}

/// See [`Body::IncidentAcknowledged`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentAcknowledged {
    /// Incident.
    pub incident: IncidentId,
    /// Who has it.
    pub owner: String,
    /// Until when, without an update.
    pub until: Timestamp,
}

/// See [`Body::IncidentClock`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentClock {
    /// Incident.
    pub incident: IncidentId,
    /// Which point.
    pub clock: Clock,
}

/// An incident and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentRef {
    /// Incident.
    pub incident: IncidentId,
}

/// See [`Body::IncidentJob`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentJob {
    /// Incident.
    pub incident: IncidentId,
    /// Job.
    pub job: JobKey,
    /// Why: `failed_after_fault`.
    pub reason: String,
}

/// See [`Body::HoldPlaced`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldPlaced {
    /// Id.
    pub hold: HoldId,
    /// Owner.
    pub owner: HoldOwner,
    /// Node.
    pub node: NodeId,
    /// GPU index, where the hold is on one GPU.
    pub gpu: Option<u32>,
    /// Short reason of ours (`GPU 3 lost`), without personal data. A person's own words are sealed.
    pub reason: String,
    /// Ends by itself then.
    pub until: Option<Timestamp>,
    /// Counts against the isolation budget.
    pub isolation: bool,
}

/// See [`Body::HoldReleased`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldReleased {
    /// Hold.
    pub hold: HoldId,
    /// Whose it was.
    pub owner: HoldOwner,
    /// Code: `owner`, `expired`, `verified`, `external_gone`.
    pub why: String,
}

/// See [`Body::IsolationDeferred`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationDeferred {
    /// Node.
    pub node: NodeId,
    /// Incident that asks for it.
    pub incident: IncidentId,
    /// Earliest time at which the budget may allow it.
    pub not_before: Timestamp,
}

/// Why an effect is wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Purpose {
    /// Containment or release of a node: desired state differs from observed.
    Containment {
        /// Node.
        node: NodeId,
    },
    /// A step of an execution.
    Step {
        /// Execution.
        execution: ExecutionId,
        /// Step.
        step: String,
        /// Attempt, from 1.
        attempt: u32,
    },
    /// Undoing a step.
    Undo {
        /// Execution.
        execution: ExecutionId,
        /// Step.
        step: String,
    },
    /// `detach`.
    Detach,
    /// Bringing a spare into a slot or out of it, outside a runbook.
    Slot {
        /// Slot.
        slot: SlotId,
    },
    /// A person asked for this effect itself.
    Command {
        /// Idempotency key of the request.
        request: String,
    },
}

/// See [`Body::EffectRequested`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectRequested {
    /// What.
    pub effect: Effect,
    /// Why.
    pub purpose: Purpose,
    /// Without a result by then it is unknown.
    pub deadline: Timestamp,
}

/// See [`Body::EffectCompleted`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectCompleted {
    /// Sequence of the intent.
    pub intent: u64,
    /// What was wanted.
    pub effect: Effect,
    /// What became of it.
    pub result: EffectResult,
}

/// See [`Body::EffectVoided`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectVoided {
    /// Sequence of the intent.
    pub intent: u64,
    /// Code.
    pub why: String,
}

/// See [`Body::WouldHave`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WouldHave {
    /// What.
    pub effect: Effect,
    /// Why.
    pub purpose: Purpose,
    /// Mode that kept it from being done.
    pub mode: Mode,
}

/// See [`Body::ExecutionCreated`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionCreated {
    /// Id.
    pub execution: ExecutionId,
    /// Runbook.
    pub runbook: String,
    /// Its version.
    pub version: String,
    /// Incident.
    pub incident: Option<IncidentId>,
    /// Node, where it acts on one.
    pub node: Option<NodeId>,
    /// GPU index on it.
    pub gpu: Option<u32>,
    /// Job, where it acts on one.
    pub job: Option<JobKey>,
    /// Condition that it answers, where it runs without an incident.
    pub condition: Option<String>,
    /// What an approval binds to: version and subjects.
    pub plan: String,
}

/// See [`Body::ExecutionChanged`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionChanged {
    /// Execution.
    pub execution: ExecutionId,
    /// Before.
    pub from: ExecutionState,
    /// After.
    pub to: ExecutionState,
    /// Code of the rule, or what would free it: `governor_max_unavailable`.
    pub why: String,
}

/// See [`Body::StepChanged`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepChanged {
    /// Execution.
    pub execution: ExecutionId,
    /// Step.
    pub step: String,
    /// Before.
    pub from: StepState,
    /// After.
    pub to: StepState,
    /// Attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// Code of the rule or result.
    pub why: String,
    /// What the step found, short and without personal data.
    pub result: Option<String>,
    /// Deadline or next attempt.
    pub until: Option<Timestamp>,
}

/// See [`Body::HumanAnswered`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HumanAnswered {
    /// Execution.
    pub execution: ExecutionId,
    /// Step.
    pub step: String,
    /// Answers that are no free text, as text.
    pub answers: BTreeMap<String, String>,
}

/// See [`Body::ApprovalDecided`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecided {
    /// Execution.
    pub execution: ExecutionId,
    /// Yes or no.
    pub approved: bool,
    /// Digest of the plan that was approved.
    pub plan: String,
}
