//! How long a journal takes to verify and to open: makes records of about 700 bytes in batches, then measures.
//!
//! `verify_bench [RECORDS] [BATCH] [DIR]`; DIR is removed afterwards.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use provost_journal::merkle::{Tree, leaf_hash};
use provost_journal::verify::{VerifyOptions, verify};
use provost_journal::{Entry, Journal, Options};
use provost_model::time::Timestamp;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let records: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let batch: u64 = arguments.next().map_or(Ok(20), |text| text.parse())?;
    let parent = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = parent.join(format!("provost-verify-bench-{}", std::process::id()));
    let result = run(&dir, records, batch);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn run(dir: &Path, records: u64, batch: u64) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    make(dir, records, batch)?;
    println!("made {records} records in batches of {batch} in {:.1} s", begin.elapsed().as_secs_f64());

    let begin = Instant::now();
    drop(Journal::open(dir, Options::new("bench"))?);
    println!("bench: records={records} batch={batch} open_s={:.3}", begin.elapsed().as_secs_f64());

    let begin = cpu_seconds()?;
    hash(records);
    let cpu = cpu_seconds()? - begin;
    println!("bench: hashing_alone_cpu_s={cpu:.1} us_per_record={:.2}", cpu * 1e6 / records as f64);

    for strict in [false, true] {
        let (begin, cpu) = (Instant::now(), cpu_seconds()?);
        let report = verify(dir, &VerifyOptions { strict, ..VerifyOptions::default() })?;
        let (seconds, cpu) = (begin.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
        println!(
            "bench: strict={strict} verify_s={seconds:.1} cpu_s={cpu:.1} us_per_record={:.2} checkpoints={}",
            seconds * 1e6 / records as f64,
            report.checkpoints
        );
    }
    Ok(())
}

/// The least that any verifier does: every leaf and every inner node of the tree, from memory.
fn hash(records: u64) {
    let (mut tree, bytes) = (Tree::new(), entry(records).bytes);
    for _ in 0..records {
        tree.push(leaf_hash(&bytes));
    }
    std::hint::black_box(tree.root());
}

/// Processor time of this process, user and system; on a shared machine it says more than the wall clock.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // Fields 14 and 15, in hundredths of a second; the second field is a name in brackets.
    let fields = stat.rsplit(") ").next().ok_or("/proc/self/stat has no name in it")?;
    let ticks: f64 =
        fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap_or(0.0)).sum();
    Ok(ticks / 100.0)
}

/// As if 5,000 records came a second.
fn make(dir: &Path, records: u64, batch: u64) -> Result<(), Box<dyn Error>> {
    let mut journal = Journal::open(dir, Options::new("bench"))?;
    while journal.size() < records {
        let first = journal.size();
        let entries: Vec<Entry> = (first..records.min(first + batch)).map(entry).collect();
        journal.append(&entries)?;
        let now = i64::try_from(journal.size() / 5)?;
        if journal.checkpoint_due(now) {
            journal.checkpoint(now)?;
        }
    }
    journal.checkpoint(i64::MAX)?;
    Ok(())
}

fn entry(seq: u64) -> Entry {
    let at_ms = (seq / 5).cast_signed();
    let at = Timestamp::from_millis(at_ms);
    let text = "0123456789abcdef".repeat(12);
    let bytes = format!(
        r#"{{"actor":{{"kind":"system","sub":"system:engine"}},"at":"{at}","change":null,"class":"detection","corr":{{"execution":null,"incident":"INC-1970-000001","request":null,"step":null}},"data":{{"evidence":["{text}"],"node":"gpu{:04}"}},"decision":null,"epoch":1,"id":"rec_00000000-0000-8000-8000-{seq:012x}","outcome":"ok","producer":"controller","producer_seq":{seq},"sealed":[],"seq":{seq},"site":"bench","subject":{{"id":"node_00000000-0000-8000-8000-000000000000","kind":"node","name":"gpu0001","node":"gpu0001"}},"type":"alert.raised","v":1}}"#,
        seq % 1_250,
    );
    Entry { seq, at_ms, kind: "alert.raised", bytes: bytes.into_bytes() }
}
