//! The HTTP interface of the controller: what it shows, and what people and services may ask of it.
//!
//! One table ([`routes`]) is the router, the OpenAPI document and the list that the tests walk, so that none of
//! the three can say something else than the others. A view is made under the read lock of the published
//! State and written out after it; a change becomes one command input, which the engine authorizes and records;
//! the event stream hands out canonical records. The crate opens no socket and reads no file: the server
//! serves the [`router`] and implements the [`Backend`].

mod access;
mod backend;
mod command;
mod cursor;
mod events;
mod field;
mod history;
mod idempotency;
mod metrics;
mod openapi;
mod problem;
mod routes;
mod serve;
mod verbs;
mod views;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use provost_controller::{Committed, Handle};
use tokio::sync::broadcast;

pub use backend::{Backend, HistoryError, Principal, Query, StoredRecord};
pub use serve::router;

/// What the interface is served from.
#[derive(Clone)]
pub struct Api {
    /// The controller.
    pub handle: Handle,
    /// What only the server can do.
    pub backend: Arc<dyn Backend>,
    /// Carries every record once it is durable, in order. Its capacity bounds what a slow reader may lag behind
    /// before it is fed from the journal instead.
    pub live: broadcast::Sender<Committed>,
}
