//! The agents' side of the one port: enrolment, evidence in, orders out.
//!
//! One connection a node. What arrives is stamped and put into the controller's bounded inbox; a batch of
//! signals is acknowledged only when it is durable.

mod connection;
mod enrolment;
mod presence;
mod standing;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_controller::Handle;
use provost_model::body::{Source, SourceState};
use provost_model::effect::EffectResult;
use provost_model::input::Input;
use provost_model::time::Timestamp;
use provost_wire::{Order, Standing, ToAgent};
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::server::TlsStream;

use crate::certificates::Authority;
use crate::inbox;
use presence::Presence;

/// Frames that wait for one agent at most; beyond it the agent is too slow and the connection is given up.
const MAX_FRAMES_WAITING: usize = 1_024;

/// All agents of the site.
pub struct Agents {
    handle: Handle,
    authority: Arc<Authority>,
    connected: Mutex<BTreeMap<String, Connected>>,
    presence: Mutex<Presence>,
    /// The last batch of each node that is durable, with the instance of the agent that sent it.
    durable: Arc<Mutex<BTreeMap<String, (u64, u64)>>>,
    /// One enrolment at a time, so that a token's last use is used once.
    enrolling: tokio::sync::Mutex<()>,
}

/// The connection of one node.
struct Connected {
    /// Tells connections of the same node apart: only the newest may take itself out.
    number: u64,
    frames: mpsc::Sender<ToAgent>,
    /// What it was told last; none where nothing was.
    standing: Option<Standing>,
}

impl Agents {
    /// No agent yet.
    pub fn new(handle: Handle, authority: Arc<Authority>) -> Arc<Agents> {
        Arc::new(Agents {
            handle,
            authority,
            connected: Mutex::default(),
            presence: Mutex::default(),
            durable: Arc::default(),
            enrolling: tokio::sync::Mutex::default(),
        })
    }

    /// Serves one connection to its end. `certificate` was verified by TLS; without one only enrolment is open.
    pub async fn serve(
        self: Arc<Self>,
        stream: TlsStream<TcpStream>,
        certificate: Option<CertificateDer<'static>>,
    ) {
        let ended = match certificate.as_ref().map(crate::certificates::node_of) {
            None => enrolment::serve(&self, stream).await,
            Some(Some(node)) => connection::serve(&self, stream, node).await,
            Some(None) => {
                tracing::warn!("a client certificate names no node; the connection is closed");
                return;
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error = %error, "an agent's connection ended");
        }
    }

    /// Gives an order to a node's agent.
    ///
    /// # Errors
    /// What is known where it can't be given: certainly not done.
    pub fn order(&self, order: Order) -> Result<(), EffectResult> {
        let away = || EffectResult::NotDone { code: "agent_away".to_owned(), retry: true };
        let connected = lock(&self.connected);
        let agent = connected.get(&order.node).ok_or_else(away)?;
        agent.frames.try_send(ToAgent::Order(order)).map_err(|_| away())
    }

    /// When anything was last heard from a node's agent.
    pub fn last_seen(&self, node: &str) -> Option<Timestamp> {
        lock(&self.presence).last_seen(node)
    }

    /// Tells the engine about agents that fell silent, and gives their nodes. Called a few times within `silent_after`.
    pub fn watch(&self, now: Timestamp) -> Vec<String> {
        let silent_after = self.handle.state().config.timers.silent_after.0;
        let nodes = lock(&self.presence).newly_silent(now, silent_after);
        for node in &nodes {
            let source = Source::Agent(node.clone());
            inbox::put(&self.handle, Input::Source { source, state: SourceState::Silent });
        }
        nodes
    }

    /// Expects every node that ever had an agent, except those that a person has forgotten: after a start, one that
    /// does not come back is silent too.
    pub fn expect_known(&self, now: Timestamp) {
        let state = self.handle.state();
        let mut presence = lock(&self.presence);
        for (source, health) in &state.sources {
            if let (Source::Agent(node), true) = (source, health.state != SourceState::Gone) {
                presence.expect(node, now);
            }
        }
    }

    /// Notes that a node's agent was heard; tells the engine where it had been silent.
    fn heard(&self, node: &str, now: Timestamp) {
        if lock(&self.presence).heard(node, now) {
            let source = Source::Agent(node.to_owned());
            inbox::put(&self.handle, Input::Source { source, state: SourceState::Fresh });
        }
    }

    /// What the engine knows of a node's kernel log, so that a new connection tells what differs from it.
    fn kernel_log(&self, node: &str) -> SourceState {
        let source = Source::KernelLog(node.to_owned());
        self.handle.state().sources.get(&source).map_or(SourceState::Fresh, |health| health.state)
    }

    /// The batch is durable already: its acknowledgement was lost, and the agent has sent it again.
    fn is_durable(&self, node: &str, instance: u64, batch: u64) -> bool {
        lock(&self.durable).get(node).is_some_and(|(known, last)| *known == instance && batch <= *last)
    }

    /// `first` goes before anything that others have for the agent.
    fn connect(&self, node: &str, first: ToAgent) -> (u64, mpsc::Receiver<ToAgent>, mpsc::Sender<ToAgent>) {
        let (sender, receiver) = mpsc::channel(MAX_FRAMES_WAITING);
        // There is room in a new channel.
        drop(sender.try_send(first));
        let mut connected = lock(&self.connected);
        let number = connected.get(node).map_or(0, |old| old.number) + 1;
        // The older connection of the same node ends when its channel is dropped.
        connected.insert(node.to_owned(), Connected { number, frames: sender.clone(), standing: None });
        (number, receiver, sender)
    }

    fn disconnect(&self, node: &str, number: u64) {
        let mut connected = lock(&self.connected);
        if connected.get(node).is_some_and(|agent| agent.number == number) {
            connected.remove(node);
        }
    }
}

/// The maps behind these locks are whole after every statement, so a panic elsewhere does not spoil them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
