//! The writer: one batch, one transaction, one root. What [`Journal::append`] has returned for is durable;
//! what it has refused has left no trace.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::error::Error;
use crate::files;
use crate::format;
use crate::merkle::{Hash, Tree, leaf_hash};
use crate::note::{Checkpoint, Signer, Verifier, origin};
use crate::snapshot::Snapshots;

/// Pages of write-ahead log after which an idle writer copies them back.
const WAL_SOFT_PAGES: u64 = 1_024;
/// Pages after which a busy one does; also what keeps the log at about 16 MiB.
const WAL_HARD_PAGES: u64 = 4_096;
/// No two checkpoints are closer than this.
const CHECKPOINT_SPACING_MS: u64 = 1_000;

/// How a journal is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the site; the log is `provost.<site>/log1`.
    pub site: String,
    /// A checkpoint is due this long after the last one, where records came since. Milliseconds.
    pub checkpoint_every_ms: u64,
    /// A checkpoint is due after so many records.
    pub checkpoint_records: u64,
}

impl Options {
    /// The defaults of the product: every 60 s or 1,000 records.
    pub fn new(site: &str) -> Options {
        Options { site: site.to_owned(), checkpoint_every_ms: 60_000, checkpoint_records: 1_000 }
    }
}

/// One record to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its sequence; must follow the last one.
    pub seq: u64,
    /// When it was decided, milliseconds since 1970. The same as in the bytes; stored again for searches.
    pub at_ms: i64,
    /// The event's type; the same as in the bytes.
    pub kind: &'static str,
    /// The canonical bytes.
    pub bytes: Vec<u8>,
}

/// What a batch made of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Number of records, which is the next sequence.
    pub size: u64,
    /// Root over all of them.
    pub root: Hash,
}

#[derive(Clone, Debug)]
struct LastCheckpoint {
    size: u64,
    at_ms: i64,
    note: String,
}

/// The journal of a data directory, open for its one writer.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    options: Options,
    connection: Connection,
    signer: Signer,
    tree: Tree,
    last_checkpoint: Option<LastCheckpoint>,
    /// At least the pages in the write-ahead log that are not copied back yet.
    wal_pages: u64,
    /// Held, not read: the lock goes when the file is closed.
    _lock: File,
}

