//! The verbs of Provost, as pure functions: nothing here owns a clock, a socket, a file or a random source.
//!
//! [`turn`] takes one input through the whole engine: [`step`] answers the input itself, then every concern
//! looks at what was touched and [reacts](settle) until nothing more follows. Each decision becomes a record
//! and is applied at once by [`apply`], the only writer of [`State`]; replaying the records gives the same
//! State at every position.
//!
//! The folders follow the life of a fault: `detect` merges signals into episodes, `alert` turns an episode
//! into a condition on a subject, `incident` gives it an owner, `hold` and `containment` keep work away,
//! `runbook` recovers under the `governor`, `lifecycle` and `slot` bring the node back into service.

mod apply;
mod event;
mod settle;
mod step;
mod turn;

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod story_tests;
#[cfg(test)]
mod testing;

pub mod alert;
pub mod bmc;
pub mod command;
pub mod containment;
pub mod detect;
pub mod effect;
pub mod governor;
pub mod hold;
pub mod incident;
pub mod lifecycle;
pub mod runbook;
pub mod scheduler;
pub mod slot;
pub mod source;
pub mod state;
pub mod views;

pub use apply::apply;
pub use event::{Decisions, Event};
pub use settle::settle;
pub use state::{Outstanding, State, next_deadline, outstanding};
pub use step::step;
pub use turn::{Outcome, Turn, turn};
