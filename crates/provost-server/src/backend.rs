//! What the API needs of the server: who a token belongs to, and the journal's past.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use provost_api::{Backend, HistoryError, Principal, Query, StoredRecord};
use provost_journal::{Filter, Reader, Sealer};
use provost_model::policy::Role;
use provost_model::record::{Actor, ActorKind, Record, Sealed};
use provost_model::time::Timestamp;

use crate::agents::Agents;
use crate::bmc::Bmcs;
use crate::local::{new_token, sha256_hex};
use crate::{clock, run};

/// Rows that are looked at in one go while a search goes on.
const PAGE: usize = 1_000;

/// The server's side of the API.
pub(crate) struct ServerBackend {
    /// SHA-256 of the local administrator's token: the token itself is compared with nothing.
    local_token: String,
    data: PathBuf,
    /// Readers that wait for their next search.
    readers: Mutex<Vec<Reader>>,
    sealer: Sealer,
    agents: Arc<Agents>,
    bmcs: Option<Arc<Bmcs>>,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl ServerBackend {
    /// A backend over a data directory.
    ///
    /// # Errors
    /// Where the keys can't be read.
    pub(crate) fn new(
        data: &Path,
        token: &str,
        agents: Arc<Agents>,
    ) -> Result<ServerBackend, provost_journal::Error> {
        Ok(ServerBackend {
            local_token: sha256_hex(token.as_bytes()),
            data: data.to_owned(),
            readers: Mutex::default(),
            sealer: Sealer::open(data, false)?,
            agents,
            bmcs: None,
            now: Arc::new(clock::now),
        })
    }

    /// The backend of a controller that lives by another clock.
    pub(crate) fn with_clock(self, now: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> ServerBackend {
        ServerBackend { now, ..self }
    }

    /// The backend of a server that reads BMCs.
    pub(crate) fn with_bmcs(self, bmcs: Arc<Bmcs>) -> ServerBackend {
        ServerBackend { bmcs: Some(bmcs), ..self }
    }

    fn search(&self, reader: &Reader, query: &Query) -> Result<Vec<StoredRecord>, provost_journal::Error> {
        let mut filter = Filter {
            from_ms: query.since.map(Timestamp::as_millis),
            to_ms: query.until.map(Timestamp::as_millis),
            kinds: query.kind_prefix.iter().cloned().collect(),
            holds: [&query.subject, &query.incident, &query.actor].into_iter().flatten().cloned().collect(),
            newest_first: query.newest_first,
            after: first_excluded(query),
        };
        let mut found = Vec::new();
        while found.len() < query.limit {
            let page = reader.scan(&filter, PAGE.min(query.limit.saturating_mul(4)).max(1))?;
            let Some(last) = page.last() else { break };
            filter.after = Some(last.seq);
            let matching = page
                .into_iter()
                .filter(|row| matches(&row.bytes, query))
                .map(|row| StoredRecord { seq: row.seq, kind: row.kind, bytes: row.bytes.into() });
            found.extend(matching.take(query.limit - found.len()));
        }
        Ok(found)
    }
}

/// `from` is included, the journal's `after` is not.
fn first_excluded(query: &Query) -> Option<u64> {
    if query.newest_first { query.from.checked_add(1) } else { query.from.checked_sub(1) }
}

/// The journal's search is a coarse sieve; this looks at the record.
fn matches(bytes: &[u8], query: &Query) -> bool {
    if query.subject.is_none() && query.incident.is_none() && query.actor.is_none() {
        return true;
    }
    let Ok(record) = Record::parse(bytes) else { return false };
    let subject = query.subject.as_ref().is_none_or(|wanted| {
        record.subject.as_ref().is_some_and(|s| {
            s.id == *wanted || s.name.as_ref() == Some(wanted) || s.node.as_ref() == Some(wanted)
        })
    });
    subject
        && query.incident.as_ref().is_none_or(|wanted| record.corr.incident.as_ref() == Some(wanted))
        && query.actor.as_ref().is_none_or(|wanted| record.actor.sub == *wanted)
}

impl Backend for ServerBackend {
    fn authenticate(&self, bearer: &str) -> Option<Principal> {
        (sha256_hex(bearer.as_bytes()) == self.local_token).then(|| Principal {
            actor: Actor { kind: ActorKind::Human, sub: "local:admin".to_owned() },
            roles: BTreeSet::from([Role::Admin]),
        })
    }

    fn records(&self, query: Query) -> Result<Vec<StoredRecord>, HistoryError> {
        let idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let searched = idle.map_or_else(|| run::reader(&self.data), Ok).and_then(|reader| {
            let found = self.search(&reader, &query)?;
            self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
            Ok(found)
        });
        searched.map_err(|error| HistoryError(error.to_string()))
    }

    fn unseal(&self, sealed: &Sealed) -> Option<String> {
        self.sealer.unseal(sealed).ok()
    }

    fn new_secret(&self) -> (String, String) {
        // Without random bytes nothing secret can be made: an empty token is never accepted.
        let token = new_token().unwrap_or_default();
        let digest = sha256_hex(token.as_bytes());
        (token, digest)
    }

    fn expand_nodes(&self, list: &str) -> Option<Vec<String>> {
        provost_connect::slurm::expand(list)
    }

    fn last_seen(&self, node: &str) -> Option<Timestamp> {
        self.agents.last_seen(node)
    }

    fn bmc_read(&self, node: &str) -> Option<Timestamp> {
        self.bmcs.as_ref()?.last_read(node)
    }

    fn now(&self) -> Timestamp {
        (self.now)()
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }
}
