//! The order log: which intents were started, and what became of them. A line of JSON each, on the disk before
//! anybody relies on it.
//!
//! A crash can cut the last line only; that one is taken away when the log is opened. Any other line that can't
//! be read means that something was started of which nothing is known, and the log is refused as a whole.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use provost_model::effect::EffectResult;
use provost_model::signal::PciAddress;
use provost_model::time::Timestamp;
use provost_wire::{Order, OrderFacts};
use serde::{Deserialize, Serialize};

use crate::store;

/// Name of the file in the node's folder.
pub(crate) const FILE: &str = "orders.log";
/// Intents that are remembered.
const KEEP: usize = 10_000;
/// When there are so many more, the file is written anew.
const SLACK: usize = 2_000;
/// Bytes of a line; the longest that is written has a few hundred.
const MAX_LINE: u64 = 64 * 1024;

/// Why the log can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OrderLogError {
    /// It can't be opened, read or written.
    #[error("failed to use the order log `{path}`")]
    Io {
        /// Path.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A line other than the last is damaged.
    #[error(
        "line {line} of the order log `{path}` is damaged, so it is not known what was done on this node; no order \
         is carried out. Look at what the controller says is open, then move the file away"
    )]
    Damaged {
        /// Path.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
enum Entry {
    /// First line of a log that was written anew.
    Head {
        epoch: u64,
        forgotten: u64,
    },
    /// A controller of this epoch was heard of.
    Epoch {
        epoch: u64,
    },
    /// On the disk before the command runs.
    Started {
        intent: u64,
        epoch: u64,
        action: String,
        pci: Option<PciAddress>,
        at: Timestamp,
    },
    Ended {
        intent: u64,
        result: EffectResult,
        facts: OrderFacts,
    },
}

/// What is known about an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It never came.
    Never,
    /// So long ago that it is not remembered.
    Forgotten,
    /// Started, without a result.
    Started {
        /// When.
        at: Timestamp,
    },
    /// It has a result.
    Ended(EffectResult, OrderFacts),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct OrderLog {
    path: PathBuf,
    file: File,
    /// Bytes that are known to be whole.
    length: u64,
    epoch: u64,
    /// This intent and all before it that are not remembered may have been done.
    forgotten: u64,
    known: BTreeMap<u64, Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    started: Option<Started>,
    ended: Option<(EffectResult, OrderFacts)>,
}

#[derive(Debug)]
struct Started {
    epoch: u64,
    action: String,
    pci: Option<PciAddress>,
    at: Timestamp,
}

impl OrderLog {
    /// Opens or makes it.
    pub(crate) fn open(path: &Path) -> Result<OrderLog, OrderLogError> {
        let failed = |source| OrderLogError::Io { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        let (path, known) = (path.to_owned(), BTreeMap::new());
        let mut log = OrderLog { path: path.clone(), file, length: 0, epoch: 0, forgotten: 0, known };
        log.load()?;
        let failed = |source| OrderLogError::Io { path, source };
        log.file.set_len(log.length).map_err(failed)?;
        Ok(log)
    }

    fn load(&mut self) -> Result<(), OrderLogError> {
        let mut reader = BufReader::new(self.file.try_clone().map_err(|error| self.failed(error))?);
        let (mut line, mut number) = (Vec::new(), 0);
        let mut damaged = None;
        loop {
            line.clear();
            let length = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line);
            let length = length.map_err(|error| self.failed(error))?;
            if length == 0 {
                return Ok(());
            }
            if let Some(line) = damaged {
                return Err(OrderLogError::Damaged { path: self.path.clone(), line });
            }
            number += 1;
            match serde_json::from_slice(&line) {
                Ok(entry) if line.ends_with(b"\n") => {
                    self.remember(entry);
                    self.length += length as u64;
                }
                // To be taken away, if it is the last.
                _ => damaged = Some(number),
            }
        }
    }

    fn failed(&self, source: io::Error) -> OrderLogError {
        OrderLogError::Io { path: self.path.clone(), source }
    }

    /// The highest epoch that was heard of.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What is known about an intent.
    pub(crate) fn find(&self, intent: u64) -> Known {
        match self.known.get(&intent) {
            Some(Remembered { ended: Some((result, facts)), .. }) => {
                Known::Ended(result.clone(), facts.clone())
            }
            Some(Remembered { started: Some(started), .. }) => Known::Started { at: started.at },
            Some(Remembered { started: None, ended: None }) | None if intent <= self.forgotten => {
                Known::Forgotten
            }
            Some(Remembered { started: None, ended: None }) | None => Known::Never,
        }
    }

    /// Remembers an epoch.
    pub(crate) fn hear_of(&mut self, epoch: u64) -> Result<(), OrderLogError> {
        if epoch > self.epoch { self.append(Entry::Epoch { epoch }) } else { Ok(()) }
    }

    /// Notes that the command of an order is about to run. It may run only after this has succeeded.
    pub(crate) fn start(&mut self, order: &Order, at: Timestamp) -> Result<(), OrderLogError> {
        let (intent, epoch, action, pci) = (order.intent, order.epoch, order.action.clone(), order.pci);
        self.append(Entry::Started { intent, epoch, action, pci, at })
    }

    /// Notes what became of an intent.
    pub(crate) fn end(
        &mut self,
        intent: u64,
        result: EffectResult,
        facts: OrderFacts,
    ) -> Result<(), OrderLogError> {
        self.append(Entry::Ended { intent, result, facts })?;
        if self.known.len() > KEEP + SLACK { self.compact() } else { Ok(()) }
    }

    fn append(&mut self, entry: Entry) -> Result<(), OrderLogError> {
        let written = self.file.seek(SeekFrom::Start(self.length)).and_then(|_| {
            let line = line(&entry)?;
            self.file.write_all(&line)?;
            self.file.sync_data()?;
            Ok(line.len() as u64)
        });
        match written {
            Ok(length) => {
                self.length += length;
                self.remember(entry);
                Ok(())
            }
            Err(error) => {
                // What was written of the line goes, or else it is overwritten by the next one.
                self.file.set_len(self.length).ok();
                Err(self.failed(error))
            }
        }
    }

    fn remember(&mut self, entry: Entry) {
        match entry {
            Entry::Head { epoch, forgotten } => {
                self.epoch = self.epoch.max(epoch);
                self.forgotten = self.forgotten.max(forgotten);
            }
            Entry::Epoch { epoch } => self.epoch = self.epoch.max(epoch),
            Entry::Started { intent, epoch, action, pci, at } => {
                self.known.entry(intent).or_default().started = Some(Started { epoch, action, pci, at });
                self.epoch = self.epoch.max(epoch);
            }
            Entry::Ended { intent, result, facts } => {
                self.known.entry(intent).or_default().ended = Some((result, facts));
            }
        }
    }

    /// As if the disk were full.
    #[cfg(test)]
    pub(super) fn refuse_writes(&mut self) {
        self.file = File::open(&self.path).unwrap();
    }

    /// Writes the log anew without its oldest intents. Those without a result stay.
    fn compact(&mut self) -> Result<(), OrderLogError> {
        let mut surplus = self.known.len().saturating_sub(KEEP);
        let mut forgotten = self.forgotten;
        self.known.retain(|intent, remembered| {
            let goes = surplus > 0 && remembered.ended.is_some();
            if goes {
                surplus -= 1;
                forgotten = forgotten.max(*intent);
            }
            !goes
        });
        self.forgotten = forgotten;
        self.rewrite().map_err(|error| self.failed(error))
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let mut bytes = line(&Entry::Head { epoch: self.epoch, forgotten: self.forgotten })?;
        for entry in self.known.iter().flat_map(|(intent, remembered)| remembered.entries(*intent)) {
            bytes.extend_from_slice(&line(&entry)?);
        }
        store::replace(&self.path, &bytes, true)?;
        self.file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        self.length = bytes.len() as u64;
        Ok(())
    }
}

impl Remembered {
    fn entries(&self, intent: u64) -> impl Iterator<Item = Entry> {
        let started = self.started.as_ref().map(|started| Entry::Started {
            intent,
            epoch: started.epoch,
            action: started.action.clone(),
            pci: started.pci,
            at: started.at,
        });
        let ended = self.ended.clone().map(|(result, facts)| Entry::Ended { intent, result, facts });
        started.into_iter().chain(ended)
    }
}

fn line(entry: &Entry) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use provost_model::effect::Approach;

    use super::*;
    use crate::testing::Folder;

    fn order(intent: u64, epoch: u64) -> Order {
        Order {
            intent,
            epoch,
            approach: Approach::Act,
            action: "reset".into(),
            node: "gpu001".into(),
            pci: Some("0000:3b:00.0".parse().unwrap()),
            expires_at: Timestamp::from_millis(9),
        }
    }

    fn done() -> EffectResult {
        EffectResult::Done { observed: "exit 0".into(), notes: Vec::new() }
    }

    const AT: Timestamp = Timestamp::from_millis(7);

    #[test]
    fn what_is_written_is_known_after_a_restart() {
        let folder = Folder::new();
        let path = folder.path().join(FILE);
        let mut log = OrderLog::open(&path).unwrap();
        assert_eq!((log.find(1), log.epoch()), (Known::Never, 0));
        log.hear_of(4).unwrap();
        log.hear_of(3).unwrap();
        log.start(&order(1, 4), AT).unwrap();
        log.start(&order(2, 5), AT).unwrap();
        let facts = OrderFacts { exit_code: Some(0), ..OrderFacts::default() };
        log.end(2, done(), facts.clone()).unwrap();
        for log in [log, OrderLog::open(&path).unwrap()] {
            assert_eq!(log.epoch(), 5);
            assert_eq!(log.find(1), Known::Started { at: AT });
            assert_eq!(log.find(2), Known::Ended(done(), facts.clone()));
            assert_eq!(log.find(3), Known::Never);
        }
    }

    #[test]
    fn a_crash_at_any_byte_leaves_a_log_that_goes_on() {
        let folder = Folder::new();
        let path = folder.path().join(FILE);
        let mut log = OrderLog::open(&path).unwrap();
        log.start(&order(1, 1), AT).unwrap();
        let first = fs::metadata(&path).unwrap().len();
        log.end(1, done(), OrderFacts::default()).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut log = OrderLog::open(&path).unwrap();
            let expected = match cut as u64 {
                cut if cut < first => Known::Never,
                cut if cut < whole.len() as u64 => Known::Started { at: AT },
                _ => Known::Ended(done(), OrderFacts::default()),
            };
            assert_eq!(log.find(1), expected, "cut at {cut}");
            if cut % 16 != 0 {
                // Writing waits for the disk, and a line that is cut is cut, wherever.
                continue;
            }
            log.start(&order(2, 1), AT).unwrap();
            assert_eq!(OrderLog::open(&path).unwrap().find(2), Known::Started { at: AT }, "cut at {cut}");
        }
    }

    #[test]
    fn a_damaged_line_inside_refuses_the_log() {
        let folder = Folder::new();
        let path = folder.path().join(FILE);
        let mut log = OrderLog::open(&path).unwrap();
        log.start(&order(1, 1), AT).unwrap();
        log.start(&order(2, 1), AT).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[3] = 0xff;
        fs::write(&path, &bytes).unwrap();
        assert!(matches!(OrderLog::open(&path), Err(OrderLogError::Damaged { line: 1, .. })));
    }

    #[test]
    fn the_oldest_are_forgotten_and_never_done_again() {
        let folder = Folder::new();
        let path = folder.path().join(FILE);
        let mut log = OrderLog::open(&path).unwrap();
        log.start(&order(1, 8), AT).unwrap();
        for intent in 2..=10 {
            log.end(intent, done(), OrderFacts::default()).unwrap();
        }
        // As if the rest of the limit had been written: fsync makes twelve thousand lines slow.
        for intent in 11..=(KEEP + SLACK) as u64 {
            log.remember(Entry::Ended { intent, result: done(), facts: OrderFacts::default() });
        }
        let last = (KEEP + SLACK) as u64 + 1;
        log.end(last, done(), OrderFacts::default()).unwrap();
        for log in [log, OrderLog::open(&path).unwrap()] {
            assert_eq!((log.known.len(), log.epoch()), (KEEP, 8));
            assert_eq!(log.find(1), Known::Started { at: AT });
            assert_eq!(log.find(2), Known::Forgotten);
            assert!(matches!(log.find(last), Known::Ended(..)));
            assert_eq!(log.find(last + 1), Known::Never);
        }
    }
}
