//! Real peers for the tests: a Slurm cluster of their own, a controller beside it, agents on its nodes, and the
//! command line that a person would use. Tests drive the built programs and nothing else, so what they prove is
//! what an operator gets.
//!
//! A test that cannot go on has failed, so the harness panics, with what it saw last and where the logs are.
//! Everything listens on loopback, lives below one temporary directory, and ends with the test process, however
//! that ends.

mod agents;
mod cable;
mod cli;
mod daemon;
mod disk;
mod jobs;
mod programs;
mod site;
mod story;
mod testbed;
mod wait;

pub use agents::{Agents, XID_31, XID_45, XID_79};
pub use cable::Cable;
pub use cli::Answer;
pub use daemon::{Daemon, Paused};
pub use disk::Disk;
pub use jobs::Job;
pub use programs::{program, project_root};
pub use site::Site;
pub use testbed::{Lease, NodeState, Testbed};
pub use wait::{Lapse, wait_until};
