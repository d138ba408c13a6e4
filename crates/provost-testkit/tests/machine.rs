//! What machines do to programs: they let them stand still, lose their network, and turn their disks read-only.

use std::time::Duration;

use provost_testkit::{Agents, Cable, Disk, Lapse, Site, Testbed, XID_79, wait_until};

const SOON: Duration = Duration::from_secs(15);
const LONG: Duration = Duration::from_secs(60);
/// Four times `silent_after` of the example.
const AWAY: Duration = Duration::from_secs(12);

/// How often a source was called silent.
fn silences(site: &Site) -> usize {
    site.records("source.changed").iter().filter(|record| record["data"]["state"] == "silent").count()
}

fn wait_silent(site: &Site, node: &str) {
    wait_until("an alert on the agent", SOON, || {
        let alerts = site.items(&["alert", "list"]);
        let told = alerts.iter().any(|alert| {
            alert["condition"] == "source.silent"
                && alert["subject"].to_string().contains(&format!("agent:{node}"))
        });
        if told { Ok(()) } else { Err(format!("{alerts:?}")) }
    });
}

fn wait_over(site: &Site) {
    wait_until("the alert on the agent is over", LONG, || {
        let alerts = site.items(&["alert", "list"]);
        let left = alerts.iter().filter(|alert| alert["condition"] == "source.silent").count();
        if left == 0 { Ok(()) } else { Err(format!("{alerts:?}")) }
    });
}

#[test]
fn a_controller_that_stood_still_blames_nobody_and_misses_nothing() {
    let testbed = Testbed::lease();
    let site = Site::of_example(&testbed).started();
    let agents = Agents::enrol(&site, &["gpu003"], &[]);
    let stopped = site.paused();
    let stands = Lapse::new();
    agents.kernel("gpu003", XID_79);
    wait_until("the time that it stands still", AWAY + SOON, || {
        if stands.elapsed() >= AWAY { Ok(()) } else { Err(String::new()) }
    });
    drop(stopped);
    testbed.wait_node("gpu003", "is drained", SOON, |node| node.reason.starts_with("provost INC-"));
    let number = site.wait_incident("gpu003", SOON);
    site.answer(&site.wait_human_step(&number, LONG));
    site.wait_resolved(&number, LONG);
    assert_eq!(silences(&site), 0, "its own silence is nobody's");
    assert_eq!(site.items(&["incident", "list", "--all"]).len(), 1, "one fault, one incident");
    site.verify();
}

#[test]
fn an_agent_that_stood_still_is_silent_and_tells_all_afterwards() {
    let testbed = Testbed::lease();
    let site = Site::of_example(&testbed).started();
    let agents = Agents::enrol(&site, &["gpu003"], &[]);
    let before = testbed.node("gpu003");
    let stopped = agents.paused("gpu003");
    wait_silent(&site, "gpu003");
    assert_eq!(testbed.node("gpu003"), before, "silence drains nobody");
    agents.kernel("gpu003", XID_79);
    drop(stopped);
    testbed.wait_node("gpu003", "is drained", SOON, |node| node.reason.starts_with("provost INC-"));
    wait_over(&site);
    assert_eq!(site.records("episode.opened").len(), 1, "told once");
}

#[test]
fn an_agent_behind_a_pulled_cable_is_silent_and_tells_all_afterwards() {
    let testbed = Testbed::lease();
    let cable = Cable::lay(&testbed);
    let site = Site::of_example(&testbed).on_address(cable.near()).started();
    let agents = Agents::enrol_behind(&site, &["gpu003"], &[], Some(&cable));
    let before = testbed.node("gpu003");
    cable.pull();
    wait_silent(&site, "gpu003");
    agents.kernel("gpu003", XID_79);
    assert_eq!(testbed.node("gpu003"), before, "silence drains nobody");
    cable.plug();
    let drained =
        testbed.wait_node("gpu003", "is drained", LONG, |node| node.reason.starts_with("provost INC-"));
    wait_over(&site);
    assert_eq!(site.records("episode.opened").len(), 1, "told once");
    // The silence has an incident of its own; the drain names that of the fault.
    let number = drained.reason["provost ".len()..].split(':').next().unwrap_or_default().to_owned();
    site.answer(&site.wait_human_step(&number, LONG));
    site.wait_resolved(&number, LONG);
    site.verify();
}

#[test]
fn a_disk_that_turned_read_only_refuses_changes_and_a_fault_is_contained() {
    let testbed = Testbed::lease();
    let disk = Disk::that_can_break(&testbed.dir().join("disk"));
    let emergency = testbed.dir().join("emergency.journal");
    let mut site = Site::of_example(&testbed)
        .with(
            "[[slurm]]",
            &format!("[journal]\nemergency_file = {:?}\n\n[[slurm]]", emergency.display().to_string()),
        )
        .with_data(&disk.path().join("data"))
        .started();
    let agents = Agents::enrol(&site, &[], &[]);
    disk.break_down();
    let refused = wait_until("a change that is refused", LONG, || {
        let answer = site.provost(&["node", "hold", "gpu008", "-m", "ro"]);
        if answer.code == 0 { Err(answer.out) } else { Ok(answer) }
    });
    assert!(refused.err.contains("AUDIT_UNAVAILABLE"), "{}", refused.err);
    agents.kernel("gpu003", XID_79);
    testbed.wait_node("gpu003", "is drained", SOON, |node| node.reason.starts_with("provost "));
    assert!(site.items(&["incident", "list"]).is_empty(), "nothing is shown that is not durable");

    site.stop();
    disk.repair();
    site.start();
    let number = site.wait_incident("gpu003", LONG);
    assert_eq!(site.records("journal.emergency_merged").len(), 1);
    site.answer(&site.wait_human_step(&number, LONG));
    site.wait_resolved(&number, LONG);
    assert!(!testbed.node("gpu003").is_drained());
    site.verify();
}
