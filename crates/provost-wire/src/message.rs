//! The messages of both directions.

use std::collections::BTreeSet;

use provost_model::body::SourceState;
use provost_model::effect::{Approach, EffectResult};
use provost_model::fleet::GpuFacts;
use provost_model::signal::{PciAddress, Signal};
use provost_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::frame::Message;

/// Declares the messages of one direction: each kind's number is written once.
macro_rules! direction {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $kind:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant($variant),)*
        }

        impl Message for $name {
            fn kind(&self) -> u8 {
                match self {
                    $($name::$variant(_) => $kind,)*
                }
            }

            fn body(&self) -> serde_json::Result<Vec<u8>> {
                match self {
                    $($name::$variant(body) => serde_json::to_vec(body),)*
                }
            }

            fn from_body(kind: u8, body: &[u8]) -> Option<serde_json::Result<Self>> {
                match kind {
                    $($kind => Some(serde_json::from_slice(body).map($name::$variant)),)*
                    _ => None,
                }
            }
        }

        $(impl From<$variant> for $name {
            fn from(body: $variant) -> $name {
                $name::$variant(body)
            }
        })*
    };
}

direction! {
    /// From an agent to the server.
    ToServer {
        /// First on a connection with the node's certificate.
        Hello = 1,
        /// Kernel conditions.
        Signals = 2,
        /// Still here.
        Heartbeat = 3,
        /// What became of an order.
        OrderResult = 4,
        /// Kernel lines that could not be read.
        Unparsed = 5,
        /// First on a connection without a certificate.
        EnrolRequest = 6,
        /// Asks for the next certificate over the connection of the present one.
        RenewRequest = 7,
    }
}

direction! {
    /// From the server to an agent.
    ToAgent {
        /// Answers [`Hello`].
        Welcome = 129,
        /// A batch of signals is durable.
        Ack = 130,
        /// Something to do on the node.
        Order = 131,
        /// Answers [`EnrolRequest`] and [`RenewRequest`].
        EnrolReply = 132,
        /// The server does not go on.
        Refused = 133,
        /// Whether the node may take work.
        Standing = 134,
    }
}

/// See [`ToServer::Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`crate::PROTOCOL`] of the agent.
    pub protocol: u32,
    /// Name of the node; the certificate must carry the same.
    pub node: String,
    /// Version of the agent.
    pub version: String,
    /// Drawn once a start of the agent. A server that has already taken a batch of the same instance and
    /// number acknowledges it again and records nothing.
    pub instance: u64,
    /// Boot id of the node; null where it cannot be read.
    pub boot_id: Option<String>,
    /// Names of its `[[action]]` entries.
    pub actions: BTreeSet<String>,
    /// GPUs; null where the agent cannot look.
    pub gpus: Option<Vec<GpuFacts>>,
}

/// See [`ToServer::Signals`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signals {
    /// Number of the batch, rising from 1 within one [`Hello::instance`]. A batch that was not acknowledged is
    /// sent again on the next connection with the same number and the same signals.
    pub batch: u64,
    /// The signals, oldest first.
    pub signals: Vec<Signal>,
    /// Signals that the agent had to drop since the batch before, for want of room.
    pub dropped: u64,
}

/// See [`ToServer::Heartbeat`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The agent's clock.
    pub at: Timestamp,
    /// Signals that are not acknowledged.
    pub queued: u64,
    /// Whether the kernel log can be read.
    pub kernel_log: SourceState,
}

/// See [`ToServer::OrderResult`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderResult {
    /// Sequence of the intent.
    pub intent: u64,
    /// Epoch of the order that is answered.
    pub epoch: u64,
    /// What became of it.
    pub result: EffectResult,
    /// From the agent's order log.
    pub facts: OrderFacts,
}

/// What the agent's order log says about one order. The output itself stays on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OrderFacts {
    /// When the command was started; absent where it never was.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Its exit code; absent where a signal ended it.
    pub exit_code: Option<i32>,
    /// Bytes that it wrote to its standard output and error.
    pub output_bytes: u64,
}

/// See [`ToServer::Unparsed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unparsed {
    /// Lines that could not be understood, since the report before.
    pub count: u64,
    /// Kernel records that were overwritten before they could be read, since the report before.
    #[serde(default)]
    pub lost: u64,
}

/// See [`ToServer::EnrolRequest`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolRequest {
    /// The token that an administrator has made.
    pub token: String,
    /// Name of the node.
    pub node: String,
    /// Certificate signing request, PEM.
    pub csr_pem: String,
}

impl std::fmt::Debug for EnrolRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token is a secret and must not reach a log.
        f.debug_struct("EnrolRequest").field("node", &self.node).finish_non_exhaustive()
    }
}

/// See [`ToServer::RenewRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewRequest {
    /// Certificate signing request, PEM.
    pub csr_pem: String,
}

/// See [`ToAgent::Welcome`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Epoch of the controller. Orders of older ones are refused from here on.
    pub epoch: u64,
    /// The server's clock.
    pub server_time: Timestamp,
    /// Milliseconds between two heartbeats.
    pub heartbeat_ms: u64,
}

/// See [`ToAgent::Ack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// This batch and those before it are durable.
    pub batch: u64,
}

/// See [`ToAgent::Order`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Sequence of the intent: the key by which the agent does a thing at most once.
    pub intent: u64,
    /// Epoch of the controller that orders.
    pub epoch: u64,
    /// Do it, or only say whether it was done.
    pub approach: Approach,
    /// Name of the `[[action]]`.
    pub action: String,
    /// Name of the node; the agent refuses another's.
    pub node: String,
    /// The device, where the action is about one.
    pub pci: Option<PciAddress>,
    /// Not to be started after this.
    pub expires_at: Timestamp,
}

/// See [`ToAgent::Standing`]. Sent behind [`Welcome`] and whenever it changes; the agent keeps it for the
/// scheduler's prolog. A controller of the version before does not send it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Nothing of Provost's keeps work from the node.
    pub may_work: bool,
    /// Why it may not, as Slurm's reason has it and without personal data; empty where it may.
    pub why: String,
}

/// See [`ToAgent::EnrolReply`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolReply {
    /// The certificate, and those between it and the CA's, PEM.
    pub cert_pem: String,
    /// The CA's certificate, PEM.
    pub ca_pem: String,
    /// End of validity.
    pub expires_at: Timestamp,
}

/// See [`ToAgent::Refused`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Code, such as `token_invalid`, `node_not_allowed`, `protocol`.
    pub code: String,
    /// For the person who reads the agent's log: what is so, and what to do.
    pub message: String,
}
