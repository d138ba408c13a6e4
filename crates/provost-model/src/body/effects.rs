//! Intents to do something outside, why they are wanted, and what became of them.

use serde::{Deserialize, Serialize};

use crate::effect::{Effect, EffectResult};
use crate::ids::{ExecutionId, NodeId, SlotId};
use crate::policy::Mode;
use crate::time::Timestamp;

/// Why an effect is wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Purpose {
    /// Containment or release of a node: desired state differs from observed.
    Containment {
        /// Node.
        node: NodeId,
    },
    /// A step of an execution.
    Step {
        /// Execution.
        execution: ExecutionId,
        /// Step.
        step: String,
        /// Attempt, from 1.
        attempt: u32,
    },
    /// Undoing a step.
    Undo {
        /// Execution.
        execution: ExecutionId,
        /// Step.
        step: String,
    },
    /// `detach`.
    Detach,
    /// Bringing a spare into a slot or out of it, outside a runbook.
    Slot {
        /// Slot.
        slot: SlotId,
    },
    /// A person asked for this effect itself.
    Command {
        /// Idempotency key of the request.
        request: String,
    },
}

/// See [`Body::EffectRequested`](super::Body::EffectRequested).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectRequested {
    /// What.
    pub effect: Effect,
    /// Why.
    pub purpose: Purpose,
    /// Without a result by then it is unknown.
    pub deadline: Timestamp,
}

/// See [`Body::EffectCompleted`](super::Body::EffectCompleted).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectCompleted {
    /// Sequence of the intent.
    pub intent: u64,
    /// What was wanted.
    pub effect: Effect,
    /// What became of it.
    pub result: EffectResult,
}

/// See [`Body::EffectVoided`](super::Body::EffectVoided).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectVoided {
    /// Sequence of the intent.
    pub intent: u64,
    /// Code.
    pub why: String,
}

/// See [`Body::WouldHave`](super::Body::WouldHave).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WouldHave {
    /// What.
    pub effect: Effect,
    /// Why.
    pub purpose: Purpose,
    /// Mode that kept it from being done.
    pub mode: Mode,
}
