//! The shapes of the API, the command line and the pages: what `design` calls views. Names and types are a
//! contract: fields may be added, never changed. Unknown is null.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::Subject;
use crate::time::Timestamp;

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    /// Rows.
    pub items: Vec<T>,
    /// Where the next page starts; null on the last.
    pub next_cursor: Option<String>,
    /// Sequence of the newest record that the rows contain.
    pub as_of: u64,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct Node {
    pub id: String,
    pub name: String,
    pub serial: Option<String>,
    pub site: String,
    pub rack: Option<String>,
    pub leaf: Option<String>,
    pub phase: String,
    pub phase_since: Timestamp,
    pub schedulable: bool,
    pub holds: Vec<Hold>,
    pub health: String,
    pub last_seen_at: Option<Timestamp>,
    pub gpus: Vec<Gpu>,
    pub schedulers: Vec<SchedulerView>,
    /// Null where no BMC is configured for it.
    pub bmc: Option<Bmc>,
    pub slot: Option<String>,
    pub serving_for: Option<String>,
    pub mode: String,
    /// Its faults of 30 days: ten points for a critical one, three for a major one, one for any other.
    pub lemon_score: u32,
}

/// A mark of ours in a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct Mark {
    pub cluster: String,
    /// Null where it is about jobs.
    pub node: Option<String>,
    /// What `detach` does about it.
    pub removal: String,
}

/// A node in one scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct SchedulerView {
    pub kind: String,
    pub cluster: String,
    pub name: String,
    /// `schedulable` or `held`.
    pub desired: String,
    /// The scheduler's own words, null where unknown.
    pub observed: Option<String>,
    /// `none`, `ours`, `foreign`; the text is shown live by the scheduler.
    pub reason: Option<String>,
    pub partitions: Vec<String>,
}

/// The BMC of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bmc {
    /// `fresh`, `silent`, `blind`: where it is not fresh, the rest is what it said last.
    pub state: String,
    /// `on`, `off`, `powering_on`, `powering_off`, `paused`.
    pub power: Option<String>,
    /// The BMC's own judgement: `ok`, `warning`, `critical`.
    pub health: Option<String>,
    /// When it answered last; null where it has not since the start.
    pub read_at: Option<Timestamp>,
    /// Whole seconds since then, by the clock of the controller.
    pub age_s: Option<u64>,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct Gpu {
    pub id: String,
    pub identity: String,
    pub node: String,
    pub index: u32,
    pub model: Option<String>,
    pub serial: Option<String>,
    pub pci: String,
    pub health: String,
    pub holds: Vec<Hold>,
}

/// A hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct Hold {
    pub id: String,
    pub owner: String,
    pub subject: Subject,
    pub node: String,
    pub reason: String,
    pub since: Timestamp,
    pub until: Option<Timestamp>,
}

/// An alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct Alert {
    pub id: String,
    pub condition: String,
    pub subject: Subject,
    pub state: String,
    pub impact: String,
    pub classifications: Vec<String>,
    pub count: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// Sequences of the records that are the evidence.
    pub evidence: Vec<u64>,
    pub incident: Option<String>,
}

/// An incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct Incident {
    pub id: String,
    pub number: String,
    pub title: String,
    pub state: String,
    pub severity: String,
    pub cause_class: Option<String>,
    pub subjects: Vec<Subject>,
    pub alerts: Vec<String>,
    pub jobs: Vec<String>,
    pub fault_at: Timestamp,
    pub detected_at: Timestamp,
    pub opened_at: Timestamp,
    pub acked_at: Option<Timestamp>,
    pub isolated_at: Option<Timestamp>,
    pub mitigated_at: Option<Timestamp>,
    pub resolved_at: Option<Timestamp>,
    /// `respond`, `isolate`, `mitigate` → when each is due; absent where the tier has none.
    pub due: BTreeMap<String, Timestamp>,
    pub owner: Option<String>,
    pub execution: Option<String>,
    pub count: u64,
    /// Effects that observe or advise kept from being done, oldest first.
    pub would_have: Vec<String>,
}

