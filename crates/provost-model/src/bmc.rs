//! What the management controller (BMC) of a node says about the machine, in our words. Adapters translate.
//!
//! A BMC answers while the machine is off and its agent is silent: it is the second witness of a node that is not
//! heard, and the hand that takes its power. What it does not say, or says in words that nobody knows, is unknown.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Whether the machine has power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Power {
    /// It runs, or could: only an operating system can say that it does.
    On,
    /// It has none: nothing runs on it.
    Off,
    /// On its way to on.
    PoweringOn,
    /// On its way to off; what runs on it may still run.
    PoweringOff,
    /// It has power and stands still.
    Paused,
}

impl Power {
    /// For people: `powering on`.
    pub const fn words(self) -> &'static str {
        match self {
            Power::On => "on",
            Power::Off => "off",
            Power::PoweringOn => "powering on",
            Power::PoweringOff => "powering off",
            Power::Paused => "paused",
        }
    }
}

/// How the BMC judges the machine as a whole. Its word suppresses nothing that was seen elsewhere (case B16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Nothing to complain of.
    Ok,
    /// Something wants attention.
    Warning,
    /// Something wants attention at once.
    Critical,
}

impl Health {
    /// For people, as BMCs write it: `OK`.
    pub const fn words(self) -> &'static str {
        match self {
            Health::Ok => "OK",
            Health::Warning => "warning",
            Health::Critical => "critical",
        }
    }
}

/// The part of an answer that decisions need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BmcView {
    /// Power; null where it does not say, or contradicts itself.
    pub power: Option<Power>,
    /// Health; null where it does not say.
    pub health: Option<Health>,
}

/// One answer of one BMC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BmcReading {
    /// Name of the node.
    pub node: String,
    /// When it was asked for: everything in it is as of then or later.
    pub at: Timestamp,
    /// What it says.
    pub view: BmcView,
}
