//! Reading while the writer runs. Every call sees what was committed when it began and nothing else; none
//! holds the database for long, because a reader that stays keeps the write-ahead log from being used again.

use std::ops::Range;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use crate::error::Error;
use crate::format;

/// Rows between two releases of the database.
const CHUNK: u64 = 5_000;
/// A record may be decided before and appended after a checkpoint, or by a clock that was set back; searches by
/// time allow for this much.
const CLOCK_SLACK_MS: i64 = 3_600_000;

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Sequence.
    pub seq: u64,
    /// When it was decided, milliseconds since 1970.
    pub at_ms: i64,
    /// The event's type.
    pub kind: String,
    /// The canonical bytes.
    pub bytes: Vec<u8>,
}

/// A stored record, borrowed for as long as it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// Sequence.
    pub seq: u64,
    /// When it was decided, milliseconds since 1970.
    pub at_ms: i64,
    /// The event's type.
    pub kind: &'a [u8],
    /// The root stored with it, where it ends a batch.
    pub root: Option<&'a [u8]>,
    /// The canonical bytes.
    pub bytes: &'a [u8],
}

/// Which records a search wants; an empty one wants all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Decided at or after, milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Decided before, milliseconds since 1970.
    pub to_ms: Option<i64>,
    /// Types, or beginnings of types: `incident.opened`, `incident.`. Any of them.
    pub kinds: Vec<String>,
    /// Texts that the canonical bytes hold, all of them. A coarse sieve for ids and numbers: the caller looks
    /// at the record itself.
    pub holds: Vec<String>,
    /// Only beyond this sequence, in the direction of the search: where the last page ended.
    pub after: Option<u64>,
    /// From the newest to the oldest.
    pub newest_first: bool,
}

/// The journal of a data directory, open for reading.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    connection: Connection,
}

impl Reader {
    /// Opens the journal in `dir`, whether or not a controller is running.
    ///
    /// # Errors
    /// Where there is no journal, or one of a newer format.
    pub fn open(dir: &Path) -> Result<Reader, Error> {
        Reader::open_database(&format::database(dir), false)
    }

    pub(crate) fn open_database(path: &Path, immutable: bool) -> Result<Reader, Error> {
        let connection = format::open_reader(path, immutable)?;
        Ok(Reader { path: path.to_owned(), connection })
    }

    /// Number of records, which is the next sequence.
    ///
    /// # Errors
    /// Where the database can't be read; so for all that follow.
    pub fn size(&self) -> Result<u64, Error> {
        self.get("SELECT coalesce(max(seq) + 1, 0) FROM record", |row| row.get(0))
    }