/// One line of an incident's story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct TimelineEntry {
    pub seq: u64,
    pub at: Timestamp,
    /// Milliseconds since the fault.
    pub since_fault_ms: u64,
    pub kind: String,
    pub actor: String,
    pub text: String,
}

/// An execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct Execution {
    pub id: String,
    pub runbook: String,
    pub version: String,
    pub state: String,
    /// Why it is in this state; what would free it where it waits.
    pub why: String,
    pub incident: Option<String>,
    pub subject: Option<Subject>,
    pub plan: String,
    pub steps: Vec<StepView>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// A step of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepView {
    /// Id.
    pub id: String,
    /// Action, or `human`.
    #[serde(rename = "use")]
    pub action: String,
    /// What it is for.
    pub about: String,
    /// State.
    pub state: String,
    /// Begin.
    pub started_at: Option<Timestamp>,
    /// End.
    pub ended_at: Option<Timestamp>,
    /// Attempts so far.
    pub attempts: u32,
    /// What it found.
    pub result: Option<String>,
    /// What it waits for.
    pub waiting_for: Option<String>,
    /// Code of its last change: why it failed or is tried again, `verified` where it is done.
    pub why: String,
    /// Deadline.
    pub until: Option<Timestamp>,
    /// For a human step: instructions.
    pub instructions: Option<String>,
    /// For a human step: field → question, as text.
    pub ask: BTreeMap<String, String>,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct Job {
    pub id: String,
    /// Always null here: names are shown live by the scheduler and never stored.
    pub name: Option<String>,
    pub user: Option<String>,
    pub project: String,
    pub tier: String,
    pub partition: String,
    pub state: String,
    pub nodes: Vec<String>,
    pub gpus: BTreeMap<String, Vec<u32>>,
    pub submitted_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub restarts: u32,
    pub requeue: bool,
    pub incidents: Vec<String>,
}

/// A spare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct Spare {
    pub node: String,
    pub phase: String,
    pub ready: bool,
    pub serving_for: Option<String>,
    pub partitions: Vec<String>,
}

/// A runbook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct RunbookView {
    pub id: String,
    pub version: String,
    pub title: String,
    pub risk: String,
    pub steps: Vec<String>,
}

/// What the governor counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct Guard {
    pub stopped: bool,
    pub breaker_tripped: bool,
    pub mode: String,
    pub nodes: u32,
    pub unavailable: u32,
    pub unavailable_max: u32,
    pub unavailable_nodes: Vec<String>,
    pub isolations_in_window: u32,
    pub isolations_max: u32,
    pub disruptions_running: u32,
    pub disruptions_max: u32,
    /// Isolations that wait for budget: node names.
    pub deferred: Vec<String>,
    /// Parts of the site with limits of their own in which something counts now; at most 500.
    pub scopes: Vec<GuardScope>,
}

/// What the governor counts in a part of the site. A limit that is not set is null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct GuardScope {
    /// `rack:r1`, `leaf:leaf-1`, `project:NAME`.
    pub scope: String,
    pub nodes: u32,
    pub unavailable: u32,
    pub unavailable_max: Option<u32>,
    pub isolations_in_window: u32,
    pub isolations_max: Option<u32>,
    pub disruptions_running: u32,
    pub disruptions_max: Option<u32>,
}

/// One screen about the whole site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract; see the reference page of the API")]
pub struct Status {
    /// `ok`, `degraded`, `critical`.
    pub verdict: String,
    pub site: String,
    pub version: String,
    pub mode: String,
    pub guard: Guard,
    pub nodes_by_phase: BTreeMap<String, u32>,
    pub gpus: u32,
    pub gpus_by_health: BTreeMap<String, u32>,
    pub incidents_open: BTreeMap<String, u32>,
    /// What waits for a person.
    pub needs_you: Vec<String>,
    /// Sources that are silent or blind.
    pub sources_lost: Vec<String>,
    pub jobs_running: u32,
    pub as_of: u64,
    pub at: Timestamp,
    /// Whether the journal can be written.
    pub journal: String,
}
