//! What the tests of the journal share: directories of their own, records, journals.
#![allow(dead_code, reason = "each test program uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use provost_journal::{Entry, Journal, Options};
use provost_model::time::Timestamp;

pub(crate) const KIND: &str = "alert.raised";

/// A directory of its own for one test, removed at the end.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> TempDir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("provost-journal-it-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        TempDir(dir)
    }
}

impl std::ops::Deref for TempDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// What a test wants to differ from an ordinary record.
#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) seq: u64,
    pub(crate) epoch: u64,
    pub(crate) producer: &'static str,
    pub(crate) producer_seq: u64,
    pub(crate) text: String,
}

impl Shape {
    pub(crate) fn new(seq: u64) -> Shape {
        Shape { seq, epoch: 1, producer: "controller", producer_seq: seq, text: "x".to_owned() }
    }

    pub(crate) fn at_ms(&self) -> i64 {
        1_796_072_400_000 + self.seq.cast_signed() * 1_000
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let Shape { seq, epoch, producer, producer_seq, text } = self;
        let at = Timestamp::from_millis(self.at_ms());
        format!(
            r#"{{"actor":{{"kind":"system","sub":"system:engine"}},"at":"{at}","data":{{"text":"{text}"}},"epoch":{epoch},"producer":"{producer}","producer_seq":{producer_seq},"seq":{seq},"type":"{KIND}","v":1}}"#
        )
        .into_bytes()
    }

    pub(crate) fn entry(&self) -> Entry {
        Entry { seq: self.seq, at_ms: self.at_ms(), kind: KIND, bytes: self.bytes() }
    }
}

pub(crate) fn open(dir: &Path) -> Journal {
    Journal::open(dir, Options::new("hel-1")).unwrap()
}

/// Appends `count` records in batches of `batch`.
pub(crate) fn append(journal: &mut Journal, count: u64, batch: u64) {
    let end = journal.size() + count;
    while journal.size() < end {
        let first = journal.size();
        let entries: Vec<Entry> =
            (first..end.min(first + batch)).map(|seq| Shape::new(seq).entry()).collect();
        journal.append(&entries).unwrap();
    }
}

/// A journal with `before` records that are signed and `after` that are not, in batches of `batch`.
pub(crate) fn journal(dir: &Path, before: u64, after: u64, batch: u64) -> Journal {
    let mut journal = open(dir);
    for part in 1..=2 {
        append(&mut journal, before / 2, batch);
        journal.checkpoint(part * 60_000).unwrap();
    }
    append(&mut journal, after, batch);
    journal
}
