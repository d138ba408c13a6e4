//! The nouns of Provost: plain data that every other crate speaks, and nothing that acts.
//!
//! No clock, no I/O, no async runtime. What happens outside comes in as [`input::Input`]; what the engine
//! decides is a [`body::Body`] inside a [`record::Record`]; what must be done outside is an
//! [`effect::Effect`].

pub mod bmc;
pub mod body;
pub mod canonical;
pub mod catalogue;
pub mod effect;
pub mod fleet;
pub mod ids;
pub mod input;
pub mod policy;
pub mod record;
pub mod reference;
pub mod response;
pub mod runbook;
pub mod scheduler;
pub mod signal;
pub mod time;
pub mod view;
