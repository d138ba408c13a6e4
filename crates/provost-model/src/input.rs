//! Everything that can happen to the engine: a closed set.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::bmc::BmcReading;
use crate::body::{EpisodeKey, Source, SourceState};
use crate::effect::EffectResult;
use crate::fleet::GpuFacts;
use crate::ids::{ExecutionId, HoldId};
use crate::policy::{EngineConfig, Mode, ModeScope, Role};
use crate::record::Actor;
use crate::runbook::Runbook;
use crate::scheduler::Observation;
use crate::signal::Signal;
use crate::time::Timestamp;

/// One input of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "input")]
pub enum Input {
    /// The controller has taken the journal over.
    Started {
        /// Version of the program.
        version: String,
        /// Configuration in force; recorded where it differs from the last one.
        config: Box<EngineConfig>,
        /// Runbooks in force, with the SHA-256 of their files.
        runbooks: Vec<(String, Runbook)>,
    },
    /// The first signal of an episode.
    Signal(Box<Signal>),
    /// Repeats inside an episode, folded.
    Repeats {
        /// Episode.
        key: EpisodeKey,
        /// How many.
        count: u64,
        /// The last one.
        last_at: Timestamp,
    },
    /// An agent has connected and told about itself.
    AgentReport(Box<AgentReport>),
    /// A certificate was given out.
    AgentEnrolled {
        /// Node name.
        node: String,
        /// Serial of the certificate, hex.
        serial: String,
        /// SHA-256 of the token, hex; null for a renewal.
        token_sha256: Option<String>,
        /// End of validity.
        expires_at: Timestamp,
    },
    /// A BMC answered.
    BmcRead(Box<BmcReading>),
    /// A source fell silent, went blind, came back, or is not configured any more.
    Source {
        /// Source.
        source: Source,
        /// State.
        state: SourceState,
    },
    /// A poll of a scheduler succeeded.
    Observed(Box<Observation>),
    /// An effect came to an end, or a probe has an answer.
    EffectResult {
        /// Sequence of the intent.
        intent: u64,
        /// What became of it.
        result: EffectResult,
    },
    /// Somebody asks for something.
    Command(Box<Command>),
    /// Records of the emergency journal, once the journal can be written again.
    EmergencyMerge {
        /// When the journal became unavailable.
        since: Timestamp,
        /// Holds that were written outside on the strength of the emergency journal.
        holds: Vec<EmergencyHold>,
        /// Signals that were not recorded.
        signals_lost: u64,
    },
    /// A deadline of State has passed.
    Tick,
}

/// A hold that was carried out while the journal could not be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmergencyHold {
    /// Name of the node.
    pub node: String,
    /// Condition: `xid.79`.
    pub condition: String,
    /// When.
    pub at: Timestamp,
    /// The signal, so that the incident can be opened as it would have been.
    pub signal: Signal,
}

/// What an agent says when it connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReport {
    /// Node name, as in its certificate.
    pub node: String,
    /// Boot id.
    pub boot_id: Option<String>,
    /// Names of its `[[action]]` entries.
    pub actions: BTreeSet<String>,
    /// GPUs; null where it cannot look.
    pub gpus: Option<Vec<GpuFacts>>,
    /// Version.
    pub version: String,
}

/// A request of a person or a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Who, as the server has established.
    pub actor: Actor,
    /// With which roles.
    pub roles: BTreeSet<Role>,
    /// Idempotency key of the request.
    pub request: String,
    /// Why; sealed.
    pub reason: String,
    /// What.
    pub action: Action,
}

