//! The database's format: what is in it, how it is opened, and which versions this program reads.
//!
//! There is no secondary index and one B-tree on the append path, so that a commit of one small record dirties
//! one page in four cases of five. A batch's root is in its last row for the same reason.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::error::Error;

/// `PVJL`, so that `file` and other programs can tell the database from any other.
const APPLICATION_ID: i64 = 0x5056_4a4c;
/// The newest format that this program reads, and the one that it writes.
pub(crate) const FORMAT: i64 = 1;

const SCHEMA: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE record (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    root BLOB,
    bytes BLOB NOT NULL
);
CREATE TABLE checkpoint (
    size INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    note TEXT NOT NULL,
    frontier BLOB NOT NULL
);
";

/// The database of a data directory.
pub fn database(dir: &Path) -> PathBuf {
    dir.join("journal.db")
}

/// Opens the database for the one writer and makes it where there is none.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, Error> {
    let mut connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(Error::read(path))?;
    let prepare = |connection: &mut Connection| -> rusqlite::Result<()> {
        connection.busy_timeout(Duration::from_secs(1))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // The log is kept at its size and written over: a commit then seldom changes the file's length, which
        // would cost the file system a commit of its own. When it is copied back is decided in `store`.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        let empty: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if empty == 0 {
            let transaction = connection.transaction()?;
            transaction.execute_batch(SCHEMA)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", FORMAT)?;
            transaction.commit()?;
        }
        Ok(())
    };
    // An older program must not touch a newer journal, not even its pragmas.
    if path.metadata().is_ok_and(|metadata| metadata.len() > 0) {
        check_format(&connection, path)?;
    }
    prepare(&mut connection).map_err(|error| unusable(path, error))?;
    check_format(&connection, path)?;
    Ok(connection)
}

/// Opens the database for reading only. With `immutable` nothing is locked and nothing is written beside it:
/// right for read-only media and for a journal that nobody has open.
pub(crate) fn open_reader(path: &Path, immutable: bool) -> Result<Connection, Error> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte))
            }
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    if immutable {
        uri.push_str("?immutable=1");
    }
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(Error::NotAJournal { path: path.to_owned() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::NoJournal { path: path.to_owned() });
        }
        Err(source) => return Err(Error::File { path: path.to_owned(), what: "read", source }),
    }
    let connection = Connection::open_with_flags(uri, flags).map_err(Error::read(path))?;
    connection.busy_timeout(Duration::from_secs(5)).map_err(Error::read(path))?;
    check_format(&connection, path)?;
    Ok(connection)
}

fn check_format(connection: &Connection, path: &Path) -> Result<(), Error> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (id, version) = number("application_id")
        .and_then(|id| Ok((id, number("user_version")?)))
        .map_err(|error| unusable(path, error))?;
    match (id, version) {
        (APPLICATION_ID, 1..=FORMAT) => Ok(()),
        (APPLICATION_ID, found) if found > FORMAT => {
            Err(Error::NewerFormat { path: path.to_owned(), found, known: FORMAT })
        }
        _ => Err(Error::NotAJournal { path: path.to_owned() }),
    }
}

fn unusable(path: &Path, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => Error::NotAJournal { path: path.to_owned() },
        _ => Error::Read { path: path.to_owned(), source: error },
    }
}

/// A value of the table `meta`.
pub(crate) fn meta(connection: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    connection.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0)).optional()
}
