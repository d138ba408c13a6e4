//! Carries out what the journal says, and asks after a crash instead of doing it again.
//!
//! Every executor answers with what was read back. The answer is an input like any other; what follows from
//! it is the engine's business.

mod slurm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use provost_connect::redfish::PowerAction;
use provost_connect::slurm::{Cluster, Gap, GapWatch};
use provost_controller::{Handle, Message, Neighbours};
use provost_engine::Outstanding;
use provost_model::effect::{Approach, Effect, EffectResult};
use provost_model::input::Input;
use provost_wire::Order;
use tokio::runtime;
use tokio::sync::{Notify, Semaphore};

use crate::agents::Agents;
use crate::bmc::Bmcs;
use crate::inbox;

/// Writes and probes that run against one scheduler at the same time.
const MAX_CALLS_PER_CLUSTER: usize = 4;
/// First wait before an unanswered probe is repeated; doubles with each one.
const PROBE_WAIT: Duration = Duration::from_millis(500);
/// Longest wait between two probes.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(30);

/// The neighbours of a running server. Each intent is carried out by a task of its own.
pub struct Executors {
    runtime: runtime::Handle,
    shared: Arc<Shared>,
}

struct Shared {
    handle: std::sync::OnceLock<(Handle, Arc<Agents>)>,
    clusters: BTreeMap<String, Scheduler>,
    bmcs: Arc<Bmcs>,
}

struct Scheduler {
    cluster: Arc<Cluster>,
    calls: Semaphore,
    /// Wakes the reader of this cluster: something was written.
    hint: Arc<Notify>,
}

/// A cluster, and how its reader is woken.
#[derive(Clone)]
pub struct Reached {
    /// The adapter.
    pub cluster: Arc<Cluster>,
    /// Wakes the reader.
    pub hint: Arc<Notify>,
}

impl Executors {
    /// Executors for these clusters and BMCs. [`Connection::attach`] must be called before the controller runs.
    pub(crate) fn new(clusters: &BTreeMap<String, Reached>, bmcs: Arc<Bmcs>) -> (Executors, Connection) {
        let clusters = clusters
            .iter()
            .map(|(name, reached)| {
                let scheduler = Scheduler {
                    cluster: Arc::clone(&reached.cluster),
                    calls: Semaphore::new(MAX_CALLS_PER_CLUSTER),
                    hint: Arc::clone(&reached.hint),
                };
                (name.clone(), scheduler)
            })
            .collect();
        let shared = Arc::new(Shared { handle: std::sync::OnceLock::new(), clusters, bmcs });
        (Executors { runtime: runtime::Handle::current(), shared: Arc::clone(&shared) }, Connection(shared))
    }
}

/// Connects executors with the controller that they report to; the two need each other to be made.
pub struct Connection(Arc<Shared>);

impl Connection {
    /// Results go to `handle`, orders to `agents`.
    pub fn attach(self, handle: Handle, agents: Arc<Agents>) {
        let attached = self.0.handle.set((handle, agents));
        debug_assert!(attached.is_ok(), "executors are attached once");
    }
}

impl Neighbours for Executors {
    fn start(&mut self, work: Outstanding) {
        let shared = Arc::clone(&self.shared);
        self.runtime.spawn(async move { shared.run(work).await });
    }
}

