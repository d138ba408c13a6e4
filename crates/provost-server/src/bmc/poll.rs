//! Reads the BMCs of the nodes, slowly: power and health, one request each, spread over time.
//!
//! A BMC that hangs hurts only itself. Those that answered last time share one set of places and those that did not
//! another, so that a whole management network that is away takes no place from a BMC that is there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use provost_connect::redfish::Bmc;
use provost_connect::tls::{TrustError, Trusted};
use provost_controller::{Handle, Message};
use provost_model::bmc::{BmcReading, BmcView};
use provost_model::body::{Source, SourceState};
use provost_model::input::Input;
use provost_model::time::Timestamp;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use super::client;
use crate::config::BmcTable;
use crate::{clock, inbox};

/// BMCs that are read at the same time, of those that answered last time and of those that did not.
const PLACES: usize = 32;
const PLACES_OF_SILENT: usize = 16;
/// The first reading of all comes inside this time, as far as there are places.
const FIRST_ROUND: Duration = Duration::from_secs(10);
/// Readings in a row that must fail before a BMC is silent.
const FAILURES: u32 = 3;

/// All BMCs of the site.
pub(crate) struct Bmcs {
    nodes: BTreeMap<String, Reached>,
    places: Semaphore,
    places_of_silent: Semaphore,
}

/// One BMC.
struct Reached {
    bmc: Bmc,
    every: Duration,
    /// Wakes its reader early.
    wake: Notify,
    read_at: Mutex<Option<Timestamp>>,
}

impl Bmcs {
    /// The BMCs of these tables; none is asked yet.
    ///
    /// # Errors
    /// Where the authority of one can't be read.
    pub(crate) fn new(tables: &[BmcTable]) -> Result<Bmcs, TrustError> {
        let mut nodes = BTreeMap::new();
        for table in tables {
            let trusted = table.trust().map(|trust| Trusted::new(&trust)).transpose()?;
            for (node, endpoint) in &table.endpoints {
                let bmc = client(table, endpoint, trusted.as_ref());
                let (every, wake, read_at) = (table.every.0, Notify::new(), Mutex::default());
                nodes.insert(node.clone(), Reached { bmc, every, wake, read_at });
            }
        }
        let (places, places_of_silent) = (Semaphore::new(PLACES), Semaphore::new(PLACES_OF_SILENT));
        Ok(Bmcs { nodes, places, places_of_silent })
    }

    /// When the BMC of a node answered last.
    pub(crate) fn last_read(&self, node: &str) -> Option<Timestamp> {
        *self.nodes.get(node)?.read_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the BMC of a node soon: its agent fell silent, and whether it has power tells why.
    pub(crate) fn look(&self, node: &str) {
        if let Some(reached) = self.nodes.get(node) {
            reached.wake.notify_one();
        }
    }

    /// The BMC of a node.
    pub(crate) fn of(&self, node: &str) -> Option<&Bmc> {
        self.nodes.get(node).map(|reached| &reached.bmc)
    }

    /// Reads all of them until the task is dropped.
    pub(crate) async fn run(self: Arc<Self>, handle: Handle) {
        self.forget_others(&handle);
        let mut readers = JoinSet::new();
        let count = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        for (i, (node, reached)) in (0..).zip(&self.nodes) {
            // The first round is soon, because nothing is known before it; the rounds behind it are spread over time.
            let share = |whole: Duration| whole * i / count.max(1);
            let (first, spread) = (share(reached.every.min(FIRST_ROUND)), share(reached.every));
            let (all, node, handle) = (Arc::clone(&self), node.clone(), handle.clone());
            readers.spawn(async move {
                tokio::time::sleep(first).await;
                all.read_one(&node, spread, &handle).await;
            });
        }
        while let Some(ended) = readers.join_next().await {
            tracing::error!(ended = ?ended, "a reader of BMCs has ended");
        }
        // There is none: the server goes on.
        std::future::pending().await
    }

    /// BMCs that were configured once and are no more are missed by nobody.
    fn forget_others(&self, handle: &Handle) {
        for source in handle.state().sources.keys() {
            if let Source::Bmc(node) = source
                && !self.nodes.contains_key(node)
            {
                inbox::put(handle, Input::Source { source: source.clone(), state: SourceState::Gone });
            }
        }
    }

    /// Reads one, `spread` later than its turn from the second time on.
    async fn read_one(&self, node: &str, mut spread: Duration, handle: &Handle) {
        let Some(reached) = self.nodes.get(node) else { return };
        let mut told = None;
        let mut failures: u32 = 0;
        loop {
            let places = if failures == 0 { &self.places } else { &self.places_of_silent };
            let read = {
                // The semaphores are never closed.
                let _place = places.acquire().await;
                let at = clock::now();
                reached.bmc.system().await.map(|system| (at, system))
            };
            let seen = match read {
                Ok((at, system)) => {
                    failures = 0;
                    *reached.read_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock::now());
                    let view = BmcView { power: system.power, health: system.health };
                    let reading = BmcReading { node: node.to_owned(), at, view };
                    inbox::put_waiting(handle, Message::Input(Input::BmcRead(Box::new(reading)))).await;
                    Some(SourceState::Fresh)
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    let lost = if error.is_blind() { SourceState::Blind } else { SourceState::Silent };
                    if failures == FAILURES {
                        tracing::warn!(node, error = %error, "the BMC was not read");
                    }
                    (failures >= FAILURES).then_some(lost)
                }
            };
            // One that never answered is not fresh before it does.
            if let Some(state) = seen.filter(|_| seen != told) {
                told = seen;
                inbox::put(handle, Input::Source { source: Source::Bmc(node.to_owned()), state });
            }
            tokio::select! {
                () = tokio::time::sleep(reached.every + std::mem::take(&mut spread)) => {}
                () = reached.wake.notified() => {}
            }
        }
    }
}
