//! What others hold of the controller: a cheap, cloneable handle, never its channel or its State.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crossbeam_channel::Sender;
use provost_engine::State;

use crate::message::Message;

/// The inbox is full, or the controller has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrySendError {
    /// Full: the sender keeps what it has and tries again.
    #[error("the inbox is full; try again shortly")]
    Full,
    /// Ended.
    #[error("the controller has stopped")]
    Stopped,
}

/// Whether the journal can be written, as others may see it at any moment.
#[derive(Debug, Default)]
pub struct Health {
    unavailable: AtomicBool,
}

impl Health {
    /// The last append succeeded.
    pub fn journal_available(&self) -> bool {
        !self.unavailable.load(Ordering::Acquire)
    }

    pub(crate) fn set_available(&self, available: bool) {
        self.unavailable.store(!available, Ordering::Release);
    }
}

/// Totals since the start, for `/metrics`.
#[derive(Debug, Default)]
pub struct Counters {
    /// Inputs taken through the engine.
    pub inputs: AtomicU64,
    /// Signals taken, repeats included.
    pub signals: AtomicU64,
    /// Records made durable.
    pub records: AtomicU64,
    /// Appends.
    pub commits: AtomicU64,
    /// Signals that came while the journal could not be written.
    pub signals_not_recorded: AtomicU64,
    /// Appends that failed.
    pub append_failures: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// A handle on a controller.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) inbox: Sender<Message>,
    pub(crate) published: Arc<RwLock<State>>,
    pub(crate) health: Arc<Health>,
    pub(crate) counters: Arc<Counters>,
}

impl Handle {
    /// Puts a message into the bounded inbox, without waiting.
    ///
    /// # Errors
    /// Where the inbox is full or the controller has ended.
    pub fn try_send(&self, message: Message) -> Result<(), TrySendError> {
        self.offer(message).map_err(|(error, _)| error)
    }

    /// As [`Handle::try_send`], and gives the message back where it was not taken.
    ///
    /// # Errors
    /// Where the inbox is full or the controller has ended.
    pub fn offer(&self, message: Message) -> Result<(), (TrySendError, Message)> {
        self.inbox.try_send(message).map_err(|error| match error {
            crossbeam_channel::TrySendError::Full(message) => (TrySendError::Full, message),
            crossbeam_channel::TrySendError::Disconnected(message) => (TrySendError::Stopped, message),
        })
    }

    /// Puts a message into the inbox and waits while it is full. Not for async code.
    ///
    /// # Errors
    /// Where the controller has ended.
    pub fn send(&self, message: Message) -> Result<(), TrySendError> {
        self.inbox.send(message).map_err(|_| TrySendError::Stopped)
    }

    /// The State that is durable. Hold it for 2 ms at most: the controller waits to publish.
    pub fn state(&self) -> RwLockReadGuard<'_, State> {
        // A reader that panicked has changed nothing.
        self.published.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the journal can be written.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Totals since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
