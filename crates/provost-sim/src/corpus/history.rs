//! A fault history of years, replayed: how long between failures, which parts fail again, how many spares it takes.
//!
//! It reads the table that the Titan supercomputer's operators published with "GPU Lifetimes on Titan Supercomputer"
//! (SC20): one row for each stay of a GPU in a place, with how it ended. Corpora say whether a fault is told from
//! noise; a history says how often that happens.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use provost_model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Rows that are read at most; the published table has some thousands.
const MAX_ROWS: usize = 1_000_000;
const HOUR: f64 = 3_600.0;
/// How long a failed GPU waits for its replacement, in the cases that are told.
const REPAIRS: [u64; 3] = [1, 7, 30];

/// The table can't be used.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// Not CSV with the columns expected.
    #[error("it is no CSV with the columns SN, location, insert, remove, duration, event")]
    Csv(#[from] csv::Error),
    /// No row could be read.
    #[error("none of its {0} rows could be read")]
    Nothing(usize),
}

#[derive(Deserialize)]
struct Row {
    #[serde(rename = "SN")]
    serial: String,
    location: String,
    insert: String,
    remove: String,
    /// Seconds.
    duration: String,
    event: String,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    at: Timestamp,
    kind: String,
    gpu: String,
    place: String,
}

/// How often something failed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// Failures.
    pub failures: usize,
    /// Hours between two of them, over everything.
    pub site_hours: f64,
    /// Hours of one GPU between two of them.
    pub gpu_hours: f64,
    /// Failures in 1,000 days of a node with eight GPUs.
    pub in_1000_node_days: f64,
}

/// Things that failed more than once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lemons {
    /// Things that failed at all.
    pub failed: usize,
    /// Those that failed at least twice.
    pub again: usize,
    /// Their part of all failures.
    pub share: f64,
}

/// Spares for one length of repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spares {
    /// Days until a failed GPU is replaced.
    pub repair_days: u64,
    /// So that no failure ever waits.
    pub always: usize,
    /// So that 99 of 100 failures do not wait.
    pub for_99_percent: usize,
}

/// What a history says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct History {
    /// GPUs by serial.
    pub gpus: usize,
    /// Places.
    pub places: usize,
    /// First stay.
    pub from: Timestamp,
    /// Last.
    pub until: Timestamp,
    /// Hours of all GPUs.
    pub gpu_hours: f64,
    /// Rows that could not be read; they are unknown, not healthy.
    pub unparsed: usize,
    /// By kind of failure.
    pub kinds: BTreeMap<String, Rate>,
    /// All kinds.
    pub all: Rate,
    /// GPUs that failed again, wherever they were.
    pub lemon_gpus: Lemons,
    /// Places in which GPUs failed again.
    pub lemon_places: Lemons,
    /// Spares that it would have taken.
    pub spares: Vec<Spares>,
}

impl History {
    /// Replays the table.
    ///
    /// # Errors
    /// Where it is another table.
    pub fn read(table: impl Read) -> Result<History, HistoryError> {
        let mut failures = Vec::new();
        let (mut gpus, mut places) = (BTreeMap::new(), BTreeMap::new());
        let (mut from, mut until) = (Timestamp::MAX, Timestamp::MIN);
        let (mut seconds, mut rows, mut unparsed) = (0.0, 0, 0);
        for row in csv::Reader::from_reader(table).deserialize::<Row>().take(MAX_ROWS) {
            let row = row?;
            rows += 1;
            let stay = || Some((time(&row.insert)?, time(&row.remove)?, length(&row.duration)?));
            let Some((insert, remove, duration)) = stay() else {
                unparsed += 1;
                continue;
            };
            (from, until) = (from.min(insert), until.max(remove));
            seconds += duration;
            gpus.entry(row.serial.clone()).or_insert(());
            places.entry(row.location.clone()).or_insert(());
            if !row.event.is_empty() && row.event != "NA" {
                let failure = Failure { at: remove, kind: row.event, gpu: row.serial, place: row.location };
                failures.push(failure);
            }
        }
        if rows == unparsed {
            return Err(HistoryError::Nothing(rows));
        }
        failures.sort_by(|a, b| (a.at, &a.gpu).cmp(&(b.at, &b.gpu)));
        let of = |count: usize| rate(count, until.since(from), seconds / HOUR);
        let kinds = counts(failures.iter().map(|failure| &failure.kind));
        Ok(History {
            gpus: gpus.len(),
            places: places.len(),
            from,
            until,
            gpu_hours: seconds / HOUR,
            unparsed,
            kinds: kinds.into_iter().map(|(kind, count)| (kind.clone(), of(count))).collect(),
            all: of(failures.len()),
            lemon_gpus: lemons(failures.iter().map(|failure| &failure.gpu)),
            lemon_places: lemons(failures.iter().map(|failure| &failure.place)),
            spares: REPAIRS.iter().map(|days| spares(&failures, *days)).collect(),
        })
    }
}