impl Journal {
    /// Opens the journal in `dir`; makes directory, database and key where there are none.
    ///
    /// # Errors
    /// A second controller, a newer format, another site, a key file that can't be used, records that are not
    /// those that were signed, files that can't be read.
    pub fn open(dir: &Path, options: Options) -> Result<Journal, Error> {
        let origin = origin(&options.site)?;
        files::create_dir(dir)?;
        let lock = lock(dir)?;
        let path = format::database(dir);
        let connection = format::open_writer(&path)?;
        let records: u64 = connection
            .query_row("SELECT coalesce(max(seq) + 1, 0) FROM record", [], |row| row.get(0))
            .map_err(Error::read(&path))?;
        not_rolled_back(dir, records)?;
        check_origin(&connection, dir, &origin)?;
        let signer = Signer::load(dir, &origin, records == 0)?;
        check_key(&connection, dir, &signer, &origin)?;
        let last_checkpoint = last_checkpoint(&connection).map_err(Error::read(&path))?;
        let tree = restore(&connection, &path, signer.verifier())?;
        Ok(Journal {
            dir: dir.to_owned(),
            options,
            connection,
            signer,
            tree,
            last_checkpoint,
            wal_pages: WAL_SOFT_PAGES,
            _lock: lock,
        })
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Number of records, which is the next sequence.
    pub fn size(&self) -> u64 {
        self.tree.size()
    }

    /// The root over all records.
    pub fn root(&self) -> Hash {
        self.tree.root()
    }

    /// The key that checkpoints are signed with.
    pub fn verifier(&self) -> &Verifier {
        self.signer.verifier()
    }

    /// Makes all of `entries` durable, or none of them.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where the disk takes nothing now: the journal stands where it stood and the same
    /// batch may be tried again. (Where the disk failed while syncing and the machine then went down, a restart
    /// may find the batch after all.) [`Error::Sequence`] where the entries don't follow the last record.
    pub fn append(&mut self, entries: &[Entry]) -> Result<Commit, Error> {
        let mut tree = self.tree.clone();
        for entry in entries {
            if entry.seq != tree.size() {
                return Err(Error::Sequence { expected: tree.size(), found: entry.seq });
            }
            tree.push(leaf_hash(&entry.bytes));
        }
        let root = tree.root();
        if let Some((last, before)) = entries.split_last() {
            self.insert(before, last, &root).map_err(|source| match source.sqlite_error_code() {
                Some(rusqlite::ErrorCode::ConstraintViolation) => Error::Inconsistent {
                    seq: self.tree.size(),
                    what: "somebody else has written to the database".to_owned(),
                },
                _ => Error::Unavailable { source },
            })?;
        }
        self.tree = tree;
        self.wal_pages +=
            entries.iter().map(|entry| 2 + entry.bytes.len() as u64 / 4_096).sum::<u64>().max(2);
        if self.wal_pages >= WAL_HARD_PAGES && self.copy_back().is_err() {
            // The batch is durable in the log; copying it back is tried again after half as many pages.
            self.wal_pages = WAL_HARD_PAGES / 2;
        }
        Ok(Commit { size: self.tree.size(), root })
    }

    fn insert(&mut self, before: &[Entry], last: &Entry, root: &Hash) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO record (seq, at, kind, root, bytes) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            for entry in before {
                insert.execute(params![entry.seq, entry.at_ms, entry.kind, None::<&[u8]>, entry.bytes])?;
            }
            insert.execute(params![last.seq, last.at_ms, last.kind, root, last.bytes])?;
        }
        transaction.commit()
    }

    /// Whether [`Journal::checkpoint`] should be called.
    pub fn checkpoint_due(&self, now_ms: i64) -> bool {
        let Some(last) = &self.last_checkpoint else { return self.tree.size() > 0 };
        let unsigned = self.tree.size() - last.size;
        // A clock that was set back must not silence the log until it has caught up.
        let passed = now_ms.abs_diff(last.at_ms);
        unsigned > 0
            && passed >= CHECKPOINT_SPACING_MS
            && (unsigned >= self.options.checkpoint_records || passed >= self.options.checkpoint_every_ms)
    }

    /// Signs the journal as it stands and stores the signed note; `None` where there is nothing new to sign.
    /// The caller decides when: see [`Journal::checkpoint_due`].
    ///
    /// # Errors
    /// [`Error::Unavailable`] as for [`Journal::append`].
    pub fn checkpoint(&mut self, now_ms: i64) -> Result<Option<String>, Error> {
        let size = self.tree.size();
        if size == self.last_checkpoint.as_ref().map_or(0, |last| last.size) {
            return Ok(None);
        }
        let name = self.signer.verifier().name().to_owned();
        let note = self.signer.sign(&Checkpoint { origin: name, size, root: self.tree.root() }.text());
        self.connection
            .prepare_cached("INSERT INTO checkpoint (size, at, note, frontier) VALUES (?1, ?2, ?3, ?4)")
            .and_then(|mut insert| insert.execute(params![size, now_ms, note, self.tree.frontier().concat()]))
            .map_err(|source| Error::Unavailable { source })?;
        self.wal_pages += 2;
        self.last_checkpoint = Some(LastCheckpoint { size, at_ms: now_ms, note: note.clone() });
        Ok(Some(note))
    }

    /// The newest signed checkpoint.
    pub fn last_checkpoint(&self) -> Option<&str> {
        self.last_checkpoint.as_ref().map(|last| last.note.as_str())
    }

    /// Copies the write-ahead log back into the database where it has grown; for when there is nothing else to
    /// do. A writer that never calls it does the work inside an append, some milliseconds every few thousand.
    ///
    /// # Errors
    /// Where the database can't be written. Nothing is lost; it may be tried again.
    pub fn maintain(&mut self) -> Result<(), Error> {
        if self.wal_pages < WAL_SOFT_PAGES {
            return Ok(());
        }
        self.copy_back().map_err(|source| Error::Unavailable { source })
    }

    fn copy_back(&mut self) -> rusqlite::Result<()> {
        self.wal_pages = copy_back(&self.connection)?;
        Ok(())
    }
}

/// Copies back what no reader still needs; gives the number of pages that remain.
pub(crate) fn copy_back(connection: &Connection) -> rusqlite::Result<u64> {
    let (log, copied): (i64, i64) =
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get(1)?, row.get(2)?)))?;
    Ok(u64::try_from(log - copied).unwrap_or(0))
}

