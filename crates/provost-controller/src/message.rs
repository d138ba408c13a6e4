//! What comes into the loop and what leaves it.

use std::fmt;
use std::sync::Arc;

use provost_model::input::{Input, Reply};
use provost_model::record::Record;
use provost_model::signal::Signal;

/// The journal can't be written: nothing was changed (`503 AUDIT_UNAVAILABLE`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the journal cannot be written, so nothing was changed; free space on its disk and try again, it recovers by itself"
)]
pub struct Unavailable;

/// Answer to a command, given when its records are durable.
pub type Answer = Result<Reply, Unavailable>;

/// Takes the answer of one command.
pub type TakeAnswer = Box<dyn FnOnce(Answer) + Send>;

/// Called once the signals are durable or folded into an episode that is. Never called where they are not, so
/// that the agent keeps them.
pub type Ack = Box<dyn FnOnce() + Send>;

/// One message of the inbox.
pub enum Message {
    /// Signals of one agent.
    Signals {
        /// In the order in which the kernel wrote them.
        signals: Vec<Signal>,
        /// Tells the agent.
        ack: Ack,
    },
    /// Anything else that needs no answer.
    Input(Input),
    /// A command.
    Ask {
        /// The command's input.
        input: Input,
        /// Takes the answer.
        answer: TakeAnswer,
    },
    /// End the loop after this batch.
    Stop,
}

impl Message {
    /// How many inputs it is for the engine.
    pub(crate) fn inputs(&self) -> usize {
        if let Message::Signals { signals, .. } = self { signals.len() } else { 1 }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Signals { signals, .. } => write!(f, "Signals({})", signals.len()),
            Message::Input(input) => write!(f, "Input({input:?})"),
            Message::Ask { input, .. } => write!(f, "Ask({input:?})"),
            Message::Stop => write!(f, "Stop"),
        }
    }
}

/// A record that is durable.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The record.
    pub record: Arc<Record>,
    /// Its canonical bytes.
    pub bytes: Arc<Vec<u8>>,
}