/// `2017-04-09 21:36:19`, the site's clock.
fn time(text: &str) -> Option<Timestamp> {
    let (day, clock) = text.split_once(' ')?;
    format!("{day}T{clock}Z").parse().ok()
}

fn length(text: &str) -> Option<f64> {
    text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)
}

fn rate(failures: usize, span: Duration, gpu_hours: f64) -> Rate {
    // Counts of a table are far below what a float holds exactly.
    let between = |hours: f64| if failures == 0 { f64::INFINITY } else { hours / failures as f64 };
    let node_days = gpu_hours / 24.0 / 8.0;
    Rate {
        failures,
        site_hours: between(span.as_secs_f64() / HOUR),
        gpu_hours: between(gpu_hours),
        in_1000_node_days: failures as f64 * 1_000.0 / node_days.max(1.0),
    }
}

fn counts<'a>(names: impl Iterator<Item = &'a String>) -> BTreeMap<&'a String, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

fn lemons<'a>(names: impl Iterator<Item = &'a String>) -> Lemons {
    let counts = counts(names);
    let all: usize = counts.values().sum();
    let again = counts.values().filter(|count| **count > 1);
    let share = again.clone().sum::<usize>() as f64 / all.max(1) as f64;
    Lemons { failed: counts.len(), again: again.count(), share }
}

/// Each failure takes a spare until its replacement has come.
fn spares(failures: &[Failure], repair_days: u64) -> Spares {
    let repair = Duration::from_secs(repair_days * 86_400);
    let mut taken: Vec<usize> = (0..failures.len())
        .map(|i| {
            let open = |other: &&Failure| other.at + repair > failures[i].at;
            failures[..=i].iter().rev().take_while(open).count()
        })
        .collect();
    taken.sort_unstable();
    let at_99 = (taken.len() * 99).div_ceil(100).saturating_sub(1);
    Spares {
        repair_days,
        always: taken.last().copied().unwrap_or(0),
        for_99_percent: taken.get(at_99).copied().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "SN,location,insert,remove,duration,out,event
a,p1,2014-01-01 00:00:00,2014-01-11 00:00:00,864000,TRUE,DBE
b,p1,2014-01-11 00:00:00,2014-01-12 00:00:00,86400,TRUE,OTB
a,p2,2014-01-12 00:00:00,2014-01-31 00:00:00,1641600,TRUE,DBE
c,p3,2014-01-01 00:00:00,2014-01-31 00:00:00,2592000,FALSE,
d,p4,NA,2014-01-31 00:00:00,,FALSE,
";

    #[test]
    fn a_history_is_replayed() {
        let history = History::read(TABLE.as_bytes()).unwrap();
        assert_eq!((history.gpus, history.places, history.unparsed), (3, 3, 1));
        assert_eq!((history.kinds["DBE"].failures, history.kinds["OTB"].failures), (2, 1));
        assert_eq!((history.all.site_hours, history.all.gpu_hours), (240.0, 480.0));
        assert_eq!(history.all.in_1000_node_days, 3.0 * 1_000.0 / 7.5);
        let two_of_three = Lemons { failed: 2, again: 1, share: 2.0 / 3.0 };
        assert_eq!(history.lemon_gpus, two_of_three);
        assert_eq!(history.lemon_places, two_of_three);
        let spares: Vec<_> = history.spares.iter().map(|s| (s.repair_days, s.always)).collect();
        assert_eq!(spares, [(1, 1), (7, 2), (30, 3)]);
    }

    #[test]
    fn another_table_is_refused() {
        assert!(matches!(History::read("a,b\n1,2\n".as_bytes()), Err(HistoryError::Csv(_))));
        let nothing = "SN,location,insert,remove,duration,out,event\na,p,,,,TRUE,DBE\n";
        assert!(matches!(History::read(nothing.as_bytes()), Err(HistoryError::Nothing(1))));
    }

    #[test]
    fn titan_replays() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
        let table = dir.join("fixtures/data/ornl-titan-gpu-life/gc_full.rows1-8215.csv");
        let Ok(table) = std::fs::File::open(&table) else {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{} is missing", table.display());
            println!("skipped: titan_replays needs ../shared");
            return;
        };
        let history = History::read(table).unwrap();
        assert!(history.all.failures > 500 && history.gpus > 5_000 && history.unparsed < 100, "{history:#?}");
        assert!(history.all.site_hours > 12.0 && history.all.site_hours < 200.0, "{history:#?}");
        assert!(history.spares.windows(2).all(|pair| pair[0].always <= pair[1].always), "{history:#?}");
    }
}
