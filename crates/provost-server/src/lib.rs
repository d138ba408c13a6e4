//! The tokio driver of the controller: sockets, executors, configuration, start and stop.
//!
//! It decides nothing. Evidence, answers and results become inputs of the controller; what the journal says is
//! to be done goes to the executors; what is durable goes to whoever asks.

mod agents;
mod attend;
mod backend;
mod bmc;
mod certificates;
mod clock;
pub mod config;
mod executors;
mod inbox;
mod listener;
pub mod local;
mod maintenance;
mod poll;
mod run;
pub mod runbooks;
mod stop_file;

pub use attend::{Attend, Attended, Live, attend};
pub use bmc::{AskBmcError, ask_bmc};
pub use provost_controller::{Replayed, replay};
pub use run::{Error, Up, up};