    fn get<T>(&self, sql: &str, f: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>) -> Result<T, Error> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row([], f))
            .map_err(Error::read(&self.path))
    }

    /// One record; `None` beyond the end.
    ///
    /// # Errors
    /// As above.
    pub fn record(&self, seq: u64) -> Result<Option<StoredRecord>, Error> {
        self.connection
            .prepare_cached("SELECT seq, at, kind, bytes FROM record WHERE seq = ?1")
            .and_then(|mut statement| statement.query_row([to_sql(seq)], stored).optional())
            .map_err(Error::read(&self.path))
    }

    /// Up to `limit` records from `from_seq` on, in order.
    ///
    /// # Errors
    /// As above.
    pub fn read(&self, from_seq: u64, limit: usize) -> Result<Vec<StoredRecord>, Error> {
        self.connection
            .prepare_cached("SELECT seq, at, kind, bytes FROM record WHERE seq >= ?1 ORDER BY seq LIMIT ?2")
            .and_then(|mut statement| {
                statement.query_map(params![to_sql(from_seq), to_sql(limit as u64)], stored)?.collect()
            })
            .map_err(Error::read(&self.path))
    }

    /// Shows every record of a range to `see`, in order and without a copy: for replay and verification.
    /// Stops at the end of the range or of the journal, or at the first error.
    ///
    /// # Errors
    /// The first error of `see`, or that the database can't be read.
    pub fn each<E: From<Error>>(
        &self,
        range: Range<u64>,
        mut see: impl FnMut(RecordRef<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let read = |error| Error::read(&self.path)(error);
        let mut next = range.start;
        while next < range.end {
            let mut statement = self
                .connection
                .prepare_cached(
                    "SELECT seq, at, kind, root, bytes FROM record WHERE seq >= ?1 AND seq < ?2
                     ORDER BY seq LIMIT ?3",
                )
                .map_err(read)?;
            let mut rows = statement.query([to_sql(next), to_sql(range.end), to_sql(CHUNK)]).map_err(read)?;
            let mut seen = 0;
            while let Some(row) = rows.next().map_err(read)? {
                let record = borrowed(row).map_err(read)?;
                next = record.seq + 1;
                seen += 1;
                see(record)?;
            }
            if seen < CHUNK {
                break;
            }
        }
        Ok(())
    }

    /// Up to `limit` records that `filter` wants. There is no index beside the sequence, by intent; a search by
    /// time begins near its time with the help of the checkpoints, all else is read.
    ///
    /// # Errors
    /// As above.
    pub fn scan(&self, filter: &Filter, limit: usize) -> Result<Vec<StoredRecord>, Error> {
        let start = filter.from_ms.map_or(Ok(0), |from| self.start_before(from))?;
        let (sql, values) = query(filter, start, limit);
        self.connection
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.query_map(params_from_iter(values), stored)?.collect())
            .map_err(Error::read(&self.path))
    }

    /// A sequence below which every record was decided before `from_ms`: that of the last checkpoint before the
    /// first one that was signed around or after that time.
    fn start_before(&self, from_ms: i64) -> Result<u64, Error> {
        self.connection
            .prepare_cached(
                "SELECT coalesce(max(size), 0) FROM checkpoint WHERE size <
                     coalesce((SELECT min(size) FROM checkpoint WHERE at >= ?1), 9223372036854775807)",
            )
            .and_then(|mut statement| {
                statement.query_row([from_ms.saturating_sub(CLOCK_SLACK_MS)], |row| row.get(0))
            })
            .map_err(Error::read(&self.path))
    }

    /// The newest signed checkpoint and its size.
    ///
    /// # Errors
    /// As above.
    pub fn last_checkpoint(&self) -> Result<Option<(u64, String)>, Error> {
        Ok(self.checkpoints_from(0, true)?.pop())
    }

    /// Signed checkpoints whose size is above `size`: all of them in order, or the newest only.
    pub(crate) fn checkpoints_from(&self, size: u64, newest: bool) -> Result<Vec<(u64, String)>, Error> {
        let sql = if newest {
            "SELECT size, note FROM checkpoint WHERE size > ?1 ORDER BY size DESC LIMIT 1"
        } else {
            "SELECT size, note FROM checkpoint WHERE size > ?1 ORDER BY size LIMIT 1000"
        };
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| {
                statement.query_map([to_sql(size)], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
            })
            .map_err(Error::read(&self.path))
    }

    /// The public key stored in the journal; `None` where no controller has opened it yet.
    ///
    /// # Errors
    /// As above.
    pub fn key(&self) -> Result<Option<String>, Error> {
        format::meta(&self.connection, "key").map_err(Error::read(&self.path))
    }
}

fn query(filter: &Filter, start: u64, limit: usize) -> (String, Vec<Value>) {
    let mut values: Vec<Value> = Vec::new();
    let mut bind = |value: Value| {
        values.push(value);
        format!("?{}", values.len())
    };
    let mut conditions = vec![format!("seq >= {}", bind(to_sql(start).into()))];
    if let Some(from) = filter.from_ms {
        conditions.push(format!("at >= {}", bind(from.into())));
    }
    if let Some(to) = filter.to_ms {
        conditions.push(format!("at < {}", bind(to.into())));
    }
    if let Some(after) = filter.after {
        let beyond = if filter.newest_first { '<' } else { '>' };
        conditions.push(format!("seq {beyond} {}", bind(to_sql(after).into())));
    }
    let kinds: Vec<String> = filter
        .kinds
        .iter()
        .map(|kind| bind(kind.clone().into()))
        .map(|kind| format!("substr(kind, 1, length({kind})) = {kind}"))
        .collect();
    if !kinds.is_empty() {
        conditions.push(format!("({})", kinds.join(" OR ")));
    }
    for text in &filter.holds {
        conditions.push(format!("instr(bytes, {}) > 0", bind(text.clone().into_bytes().into())));
    }
    let limit = bind(to_sql(limit as u64).into());
    let order = if filter.newest_first { "DESC" } else { "ASC" };
    let conditions = conditions.join(" AND ");
    (
        format!(
            "SELECT seq, at, kind, bytes FROM record WHERE {conditions} ORDER BY seq {order} LIMIT {limit}"
        ),
        values,
    )
}

/// SQLite's integers are signed; no journal reaches the difference.
fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredRecord> {
    Ok(StoredRecord { seq: row.get(0)?, at_ms: row.get(1)?, kind: row.get(2)?, bytes: row.get(3)? })
}

fn borrowed<'a>(row: &'a Row<'_>) -> rusqlite::Result<RecordRef<'a>> {
    Ok(RecordRef {
        seq: row.get(0)?,
        at_ms: row.get(1)?,
        kind: row.get_ref(2)?.as_bytes()?,
        root: row.get_ref(3)?.as_blob_or_null()?,
        bytes: row.get_ref(4)?.as_bytes()?,
    })
}
