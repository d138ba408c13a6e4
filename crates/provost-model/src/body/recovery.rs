//! Executions of runbooks, their steps, and what people answered and approved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{ExecutionId, IncidentId, NodeId};
use crate::runbook::{ExecutionState, StepState};
use crate::scheduler::JobKey;
use crate::time::Timestamp;

/// See [`Body::ExecutionCreated`](super::Body::ExecutionCreated).
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

/// See [`Body::ExecutionChanged`](super::Body::ExecutionChanged).
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

/// See [`Body::StepChanged`](super::Body::StepChanged).
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

/// See [`Body::HumanAnswered`](super::Body::HumanAnswered).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HumanAnswered {
    /// Execution.
    pub execution: ExecutionId,
    /// Step.
    pub step: String,
    /// Answers that are no free text, as text.
    pub answers: BTreeMap<String, String>,
}

/// See [`Body::ApprovalDecided`](super::Body::ApprovalDecided).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecided {
    /// Execution.
    pub execution: ExecutionId,
    /// Yes or no.
    pub approved: bool,
    /// Digest of the plan that was approved.
    pub plan: String,
}
