//! What a node has gone through lately: a node that keeps failing costs more than it gives, and one that was repaired again
//! and again is not repaired.

use std::time::Duration;

use provost_model::signal::Impact;
use provost_model::time::Timestamp;

use crate::state::{History, Node};

/// Faults count for so long: the window of the lemon score.
const FAULTS_FOR: Duration = Duration::from_secs(30 * 86_400);
/// So many times in [`RETURNS_FOR`] automation brings a node back; then a person decides (NVSentinel's default).
const RETURNS: usize = 5;
const RETURNS_FOR: Duration = Duration::from_secs(7 * 86_400);
/// Faults that are kept of a node. More say nothing more.
const MAX_FAULTS: usize = 100;

/// An incident began, or came back, on the node.
pub(crate) fn note_fault(history: &mut History, at: Timestamp, impact: Impact) {
    history.faults.retain(|(then, _)| *then + FAULTS_FOR > at);
    if history.faults.len() == MAX_FAULTS {
        history.faults.pop_front();
    }
    history.faults.push_back((at, impact));
}

/// A runbook has brought the node back into service.
pub(crate) fn note_return(history: &mut History, at: Timestamp) {
    history.returns.retain(|then| *then + RETURNS_FOR > at);
    if history.returns.len() == RETURNS {
        history.returns.pop_front();
    }
    history.returns.push_back(at);
}

/// Lemon score: the faults of 30 days, ten points for a critical one, three for a major one, one for any other.
pub(crate) fn lemon_score(node: &Node, now: Timestamp) -> u32 {
    let recent = node.history.faults.iter().filter(|(at, _)| *at + FAULTS_FOR > now);
    let points = recent.map(|(_, impact)| match impact {
        Impact::Critical => 10,
        Impact::Major => 3,
        Impact::Minor | Impact::Info | Impact::None => 1,
    });
    points.sum()
}

/// Automation has brought it back so often that it does so no more.
pub(crate) fn returned_too_often(node: &Node, now: Timestamp) -> bool {
    node.history.returns.iter().filter(|at| **at + RETURNS_FOR > now).count() >= RETURNS
}
