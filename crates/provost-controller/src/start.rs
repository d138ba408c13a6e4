//! From a journal to a State: the newest usable snapshot, then the records after it.

use std::ops::Range;
use std::path::Path;

use crossbeam_channel::{Receiver, Sender, bounded};
use provost_engine::{State, apply};
use provost_journal::{Journal, Reader, Snapshots};
use provost_model::record::{CanonicalError, Record};

/// Records read at once.
const CHUNK: u64 = 4_096;
/// Threads that read and parse, in turns: parsing a record takes about twice as long as folding it.
const PARSERS: u64 = 2;
/// Chunks that each has ready before they are folded.
const READ_AHEAD: usize = 2;

/// Why a controller cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal.
    #[error("the journal failed")]
    Journal(#[from] provost_journal::Error),
    /// The thread that writes it is gone: a bug, whose message stands in the log.
    #[error("the thread that writes the journal has ended; restart the controller")]
    Writer,
    /// A record that this version does not know.
    #[error(
        "record {seq} is none that this version of provost can read or write; start the version that wrote it"
    )]
    Record {
        /// Sequence.
        seq: u64,
        /// Why.
        #[source]
        source: CanonicalError,
    },
    /// Records are missing.
    #[error(
        "the journal counts {total} records but ends after {found}; `provost verify` says what is wrong with it"
    )]
    Cut {
        /// Records that are there.
        found: u64,
        /// Records that there should be.
        total: u64,
    },
    /// A snapshot is not what the records say.
    #[error("the snapshot at record {seq} is not what the records say; delete it, it is only a cache")]
    SnapshotDiffers {
        /// Its position.
        seq: u64,
    },
    /// The journal belongs to another site.
    #[error(
        "this journal belongs to site `{found}`, the configuration says `{asked}`; use another data directory"
    )]
    Site {
        /// Configured.
        asked: String,
        /// In the journal.
        found: String,
    },
}

/// How far a replay has come; reported every now and then because it may take a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Records that a snapshot saved.
    pub from_snapshot: u64,
    /// Records folded so far.
    pub done: u64,
    /// Records in all.
    pub total: u64,
}

/// Rebuilds State. `report` is called at the start and then once a chunk.
pub(crate) fn rebuild(
    journal: &Journal,
    site: &str,
    report: &mut dyn FnMut(Progress),
) -> Result<State, Error> {
    let total = journal.size();
    let mut state = from_snapshot(journal, total).unwrap_or_else(|| State::new(site));
    if state.site != site {
        return Err(Error::Site { asked: site.to_owned(), found: state.site });
    }
    let (from_snapshot, dir) = (state.seq, journal.dir());
    // Reading and parsing go on beside the folding: a start is when somebody waits.
    std::thread::scope(|scope| {
        let parser = |nth: u64| {
            let (parsed, chunks) = bounded(READ_AHEAD);
            scope.spawn(move || parse_all(dir, site, from_snapshot + nth * CHUNK..total, &parsed));
            chunks
        };
        let parsers: Vec<Receiver<_>> = (0..PARSERS).map(parser).collect();
        report(Progress { from_snapshot, done: state.seq, total });
        // One without a next chunk is the one whose turn the end of the journal is.
        for chunk in parsers.iter().cycle().map_while(|chunks| chunks.recv().ok()) {
            for record in &chunk? {
                apply(&mut state, record);
                state.dirty.clear();
            }
            report(Progress { from_snapshot, done: state.seq, total });
        }
        if state.seq == total { Ok(state) } else { Err(Error::Cut { found: state.seq, total }) }
    })
}

/// Sends every [`PARSERS`]th chunk of `range`, until one can't be read or nobody takes them any more.
fn parse_all(dir: &Path, site: &str, range: Range<u64>, parsed: &Sender<Result<Vec<Record>, Error>>) {
    let reader = match Reader::open(dir) {
        Ok(reader) => reader,
        // Nobody takes it any more where another chunk has failed before.
        Err(error) => return drop(parsed.send(Err(error.into()))),
    };
    let step = usize::try_from(CHUNK * PARSERS).unwrap_or(usize::MAX);
    for from in range.clone().step_by(step) {
        let chunk = parse_chunk(&reader, site, from..range.end.min(from + CHUNK), range.end);
        let failed = chunk.is_err();
        if parsed.send(chunk).is_err() || failed {
            return;
        }
    }
}

fn parse_chunk(reader: &Reader, site: &str, range: Range<u64>, total: u64) -> Result<Vec<Record>, Error> {
    let mut records = Vec::new();
    let mut next = range.start;
    reader.each(range.clone(), |stored| {
        if stored.seq != next {
            return Err(Error::Cut { found: next, total });
        }
        next += 1;
        let record = Record::parse_to_fold(stored.bytes)
            .map_err(|source| Error::Record { seq: stored.seq, source })?;
        if record.site != site {
            return Err(Error::Site { asked: site.to_owned(), found: record.site });
        }
        records.push(record);
        Ok(())
    })?;
    if next < range.end { Err(Error::Cut { found: next, total }) } else { Ok(records) }
}

/// The newest snapshot that this version wrote and that is not beyond the journal.
fn from_snapshot(journal: &Journal, total: u64) -> Option<State> {
    let snapshot = Snapshots::new(journal.dir()).latest(total, env!("CARGO_PKG_VERSION"))?;
    let state: State = ciborium::from_reader(snapshot.state.as_slice()).ok()?;
    (state.seq == snapshot.seq).then_some(state)
}

/// State as a snapshot's bytes.
pub(crate) fn encode(state: &State) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    ciborium::into_writer(state, &mut bytes).ok()?;
    Some(bytes)
}
