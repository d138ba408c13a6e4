//! Names as they are written, and effects as sentences.

use provost_model::bmc::BmcView;
use provost_model::effect::Effect;
use serde::Serialize;

/// The name of a plain enum as it is written in JSON.
pub(super) fn name_of<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        // Only enums without data come here; another shape still says what it is.
        Ok(other) => other.to_string(),
        Err(_) => "unknown".to_owned(),
    }
}

/// What an effect does, as an order: `drain gpu003 in main (provost INC-…: GPU 2 lost)`.
pub(super) fn effect(effect: &Effect) -> String {
    match effect {
        Effect::SchedulerHold { cluster, node, reason, .. } => {
            format!("drain {node} in {cluster} ({reason})")
        }
        Effect::SchedulerRelease { cluster, node } => format!("take our mark off {node} in {cluster}"),
        Effect::JobRequeue { job, .. } => format!("requeue {job}"),
        Effect::JobNote { job, .. } => format!("leave a note at {job}"),
        Effect::NotesOff { cluster } => format!("take our notes off the jobs of {cluster}"),
        Effect::PartitionJoin { cluster, node, partitions } => {
            format!("let {node} serve in {} of {cluster}", partitions.join(", "))
        }
        Effect::PartitionLeave { cluster, node, partitions } => {
            format!("take {node} out of {} of {cluster}", partitions.join(", "))
        }
        Effect::NodePower { node, on: true } => format!("give {node} power by its BMC"),
        Effect::NodePower { node, on: false } => format!("take the power of {node} by its BMC"),
        Effect::AgentAction { node, action, pci: None } => format!("run {action} on {node}"),
        Effect::AgentAction { node, action, pci: Some(pci) } => format!("run {action} on {node} for {pci}"),
    }
}

/// What a BMC says: `power off, health warning`.
pub(super) fn bmc(view: BmcView) -> String {
    let power = view.power.map_or("unknown", |power| power.words());
    let health = view.health.map_or("unknown", |health| health.words());
    format!("power {power}, health {health}")
}
