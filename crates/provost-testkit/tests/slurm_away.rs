//! A source goes away in the middle: nothing is claimed that was not read back, silence is no health, and all is
//! finished once it is there again.

use std::time::Duration;

use provost_testkit::{Agents, Lapse, Site, Testbed, XID_79, wait_until};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(15);
const LONG: Duration = Duration::from_secs(90);
/// How long it is away; four times `blind_after` of the example.
const AWAY: Duration = Duration::from_secs(20);

#[test]
fn nothing_is_claimed_while_slurm_is_away_and_it_finishes_when_slurm_is_back() {
    let testbed = Testbed::lease();
    let site = Site::of_example(&testbed).started();
    let agents = Agents::enrol(&site, &[], &[]);
    let job = site.job_on_gpu003(&testbed);
    testbed.stop_controller();
    let away = Lapse::new();
    agents.kernel("gpu003", XID_79);
    let number = site.wait_incident("gpu003", SOON);
    wait_until("an alert on the source", SOON, || {
        let alerts = site.items(&["alert", "list"]);
        let told = alerts.iter().any(|alert| {
            alert["condition"] == "source.silent" && alert["subject"].to_string().contains("scheduler:main")
        });
        if told { Ok(()) } else { Err(format!("{alerts:?}")) }
    });
    assert_ne!(site.provost(&["status"]).code, 0, "a blind site is not well");
    wait_until("the time that Slurm is away", AWAY + SOON, || {
        let incident = site.incident(&number);
        for clock in ["isolated_at", "mitigated_at", "resolved_at"] {
            assert_eq!(incident[clock], Value::Null, "{clock} is claimed without a read-back");
        }
        if away.elapsed() >= AWAY { Ok(()) } else { Err(String::new()) }
    });
    for record in site.records("effect.completed") {
        let result = &record["data"]["result"]["result"];
        let of_agent = record["data"]["effect"]["do"] == "agent_action";
        assert!(of_agent || result != "done", "{record}");
    }

    testbed.repair();
    let held = testbed.wait_node("gpu003", "is drained", LONG, |node| node.is_drained());
    assert!(held.reason.starts_with(&format!("provost {number}")), "{held:?}");
    let moved =
        testbed.wait_job(job, "runs elsewhere", LONG, |job| job.state == "RUNNING" && job.restarts == 1);
    assert_ne!(moved.node, "gpu003");
    Site::wait_spare(&testbed);
    // Slurm forgets at a reconfigure which partitions it was told to change.
    testbed.slurm("scontrol", &["reconfigure"]);
    wait_until("Slurm has forgotten the spare or has it again", SOON, || {
        testbed.try_node("gpu003").map(drop).ok_or_else(|| "no answer".to_owned())
    });
    Site::wait_spare(&testbed);
    site.answer(&site.wait_human_step(&number, LONG));
    let incident = site.wait_resolved(&number, LONG);
    assert!(incident["isolated_at"].is_string() && incident["mitigated_at"].is_string(), "{incident}");
    wait_until("the source is well", SOON, || {
        let alerts = site.items(&["alert", "list"]);
        if alerts.is_empty() { Ok(()) } else { Err(format!("{alerts:?}")) }
    });
    assert!(!testbed.node("gpu003").is_drained());
    site.verify();
}

#[test]
fn an_agent_that_is_silent_is_unknown_and_misses_nothing() {
    let testbed = Testbed::lease();
    let site = Site::of_example(&testbed).started();
    let mut agents = Agents::enrol(&site, &["gpu003"], &[]);
    let before = testbed.node("gpu003");
    agents.kill9("gpu003");
    wait_until("an alert on the agent", SOON, || {
        let alerts = site.items(&["alert", "list"]);
        let told = alerts.iter().any(|alert| {
            alert["condition"] == "source.silent" && alert["subject"].to_string().contains("agent:gpu003")
        });
        if told { Ok(()) } else { Err(format!("{alerts:?}")) }
    });
    assert_eq!(site.node("gpu003")["health"], "unknown");
    assert_eq!(testbed.node("gpu003"), before, "silence drains nobody");

    // The kernel writes on; the agent reads it once it is there again.
    agents.kernel("gpu003", XID_79);
    agents.revive("gpu003");
    testbed.wait_node("gpu003", "is drained", SOON, |node| node.reason.starts_with("provost INC-"));
    wait_until("the agent reports", SOON, || {
        let node = site.node("gpu003");
        if node["health"] == "failed" { Ok(()) } else { Err(node["health"].to_string()) }
    });
    wait_until("its alert is over", SOON, || {
        let alerts = site.items(&["alert", "list"]);
        let left = alerts.iter().filter(|alert| alert["condition"] == "source.silent").count();
        if left == 0 { Ok(()) } else { Err(format!("{alerts:?}")) }
    });
}
