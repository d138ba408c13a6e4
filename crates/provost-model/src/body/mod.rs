//! What a record says: one variant a type of event, the `type` of the journal, with its `data`.
//!
//! A variant says what was decided, completely enough that `apply` needs nothing else: no catalogue, no
//! configuration, no clock. Adding a variant is compatible; changing one needs a new name.

use serde::{Serialize, Serializer, de};
use serde_json::value::RawValue;

mod detection;
mod effects;
mod fleet;
mod jobs;
mod recovery;
mod response;
mod system;

pub use detection::{AlertChanged, AlertRaised, EpisodeKey, EpisodeOpened, EpisodeRepeated};
pub use effects::{EffectCompleted, EffectRequested, EffectVoided, Purpose, WouldHave};
pub use fleet::{
    AgentEnrolled, AgentReported, AgentTokenCreated, BmcObserved, GpuIdentified, NodeAdopted, NodeObserved,
    NodePhaseChanged, NodeView, ReasonOwner, SchedulerName, SlotBound, SlotCreated, SlotUnbound, Source,
    SourceChanged, SourceState,
};
pub use jobs::{JobForgotten, JobObserved};
pub use recovery::{ApprovalDecided, ExecutionChanged, ExecutionCreated, HumanAnswered, StepChanged};
pub use response::{
    HoldPlaced, HoldReleased, IncidentAcknowledged, IncidentAttached, IncidentChanged, IncidentClock,
    IncidentJob, IncidentOpened, IncidentRef, IncidentSeverity, IsolationDeferred,
};
pub use system::{
    BreakerTripped, CommandDenied, ConfigApplied, ControllerStarted, EmergencyMerged, Empty,
    InventoryApplied, ModeChanged, RunbookPublished, SignalsNotRecorded,
};

macro_rules! bodies {
    ($($(#[$doc:meta])* $variant:ident($payload:ident) = $name:literal,)*) => {
        /// One event.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Body {
            $($(#[$doc])* $variant($payload),)*
        }

        /// Written as the payload alone.
        impl Serialize for Body {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self { $(Body::$variant(data) => data.serialize(serializer),)* }
            }
        }

        impl Body {
            /// The type as written.
            pub const fn kind(&self) -> &'static str {
                match self { $(Body::$variant(_) => $name,)* }
            }

            /// Reads the `data` of an event of type `kind`.
            ///
            /// # Errors
            /// Where this version knows no such type, or other data for it.
            pub fn parse(kind: &str, data: &RawValue) -> serde_json::Result<Body> {
                match kind {
                    $($name => serde_json::from_str(data.get()).map(Body::$variant),)*
                    _ => Err(de::Error::unknown_variant(kind, KINDS)),
                }
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
    /// What a node's BMC says changed.
    BmcObserved(BmcObserved) = "bmc.observed",
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
