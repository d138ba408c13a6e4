//! The site itself: nodes with their hardware, a scheduler, agents, and the work that comes in. It knows nothing of
//! the controller; `world` brings the two together.

pub mod adapter;
pub mod agent;
pub mod kernel;
pub mod layout;
pub mod queue;
pub mod slurm;
pub mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use provost_model::effect::EffectResult;
use provost_model::scheduler::JobState;
use provost_wire::Order;

use agent::Agent;
use layout::Layout;
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
    broken: BTreeMap<String, BTreeSet<u32>>,
}

impl Site {
    /// A healthy, idle site. `cred_expire` is the wait of a requeued job.
    pub fn new(layout: Layout, cred_expire: Duration) -> Site {
        let agent = |name| (name, Agent::new());
        Site {
            slurm: Slurm::new(&layout, cred_expire),
            agents: layout.names().into_iter().map(agent).collect(),
            broken: BTreeMap::new(),
            layout,
        }
    }

    /// Breaks a GPU.
    pub fn damage(&mut self, node: &str, gpu: u32) {
        self.broken.entry(node.to_owned()).or_default().insert(gpu);
    }

    /// Somebody has repaired or replaced everything in a node.
    pub fn repair(&mut self, node: &str) {
        self.broken.remove(node);
    }

    /// GPUs of a node that are broken.
    pub fn broken(&self, node: &str) -> impl Iterator<Item = u32> + '_ {
        self.broken.get(node).into_iter().flatten().copied()
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
