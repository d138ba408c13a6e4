//! Nodes, GPUs, holds, jobs and spares.

use std::collections::BTreeMap;

use provost_model::body::{ReasonOwner, Source, SourceState};
use provost_model::effect::Effect;
use provost_model::fleet::GpuFacts;
use provost_model::ids::NodeId;
use provost_model::record::{Subject, SubjectKind};
use provost_model::response::Classification;
use provost_model::time::Timestamp;
use provost_model::view;

use super::words::{self, name_of};
use crate::alert::subject;
use crate::state::{Alert, Hold, Job, Node, State};
use crate::{bmc, containment, lifecycle, slot};

/// A node. `schedulable` is what its scheduler says, not what is desired: where the mode keeps a drain from being
/// written, the node is desired to be held and still schedulable.
pub fn node(state: &State, now: Timestamp, node: &Node) -> view::Node {
    let holds: Vec<&Hold> = state.holds_on(node.id).collect();
    let source = state.sources.get(&Source::Agent(node.name.clone()));
    let open = Open::of(state);
    let silent = source.filter(|source| matches!(source.state, SourceState::Silent | SourceState::Gone));
    view::Node {
        id: node.id.to_string(),
        name: node.name.clone(),
        serial: node.serial.clone(),
        site: state.site.clone(),
        rack: node.rack.clone(),
        leaf: node.leaf.clone(),
        phase: node.phase.name().to_owned(),
        phase_since: node.phase_since,
        schedulable: containment::availability(node.observed.as_ref()).unwrap_or(false),
        holds: holds.iter().map(|held| hold(state, held)).collect(),
        health: open.node(node.id, is_watched(state, node)).to_owned(),
        last_seen_at: silent.map(|source| source.since),
        gpus: node.gpus.values().map(|facts| gpu_with(state, node, facts, &open)).collect(),
        schedulers: scheduler(node, &holds).into_iter().collect(),
        bmc: bmc_of(state, node),
        slot: node.slot.map(|slot| slot.to_string()),
        serving_for: serving_for(state, node),
        mode: state.mode_of(node).name().to_owned(),
        lemon_score: lifecycle::lemon_score(node, now),
    }
}

fn scheduler(node: &Node, holds: &[&Hold]) -> Option<view::SchedulerView> {
    let name = node.scheduler.as_ref()?;
    let observed = node.observed.as_ref();
    Some(view::SchedulerView {
        kind: "slurm".to_owned(),
        cluster: name.cluster.clone(),
        name: name.node.clone(),
        desired: if holds.is_empty() { "schedulable" } else { "held" }.to_owned(),
        observed: observed.map(|seen| seen.state.clone()),
        reason: observed.map(|seen| {
            match seen.reason {
                ReasonOwner::None => "none",
                ReasonOwner::Ours => "ours",
                ReasonOwner::Foreign => "foreign",
            }
            .to_owned()
        }),
        partitions: observed.map(|seen| seen.partitions.iter().cloned().collect()).unwrap_or_default(),
    })
}

/// When it answered last is not in State: like heartbeats, answers that say nothing new are not recorded.
fn bmc_of(state: &State, node: &Node) -> Option<view::Bmc> {
    let source = bmc::source(state, node)?;
    Some(view::Bmc {
        state: name_of(&source),
        power: node.bmc.and_then(|view| view.power).map(|power| name_of(&power)),
        health: node.bmc.and_then(|view| view.health).map(|health| name_of(&health)),
        read_at: None,
        age_s: None,
    })
}

/// The name of the node in whose slot a spare serves.
fn serving_for(state: &State, node: &Node) -> Option<String> {
    let slot = state.slots.get(&node.serves?)?;
    Some(state.nodes.get(&slot.node)?.name.clone())
}

/// A GPU of `node`.
pub fn gpu(state: &State, node: &Node, gpu: &GpuFacts) -> view::Gpu {
    gpu_with(state, node, gpu, &Open::of(state))
}

fn gpu_with(state: &State, node: &Node, gpu: &GpuFacts, open: &Open<'_>) -> view::Gpu {
    let identity = if gpu.uuid.is_some() { "uuid" } else { "provisional" };
    let holds = state.holds_on(node.id).filter(|held| held.gpu == Some(gpu.index));
    view::Gpu {
        id: gpu_id(node, gpu),
        identity: identity.to_owned(),
        node: node.name.clone(),
        index: gpu.index,
        model: gpu.model.clone(),
        serial: gpu.serial.clone(),
        pci: gpu.pci.to_string(),
        health: open.gpu(node.id, gpu.index, is_watched(state, node)).to_owned(),
        holds: holds.map(|held| hold(state, held)).collect(),
    }
}

/// The stable id of a GPU: its UUID, or its place until somebody reported one (ruling 34).
pub fn gpu_id(node: &Node, gpu: &GpuFacts) -> String {
    subject::of_gpu(node, gpu.pci).id
}

/// What is open, by node: looked up once and then asked for each part.
pub(super) struct Open<'a> {
    by_node: BTreeMap<NodeId, Vec<&'a Alert>>,
}

