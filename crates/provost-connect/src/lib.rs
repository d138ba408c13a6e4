//! The outside world: one folder a neighbour. What a neighbour says is translated here into the words of
//! `provost-model`; its own formats, spellings and oddities stay inside this crate.
//!
//! Everything that comes in is hostile: bounded in size and time, never trusted to be well formed. What can't
//! be understood is counted, never guessed.

pub mod http;
pub mod redfish;
pub mod slurm;
pub mod tls;
