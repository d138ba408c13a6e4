//! Whom to believe: the verifier keys, and checkpoints that somebody kept outside of the journal's reach.

use std::fs;
use std::path::Path;

use super::Failure;
use crate::note::{Checkpoint, Verifier};

/// Keys and kept checkpoints.
pub(super) struct Trust {
    keys: Vec<Verifier>,
    /// In order of size.
    pub(super) kept: Vec<Checkpoint>,
    /// The keys were given and not found beside the data.
    pub(super) independent: bool,
}

impl Trust {
    /// From a file of the person who verifies: verifier keys, one a line, and any number of signed checkpoints
    /// as they were printed. Lines that begin with `#` are remarks.
    pub(super) fn from_file(path: &Path) -> Result<Trust, Failure> {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::Unreadable(format!("{} can't be read: {error}", path.display())))?;
        let mut keys = Vec::new();
        let mut notes: Vec<String> = vec![String::new()];
        let mut signed = false;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Ok(key) = line.trim().parse() {
                keys.push(key);
                continue;
            }
            let signature = line.starts_with("— ");
            if signed && !signature {
                notes.push(String::new());
            }
            signed = signature;
            if let Some(note) = notes.last_mut()
                && !(note.is_empty() && line.trim().is_empty())
            {
                note.push_str(line);
                note.push('\n');
            }
        }
        let unusable = |why: String| Failure::Unreadable(format!("{}: {why}", path.display()));
        if keys.is_empty() {
            return Err(unusable(
                "holds no verifier key; copy the line of keys/journal.vkey into it".to_owned(),
            ));
        }
        let mut trust = Trust { keys, kept: Vec::new(), independent: true };
        for note in notes.iter().filter(|note| !note.is_empty()) {
            let checkpoint =
                trust.checkpoint(note).map_err(|why| unusable(format!("a checkpoint in it {why}")))?;
            trust.kept.push(checkpoint);
        }
        trust.kept.sort_by_key(|checkpoint| checkpoint.size);
        Ok(trust)
    }

    /// The key that lies in the data itself.
    pub(super) fn beside_the_data(key: Option<&str>) -> Result<Trust, Failure> {
        let key =
            key.ok_or_else(|| Failure::Unreadable("it holds no key; give one with --keys FILE".to_owned()))?;
        let key = key
            .parse()
            .map_err(|error| Failure::wrong(None, format!("the key beside the records is none: {error}")))?;
        Ok(Trust { keys: vec![key], kept: Vec::new(), independent: false })
    }

    /// The checkpoint in a note that one of the keys signed.
    pub(super) fn checkpoint(&self, note: &str) -> Result<Checkpoint, String> {
        let mut results = self.keys.iter().map(|key| key.checkpoint(note));
        let first = results.next().unwrap_or_else(|| Err("can't be checked without a key".to_owned()));
        first.or_else(|error| results.find_map(Result::ok).ok_or(error))
    }

    /// The name of the log, which is that of its key.
    pub(super) fn origin(&self) -> String {
        self.keys.first().map_or_else(String::new, |key| key.name().to_owned())
    }

    /// The keys as text.
    pub(super) fn names(&self) -> String {
        self.keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}
