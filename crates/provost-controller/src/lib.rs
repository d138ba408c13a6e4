//! The loop: a batch of messages → the engine, input by input → one append → only then everything that others
//! may see. One thread owns State; server, demo and simulator drive the same [`Controller`].
//!
//! It does no I/O but the journal's, and knows two things of the world: a [`Clock`] and its [`Neighbours`].

mod commit;
mod controller;
mod emergency;
mod handle;
mod message;
mod replay;
mod start;
mod writer;

pub use controller::{Clock, Controller, Neighbours, OnCommit, Options};
pub use handle::{Counters, Handle, Health, TrySendError};
pub use message::{Ack, Answer, Committed, Message, TakeAnswer, Unavailable};
pub use replay::{Replayed, replay};
pub use start::{Error, Progress};

/// A record is made by one thread and freed by another, some dozen allocations each, which is what the allocator of
/// the C library is slowest at (ADR 12).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
