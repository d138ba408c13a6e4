//! `verify --replay`: folds every record again, from nothing and from each snapshot, and compares.

use std::fmt;
use std::path::Path;

use provost_engine::{State, apply};
use provost_journal::{Reader, Snapshots};
use provost_model::record::Record;

use crate::start::Error;

/// What a replay has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Records that were folded.
    pub records: u64,
    /// Sequence of the snapshot that was compared.
    pub snapshot: Option<u64>,
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replayed {} records without a gap", self.records)?;
        match self.snapshot {
            Some(seq) => write!(f, "; the snapshot at record {seq} holds the same state"),
            None => write!(f, "; there is no snapshot to compare with"),
        }
    }
}

/// Folds the journal of a data directory. Reads only; may run beside the controller.
///
/// # Errors
/// Where a record can't be read, or the snapshot differs.
pub fn replay(dir: &Path) -> Result<Replayed, Error> {
    let reader = Reader::open(dir)?;
    let total = reader.size()?;
    let snapshot = Snapshots::new(dir).latest(total, env!("CARGO_PKG_VERSION"));
    let mut state: Option<State> = None;
    let mut compared = None;
    reader.each(0..total, |stored| {
        let record = Record::parse_to_fold(stored.bytes)
            .map_err(|source| Error::Record { seq: stored.seq, source })?;
        let state = state.get_or_insert_with(|| State::new(&record.site));
        compare(state, snapshot.as_ref(), &mut compared)?;
        apply(state, &record);
        state.dirty.clear();
        Ok::<(), Error>(())
    })?;
    if let Some(state) = &state {
        compare(state, snapshot.as_ref(), &mut compared)?;
    }
    Ok(Replayed { records: total, snapshot: compared })
}

/// Compares at the snapshot's position.
fn compare(
    state: &State,
    snapshot: Option<&provost_journal::snapshot::Snapshot>,
    compared: &mut Option<u64>,
) -> Result<(), Error> {
    let Some(snapshot) = snapshot.filter(|snapshot| snapshot.seq == state.seq) else { return Ok(()) };
    let kept: Option<State> = ciborium::from_reader(snapshot.state.as_slice()).ok();
    if kept.as_ref() != Some(state) {
        return Err(Error::SnapshotDiffers { seq: snapshot.seq });
    }
    *compared = Some(snapshot.seq);
    Ok(())
}
