//! The controller is killed at random moments of a recovery. Nothing is done twice, nothing is forgotten, and the
//! end is the same.

use std::collections::BTreeSet;
use std::time::Duration;

use provost_testkit::{Agents, Site, Testbed, XID_79};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};

const LONG: Duration = Duration::from_secs(60);
/// Rounds in CI; `cargo xtask prove kill` sets more.
const ROUNDS: u64 = 10;
/// From the fault to the human step takes about this long.
const CONTAINMENT_MS: u64 = 6_000;
/// From the answer to the end takes about this long.
const RETURN_MS: u64 = 4_000;

/// `PROVOST_KILL_ROUNDS`, and the seed of the first: `PROVOST_KILL_SEED` replays one.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn kill_9_of_the_controller_at_any_moment_changes_nothing_about_the_end() {
    let first = number("PROVOST_KILL_SEED", 1);
    for seed in first..first + number("PROVOST_KILL_ROUNDS", ROUNDS) {
        round(seed);
    }
}

/// Kills the controller at a moment of the next `within`, and starts it again. That the moment is random is the
/// point, so this is a sleep and no wait.
fn kill_within(site: &mut Site, random: &mut ChaCha8Rng, within: u64) -> u64 {
    let moment = random.next_u64() % within;
    std::thread::sleep(Duration::from_millis(moment));
    site.kill9();
    site.start();
    moment
}

fn round(seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let testbed = Testbed::lease();
    // Waits that nothing here depends on are shorter than the example's, so that more rounds fit.
    let site = Site::of_example(&testbed).with("probation = \"5s\"", "probation = \"1s\"");
    let mut site = site.with("resolve_hold = \"3s\"", "resolve_hold = \"1s\"").started();
    let agents = Agents::enrol(&site, &[], &[]);
    let job = site.job_on_gpu003(&testbed);

    agents.kernel("gpu003", XID_79);
    let contained = kill_within(&mut site, &mut random, CONTAINMENT_MS);
    println!("seed {seed}: killed {contained} ms after the fault");
    let number = site.wait_incident("gpu003", LONG);
    let execution = site.wait_human_step(&number, LONG);
    let owner = format!("incident:{number}");
    assert!(site.holders("gpu003").contains(&owner), "no hold is lost");
    let node = testbed.node("gpu003");
    assert!(node.is_drained() && node.reason.starts_with(&format!("provost {number}")), "{node:?}");

    site.answer(&execution);
    let answered = kill_within(&mut site, &mut random, RETURN_MS);
    println!("seed {seed}: killed {answered} ms after the answer");
    ends_as_ever(&testbed, &site, &number, job);
    nothing_was_done_twice(&agents);
    assert_eq!(site.stop(), 0);
    site.verify();
}

/// The node is back, the job runs, the spare is home, the incident is over.
fn ends_as_ever(testbed: &Testbed, site: &Site, number: &str, job: u32) {
    let incident = site.wait_resolved(number, LONG);
    assert!(incident["isolated_at"].is_string() && incident["mitigated_at"].is_string(), "{incident}");
    let free = testbed.wait_node("gpu003", "is released", LONG, |node| !node.is_drained());
    assert_eq!((free.reason.as_str(), free.comment.as_str()), ("", ""));
    site.wait_phase("gpu003", "in_service", LONG);
    assert!(site.items(&["hold", "list"]).is_empty());
    Site::wait_spares_home(testbed, LONG);
    let after = testbed.wait_job(job, "runs", LONG, |job| job.state == "RUNNING");
    assert_eq!(after.restarts, 1, "requeued once: {after:?}");
    testbed.cancel(job);
}

/// Each intent stands in the agents' logs once.
fn nothing_was_done_twice(agents: &Agents) {
    let orders = agents.orders_started();
    assert!(orders.len() >= 3, "evidence, no_steps, validate: {orders:?}");
    let distinct: BTreeSet<u64> = orders.iter().copied().collect();
    assert_eq!(distinct.len(), orders.len(), "{orders:?}");
}
