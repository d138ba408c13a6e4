//! How near the journal is to the disk: one-record transactions of 700 bytes against plain appends of 4 KiB with
//! fdatasync, interleaved on the same disk. Prints each pair and the median of their ratios.
//!
//! `append_bench [DIR] [PAIRS] [COMMITS]`

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use provost_journal::{Entry, Journal, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let pairs: usize = arguments.next().map_or(Ok(11), |text| text.parse())?;
    let commits: u32 = arguments.next().map_or(Ok(1_000), |text| text.parse())?;
    let dir = parent.join(format!("provost-append-bench-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let result = run(&dir, pairs, commits);
    fs::remove_dir_all(&dir)?;
    result
}

fn run(dir: &Path, pairs: usize, commits: u32) -> Result<(), Box<dyn Error>> {
    let mut journal = Journal::open(dir, Options::new("bench"))?;
    let mut plain = File::create(dir.join("plain"))?;
    let mut ratios = Vec::new();
    let mut rates = Vec::new();
    for pair in 0..pairs {
        // The order alternates, so that neither always pays for what the other left behind.
        let (journal_time, plain_time) = if pair % 2 == 0 {
            let first = append(&mut journal, commits)?;
            (first, write(&mut plain, commits)?)
        } else {
            let first = write(&mut plain, commits)?;
            (append(&mut journal, commits)?, first)
        };
        let ratio = plain_time.as_secs_f64() / journal_time.as_secs_f64();
        println!(
            "pair {pair}: journal {:.0}/s, plain {:.0}/s, ratio {ratio:.2}",
            f64::from(commits) / journal_time.as_secs_f64(),
            f64::from(commits) / plain_time.as_secs_f64(),
        );
        ratios.push(ratio);
        rates.push(f64::from(commits) / journal_time.as_secs_f64());
    }
    println!(
        "bench: journal_to_plain={:.2} commits_per_s={:.0} pairs={pairs} commits={commits}",
        median(&mut ratios),
        median(&mut rates),
    );
    Ok(())
}

/// The middle one; of an even number the upper of the two.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn append(journal: &mut Journal, commits: u32) -> Result<Duration, Box<dyn Error>> {
    let begin = Instant::now();
    for _ in 0..commits {
        let seq = journal.size();
        let bytes = vec![b'x'; 700];
        journal.append(&[Entry { seq, at_ms: 0, kind: "alert.raised", bytes }])?;
        let now = i64::try_from(begin.elapsed().as_millis())?;
        if journal.checkpoint_due(now) {
            journal.checkpoint(now)?;
        }
    }
    Ok(begin.elapsed())
}

fn write(plain: &mut File, commits: u32) -> Result<Duration, Box<dyn Error>> {
    let page = [b'x'; 4_096];
    let begin = Instant::now();
    for _ in 0..commits {
        plain.write_all(&page)?;
        plain.sync_data()?;
    }
    Ok(begin.elapsed())
}
