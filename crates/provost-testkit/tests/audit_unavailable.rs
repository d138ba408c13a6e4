//! The disk under the journal is full: changes are refused, a hard fault is contained all the same, and all of it is
//! in the record once there is space again.

use std::time::Duration;

use provost_testkit::{Agents, Disk, Site, Testbed, XID_79, wait_until};

const SOON: Duration = Duration::from_secs(15);
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_full_disk_refuses_changes_contains_a_fault_and_recovers_by_itself() {
    let testbed = Testbed::lease();
    let disk = Disk::in_memory(&testbed.dir().join("small/data"));
    let mut site = Site::of_example(&testbed).with_data(disk.path()).started();
    let agents = Agents::enrol(&site, &[], &[]);
    disk.fill();

    let refused = wait_until("a change that is refused", LONG, || {
        let answer = site.provost(&["node", "hold", "gpu008", "-m", "fill"]);
        if answer.code == 0 { Err(answer.out) } else { Ok(answer) }
    });
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("AUDIT_UNAVAILABLE"), "{}", refused.err);
    assert!(refused.err.contains("free space on its disk"), "it says what to do: {}", refused.err);
    let held = site.items(&["hold", "list"]).len();
    assert_ne!(
        site.provost(&["status", "-o", "json"]).json()["journal"],
        "ok",
        "reading goes on, and says so"
    );

    agents.kernel("gpu003", XID_79);
    let drained = testbed.wait_node("gpu003", "is drained", SOON, |node| node.is_drained());
    assert!(drained.reason.starts_with("provost "), "{drained:?}");
    assert!(site.items(&["incident", "list"]).is_empty(), "nothing is shown that is not durable");
    assert_eq!(site.items(&["hold", "list"]).len(), held);
    let again = site.provost(&["guard", "stop", "-m", "no"]);
    assert!(again.err.contains("AUDIT_UNAVAILABLE"), "{}", again.err);

    disk.free();
    let number = site.wait_incident("gpu003", LONG);
    assert!(site.holders("gpu003").contains(&format!("incident:{number}")));
    let merged = site.records("journal.emergency_merged");
    assert_eq!(merged.len(), 1, "{merged:?}");
    assert_eq!(merged[0]["data"]["entries"], 1);
    let node =
        testbed.wait_node("gpu003", "is held for the incident", SOON, |node| node.reason.contains(&number));
    assert!(node.is_drained() && node.comment.starts_with("provost:hold_"), "{node:?}");
    site.answer(&site.wait_human_step(&number, LONG));
    testbed.wait_node("gpu003", "is released", LONG, |node| !node.is_drained());
    site.provost(&["node", "hold", "gpu007", "-m", "changes are taken again"]).ok();
    site.verify();
    assert_eq!(site.stop(), 0);
    site.verify();
}
