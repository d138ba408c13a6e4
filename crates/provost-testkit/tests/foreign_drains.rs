//! An operator's drain is theirs, whenever it comes: nobody removes another owner's hold.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::time::Duration;

use provost_testkit::{Agents, Lease, NodeState, Site, Testbed, XID_79, wait_until};

const SOON: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);
const EXTERNAL: &str = "external:slurm:main";

fn started() -> (Lease, Site, Agents) {
    let testbed = Testbed::lease();
    let site = Site::of_example(&testbed).started();
    let agents = Agents::enrol(&site, &[], &[]);
    (testbed, site, agents)
}

/// The operator's drain and nothing of ours.
fn only_theirs(node: &NodeState) -> bool {
    node.is_drained() && node.reason == "dimm" && node.comment.is_empty()
}

/// The controller has looked at the cluster at least twice since now: a drain of another node and its end are each
/// seen by a look that began after all that happened before.
fn after_two_looks(site: &Site, testbed: &Testbed) {
    testbed.drain("gpu008", "look");
    site.wait_holders("gpu008", SOON, &[EXTERNAL]);
    testbed.undrain("gpu008");
    site.wait_holders("gpu008", SOON, &[]);
}

/// The runbook goes to its end; our hold is gone, the operator's stays until they end it.
fn the_operator_ends_it(testbed: &Testbed, site: &Site, number: &str) {
    let execution = site.wait_human_step(number, LONG);
    site.answer(&execution);
    site.wait_holders("gpu003", LONG, &[EXTERNAL]);
    testbed.wait_node("gpu003", "has no mark of ours", SOON, only_theirs);
    after_two_looks(site, testbed);
    assert!(only_theirs(&testbed.node("gpu003")), "{:?}", testbed.node("gpu003"));
    assert_eq!(site.node("gpu003")["schedulable"], false);

    testbed.undrain("gpu003");
    site.wait_holders("gpu003", SOON, &[]);
    site.wait_resolved(number, LONG);
    after_two_looks(site, testbed);
    let free = testbed.node("gpu003");
    assert_eq!((free.is_drained(), free.reason.as_str(), free.comment.as_str()), (false, "", ""));
    site.verify();
}

#[test]
fn a_drain_before_the_fault_stays() {
    let (testbed, site, agents) = started();
    testbed.drain("gpu003", "dimm");
    site.wait_holders("gpu003", SOON, &[EXTERNAL]);
    agents.kernel("gpu003", XID_79);
    let number = site.wait_incident("gpu003", SOON);
    let held =
        testbed.wait_node("gpu003", "has our mark", SOON, |node| node.comment.starts_with("provost:hold_"));
    assert!(held.is_drained() && held.reason == "dimm", "{held:?}");
    let holders = site.holders("gpu003");
    assert!(
        holders.contains(&EXTERNAL.to_owned()) && holders.contains(&format!("incident:{number}")),
        "{holders:?}"
    );
    the_operator_ends_it(&testbed, &site, &number);
}

#[test]
fn a_drain_during_the_incident_becomes_the_reason() {
    let (testbed, site, agents) = started();
    agents.kernel("gpu003", XID_79);
    let number = site.wait_incident("gpu003", SOON);
    testbed.wait_node("gpu003", "is ours", SOON, |node| node.reason.starts_with("provost INC-"));
    testbed.drain("gpu003", "dimm");
    wait_until("the operator's hold", SOON, || {
        let holders = site.holders("gpu003");
        if holders.contains(&EXTERNAL.to_owned()) { Ok(()) } else { Err(format!("{holders:?}")) }
    });
    after_two_looks(&site, &testbed);
    let both = testbed.node("gpu003");
    assert!(
        both.is_drained() && both.reason == "dimm" && both.comment.starts_with("provost:hold_"),
        "{both:?}"
    );
    the_operator_ends_it(&testbed, &site, &number);
}

#[test]
fn a_drain_after_the_release_is_untouched() {
    let (testbed, site, agents) = started();
    agents.kernel("gpu003", XID_79);
    let number = site.wait_incident("gpu003", SOON);
    let execution = site.wait_human_step(&number, LONG);
    site.answer(&execution);
    testbed.wait_node("gpu003", "is released", LONG, |node| !node.is_drained());
    testbed.drain("gpu003", "dimm");
    site.wait_holders("gpu003", SOON, &[EXTERNAL]);
    site.wait_resolved(&number, LONG);
    after_two_looks(&site, &testbed);
    assert!(only_theirs(&testbed.node("gpu003")), "{:?}", testbed.node("gpu003"));
    testbed.undrain("gpu003");
    site.wait_holders("gpu003", SOON, &[]);
    assert!(!testbed.node("gpu003").is_drained());
}

#[test]
fn case_b22_a_node_returns_only_when_every_hold_is_gone() {
    let (testbed, site, agents) = started();
    site.provost(&["node", "hold", "gpu003", "-m", "wait for a dimm"]).ok();
    testbed.wait_node("gpu003", "is held for the person", SOON, |node| {
        node.is_drained() && node.reason.starts_with("provost hold")
    });
    agents.kernel("gpu003", XID_79);
    let number = site.wait_incident("gpu003", SOON);
    let execution = site.wait_human_step(&number, LONG);
    site.answer(&execution);
    // The fault is over; what the person holds is not.
    site.wait_holders("gpu003", LONG, &["operator:local:admin"]);
    after_two_looks(&site, &testbed);
    let held = testbed.node("gpu003");
    assert!(held.is_drained() && held.reason.starts_with("provost hold"), "{held:?}");

    let holds = site.items(&["hold", "list", "--node", "gpu003"]);
    site.provost(&["hold", "release", holds[0]["id"].as_str().unwrap(), "-m", "the dimm is in"]).ok();
    let free = testbed.wait_node("gpu003", "is free", SOON, |node| !node.is_drained());
    assert_eq!((free.reason.as_str(), free.comment.as_str()), ("", ""), "all our marks are gone");
    site.wait_resolved(&number, LONG);
}
