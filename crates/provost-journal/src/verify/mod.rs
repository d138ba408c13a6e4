//! The verifier: proves a data directory, a database file or an export, offline, with nothing of the writer's
//! state and no network. It hashes the bytes that are stored and believes nothing else.
//!
//! What it can prove depends on what was kept elsewhere. The key that lies beside the data shows that nothing
//! was changed by somebody without the private key; a key of the verifier's own shows it against everybody
//! without that key; a checkpoint of the verifier's own shows that the journal was not rolled back.

mod database;
mod export;
mod head;
mod lag;
mod trust;
mod walk;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use provost_model::time::Timestamp;

use crate::error::Error;
use crate::note::Checkpoint;

/// What can be verified.
const GIVE: &str = "give a controller's data directory, its journal.db, or an export of it";

/// How to verify.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// A file with verifier keys, one a line, and checkpoints kept from earlier. Without it the key beside the
    /// data is taken, and the report says so.
    pub keys: Option<PathBuf>,
    /// Also that every record is in canonical form, and the root of every single batch below a checkpoint,
    /// which the checkpoint makes superfluous. Two to three times slower.
    pub strict: bool,
}

/// What was proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Name of the log.
    pub origin: String,
    /// Sequences that were looked at.
    pub records: Range<u64>,
    /// Times of the first and the last of them, milliseconds since 1970.
    pub times_ms: Option<(i64, i64)>,
    /// The newest checkpoint, as it was signed; `None` where nothing is signed yet.
    pub checkpoint: Option<Checkpoint>,
    /// Its note.
    pub note: Option<String>,
    /// How many checkpoints were checked.
    pub checkpoints: u64,
    /// How many checkpoints of the keys file were checked.
    pub kept: u64,
    /// The keys that were believed.
    pub keys: String,
    /// Whether the keys were given.
    pub independent: bool,
    /// As asked.
    pub strict: bool,
    /// The first record that was written though records before it should have been signed long ago: checkpoints
    /// are missing. `None` where the records run ahead of the checkpoints as they may.
    pub overdue: Option<u64>,
}

/// The first thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The first record that is wrong; `None` where it is no single record.
    pub seq: Option<u64>,
    /// What is wrong with it, as the rest of the sentence.
    pub what: String,
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Something is wrong with the records.
    #[error("{0}")]
    Wrong(Finding),
    /// Nothing could be said: no such file, a newer format, a keys file without keys.
    #[error("{0}")]
    Unreadable(String),
}

impl Failure {
    fn wrong(seq: Option<u64>, what: impl Into<String>) -> Failure {
        Failure::Wrong(Finding { seq, what: what.into() })
    }
}

impl From<Finding> for Failure {
    fn from(finding: Finding) -> Failure {
        Failure::Wrong(finding)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            text.push_str(": ");
            text.push_str(&inner.to_string());
            source = inner.source();
        }
        Failure::Unreadable(text)
    }
}

/// Verifies a data directory, a database file or an export.
///
/// # Errors
/// The first record that is wrong, or why nothing can be said.
pub fn verify(path: &Path, options: &VerifyOptions) -> Result<Report, Failure> {
    if path.is_dir() {
        return database::verify(&crate::format::database(path), options);
    }
    let mut start = [0u8; 16];
    let mut file = File::open(path)
        .map_err(|error| Failure::Unreadable(format!("{} can't be read: {error}; {GIVE}", path.display())))?;
    match file.read_exact(&mut start) {
        Ok(()) if start == *b"SQLite format 3\0" => database::verify(path, options),
        _ => export::verify(path, options),
    }
}

/// Why records without a checkpoint are suspect, as the rest of a sentence about the first of them.
fn unsigned_too_long(seq: u64) -> String {
    format!(
        "and those after it are covered by no signed checkpoint, though one is made every minute or 1,000 records: \
         by record {seq} it was long due. Checkpoints were taken away, or somebody without the key wrote the records"
    )
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seq {
            Some(seq) => write!(f, "record {seq}: {}", self.what),
            None => write!(f, "{}", self.what),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.records;
        write!(f, "The log {} was read from record {start} up to, not including, {end}", self.origin)?;
        if let Some((first, last)) = self.times_ms {
            let time = Timestamp::from_millis;
            write!(f, " ({} to {})", time(first), time(last))?;
        }
        writeln!(f, ".")?;
        let covered = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.size);
        match &self.checkpoint {
            Some(checkpoint) => writeln!(
                f,
                "All of them below {} are exactly those that were signed; {} checked, the newest of size {} with the root {}.",
                covered.min(end),
                if self.checkpoints == 1 {
                    "1 checkpoint".to_owned()
                } else {
                    format!("{} checkpoints", self.checkpoints)
                },
                checkpoint.size,
                BASE64.encode(checkpoint.root)
            )?,
            None => writeln!(f, "Nothing is signed yet.")?,
        }
        if covered < end {
            writeln!(
                f,
                "{} newer than the last checkpoint fit the roots stored with them, which nobody has signed yet.",
                end - covered.max(start)
            )?;
        }
        if let Some(seq) = self.overdue {
            writeln!(f, "WARNING: record {covered} {}.", unsigned_too_long(seq))?;
        }
        writeln!(f, "Sequences and producers' counters have no gap and epochs never fall.")?;
        if self.strict {
            writeln!(f, "Every record is in canonical form and every batch has its root.")?;
        }
        if self.kept > 0 {
            writeln!(
                f,
                "{} checkpoints that you kept hold: nothing before them was rolled back.",
                self.kept
            )?;
        }
        if self.independent {
            write!(f, "The keys are yours: {}.", self.keys)
        } else {
            write!(
                f,
                "The key lay beside the data and is not independent: who could rewrite both could have made both. \
                 Keep a copy elsewhere and give it with --keys.\nKey: {}",
                self.keys
            )
        }
    }
}
