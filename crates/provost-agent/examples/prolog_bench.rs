//! How long Slurm waits for `provost-agent prolog`, with neither a controller nor an agent there; beside `true`,
//! which tells what starting a process costs on this machine.
//!
//! `cargo run --release -p provost-agent --example prolog_bench -- 2000`; the program is looked for in
//! `PROVOST_BIN_DIR`, else beside the folder of this one.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a measurement may fail")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use provost_model::time::Timestamp;
use support::Folder;

fn main() {
    let runs = std::env::args().nth(1).map_or(2_000, |runs| runs.parse::<usize>().unwrap());
    let folder = Folder::new();
    let program = program("provost-agent");
    for (answer, exit, age_ms, may_work) in
        [("yes", 0, 0, true), ("no", 1, 0, false), ("stale", 0, 60_000, false)]
    {
        let node = folder.path().join(answer);
        fs::create_dir(&node).unwrap();
        let mut prolog = Command::new(&program);
        prolog.arg("prolog").arg("--state-dir").arg(folder.path()).args(["--node", answer]);
        let mut peer = Command::new("true");
        let (mut ours, mut peers) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            write_standing(&node, age_ms, may_work);
            ours.push(run(&mut prolog, exit));
            peers.push(run(&mut peer, 0));
        }
        ours.sort();
        peers.sort();
        println!(
            "bench: answer={answer} p50_us={} p99_us={} max_us={} true_p50_us={} true_p99_us={}",
            at(&ours, 50),
            at(&ours, 99),
            at(&ours, 100),
            at(&peers, 50),
            at(&peers, 99)
        );
    }
}

/// As an agent leaves it that has just died.
fn write_standing(folder: &Path, age_ms: i64, may_work: bool) {
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let at = Timestamp::from_millis(now - age_ms);
    let why = if may_work { "" } else { "provost INC-2026-000001: GPU 0 lost" };
    let text = format!("{{\"v\":1,\"at\":\"{at}\",\"may_work\":{may_work},\"why\":\"{why}\"}}");
    fs::write(folder.join("standing.json"), text).unwrap();
}

fn run(command: &mut Command, exit: i32) -> Duration {
    let started = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
    let took = started.elapsed();
    assert_eq!(status.code(), Some(exit), "{command:?}");
    took
}

fn at(sorted: &[Duration], percent: usize) -> u128 {
    sorted[(sorted.len() - 1) * percent / 100].as_micros()
}

fn program(name: &str) -> PathBuf {
    let beside = || std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
    std::env::var_os("PROVOST_BIN_DIR").map_or_else(beside, PathBuf::from).join(name)
}
