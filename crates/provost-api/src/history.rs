//! What the journal still knows: the search of the audit log and the story of an incident.

use std::sync::Arc;

use provost_model::record::Record;
use provost_model::time::Timestamp;
use provost_model::view::{Page, TimelineEntry};

use crate::access;
use crate::backend::{Principal, Query, StoredRecord};
use crate::cursor;
use crate::field::Fields;
use crate::problem::{Kind, Problem};
use crate::serve::Shared;
use crate::views;

/// A page of records ends before it would grow beyond this many bytes.
const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Rows of a page where the client does not say.
pub(crate) const DEFAULT_LIMIT: usize = 50;

/// Reads the journal on a thread that may block.
pub(crate) async fn read(shared: &Arc<Shared>, query: Query) -> Result<Vec<StoredRecord>, Problem> {
    let turn = shared.searches.acquire().await;
    let _turn = turn.map_err(|error| Problem::new(Kind::Internal, error.to_string()))?;
    let backend = Arc::clone(&shared.api.backend);
    let result = tokio::task::spawn_blocking(move || backend.records(query)).await;
    let detail = match result {
        Ok(Ok(records)) => return Ok(records),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::error!(detail, "a search of the journal failed");
    Err(Problem::new(Kind::HistoryUnavailable, "the search failed").retry_after(5))
}

/// Records that match a search, as they are stored.
pub(crate) async fn search(shared: &Arc<Shared>, query: &Fields) -> Result<Vec<u8>, Problem> {
    let newest_first = query.text("order") != Some("oldest");
    let from = position(query)?.unwrap_or(if newest_first { u64::MAX } else { 0 });
    let text = |name| query.text(name).map(str::to_owned);
    let limit = limit(query);
    let wanted = Query {
        from,
        newest_first,
        limit: limit + 1,
        kind_prefix: text("type"),
        subject: text("subject"),
        incident: text("incident"),
        actor: text("actor"),
        since: query.time("since"),
        until: query.time("until"),
    };
    let as_of = as_of(shared);
    let records = read(shared, wanted).await?;
    let (mut body, mut shown) = (br#"{"items":["#.to_vec(), 0);
    for record in records.iter().take(limit) {
        if shown > 0 && body.len() + record.bytes.len() > MAX_PAGE_BYTES {
            break;
        }
        if shown > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&record.bytes);
        shown += 1;
    }
    let next = records.get(shown).map(|next| cursor::after(&next.seq.to_string(), query));
    let next = serde_json::json!(next);
    body.extend_from_slice(format!(r#"],"next_cursor":{next},"as_of":{as_of}}}"#).as_bytes());
    Ok(body)
}

/// The story of an incident. Sealed words of people are shown to those who work incidents.
pub(crate) async fn timeline(
    shared: &Arc<Shared>,
    id: &str,
    who: &Principal,
    query: &Fields,
) -> Result<Vec<u8>, Problem> {
    let (number, known, evidence) = {
        let state = shared.api.handle.state();
        let (number, known) = views::incident_number(&state, id);
        let evidence = views::incident_evidence(&state, &number);
        (number, known, evidence)
    };
    let as_of = as_of(shared);
    let limit = limit(query);
    let position = position(query)?;
    let wanted = Query {
        from: position.unwrap_or(0),
        limit: limit + 1,
        incident: Some(number.clone()),
        ..Query::default()
    };
    let mut records = read(shared, wanted).await?;
    let fault_at = match known {
        Some(at) => at,
        None => first_evidence(shared, &number).await?.ok_or_else(|| Problem::not_found("incident", id))?,
    };
    let next_cursor = records.get(limit).map(|next| cursor::after(&next.seq.to_string(), query));
    records.truncate(limit);
    if position.is_none() {
        add_evidence(shared, &evidence, &mut records).await?;
    }
    let mut items = Vec::with_capacity(records.len());
    for stored in &records {
        items.push(entry(shared, &parse(stored)?, fault_at, access::may_read_sealed(who)));
    }
    views::written(&Page { items, next_cursor, as_of })
}

/// The story begins with what the incident was opened for, which came before it had a number. Later evidence
/// stands in the incident's own records.
async fn add_evidence(
    shared: &Arc<Shared>,
    evidence: &[u64],
    records: &mut Vec<StoredRecord>,
) -> Result<(), Problem> {
    let Some(opened) = records.first().map(|first| first.seq) else { return Ok(()) };
    let mut before = Vec::new();
    for seq in evidence.iter().filter(|seq| **seq < opened) {
        let wanted = Query { from: *seq, limit: 1, ..Query::default() };
        before.extend(read(shared, wanted).await?.into_iter().filter(|record| record.seq == *seq));
    }
    records.splice(0..0, before);
    Ok(())
}

fn parse(stored: &StoredRecord) -> Result<Record, Problem> {
    Record::parse(&stored.bytes).map_err(|error| Problem::new(Kind::Internal, error.to_string()))
}

/// One line of the story.
fn entry(shared: &Shared, record: &Record, fault_at: Timestamp, unsealed: bool) -> TimelineEntry {
    let mut text = views::timeline_text(record);
    let words = record.sealed.iter().filter(|sealed| views::SEALED_WORDS.contains(&sealed.field.as_str()));
    for sealed in words {
        let value = if unsealed { shared.api.backend.unseal(sealed) } else { None };
        text.push_str(&match value {
            Some(value) => format!(" “{value}”"),
            None => format!(" ({} sealed)", sealed.field),
        });
    }
    TimelineEntry {
        seq: record.seq,
        at: record.at,
        since_fault_ms: u64::try_from(record.at.since(fault_at).as_millis()).unwrap_or(u64::MAX),
        kind: record.kind().to_owned(),
        actor: record.actor.sub.clone(),
        text,
    }
}

/// When the fault of an incident began that State has forgotten.
async fn first_evidence(shared: &Arc<Shared>, number: &str) -> Result<Option<Timestamp>, Problem> {
    let wanted = Query {
        limit: 1,
        incident: Some(number.to_owned()),
        kind_prefix: Some("incident.opened".to_owned()),
        ..Query::default()
    };
    let records = read(shared, wanted).await?;
    let Some(first) = records.first() else { return Ok(None) };
    Ok(views::fault_at(&parse(first)?))
}

/// Where a search goes on.
fn position(query: &Fields) -> Result<Option<u64>, Problem> {
    let Some(key) = cursor::key(query)? else { return Ok(None) };
    let seq = key.parse().map_err(|_| Problem::new(Kind::Malformed, "the cursor is of another list"))?;
    Ok(Some(seq))
}

fn limit(query: &Fields) -> usize {
    query.number("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(DEFAULT_LIMIT)
}

/// Sequence of the newest record that readers may see.
fn as_of(shared: &Shared) -> u64 {
    shared.api.handle.state().seq.saturating_sub(1)
}
