//! One fault has many words: a GPU that is lost also gets an advice to be reset. Of the runbooks that the alerts of
//! one incident name for the same GPU, only the gravest runs.

use provost_model::response::AlertState;

use crate::state::{Alert, Incident, State};

/// Each of these deals with what those after it deal with. A runbook that is not listed runs beside all.
const ORDER: [&str; 6] = [
    "gpu-lost",
    "nvlink-fatal",
    "gpu-memory-uncorrectable",
    "gpu-reset-needed",
    "gpu-fault-unclassified",
    "row-remap-pending",
];

/// An alert of the incident that is not over names a graver runbook for the same GPU, and it is in force.
pub(super) fn yields(state: &State, incident: &Incident, runbook: &str, gpu: Option<u32>) -> bool {
    let Some(rank) = ORDER.iter().position(|name| *name == runbook) else { return false };
    let graver = |alert: &Alert| {
        let name = alert.runbook.as_deref().filter(|name| state.runbooks_current.contains_key(*name));
        let same = alert.gpu == gpu || alert.gpu.is_none() || gpu.is_none();
        let rank_of = ORDER.iter().position(|other| Some(*other) == name);
        same && alert.state != AlertState::Resolved && rank_of.is_some_and(|other| other < rank)
    };
    incident.alerts.iter().filter_map(|id| state.alerts.get(id)).any(graver)
}
