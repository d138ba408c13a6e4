//! What runs on a node: it reads the kernel log, tells the controller what it means, and does the few things that
//! its configuration allows.
//!
//! It is small and has no database. Each node that it speaks for has three threads that share an outbox: one
//! reads the kernel log and finds signals in it, one keeps the connection to the controller, one carries orders
//! out. [`run`] starts them and keeps their positions on disk, so that neither a slow disk nor a lost controller
//! delays the reading. A process usually speaks for one node; tests and simulators let it speak for several.

pub mod config;
pub mod kernel_log;
pub mod standing;

mod agent;
mod clock;
mod connection;
mod follow;
mod identity;
mod link;
mod log;
mod order;
mod outbox;
mod reader;
mod spool;
mod store;
mod wait;

#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod testing;

pub use agent::{AgentError, run};
pub use config::{Config, ConfigError, ConfigErrors, DEFAULT_STATE_DIR};
pub use identity::IdentityError;
pub use store::StoreError;
pub use wait::Shutdown;
