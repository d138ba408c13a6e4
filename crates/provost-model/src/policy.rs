//! What people set and the engine obeys: modes, timers, the governor's limits, the schedulers.
//!
//! It reaches the engine only as a `config.applied` record, so that a replay decides by the same rules.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fleet::NodeFacts;
use crate::time::Span;

/// How far Provost may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Nothing is written outside; what would have been done is recorded.
    #[default]
    Observe,
    /// As observe; proposals are shown as such.
    Advise,
    /// Acts.
    Act,
}

impl Mode {
    /// The name as written.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Observe => "observe",
            Mode::Advise => "advise",
            Mode::Act => "act",
        }
    }
}

/// Where a mode holds. The narrowest that is set wins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "name")]
pub enum ModeScope {
    /// The whole site.
    Site,
    /// One scheduler, by the name of its `[[slurm]]` entry.
    Scheduler(String),
    /// One node, by name.
    Node(String),
}

/// Everything the engine is configured with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineConfig {
    /// Name of the site.
    pub site: String,
    /// Mode of the site.
    pub mode: Mode,
    /// Schedulers by name.
    pub clusters: BTreeMap<String, ClusterPolicy>,
    /// Modes of single nodes, by node name.
    pub node_modes: BTreeMap<String, Mode>,
    /// Waits of the state machines.
    pub timers: Timers,
    /// Limits on disruption.
    pub governor: GovernorLimits,
    /// The inventory file's nodes.
    pub inventory: Vec<NodeFacts>,
}

impl Default for EngineConfig {
    fn default() -> EngineConfig {
        EngineConfig {
            site: "site".to_owned(),
            mode: Mode::Observe,
            clusters: BTreeMap::new(),
            node_modes: BTreeMap::new(),
            timers: Timers::default(),
            governor: GovernorLimits::default(),
            inventory: Vec::new(),
        }
    }
}

/// The modes that a configuration file sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileModes {
    /// Of the site.
    pub site: Mode,
    /// Of schedulers; one without a mode of its own is absent.
    pub clusters: BTreeMap<String, Mode>,
    /// Of single nodes.
    pub nodes: BTreeMap<String, Mode>,
}

impl FileModes {
    /// The modes of a file's configuration.
    pub fn of(config: &EngineConfig) -> FileModes {
        let clusters = config.clusters.iter();
        FileModes {
            site: config.mode,
            clusters: clusters.filter_map(|(name, policy)| Some((name.clone(), policy.mode?))).collect(),
            nodes: config.node_modes.clone(),
        }
    }
}

/// What the engine knows about a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPolicy {
    /// Mode, where it differs from the site's.
    pub mode: Option<Mode>,
    /// Production partitions.
    pub partitions: Vec<String>,
    /// Partition that lists the spares.
    pub spare_partition: Option<String>,
}

/// Every wait of a state machine. Fields are the keys of `[timers]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timers {
    /// Equal signals inside this time are one episode.
    pub merge: Span,
    /// A level alert must be false for this long to resolve.
    pub clear_hold: Span,
    /// All alerts of an incident must be resolved for this long until it is.
    pub resolve_hold: Span,
    /// Quiet after revalidation before a node is released.
    pub soak: Span,
    /// Watched time after a release.
    pub probation: Span,
    /// Interval of heartbeats.
    pub heartbeat: Span,
    /// An agent is silent when nothing came for this long.
    pub silent_after: Span,
    /// Interval of scheduler polls.
    pub poll: Span,
    /// A scheduler is blind when no poll succeeded for this long.
    pub blind_after: Span,
    /// An effect without result after this time is unknown.
    pub effect: Span,
    /// First wait before a failed effect is tried again; doubles up to one minute.
    pub retry: Span,
    /// Batch jobs on a contained node may run on for this long.
    pub drain: Span,
    /// A job that failed on a node inside this time after the fault is requeued.
    pub failed_job: Span,
    /// Repeats of an application fault inside this time count together.
    pub repeat: Span,
    /// A memory error that cannot be corrected waits this long for the codes that say what it hit (ruling 8).
    pub companions: Span,
    /// Such an error alone disrupts jobs after so much quiet.
    pub quiet: Span,
    /// The driver's advice to recover is followed after so much quiet: its last word counts.
    pub advice: Span,
    /// A row remap waits this long for its node to become idle by itself.
    pub remap: Span,
    /// An acknowledgement of a SEV2 expires after this time (SEV1 half of it, SEV3 and SEV4 four times).
    pub ack: Span,
}

