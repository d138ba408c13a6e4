//! What can go wrong with the journal, each with a sentence that says what to do.

use std::io;
use std::path::{Path, PathBuf};

/// The journal's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another controller holds the data directory.
    #[error(
        "another controller is using {}; stop it, or give this one a data directory of its own",
        dir.display()
    )]
    Locked {
        /// The data directory.
        dir: PathBuf,
    },
    /// Written by a newer program.
    #[error(
        "the journal {} has format {found} and this program reads up to {known}; start the newer provost that wrote it",
        path.display()
    )]
    NewerFormat {
        /// The database.
        path: PathBuf,
        /// Format in the file.
        found: i64,
        /// Newest format that this program knows.
        known: i64,
    },
    /// There is no journal.
    #[error(
        "there is no journal at {}; give the data directory of a controller, or its journal.db",
        path.display()
    )]
    NoJournal {
        /// Where it should be.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{} is not a Provost journal; give the data directory of a controller, or its journal.db", path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
    },
    /// The directory belongs to another site.
    #[error("the journal in {} belongs to the log {found}, not to {expected}; check [site] name", dir.display())]
    OtherSite {
        /// The data directory.
        dir: PathBuf,
        /// Origin in the journal.
        found: String,
        /// Origin that the site's name gives.
        expected: String,
    },
    /// The site's name can't be part of a key's name.
    #[error("the site name `{site}` can't name a log; use letters, digits, `-`, `_` and `.`")]
    SiteName {
        /// The name.
        site: String,
    },
    /// A key file can't be used.
    #[error("the key file {} can't be used: {why}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
    /// The records that are stored are not those that were signed.
    #[error("the journal is inconsistent at record {seq}: {what}; run `provost verify` and keep the files")]
    Inconsistent {
        /// First record in doubt.
        seq: u64,
        /// What does not fit.
        what: String,
    },
    /// The caller's records don't follow the last one.
    #[error("record {found} does not follow: the journal's next record is {expected}")]
    Sequence {
        /// Next sequence.
        expected: u64,
        /// Sequence that was given.
        found: u64,
    },
    /// Nothing can be made durable now: no space, a failing disk. Nothing of the batch is stored; the same
    /// batch may be tried again.
    #[error("the journal can't be written now; free some space or check the disk")]
    Unavailable {
        /// What the database said.
        #[source]
        source: rusqlite::Error,
    },
    /// The database can't be read.
    #[error("the journal {} can't be read; check its permissions and the disk, and keep the files", path.display())]
    Read {
        /// The database.
        path: PathBuf,
        /// What the database said.
        #[source]
        source: rusqlite::Error,
    },
    /// A file can't be read or written.
    #[error("{} can't be {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// `read`, `written`, `created`.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The emergency journal has no room for the record.
    #[error("the emergency journal {} has no room for {bytes} more bytes", path.display())]
    EmergencyFull {
        /// The file.
        path: PathBuf,
        /// Size of the record.
        bytes: usize,
    },
    /// Sealing or unsealing failed.
    #[error("{what}")]
    Seal {
        /// What failed.
        what: String,
    },
    /// A part of the journal can't be exported.
    #[error("{what}")]
    Export {
        /// Why not.
        what: String,
    },
}

impl Error {
    pub(crate) fn file(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File { path, what, source }
    }

    pub(crate) fn read(path: &Path) -> impl FnOnce(rusqlite::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Read { path, source }
    }
}
