//! What the interface needs of the server: identities, the journal's past, keys, time.

use std::collections::BTreeSet;
use std::sync::Arc;

use provost_model::policy::Role;
use provost_model::record::{Actor, Sealed};
use provost_model::time::Timestamp;

/// Implemented by the server. Everything but [`Backend::records`] must answer from memory.
pub trait Backend: Send + Sync + 'static {
    /// Who holds this bearer token; `None` where nobody does, or not any more.
    fn authenticate(&self, bearer: &str) -> Option<Principal>;

    /// Records of the journal that match `query` exactly; fewer than `query.limit` only where no more match.
    /// Blocks: it is called outside the async threads.
    ///
    /// # Errors
    /// Where the journal can't be read.
    fn records(&self, query: Query) -> Result<Vec<StoredRecord>, HistoryError>;

    /// The sealed value, where its key is here.
    fn unseal(&self, sealed: &Sealed) -> Option<String>;

    /// A new secret for enrolment and the SHA-256 of it, in hex; an empty secret where none can be made.
    fn new_secret(&self) -> (String, String);

    /// The node names that a hostlist such as `gpu[001-008],spare01` stands for; `None` where it is none.
    fn expand_nodes(&self, list: &str) -> Option<Vec<String>>;

    /// When anything was last heard from the agent of a node; `None` where nothing was since the start.
    fn last_seen(&self, node: &str) -> Option<Timestamp>;

    /// When the BMC of a node answered last; `None` where it has not since the start, or there is none.
    fn bmc_read(&self, node: &str) -> Option<Timestamp>;

    /// Now.
    fn now(&self) -> Timestamp;

    /// Version of the program.
    fn version(&self) -> &str;
}

/// Somebody who has proved who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// As records name it.
    pub actor: Actor,
    /// What it may be allowed to do.
    pub roles: BTreeSet<Role>,
}

/// Which records are wanted. `None` wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// First sequence that is looked at; with `newest_first` the last one.
    pub from: u64,
    /// From the newest to the oldest.
    pub newest_first: bool,
    /// Most records to give.
    pub limit: usize,
    /// Beginning of the type: `incident.`.
    pub kind_prefix: Option<String>,
    /// Id or name of the record's subject.
    pub subject: Option<String>,
    /// Number of the incident that it belongs to.
    pub incident: Option<String>,
    /// The actor's `sub`.
    pub actor: Option<String>,
    /// Decided at or after.
    pub since: Option<Timestamp>,
    /// Decided before.
    pub until: Option<Timestamp>,
}

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Sequence.
    pub seq: u64,
    /// Type: `incident.opened`.
    pub kind: String,
    /// The canonical bytes.
    pub bytes: Arc<[u8]>,
}

/// The journal can't be read. The text is for the server's log; clients are told only that it is so.
#[derive(Debug, thiserror::Error)]
#[error("the journal cannot be read: {0}")]
pub struct HistoryError(pub String);