impl Shared {
    async fn run(&self, work: Outstanding) {
        let Some((handle, agents)) = self.handle.get() else { return };
        if work.approach == Approach::Probe && work.probes > 0 {
            let wait = PROBE_WAIT.saturating_mul(1 << work.probes.min(8));
            tokio::time::sleep(wait.min(PROBE_WAIT_MAX)).await;
        }
        tracing::debug!(intent = work.intent, effect = work.effect.name(), approach = ?work.approach, "effect");
        let scheduler = cluster_of(&work.effect).map(|name| self.clusters.get(name));
        let mut watch = None;
        let result = match scheduler {
            Some(Some(scheduler)) => {
                let (result, found) = scheduler.run(&work).await;
                watch = found;
                result
            }
            Some(None) => EffectResult::NotDone { code: "not_configured".to_owned(), retry: false },
            None if matches!(work.effect, Effect::NodePower { .. }) => self.power(&work).await,
            None => match order(&work).map(|order| agents.order(order)) {
                // The agent answers on its own connection, or not at all: the deadline is the engine's.
                Some(Ok(())) => return,
                // Whether it was done before the agent went away is not known to anybody here.
                Some(Err(_)) if work.approach == Approach::Probe => {
                    EffectResult::Unknown { code: "agent_away".to_owned() }
                }
                Some(Err(result)) => result,
                None => EffectResult::NotDone { code: "not_configured".to_owned(), retry: false },
            },
        };
        tracing::info!(intent = work.intent, effect = work.effect.name(), result = ?result, "effect ended");
        let input = Input::EffectResult { intent: work.intent, result };
        inbox::put_waiting(handle, Message::Input(input)).await;
        if let Some(Some(scheduler)) = scheduler {
            if let Some(watch) = watch {
                scheduler.look_for_lost_drain(&watch).await;
            }
            scheduler.hint.notify_one();
        }
    }
}

impl Shared {
    /// Switches the power of a node, or asks whether it is switched.
    async fn power(&self, work: &Outstanding) -> EffectResult {
        let not_configured = || EffectResult::NotDone { code: "not_configured".to_owned(), retry: false };
        let Effect::NodePower { node, on } = &work.effect else { return not_configured() };
        let Some(bmc) = self.bmcs.of(node) else { return not_configured() };
        let action = if *on { PowerAction::On } else { PowerAction::Off };
        match work.approach {
            Approach::Act => bmc.act(action).await,
            Approach::Probe => bmc.probe(action).await,
        }
    }
}

impl Scheduler {
    async fn run(&self, work: &Outstanding) -> (EffectResult, Option<GapWatch>) {
        // The semaphore is never closed.
        let _call = self.calls.acquire().await;
        match (work.approach, &work.effect) {
            (Approach::Act, Effect::SchedulerHold { node, hold, reason, .. }) => {
                slurm::hold(&self.cluster, node, &slurm::mark(*hold, reason)).await
            }
            (Approach::Act, effect) => (slurm::act(&self.cluster, effect).await, None),
            (Approach::Probe, effect) => (slurm::probe(&self.cluster, effect).await, None),
        }
    }

    /// Puts back a foreign drain that our own write has hidden (ruling 17); the next poll sees it.
    async fn look_for_lost_drain(&self, watch: &GapWatch) {
        match self.cluster.check_gap(watch).await {
            Gap::Clean => {}
            Gap::Restored { user, .. } => {
                tracing::warn!(node = %watch.node, user, "somebody's drain was put back under its own reason");
            }
            Gap::Unchecked { why } => {
                tracing::warn!(node = %watch.node, why, "whether our write hid somebody's drain could not be seen");
            }
        }
    }
}

/// The cluster that an effect goes to; none for what an agent or a BMC does.
fn cluster_of(effect: &Effect) -> Option<&str> {
    match effect {
        Effect::SchedulerHold { cluster, .. }
        | Effect::SchedulerRelease { cluster, .. }
        | Effect::NotesOff { cluster }
        | Effect::PartitionJoin { cluster, .. }
        | Effect::PartitionLeave { cluster, .. } => Some(cluster),
        Effect::JobRequeue { job, .. } | Effect::JobNote { job, .. } => Some(&job.cluster),
        Effect::AgentAction { .. } | Effect::NodePower { .. } => None,
    }
}

/// The order for an agent's action.
fn order(work: &Outstanding) -> Option<Order> {
    let Effect::AgentAction { node, action, pci } = &work.effect else { return None };
    Some(Order {
        intent: work.intent,
        epoch: work.epoch,
        approach: work.approach,
        action: action.clone(),
        node: node.clone(),
        pci: *pci,
        expires_at: work.deadline,
    })
}
