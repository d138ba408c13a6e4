//! The live stream: every record once and in order, from a sequence on, for as long as the client listens.
//!
//! A stream first subscribes, then reads the journal up to what State shows, then follows the live records. It
//! goes back to the journal whenever the live records skip one, so a slow client costs the journal a read and
//! the controller nothing.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::HeaderName;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use provost_controller::Committed;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::access;
use crate::backend::Query;
use crate::field::Fields;
use crate::history;
use crate::problem::{FieldError, Kind, Problem};
use crate::serve::Shared;

/// Streams that one token may follow at once.
const MAX_STREAMS: usize = 5;
/// A comment is sent after so long a silence, so that proxies keep the connection.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// A stream whose token was revoked ends within this time; tests wait for it.
const RECHECK: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(15) };
/// Records read from the journal at once.
const CHUNK: usize = 256;
/// Records that wait for the client; with the largest record this is 4 MiB.
const WAITING: usize = 64;
/// Where a client that comes back goes on.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

type Sent = Result<Event, Infallible>;

/// Streams by token.
#[derive(Default)]
pub(crate) struct Streams {
    /// By a keyed hash of the token: tokens themselves are kept nowhere.
    open: Mutex<HashMap<u64, usize>>,
    hasher: RandomState,
}

/// The place of one stream.
struct Place {
    streams: Arc<Streams>,
    token: u64,
}

impl Streams {
    fn enter(self: &Arc<Streams>, token: &str) -> Result<Place, Problem> {
        let token = self.hasher.hash_one(token);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(token).or_default();
        if *count >= MAX_STREAMS {
            let detail = format!("{MAX_STREAMS} streams are open and no more are allowed");
            return Err(Problem::new(Kind::TooManyStreams, detail).retry_after(15));
        }
        *count += 1;
        Ok(Place { streams: Arc::clone(self), token })
    }

    /// Streams that are followed now.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.token);
            }
        }
    }
}

/// Opens a stream.
pub(crate) fn respond(
    shared: &Arc<Shared>,
    headers: &HeaderMap,
    query: &Fields,
) -> Result<Response, Problem> {
    let token = access::bearer(headers).unwrap_or_default().to_owned();
    let place = shared.streams.enter(&token)?;
    // Subscribed before State is looked at: whatever is durable later comes live.
    let live = shared.api.live.subscribe();
    let size = shared.api.handle.state().seq;
    let after = last_event_id(headers)?.or_else(|| query.number("after"));
    let next = after.map_or(size, |after| u64::try_from(after.saturating_add(1)).unwrap_or(0));
    let kind = query.text("type").unwrap_or_default().to_owned();
    let (out, waiting) = mpsc::channel(WAITING);
    let feed = Feed { shared: Arc::clone(shared), next, kind, token, out, _place: place };
    tokio::spawn(feed.run(live));
    let keep_alive = KeepAlive::new().interval(HEARTBEAT).text("still here");
    Ok(Sse::new(ReceiverStream::new(waiting)).keep_alive(keep_alive).into_response())
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let seq = value.to_str().ok().and_then(|text| text.parse::<i64>().ok()).filter(|seq| *seq >= -1);
    let detail = "Last-Event-ID is the `id` of an event";
    seq.map(Some).ok_or_else(|| {
        let error =
            FieldError { pointer: "Last-Event-ID".to_owned(), code: "invalid", detail: detail.to_owned() };
        Problem::malformed(detail, vec![error])
    })
}

/// Feeds one stream.
struct Feed {
    shared: Arc<Shared>,
    /// Sequence that the client gets next.
    next: u64,
    /// Beginning of the types that the client wants.
    kind: String,
    token: String,
    out: mpsc::Sender<Sent>,
    _place: Place,
}

/// The client is gone, may not listen any more, or the journal can't be read; it comes back with its last id.
struct Ended;

impl Feed {
    async fn run(mut self, mut live: Receiver<Committed>) {
        let outcome: Result<Infallible, Ended> = async {
            self.reset_if_ahead().await?;
            loop {
                self.catch_up().await?;
                self.follow(&mut live).await?;
            }
        }
        .await;
        let Err(Ended) = outcome;
    }

    /// A client that has seen more than there is follows another journal's numbers: it must list again.
    async fn reset_if_ahead(&mut self) -> Result<(), Ended> {
        let size = self.shared.api.handle.state().seq;
        if self.next <= size {
            return Ok(());
        }
        self.next = size;
        let as_of = size.saturating_sub(1);
        self.send(Event::default().event("reset").data(format!(r#"{{"as_of":{as_of}}}"#))).await
    }

    /// Sends what the journal holds from `next` on.
    async fn catch_up(&mut self) -> Result<(), Ended> {
        loop {
            // Everything below is durable, so a read that comes back short has seen all of it.
            let size = self.shared.api.handle.state().seq;
            if self.next >= size {
                return Ok(());
            }
            let kind_prefix = (!self.kind.is_empty()).then(|| self.kind.clone());
            let query = Query { from: self.next, limit: CHUNK, kind_prefix, ..Query::default() };
            let records = history::read(&self.shared, query).await.map_err(|_| Ended)?;
            let full = records.len() >= CHUNK;
            for record in records {
                self.next = record.seq + 1;
                self.send_record(record.seq, &record.kind, &record.bytes).await?;
            }
            if !full {
                self.next = self.next.max(size);
            }
        }
    }

    /// Sends live records until one is missing.
    async fn follow(&mut self, live: &mut Receiver<Committed>) -> Result<(), Ended> {
        let mut recheck = tokio::time::interval(RECHECK);
        loop {
            tokio::select! {
                received = live.recv() => match received {
                    Ok(one) if one.record.seq < self.next => {}
                    Ok(one) if one.record.seq == self.next => {
                        self.next += 1;
                        if one.record.kind().starts_with(&self.kind) {
                            self.send_record(one.record.seq, one.record.kind(), &one.bytes).await?;
                        }
                    }
                    Ok(_) | Err(RecvError::Lagged(_)) => return Ok(()),
                    Err(RecvError::Closed) => return Err(Ended),
                },
                () = self.out.closed() => return Err(Ended),
                _ = recheck.tick() => {
                    if self.shared.api.backend.authenticate(&self.token).is_none() {
                        return Err(Ended);
                    }
                }
            }
        }
    }

    async fn send_record(&self, seq: u64, kind: &str, bytes: &[u8]) -> Result<(), Ended> {
        // Canonical bytes are one line of UTF-8; anything else is not sent as if it were a record.
        let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| !text.contains(['\n', '\r'])) else {
            tracing::error!(seq, "a stored record is not in canonical form; run `provost verify`");
            return Err(Ended);
        };
        self.send(Event::default().id(seq.to_string()).event(kind).data(text)).await
    }

    async fn send(&self, event: Event) -> Result<(), Ended> {
        self.out.send(Ok(event)).await.map_err(|_| Ended)
    }
}
