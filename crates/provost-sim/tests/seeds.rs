//! Seeds of the simulator: whole stories under every checker.
//!
//! `PROVOST_SIM_SEEDS` says how many are lived, `PROVOST_SIM_SEED` lives one and tells it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use provost_sim::seed::{self, Failure};

/// Seeds that CI lives.
const SEEDS: u64 = 200;
/// Seeds beyond the first ones that found something once.
const REGRESSIONS: [u64; 3] = [269, 388, 500];

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

fn tell(seed: u64, failure: &Failure) -> String {
    format!("seed {seed}: {failure}\n  PROVOST_SIM_SEED={seed} cargo test -p provost-sim seed -- --nocapture")
}

#[test]
fn fixed_seeds() {
    if let Some(seed) = number("PROVOST_SIM_SEED") {
        match provost_sim::seed::tell(seed, &mut |line| println!("{line}")) {
            Ok(summary) => println!("seed {seed}: {summary:?}"),
            Err(failure) => panic!("{}", tell(seed, &failure)),
        }
        return;
    }
    let count = number("PROVOST_SIM_SEEDS").unwrap_or(SEEDS);
    let seeds: Vec<u64> = (1..=count).chain(REGRESSIONS).collect();
    let (next, failures) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let live = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize).copied() {
            if let Err(failure) = seed::run(seed) {
                failures.lock().unwrap_or_else(PoisonError::into_inner).push(tell(seed, &failure));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(8);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(live);
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(
        failures.is_empty(),
        "{} of {} seeds failed:\n{}",
        failures.len(),
        seeds.len(),
        failures.join("\n")
    );
}

#[test]
fn the_same_seed_is_the_same_story() {
    let story = |seed| {
        let mut lines = Vec::new();
        seed::tell(seed, &mut |line| lines.push(line)).expect("the seed is lived");
        lines
    };
    let first = story(3);
    assert!(first.len() > 50, "{}", first.len());
    assert_eq!(first, story(3));
}