const fn seconds(s: u64) -> Span {
    Span(std::time::Duration::from_secs(s))
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            merge: seconds(5),
            clear_hold: seconds(300),
            resolve_hold: seconds(900),
            soak: seconds(1_800),
            probation: seconds(86_400),
            heartbeat: seconds(1),
            silent_after: seconds(5),
            poll: seconds(5),
            blind_after: seconds(30),
            effect: seconds(60),
            retry: seconds(2),
            drain: seconds(1_800),
            failed_job: seconds(600),
            repeat: seconds(86_400),
            companions: seconds(1),
            quiet: seconds(60),
            advice: seconds(5),
            remap: seconds(86_400),
            ack: seconds(3_600),
        }
    }
}

/// Limits on how much may be disrupted at once. Fields are the keys of `[governor]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GovernorLimits {
    /// Nodes that may be unavailable, whatever the cause; the larger of this…
    pub max_unavailable: u32,
    /// …and this share of the nodes, in percent.
    pub max_unavailable_percent: u32,
    /// New isolations by automation inside `window`; the larger of this…
    pub isolations_per_window: u32,
    /// …and this share of the nodes, in percent.
    pub isolations_percent: u32,
    /// Window of the isolation budget.
    pub window: Span,
    /// Disruptive executions that may run at once.
    pub concurrent_disruptions: u32,
    /// Share of unavailable nodes, in percent, at which no new automatic disruption starts until a person
    /// resets the breaker.
    pub breaker_percent: u32,
    /// Limits of every rack.
    #[serde(skip_serializing_if = "ScopeLimits::is_empty")]
    pub rack: ScopeLimits,
    /// Limits of every leaf switch: of the nodes below it.
    #[serde(skip_serializing_if = "ScopeLimits::is_empty")]
    pub leaf: ScopeLimits,
    /// Limits of a project by its name: of the nodes that its jobs hold, or held when an open incident hit them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub project: BTreeMap<String, ScopeLimits>,
}

/// Limits of a part of the site, beside the site's own. What is not set limits nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScopeLimits {
    /// Nodes that may be unavailable, whatever the cause; the larger of this…
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<u32>,
    /// …and this share of the part's nodes, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable_percent: Option<u32>,
    /// New isolations by automation inside the site's window; the larger of this…
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolations_per_window: Option<u32>,
    /// …and this share of the part's nodes, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolations_percent: Option<u32>,
    /// Disruptive executions that may run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrent_disruptions: Option<u32>,
}

impl ScopeLimits {
    /// Nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == ScopeLimits::default()
    }
}

impl Default for GovernorLimits {
    fn default() -> GovernorLimits {
        GovernorLimits {
            max_unavailable: 2,
            max_unavailable_percent: 10,
            isolations_per_window: 2,
            isolations_percent: 5,
            window: seconds(600),
            concurrent_disruptions: 2,
            breaker_percent: 30,
            rack: ScopeLimits::default(),
            leaf: ScopeLimits::default(),
            project: BTreeMap::new(),
        }
    }
}

/// Built-in roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Works incidents, holds, executions, the guard's stop.
    Operator,
    /// A program that reads and requests holds of its own.
    Service,
    /// Everything an operator may, and modes, tokens, breaker, detach.
    Admin,
}

impl Role {
    /// The name as written.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Service => "service",
            Role::Admin => "admin",
        }
    }
}
