//! Episodes of a condition, and the alerts that they raise.

use std::collections::BTreeSet;

use provost_model::ids::{AlertId, IncidentId, NodeId};
use provost_model::record::{Subject, SubjectKind};
use provost_model::response::{AlertState, Classification};
use provost_model::scheduler::JobKey;
use provost_model::signal::{Impact, SignalFields, Trust};
use provost_model::time::Timestamp;
use serde::{Deserialize, Serialize};

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
    /// What was seen under the same key before, with its job; the newest last, bounded.
    pub earlier: Vec<Occurrence>,
    /// The alert that it belongs to.
    pub alert: Option<AlertId>,
}

/// A fault of a job, as far as the repeat rules need it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    /// When it came to the controller last.
    pub at: Timestamp,
    /// Job.
    pub job: JobKey,
    /// Xid 13: graphics processing cluster.
    pub gpc: Option<u32>,
    /// Xid 13: texture processing cluster.
    pub tpc: Option<u32>,
}

impl Occurrence {
    /// What an episode says; nothing where no job was on the device.
    pub(crate) fn of(episode: &Episode) -> Option<Occurrence> {
        Some(Occurrence {
            at: episode.last_at,
            job: episode.job.clone()?,
            gpc: episode.fields.gpc,
            tpc: episode.fields.tpc,
        })
    }
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
