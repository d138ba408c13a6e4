//! Executions of runbooks and their steps.

use std::collections::{BTreeMap, BTreeSet};

use provost_model::effect::{Effect, EffectResult};
use provost_model::ids::{ExecutionId, IncidentId, NodeId};
use provost_model::runbook::{ExecutionState, StepState};
use provost_model::scheduler::JobKey;
use provost_model::time::Timestamp;
use serde::{Deserialize, Serialize};

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
