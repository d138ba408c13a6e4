//! Signals that wait for a controller that is away, on disk.
//!
//! A kernel log that is still there after the end of an agent is a spool by itself: the agent keeps from where it
//! has to be read again. Not every log is. The kernel's ring ends with the boot, and a node that has lost a GPU is
//! often started anew; it overwrites; a FIFO has no past; a file is rotated away and compressed. So a signal that was
//! not acknowledged within a moment is written here, and what is written here is not read from the log again.
//!
//! The file is a list of lines of JSON that grows. A crash cuts its last line only, and that one goes; any other
//! damaged line is passed over. It is written anew when most of it is acknowledged, and is emptied when all is.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use provost_model::signal::Signal;
use serde::{Deserialize, Serialize};

use crate::follow::Restart;
use crate::store;

/// Name of the file in the node's folder.
pub(crate) const FILE: &str = "spool.jsonl";
/// Bytes of the file; one that would grow beyond it is written anew with what still waits, which is bounded too.
const MAX_FILE: u64 = 16 << 20;
/// A smaller one is not worth writing anew before all of it is acknowledged.
const SMALL: u64 = 1 << 20;
/// Signals of a line, so that a crash while it is written costs no more than these.
const MAX_LINE_SIGNALS: usize = 64;
/// Bytes of a line: so many signals with the longest texts, each byte of which may become six.
const MAX_LINE: u64 = 1 << 20;

/// Why the spool can't be used. The agent goes on without it.
#[derive(Debug, thiserror::Error)]
#[error("failed to use the spool `{path}`; signals that wait now do not survive the end of the agent")]
pub(crate) struct SpoolError {
    path: PathBuf,
    source: io::Error,
}

/// A signal and its number, which rises within a node for as long as anything is in the spool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) signal: Signal,
}

/// What the outbox gives to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Those that are not in the spool yet and wait for longer than a moment.
    pub(crate) signals: Vec<Numbered>,
    /// Signals with lower numbers are acknowledged or dropped.
    pub(crate) oldest: u64,
    /// Signals that were dropped and not told.
    pub(crate) dropped: u64,
    /// From where the log is to be read again when these are kept.
    pub(crate) restart: Option<Restart>,
    /// All up to this number are in the spool then.
    pub(crate) up_to: u64,
}

/// What was in the spool.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Oldest first.
    pub(crate) signals: Vec<Numbered>,
    pub(crate) dropped: u64,
    pub(crate) restart: Option<Restart>,
}

/// One line.
#[derive(Serialize, Deserialize)]
struct Entry {
    signals: Vec<Numbered>,
    oldest: u64,
    dropped: u64,
    restart: Option<Restart>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    file: File,
    /// Bytes that are known to be whole.
    length: u64,
    /// What was written and still waits, so that the file can be written anew.
    signals: BTreeMap<u64, Signal>,
    written: usize,
    oldest: u64,
    dropped: u64,
}

impl Spool {
    /// Opens or makes it, and gives what was in it.
    pub(crate) fn open(path: &Path) -> Result<(Spool, Kept), SpoolError> {
        let failed = |source| SpoolError { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(failed)?;
        let (path, signals) = (path.to_owned(), BTreeMap::new());
        let mut spool = Spool { path, file, length: 0, signals, written: 0, oldest: 0, dropped: 0 };
        let restart = spool.load().map_err(|source| spool.failed(source))?;
        let signals =
            spool.signals.iter().map(|(number, signal)| Numbered { number: *number, signal: signal.clone() });
        let kept = Kept { signals: signals.collect(), dropped: spool.dropped, restart };
        Ok((spool, kept))
    }

    fn failed(&self, source: io::Error) -> SpoolError {
        SpoolError { path: self.path.clone(), source }
    }

    fn load(&mut self) -> io::Result<Option<Restart>> {
        let mut reader = BufReader::new(self.file.try_clone()?);
        let (mut line, mut restart) = (Vec::new(), None);
        loop {
            line.clear();
            let length = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line)?;
            if length == 0 {
                break;
            }
            let is_whole = line.ends_with(b"\n");
            if let Ok(entry) = serde_json::from_slice::<Entry>(&line)
                && is_whole
            {
                restart = entry.restart.clone().or(restart);
                self.remember(entry);
            }
            // Behind a torn end nothing follows; a line that is too long is passed over piece by piece.
            if is_whole || length as u64 == MAX_LINE {
                self.length += length as u64;
            }
        }
        self.file.set_len(self.length)?;
        Ok(restart)
    }