/// What may be asked for. Every variant passes `authorize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Action {
    /// Hold a node.
    NodeHold {
        /// Node name.
        node: String,
        /// Ends by itself then.
        until: Option<Timestamp>,
    },
    /// Release a hold of one's own (operators may release any operator's hold).
    HoldRelease {
        /// Hold.
        hold: HoldId,
    },
    /// Take a node out for planned work: an operator's hold and phase maintenance.
    NodeDrain {
        /// Node name.
        node: String,
    },
    /// End maintenance: release one's holds, revalidate, return.
    NodeResume {
        /// Node name.
        node: String,
    },
    /// Expect no agent on a node any more; ends when one reports again.
    NodeForget {
        /// Node name.
        node: String,
    },
    /// Take an incident.
    IncidentAck {
        /// Number.
        incident: String,
    },
    /// Note; the reason is the text.
    IncidentNote {
        /// Number.
        incident: String,
    },
    /// Change the severity.
    IncidentSeverity {
        /// Number.
        incident: String,
        /// New severity.
        severity: crate::response::Severity,
    },
    /// End an incident whose alerts are over, or end its event alerts with a reason.
    IncidentResolve {
        /// Number.
        incident: String,
    },
    /// Requeue a job.
    JobRequeue {
        /// Job id as shown.
        job: String,
    },
    /// Let a spare serve in a node's slot.
    SpareActivate {
        /// Node whose slot needs it.
        node: String,
    },
    /// Send a spare back.
    SpareReturn {
        /// The spare's name.
        spare: String,
    },
    /// Start a runbook for an incident.
    RunStart {
        /// Runbook.
        runbook: String,
        /// Number of the incident.
        incident: String,
    },
    /// Approve or reject.
    RunApprove {
        /// Execution.
        execution: ExecutionId,
        /// Yes or no.
        approve: bool,
        /// Digest of the plan.
        plan: String,
    },
    /// Stop after the current step.
    RunPause {
        /// Execution.
        execution: ExecutionId,
    },
    /// Go on.
    RunResume {
        /// Execution.
        execution: ExecutionId,
    },
    /// Try the failed step again.
    RunRetry {
        /// Execution.
        execution: ExecutionId,
    },
    /// Skip the failed step.
    RunSkip {
        /// Execution.
        execution: ExecutionId,
    },
    /// End it, undoing what can be undone.
    RunAbort {
        /// Execution.
        execution: ExecutionId,
    },
    /// Answer a human step.
    RunAnswer {
        /// Execution.
        execution: ExecutionId,
        /// Step.
        step: String,
        /// Answers as text, checked against the step's questions.
        answers: BTreeMap<String, String>,
    },
    /// No new action.
    GuardStop,
    /// Actions again.
    GuardStart,
    /// Reset the breaker.
    BreakerReset,
    /// Change a mode.
    ModeSet {
        /// Where.
        scope: ModeScope,
        /// What.
        mode: Option<Mode>,
    },
    /// Make a token for enrolment; the server made it, its digest is recorded.
    AgentTokenCreate {
        /// SHA-256, hex.
        token_sha256: String,
        /// Node names.
        nodes: BTreeSet<String>,
        /// How often.
        uses: u32,
        /// Until.
        expires_at: Timestamp,
    },
    /// Take every mark of ours away from every scheduler.
    Detach,
}

impl Action {
    /// Name for authorization and records: `node.hold`.
    pub const fn name(&self) -> &'static str {
        match self {
            Action::NodeHold { .. } => "node.hold",
            Action::HoldRelease { .. } => "hold.release",
            Action::NodeDrain { .. } => "node.drain",
            Action::NodeResume { .. } => "node.resume",
            Action::NodeForget { .. } => "node.forget",
            Action::IncidentAck { .. } => "incident.ack",
            Action::IncidentNote { .. } => "incident.note",
            Action::IncidentSeverity { .. } => "incident.severity",
            Action::IncidentResolve { .. } => "incident.resolve",
            Action::JobRequeue { .. } => "job.requeue",
            Action::SpareActivate { .. } => "spare.activate",
            Action::SpareReturn { .. } => "spare.return",
            Action::RunStart { .. } => "run.start",
            Action::RunApprove { .. } => "run.approve",
            Action::RunPause { .. } => "run.pause",
            Action::RunResume { .. } => "run.resume",
            Action::RunRetry { .. } => "run.retry",
            Action::RunSkip { .. } => "run.skip",
            Action::RunAbort { .. } => "run.abort",
            Action::RunAnswer { .. } => "run.answer",
            Action::GuardStop => "guard.stop",
            Action::GuardStart => "guard.start",
            Action::BreakerReset => "breaker.reset",
            Action::ModeSet { .. } => "mode.set",
            Action::AgentTokenCreate { .. } => "agent.token_create",
            Action::Detach => "detach",
        }
    }
}

/// The answer to a command, given only after its records are durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reply")]
pub enum Reply {
    /// Done or accepted; the sequence of its first record.
    Accepted {
        /// Sequence.
        seq: u64,
        /// What was made: a hold id, an execution id; empty otherwise.
        created: Vec<String>,
    },
    /// Nothing to do: it is so already.
    Already,
    /// Not allowed for these roles.
    Forbidden {
        /// Policies that decided.
        policies: Vec<String>,
    },
    /// No such thing.
    NotFound {
        /// What was looked for.
        what: String,
    },
    /// The state does not allow it.
    Conflict {
        /// Code.
        code: String,
        /// For the person: what is so, and what to do.
        detail: String,
    },
    /// Malformed: a wrong answer type, an unknown choice.
    Invalid {
        /// Field.
        field: String,
        /// What is expected.
        detail: String,
    },
    /// The governor says no.
    Guarded {
        /// Which limit, used and allowed.
        detail: String,
    },
}
