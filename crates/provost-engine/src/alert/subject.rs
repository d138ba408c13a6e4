//! What a condition is about: which GPU, which node, which job.

use provost_model::body::EpisodeKey;
use provost_model::ids::NodeId;
use provost_model::record::{Subject, SubjectKind};
use provost_model::signal::{PciAddress, SignalKind};

use crate::state::{Job, Node, State};

/// Kinds whose device is a GPU.
pub(crate) fn is_gpu(kind: SignalKind) -> bool {
    matches!(
        kind,
        SignalKind::Xid
            | SignalKind::GpuLost
            | SignalKind::GpuDriver
            | SignalKind::GpuNvlink
            | SignalKind::GpuPeermem
    )
}

/// The index of the GPU at an address.
pub(crate) fn gpu_index(node: &Node, pci: PciAddress) -> Option<u32> {
    node.gpus.values().find(|gpu| gpu.pci == pci).map(|gpu| gpu.index)
}

/// A whole node.
pub(crate) fn of_node(node: &Node) -> Subject {
    Subject {
        kind: SubjectKind::Node,
        id: node.id.to_string(),
        name: Some(node.name.clone()),
        node: Some(node.name.clone()),
    }
}

/// The id of a device that has no name of its own: where it is.
fn place(node: &Node, pci: PciAddress) -> String {
    format!("pci:{}/{pci}", node.serial.as_ref().unwrap_or(&node.name))
}

/// A GPU: its UUID, or its place until somebody reported it (ruling 34).
pub(crate) fn of_gpu(node: &Node, pci: PciAddress) -> Subject {
    let gpu = node.gpus.values().find(|gpu| gpu.pci == pci);
    let name =
        gpu.map_or_else(|| format!("{}/{pci}", node.name), |gpu| format!("{}/{}", node.name, gpu.index));
    Subject {
        kind: SubjectKind::Gpu,
        id: gpu.and_then(|gpu| gpu.uuid.clone()).unwrap_or_else(|| place(node, pci)),
        name: Some(name),
        node: Some(node.name.clone()),
    }
}

/// The id that the GPU at an address had before its UUID was known.
pub(crate) fn provisional(node: &Node, pci: PciAddress) -> String {
    place(node, pci)
}

/// A job.
pub(crate) fn of_job(job: &Job) -> Subject {
    Subject { kind: SubjectKind::Job, id: job.key.to_string(), name: None, node: None }
}

/// The subject of a kernel line. A node that is not known is named as its agent names it.
pub(crate) fn of_episode(key: &EpisodeKey, node: Option<&Node>) -> Subject {
    match (node, key.pci) {
        (Some(node), Some(pci)) if is_gpu(key.kind) => of_gpu(node, pci),
        (Some(node), Some(pci)) if key.kind == SignalKind::Sxid => Subject {
            kind: SubjectKind::Switch,
            id: place(node, pci),
            name: Some(format!("{}/{pci}", node.name)),
            node: Some(node.name.clone()),
        },
        (Some(node), _) => of_node(node),
        (None, _) => Subject {
            kind: SubjectKind::Node,
            id: key.node.to_string(),
            name: Some(key.node.to_string()),
            node: Some(key.node.to_string()),
        },
    }
}

/// Jobs on a GPU of a node, or on the whole node: those that the scheduler says hold it; where it says of none,
/// those of which it says nothing.
pub(crate) fn jobs_on(state: &State, node: NodeId, gpu: Option<u32>) -> Vec<&Job> {
    let holds = |job: &&Job| match gpu {
        Some(gpu) => job.gpus.get(&node).is_some_and(|held| held.contains(&gpu)),
        None => true,
    };
    let known: Vec<&Job> = state.jobs_on(node).filter(holds).collect();
    if !known.is_empty() {
        return known;
    }
    state.jobs_on(node).filter(|job| !job.gpus.contains_key(&node)).collect()
}
