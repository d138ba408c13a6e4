//! A cluster can let Provost look before it lets it act, and can be rid of it at any time.

use std::time::Duration;

use provost_testkit::{Agents, Site, Testbed, XID_79, wait_until};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);

/// What would have been done for an incident.
fn would_have(site: &Site, number: &str) -> Vec<String> {
    let incident = site.incident(number);
    let all = incident["would_have"].as_array().cloned().unwrap_or_default();
    all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[test]
fn observe_changes_nothing_and_says_what_would_have_been_done() {
    let testbed = Testbed::lease();
    let site = Site::of_example(&testbed).with("mode = \"act\"", "mode = \"observe\"").started();
    let agents = Agents::enrol(&site, &[], &[]);
    let job = site.job_on_gpu003(&testbed);
    let (cluster, before) = (testbed.fingerprint(), testbed.try_job(job));

    agents.kernel("gpu003", XID_79);
    let number = site.wait_incident("gpu003", SOON);
    wait_until("all that would have been done", SOON, || {
        let all = would_have(&site, &number);
        let has = |words: &str| all.iter().any(|line| line.contains(words));
        if has("drain gpu003") && has("requeue") { Ok(()) } else { Err(all.join("; ")) }
    });
    let shown = site.provost(&["incident", "show", &number]).ok().out;
    assert!(shown.contains("would have been done, in act mode:"), "{shown}");
    assert_eq!(site.incident(&number)["isolated_at"], Value::Null, "nothing was isolated");
    assert_eq!(site.node("gpu003")["schedulable"], true);

    site.provost(&["detach", "-m", "we only looked"]).ok();
    assert_eq!(site.records("effect.requested"), Vec::<Value>::new(), "nothing was asked for");
    assert_eq!(testbed.fingerprint(), cluster);
    assert_eq!(testbed.try_job(job), before);
    assert_eq!(agents.orders_started(), Vec::<u64>::new(), "agents do nothing either");
    site.verify();
}

#[test]
fn detach_takes_every_mark_away_also_in_the_middle_of_an_incident() {
    let testbed = Testbed::lease();
    let site = Site::of_example(&testbed).started();
    let agents = Agents::enrol(&site, &[], &[]);
    testbed.drain("gpu001", "dimm");
    site.wait_holders("gpu001", SOON, &["external:slurm:main"]);
    let foreign = testbed.node("gpu001");
    site.job_on_gpu003(&testbed);
    agents.kernel("gpu003", XID_79);
    let number = site.wait_incident("gpu003", SOON);
    site.wait_human_step(&number, LONG);
    assert!(testbed.node("gpu003").is_drained());
    assert!(testbed.partition("batch").iter().any(|node| node.starts_with("spare")), "a spare serves");
    let marked = site.items(&["detach", "--dry-run"]);
    assert!(marked.iter().any(|node| node["node"] == "gpu003"), "{marked:?}");

    site.provost(&["detach", "-m", "back to how it was"]).ok();
    testbed.wait_node("gpu003", "has no mark", SOON, |node| {
        !node.is_drained() && node.reason.is_empty() && node.comment.is_empty()
    });
    Site::wait_spares_home(&testbed, SOON);
    wait_until("nothing is marked", SOON, || {
        let marked = site.items(&["detach", "--dry-run"]);
        if marked.is_empty() { Ok(()) } else { Err(format!("{marked:?}")) }
    });
    assert_eq!(testbed.node("gpu001"), foreign, "what is not ours stays");
    // The fault is still open, and still nothing comes back.
    agents.kernel("gpu003", XID_79);
    wait_until("the second line is known", SOON, || {
        let count = site.incident(&number)["count"].as_u64();
        if count >= Some(2) { Ok(()) } else { Err(format!("{count:?}")) }
    });
    assert!(!testbed.node("gpu003").is_drained());
    site.verify();
}