impl<'a> Open<'a> {
    /// Of the whole site. That a source is silent is no fault of what it watches, which is unknown instead.
    pub(super) fn of(state: &'a State) -> Open<'a> {
        let mut by_node: BTreeMap<NodeId, Vec<&Alert>> = BTreeMap::new();
        for alert in state.open_alerts.values().filter_map(|id| state.alerts.get(id)) {
            if let Some(node) = alert.node.filter(|_| alert.subject.kind != SubjectKind::Source) {
                by_node.entry(node).or_default().push(alert);
            }
        }
        Open { by_node }
    }

    fn on(&self, node: NodeId) -> &[&'a Alert] {
        self.by_node.get(&node).map(Vec::as_slice).unwrap_or_default()
    }

    /// The worst of what is open on the node and in it.
    fn node(&self, node: NodeId, watched: bool) -> &'static str {
        worst(self.on(node).iter(), watched)
    }

    /// The worst of what is open on one GPU.
    pub(super) fn gpu(&self, node: NodeId, index: u32, watched: bool) -> &'static str {
        worst(self.on(node).iter().filter(|alert| alert.gpu == Some(index)), watched)
    }
}

/// What is known to be bad stays bad while nobody looks; anything else is unknown then.
fn worst<'a: 'b, 'b>(alerts: impl Iterator<Item = &'b &'a Alert>, watched: bool) -> &'static str {
    let mut any = false;
    for alert in alerts {
        if alert.classifications.contains(&Classification::BlocksPlacement) {
            return "failed";
        }
        any = true;
    }
    match (watched, any) {
        (false, _) => "unknown",
        (true, true) => "degraded",
        (true, false) => "ok",
    }
}

/// Its agent reports, and its kernel log can be read as far as anybody knows.
pub(super) fn is_watched(state: &State, node: &Node) -> bool {
    let is = |source: Source| state.sources.get(&source).map(|health| health.state);
    let agent = is(Source::Agent(node.name.clone()));
    let log = is(Source::KernelLog(node.name.clone()));
    agent == Some(SourceState::Fresh) && log.is_none_or(|log| log == SourceState::Fresh)
}

/// A hold.
pub fn hold(state: &State, hold: &Hold) -> view::Hold {
    let node = state.nodes.get(&hold.node);
    let name = node.map(|node| node.name.clone());
    let of_gpu = || {
        let node = node?;
        let gpu = node.gpus.get(&hold.gpu?)?;
        Some(subject::of_gpu(node, gpu.pci))
    };
    let whole = || Subject {
        kind: SubjectKind::Node,
        id: hold.node.to_string(),
        name: name.clone(),
        node: name.clone(),
    };
    view::Hold {
        id: hold.id.to_string(),
        owner: hold.owner.to_string(),
        subject: of_gpu().unwrap_or_else(whole),
        node: name.clone().unwrap_or_else(|| hold.node.to_string()),
        reason: hold.reason.clone(),
        since: hold.since,
        until: hold.until,
    }
}

/// A job. Its name and its user are shown live by the scheduler and stand nowhere here.
pub fn job(state: &State, job: &Job) -> view::Job {
    let name = |id| state.nodes.get(id).map(|node| node.name.clone());
    let gpus: BTreeMap<String, Vec<u32>> =
        job.gpus.iter().filter_map(|(id, held)| Some((name(id)?, held.iter().copied().collect()))).collect();
    let hit = state.incidents.values().filter(|incident| incident.jobs.contains(&job.key));
    view::Job {
        id: job.key.to_string(),
        name: None,
        user: None,
        project: job.project.clone(),
        tier: name_of(&job.tier),
        partition: job.partition.clone(),
        state: name_of(&job.state),
        nodes: job.nodes.iter().filter_map(name).collect(),
        gpus,
        submitted_at: job.key.submitted_at,
        started_at: job.started_at,
        ended_at: job.ended_at,
        restarts: job.restarts,
        requeue: job.requeue,
        incidents: hit.map(|incident| incident.number.clone()).collect(),
    }
}

/// Marks of ours outside, each with what `detach` does about it.
pub fn marks(state: &State) -> Vec<view::Mark> {
    let marks = crate::hold::marks(state);
    let mark = |effect: &Effect| {
        let (cluster, node) = match effect {
            Effect::SchedulerRelease { cluster, node } | Effect::PartitionLeave { cluster, node, .. } => {
                (cluster, Some(node.clone()))
            }
            Effect::NotesOff { cluster } => (cluster, None),
            _ => return None,
        };
        Some(view::Mark { cluster: cluster.clone(), node, removal: words::effect(effect) })
    };
    marks.iter().filter_map(mark).collect()
}

/// A spare.
pub fn spare(state: &State, node: &Node) -> view::Spare {
    let partitions = node.observed.as_ref().map(|seen| seen.partitions.iter().cloned().collect());
    view::Spare {
        node: node.name.clone(),
        phase: node.phase.name().to_owned(),
        ready: slot::is_ready(state, node),
        serving_for: serving_for(state, node),
        partitions: partitions.unwrap_or_default(),
    }
}