fn lock(dir: &Path) -> Result<File, Error> {
    let path = dir.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(Error::file(&path, "written"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(Error::File { path, what: "locked", source }),
    }
}

/// Snapshots and tiles are made of durable records only, so a journal that ends before them has lost some: an older
/// copy of it, or one without its write-ahead log. New records in their place would be a second history.
fn not_rolled_back(dir: &Path, records: u64) -> Result<(), Error> {
    let were = Snapshots::new(dir).newest().max(crate::tiles::covered(dir));
    if were <= records {
        return Ok(());
    }
    let what = format!(
        "the database ends here, although snapshots or tiles beside it were made of {were} records; restore the \
         newest journal.db with its journal.db-wal. Where there is none, move the folders snapshots and tiles away \
         and start again: what they knew beyond this record is lost then"
    );
    Err(Error::Inconsistent { seq: records, what })
}

fn check_origin(connection: &Connection, dir: &Path, expected: &str) -> Result<(), Error> {
    match format::meta(connection, "origin").map_err(Error::read(&format::database(dir)))? {
        Some(found) if found != expected => {
            Err(Error::OtherSite { dir: dir.to_owned(), found, expected: expected.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Stores origin and public key at the first open; later they must be the same.
fn check_key(connection: &Connection, dir: &Path, signer: &Signer, origin: &str) -> Result<(), Error> {
    let path = format::database(dir);
    let key = signer.verifier().to_string();
    match format::meta(connection, "key").map_err(Error::read(&path))? {
        Some(found) if found == key => Ok(()),
        Some(found) => Err(Error::Key {
            path: Signer::path(dir),
            why: format!("the journal was signed with {found}; restore that key from the backup"),
        }),
        None => connection
            .execute("INSERT INTO meta (name, value) VALUES ('origin', ?1), ('key', ?2)", [origin, &key])
            .map(|_| ())
            .map_err(|source| Error::Unavailable { source }),
    }
}

fn last_checkpoint(connection: &Connection) -> rusqlite::Result<Option<LastCheckpoint>> {
    connection
        .query_row("SELECT size, at, note FROM checkpoint ORDER BY size DESC LIMIT 1", [], |row| {
            Ok(LastCheckpoint { size: row.get(0)?, at_ms: row.get(1)?, note: row.get(2)? })
        })
        .optional()
}

/// The tree at the last checkpoint, from its frontier, and the records since; so that a start does not hash
/// the whole journal. That the rest is right is `verify`'s business.
fn restore(connection: &Connection, path: &Path, verifier: &Verifier) -> Result<Tree, Error> {
    let mut tree = signed_tree(connection, path, verifier)?;
    let wrong = |seq, what: &str| Error::Inconsistent { seq, what: what.to_owned() };
    let mut statement = connection
        .prepare("SELECT seq, root, bytes FROM record WHERE seq >= ?1 ORDER BY seq")
        .map_err(Error::read(path))?;
    // From the record before, so that a journal cut off at or below its last checkpoint is noticed.
    let first = tree.size().saturating_sub(1);
    let mut rows = statement.query([first]).map_err(Error::read(path))?;
    let (mut expected, mut complete) = (first, true);
    while let Some(row) = rows.next().map_err(Error::read(path))? {
        let seq: u64 = row.get(0).map_err(Error::read(path))?;
        if seq != expected {
            return Err(wrong(expected, "the record is missing"));
        }
        expected += 1;
        if seq < tree.size() {
            continue;
        }
        let bytes = row.get_ref(2).and_then(|value| Ok(value.as_blob()?)).map_err(Error::read(path))?;
        tree.push(leaf_hash(bytes));
        let root: Option<Hash> = row.get(1).map_err(|_| wrong(seq, "the stored root is no hash"))?;
        complete = root.is_some();
        if root.is_some_and(|root| root != tree.root()) {
            return Err(wrong(seq, "the stored root is not the root of the records up to it"));
        }
    }
    match (expected == tree.size(), complete) {
        (true, true) => Ok(tree),
        (true, false) => Err(wrong(expected - 1, "the last batch has no root, so its end is missing")),
        (false, _) => Err(wrong(expected, "the record is missing although a checkpoint covers it")),
    }
}

fn signed_tree(connection: &Connection, path: &Path, verifier: &Verifier) -> Result<Tree, Error> {
    let newest = connection
        .query_row("SELECT size, note, frontier FROM checkpoint ORDER BY size DESC LIMIT 1", [], |row| {
            Ok((row.get::<_, u64>(0)?, row.get::<_, String>(1)?, row.get::<_, Vec<u8>>(2)?))
        })
        .optional()
        .map_err(Error::read(path))?;
    let Some((size, note, frontier)) = newest else { return Ok(Tree::new()) };
    let wrong = |what: String| Error::Inconsistent {
        seq: size,
        what: format!("the checkpoint of size {size} {what}"),
    };
    let signed = verifier.checkpoint(&note).map_err(wrong)?;
    let (hashes, rest) = frontier.as_chunks::<32>();
    Tree::from_frontier(size, hashes.to_vec())
        .filter(|tree| rest.is_empty() && signed.size == size && signed.root == tree.root())
        .ok_or_else(|| wrong("does not fit the hashes stored beside it".to_owned()))
}
