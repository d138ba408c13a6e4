//! What an agent and the controller say to each other, and how it is cut into frames.
//!
//! They speak over mutual TLS with the application protocol [`ALPN`]. A frame is a length (`u32`, big-endian,
//! of what follows it), a kind (`u8`) and a body in JSON. The two directions have kinds of their own:
//! [`ToServer`] and [`ToAgent`]. Bodies may gain fields; a reader passes over those it does not know, and over
//! whole frames of a kind it does not know, so that one version and the next understand each other.
//!
//! Use [`encode`] and [`Decoder`] where the bytes come from elsewhere, [`write_message`] and [`read_message`]
//! over a blocking stream. Nothing here panics or grows without bound, whatever the peer sends.

mod frame;
mod message;

pub use frame::{Decoder, Message, WireError, encode, read_message, write_message};
pub use message::{
    Ack, EnrolReply, EnrolRequest, Heartbeat, Hello, Order, OrderFacts, OrderResult, Refused, RenewRequest,
    Signals, Standing, ToAgent, ToServer, Unparsed, Welcome,
};

/// Application protocol that agent and server agree on in the TLS handshake.
pub const ALPN: &[u8] = b"provost-agent/1";

/// Version of the messages, as [`Hello`] states it. It changes only where an old reader would be misled.
pub const PROTOCOL: u32 = 1;

/// Longest body of a frame, in bytes.
pub const MAX_BODY: usize = 256 * 1024;
