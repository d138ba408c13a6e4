//! The site itself: nodes with their hardware, a scheduler, agents, and the work that comes in. It knows nothing of
//! the controller; `world` brings the two together.

pub mod adapter;
pub mod agent;
pub mod kernel;
pub mod layout;
pub mod queue;
pub mod slurm;
pub mod work;

use std::collections::BTreeMap;
use std::time::Duration;

use provost_model::effect::EffectResult;
use provost_model::scheduler::JobState;
use provost_model::time::Timestamp;
use provost_wire::Order;

use agent::Agent;
use layout::{GPUS, Layout};
use slurm::Slurm;

/// The site.
#[derive(Debug)]
pub struct Site {
    /// What it is made of.
    pub layout: Layout,
    /// Its scheduler.
    pub slurm: Slurm,
    /// Agents by node.
    pub agents: BTreeMap<String, Agent>,
    /// GPUs that are broken, by node: what is true, whatever anybody believes.
    broken: BTreeMap<String, BTreeMap<u32, Damage>>,
    /// Nodes that were reset while a job was on them, with the time.
    pub cut: Vec<(String, Timestamp)>,
}

/// What it takes to bring a broken GPU back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    /// A reset.
    Stuck,
    /// Somebody's hands.
    Dead,
}

impl Site {
    /// A healthy, idle site. `cred_expire` is the wait of a requeued job.
    pub fn new(layout: Layout, cred_expire: Duration) -> Site {
        let agent = |name| (name, Agent::new());
        Site {
            slurm: Slurm::new(&layout, cred_expire),
            agents: layout.names().into_iter().map(agent).collect(),
            broken: BTreeMap::new(),
            cut: Vec::new(),
            layout,
        }
    }

    /// Breaks a GPU; what is broken worse already stays so.
    pub fn damage(&mut self, node: &str, gpu: u32, damage: Damage) {
        let worst = self.broken.entry(node.to_owned()).or_default().entry(gpu).or_insert(damage);
        *worst = damage.max(*worst);
    }

    /// An action begins; only a reset changes anything.
    pub fn act(&mut self, order: &Order, now: Timestamp) {
        let gpu = match order.action.as_str() {
            "gpu_reset" => order.pci.and_then(|at| (0..GPUS).find(|gpu| layout::pci(*gpu) == at)),
            "fabric_reset" => None,
            _ => return,
        };
        if self.slurm.node(&order.node).is_some_and(|node| !node.used.is_empty()) {
            self.cut.push((order.node.clone(), now));
        }
        self.reset(&order.node, gpu);
    }

    /// GPUs of a node were reset: one, or all.
    fn reset(&mut self, node: &str, gpu: Option<u32>) {
        if let Some(broken) = self.broken.get_mut(node) {
            broken.retain(|index, damage| *damage == Damage::Dead || gpu.is_some_and(|gpu| gpu != *index));
        }
        self.broken.retain(|_, broken| !broken.is_empty());
    }

    /// Somebody has repaired or replaced everything in a node.
    pub fn repair(&mut self, node: &str) {
        self.broken.remove(node);
    }

    /// GPUs of a node that are broken.
    pub fn broken(&self, node: &str) -> impl Iterator<Item = u32> + '_ {
        self.broken.get(node).into_iter().flat_map(BTreeMap::keys).copied()
    }

    /// Nodes with something broken.
    pub fn broken_nodes(&self) -> impl Iterator<Item = &String> {
        self.broken.keys()
    }

    /// Jobs that run on a GPU of a node, by id.
    pub fn jobs_on_gpu(&self, node: &str, gpu: u32) -> Option<u32> {
        let id = *self.slurm.node(node)?.used.get(&gpu)?;
        self.slurm.queue.job(id).filter(|job| job.state == JobState::Running).map(|job| job.id)
    }

    /// What an action ends with, as its node is now.
    pub fn outcome(&self, order: &Order) -> EffectResult {
        let busy = || self.slurm.node(&order.node).is_none_or(|node| !node.used.is_empty());
        let works = match order.action.as_str() {
            "no_steps" => !busy(),
            "validate" => self.broken(&order.node).next().is_none(),
            _ => true,
        };
        if works {
            EffectResult::Done { observed: "exit 0".to_owned(), notes: Vec::new() }
        } else {
            adapter::not_done("failed", false)
        }
    }
}
