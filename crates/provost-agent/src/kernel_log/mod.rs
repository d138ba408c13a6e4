//! Kernel lines become signals.
//!
//! Everything that reaches Provost from a GPU node first stands in a kernel log, written by drivers for people.
//! The way of a line: [`record`] takes off what `/dev/kmsg`, `dmesg` or syslog put before the text and says who
//! wrote it; [`parse`] finds out what the text reports, one file a family of lines; the catalogue judges it.
//! [`explain`] does the same for a file that a person has.
//!
//! Lines are hostile. A job chooses its process name, and the driver prints it; anybody may write to
//! `/dev/kmsg`. So a text counts only where the kernel wrote it, every matcher is anchored at the start of the
//! text, and what a matcher needs is looked for from the end, behind the process name. A number that stands at
//! the cut end of a line is not taken, because nothing says that it is whole.
//!
//! Nothing here reads a clock or a device; the agent does, and hands the bytes in.

pub mod explain;
pub mod lines;
pub mod parse;
pub mod record;

mod cpu;
mod gpu_lost;
mod memory;
mod nic;
mod nvidia;
mod nvlink;
mod pcie;
mod scan;
mod storage;
mod sxid;
mod xid;

pub use explain::{Explain, Line, explain};
pub use parse::{Doubt, LineKind, Origin, Outcome, Parser};
pub use record::{Format, Record, Split, Splitter};

#[cfg(test)]
mod tests;
