//! A runbook as it is written (YAML) and as an execution of it stands.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::policy::Role;
use crate::time::Span;

/// A runbook. Versions are the SHA-256 of the file and never change; an execution keeps the version that it
/// started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub struct Runbook {
    /// Always `runbook/v1`.
    pub api_version: String,
    /// Id, also the file's name: `gpu-lost`.
    pub id: String,
    /// One line for people.
    pub title: String,
    /// R0 observes, R1 reversible on one node, R2 disrupts one node.
    pub risk: Risk,
    /// Whether it belongs to an incident (default) or runs on a job without one.
    #[serde(default)]
    pub incident: IncidentUse,
    /// What an execution is about.
    #[serde(default)]
    pub scope: Scope,
    /// Steps in order.
    pub steps: Vec<Step>,
}

/// How much harm a runbook can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Risk {
    /// Observes.
    R0,
    /// Reversible, one node.
    R1,
    /// Disrupts one node.
    R2,
    /// Several nodes or data; a person approves.
    R3,
    /// The fleet; two people approve.
    R4,
}

/// Whether a runbook runs for an incident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IncidentUse {
    /// It needs one.
    #[default]
    Required,
    /// It runs on a job, without an incident.
    None,
}

/// What an execution of a runbook is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The GPU of its alert, where that names one.
    #[default]
    Gpu,
    /// The whole node: every GPU and every job on it.
    Node,
}

/// One step. Exactly one of `use` and `human` is set; `runbook lint` checks it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub struct Step {
    /// Id, unique in the runbook.
    pub id: String,
    /// One line for people: what this step is for.
    pub about: String,
    /// The action: `jobs.requeue`.
    #[serde(default, rename = "use")]
    pub action: Option<String>,
    /// Arguments of the action.
    #[serde(default)]
    pub with: BTreeMap<String, String>,
    /// A person acts.
    #[serde(default)]
    pub human: Option<HumanStep>,
    /// Only where this holds, else skipped: `slot.needs_spare`, `node.has_jobs`, `node.has_bmc`, `fault.contained`,
    /// `fault.wants_reset`, `fault.wants_restart`, `done.STEP`, `answer.STEP.FIELD == value`.
    #[serde(default)]
    pub when: Option<String>,
    /// Time limit of one attempt, or of the wait.
    pub timeout: Span,
    /// Attempts and waits between them; counts the first attempt.
    #[serde(default)]
    pub retry: Retry,
    /// What happens when the attempts are used up.
    #[serde(default)]
    pub on_fail: OnFail,
    /// From here on the execution is not rolled back.
    #[serde(default)]
    pub point_of_no_return: bool,
}

/// Attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// At least 1; counts the first.
    pub max: u32,
    /// First wait; doubles, at most ten times this.
    pub backoff: Span,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry { max: 1, backoff: Span(std::time::Duration::from_secs(2)) }
    }
}

/// What happens when a step has failed for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFail {
    /// Keep the isolation and ask a person.
    #[default]
    Hold,
    /// Go on; the failure stays visible.
    Continue,
    /// Undo what was done, in reverse order.
    Rollback,
}

/// Who a human step may ask for, each with the built-in roles whose answer counts. A technician has no role of
/// their own: an operator answers, or the technician with an operator's token. What only an administrator may
/// decide says so.
pub const HUMAN_ROLES: &[(&str, &[Role])] = &[
    ("operator", &[Role::Operator, Role::Admin]),
    ("technician", &[Role::Operator, Role::Admin]),
    ("admin", &[Role::Admin]),
];

/// A step for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub struct HumanStep {
    /// Who: one of [`HUMAN_ROLES`].
    pub role: String,
    /// What to do, for somebody in a cold aisle.
    pub instructions: String,
    /// Typed questions.
    pub ask: BTreeMap<String, Question>,
}

impl HumanStep {
    /// Whether somebody with these roles may answer. Whom a step of an older version asked for in words that are
    /// not known any more, only an administrator may answer for.
    pub fn may_be_answered_by(&self, roles: &BTreeSet<Role>) -> bool {
        let known = HUMAN_ROLES.iter().find(|(name, _)| *name == self.role);
        known.map_or(&[Role::Admin][..], |(_, may)| *may).iter().any(|role| roles.contains(role))
    }
}

/// One typed question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub struct Question {
    /// Type of the answer.
    #[serde(rename = "type")]
    pub kind: AnswerKind,
    /// Must be answered.
    #[serde(default)]
    pub required: bool,
    /// For `choice`: the possible answers.
    #[serde(default)]
    pub choices: Vec<String>,
}

/// Type of an answer. Free text is sealed; the others are plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// One of `choices`.
    Choice,
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// A serial number: 1–64 letters, digits, `-`, `_`, `.`, `:`.
    Serial,
    /// Free text, sealed.
    Text,
}

/// Where an execution stands (03 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionState {
    /// Made, not asked for yet.
    Proposed,
    /// Waits for a person's yes.
    AwaitingApproval,
    /// Waits for locks, budget or the guard.
    Queued,
    /// A step acts.
    Running,
    /// A step waits for something outside.
    Waiting,
    /// A person must answer.
    AwaitingHuman,
    /// Stopped between steps by a person or the guard.
    Paused,
    /// A step failed and policy says: a person decides.
    NeedsOperator,
    /// Undoing.
    Compensating,
    /// Everything was verified.
    Succeeded,
    /// Undone.
    RolledBack,
    /// Ended before its end. Cancelled is not succeeded.
    Cancelled,
}

impl ExecutionState {
    /// Nothing more will happen.
    pub const fn is_final(self) -> bool {
        matches!(self, ExecutionState::Succeeded | ExecutionState::RolledBack | ExecutionState::Cancelled)
    }

    /// The name as written.
    pub const fn name(self) -> &'static str {
        match self {
            ExecutionState::Proposed => "proposed",
            ExecutionState::AwaitingApproval => "awaiting_approval",
            ExecutionState::Queued => "queued",
            ExecutionState::Running => "running",
            ExecutionState::Waiting => "waiting",
            ExecutionState::AwaitingHuman => "awaiting_human",
            ExecutionState::Paused => "paused",
            ExecutionState::NeedsOperator => "needs_operator",
            ExecutionState::Compensating => "compensating",
            ExecutionState::Succeeded => "succeeded",
            ExecutionState::RolledBack => "rolled_back",
            ExecutionState::Cancelled => "cancelled",
        }
    }
}

/// Where a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Not its turn.
    Pending,
    /// Its intents are recorded; it acts.
    Acting,
    /// Waits for a condition or a person.
    Waiting,
    /// Failed; another attempt is due.
    Retrying,
    /// Verified.
    Succeeded,
    /// Failed for good.
    Failed,
    /// An intent of it is unknown; it is probed.
    Unknown,
    /// Its `when` did not hold, or a person skipped it.
    Skipped,
    /// Being undone.
    Compensating,
    /// Undone.
    Compensated,
    /// Could not be undone.
    CompensationFailed,
}