    fn remember(&mut self, entry: Entry) {
        self.written += entry.signals.len();
        self.signals.extend(entry.signals.into_iter().map(|kept| (kept.number, kept.signal)));
        self.oldest = self.oldest.max(entry.oldest);
        self.dropped = entry.dropped;
        self.signals = self.signals.split_off(&self.oldest);
    }

    /// Nothing is kept, so nothing has to be told apart from what is read from the log.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Keeps what waits. On the disk when this returns.
    pub(crate) fn keep(&mut self, waiting: Waiting) -> Result<(), SpoolError> {
        let is_news = !waiting.signals.is_empty()
            || !self.is_empty() && (waiting.oldest > self.oldest || waiting.dropped != self.dropped);
        if !is_news {
            return Ok(());
        }
        let is_over = waiting.signals.is_empty() && self.signals.range(waiting.oldest..).next().is_none();
        let done = if is_over && waiting.dropped == 0 { self.clear() } else { self.append(waiting) };
        done.map_err(|source| self.failed(source))
    }

    fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        (self.length, self.written) = (0, 0);
        self.signals.clear();
        self.file.sync_data()
    }

    fn append(&mut self, waiting: Waiting) -> io::Result<()> {
        let mut bytes = Vec::new();
        for entry in entries(waiting.signals, waiting.oldest, waiting.dropped, waiting.restart.as_ref()) {
            line(&entry, &mut bytes)?;
            self.remember(entry);
        }
        let length = self.length + bytes.len() as u64;
        let is_mostly_over = length > SMALL && self.signals.len() * 2 < self.written;
        if length > MAX_FILE || is_mostly_over {
            return self.rewrite(waiting.restart.as_ref());
        }
        let written = self.file.seek(SeekFrom::Start(self.length)).and_then(|_| self.file.write_all(&bytes));
        match written.and_then(|()| self.file.sync_data()) {
            Ok(()) => self.length = length,
            Err(error) => {
                // What was written of it goes, or else it is overwritten by the next.
                self.file.set_len(self.length).ok();
                return Err(error);
            }
        }
        Ok(())
    }

    fn rewrite(&mut self, restart: Option<&Restart>) -> io::Result<()> {
        let signals =
            self.signals.iter().map(|(number, signal)| Numbered { number: *number, signal: signal.clone() });
        let mut bytes = Vec::new();
        for entry in entries(signals.collect(), self.oldest, self.dropped, restart) {
            line(&entry, &mut bytes)?;
        }
        store::replace(&self.path, &bytes, true)?;
        self.file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        (self.length, self.written) = (bytes.len() as u64, self.signals.len());
        Ok(())
    }
}

/// The lines for signals; one where there are none.
fn entries(mut signals: Vec<Numbered>, oldest: u64, dropped: u64, restart: Option<&Restart>) -> Vec<Entry> {
    let mut entries = Vec::new();
    loop {
        let rest = signals.split_off(signals.len().min(MAX_LINE_SIGNALS));
        // Only with the last of them the log is not to be read again.
        let restart = restart.filter(|_| rest.is_empty()).cloned();
        entries.push(Entry { signals, oldest, dropped, restart });
        if rest.is_empty() {
            return entries;
        }
        signals = rest;
    }
}

fn line(entry: &Entry, bytes: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer(&mut *bytes, entry)?;
    bytes.push(b'\n');
    Ok(())
}

#[cfg(test)]
#[path = "spool/tests.rs"]
mod tests;
