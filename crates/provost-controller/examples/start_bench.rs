//! How long a controller takes to start on a long journal: with a snapshot that is 100,000 records old, and with
//! none. Says whether the start tells how far it is.
//!
//! The records are the engine's own, made in memory: four episodes to one repeat, as if 5,000 came a second, with
//! sealed kernel lines.
//!
//! `start_bench [RECORDS] [DIR]`

mod support;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use provost_controller::Progress;
use provost_engine::{State, Turn, turn};
use provost_journal::{Entry, Journal, Sealer, Snapshots};
use provost_model::body::EpisodeKey;
use provost_model::input::Input;
use provost_model::record::{Record, Sealed, Sensitive};
use provost_model::signal::Signal;
use provost_model::time::Timestamp;
use support::{Folder, open, signal, site};

/// Records after the snapshot; the controller writes one at least this often.
const SINCE_SNAPSHOT: u64 = 100_000;
const BATCH: usize = 1_000;
/// 2026-01-01T00:00:00Z, milliseconds.
const T0: u64 = 1_767_225_600_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let records: u64 = arguments.next().map_or(Ok(10_000_000), |text| text.parse())?;
    let folder = Folder::new(arguments.next().as_deref(), "start")?;
    let begun = Instant::now();
    Maker::new(folder.path())?.make(records)?;
    println!("made {records} records in {:.0} s", begun.elapsed().as_secs_f64());

    measure(folder.path(), records, "100,000 records old", 10)?;
    std::fs::remove_dir_all(folder.path().join("snapshots"))?;
    measure(folder.path(), records, "none", 120)
}

fn measure(dir: &Path, records: u64, snapshot: &str, target: u32) -> Result<(), Box<dyn Error>> {
    let (begun, mut told) = (Instant::now(), Vec::new());
    let controller = open(dir, &mut |progress: Progress| told.push(progress))?;
    let seconds = begun.elapsed().as_secs_f64();
    let folded = records - told.first().map_or(records, |first| first.from_snapshot);
    if controller.state().seq != records {
        return Err(format!("{} of {records} records were folded", controller.state().seq).into());
    }
    println!(
        "bench: records={records} snapshot=\"{snapshot}\" start_s={seconds:.2} us_a_record={:.2} \
         progress_reports={} target_s={target}",
        seconds * 1e6 / folded as f64,
        told.len(),
    );
    Ok(())
}

/// Makes the journal.
struct Maker {
    journal: Journal,
    sealing: Sealing,
    state: State,
    entries: Vec<Entry>,
    signals: u64,
}

struct Sealing {
    sealer: Sealer,
    failed: Option<provost_journal::Error>,
}

impl Turn for Sealing {
    fn seal(&mut self, values: &[Sensitive]) -> Vec<Sealed> {
        self.sealer.seal(values).unwrap_or_else(|error| {
            self.failed = Some(error);
            Vec::new()
        })
    }
}

impl Maker {
    fn new(dir: &Path) -> Result<Maker, Box<dyn Error>> {
        Ok(Maker {
            journal: Journal::open(dir, provost_journal::Options::new("bench"))?,
            sealing: Sealing { sealer: Sealer::open(dir, true)?, failed: None },
            state: State::new("bench"),
            entries: Vec::new(),
            signals: 0,
        })
    }

    fn make(mut self, records: u64) -> Result<(), Box<dyn Error>> {
        for input in site() {
            self.take(&input)?;
        }
        let snapshot_at = records.saturating_sub(SINCE_SNAPSHOT);
        while self.state.seq < records {
            let signal = signal(self.signals);
            self.signals += 1;
            let repeat = self.signals.is_multiple_of(4).then(|| repeat(&signal));
            self.take(&Input::Signal(Box::new(signal)))?;
            if let Some(repeat) = repeat.filter(|_| self.state.seq < records) {
                self.take(&repeat)?;
            }
            if self.state.seq == snapshot_at {
                self.append()?;
                self.snapshot()?;
            }
        }
        self.append()?;
        self.journal.checkpoint(i64::MAX)?;
        Ok(())
    }

    fn take(&mut self, input: &Input) -> Result<(), Box<dyn Error>> {
        let now = Timestamp::from_millis(i64::try_from(T0 + self.state.seq / 5)?);
        for record in turn(&mut self.state, now, input, &mut self.sealing).records {
            self.entries.push(entry(&record)?);
        }
        if let Some(error) = self.sealing.failed.take() {
            return Err(error.into());
        }
        if self.entries.len() >= BATCH { self.append() } else { Ok(()) }
    }

    fn append(&mut self) -> Result<(), Box<dyn Error>> {
        self.journal.append(&self.entries)?;
        let now = self.entries.last().map_or(0, |last| last.at_ms);
        self.entries.clear();
        if self.journal.checkpoint_due(now) {
            self.journal.checkpoint(now)?;
        }
        Ok(())
    }

    /// As the controller writes it.
    fn snapshot(&mut self) -> Result<(), Box<dyn Error>> {
        let mut bytes = Vec::new();
        ciborium::into_writer(&self.state, &mut bytes)?;
        let snapshots = Snapshots::new(self.journal.dir());
        snapshots.save(self.state.seq, env!("CARGO_PKG_VERSION"), &bytes)?;
        println!("snapshot at record {}: {} bytes", self.state.seq, bytes.len());
        Ok(())
    }
}

fn entry(record: &Record) -> Result<Entry, Box<dyn Error>> {
    let bytes = record.canonical()?;
    Ok(Entry { seq: record.seq, at_ms: record.at.as_millis(), kind: record.kind(), bytes })
}

/// What the merger says a while after the signal.
fn repeat(signal: &Signal) -> Input {
    let key = EpisodeKey {
        node: signal.node.as_str().into(),
        kind: signal.kind,
        code: signal.code,
        pci: signal.pci,
        mig: signal.fields.mig,
        link: signal.fields.link,
    };
    Input::Repeats { key, count: 7, last_at: signal.at }
}
