//! The journal: an append-only log whose every record can be proved by somebody who trusts nobody here.
//!
//! It stores canonical bytes and knows nothing of what they mean; the engine's state is a fold of them. One
//! writer ([`Journal`]) appends batches, each in one transaction with its Merkle root (RFC 6962); every minute
//! or thousand records the root is signed as a C2SP checkpoint. Readers ([`Reader`]) see only what is durable.
//! Beside it live what only makes sense with it: sealed values ([`Sealer`]), snapshots of the folded state
//! ([`Snapshots`]), the emergency journal ([`Emergency`]) for a full disk, hash tiles and exports for proofs,
//! and the verifier ([`verify`](verify::verify)), which shares none of the writer's state.

pub mod emergency;
mod error;
pub mod export;
mod files;
mod format;
pub mod maintenance;
pub mod merkle;
pub mod note;
mod reader;
pub mod seal;
pub mod snapshot;
mod store;
pub mod tiles;
pub mod verify;

pub use emergency::Emergency;
pub use error::Error;
pub use format::database;
pub use maintenance::Maintenance;
pub use reader::{Filter, Reader, RecordRef, StoredRecord};
pub use seal::Sealer;
pub use snapshot::Snapshots;
pub use store::{Commit, Entry, Journal, Options};
