//! A node that is drained is not empty, a node that recovered can fail again, and one file stops it all.

use std::fs;
use std::time::Duration;

use provost_testkit::{Agents, Lease, Site, Testbed, XID_79, wait_until};

const SOON: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);
/// Another GPU of the same node.
const XID_79_OTHER: &str =
    "NVRM: Xid (PCI:0000:9b:00.0): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";

fn started() -> (Lease, Site, Agents) {
    let testbed = Testbed::lease();
    let site = Site::of_example(&testbed).started();
    let agents = Agents::enrol(&site, &[], &[]);
    (testbed, site, agents)
}

#[test]
fn case_b20_a_drained_node_is_busy_until_its_last_job_has_left() {
    let (testbed, site, agents) = started();
    let job = site.job_as(&testbed, "--no-requeue");
    agents.kernel("gpu003", XID_79);
    testbed.wait_node("gpu003", "is drained", SOON, |node| node.is_drained());
    let number = site.wait_incident("gpu003", SOON);
    // The job may not be requeued, and automation ends no job: its owner is told.
    let noted = testbed.wait_job(job, "has a note", SOON, |job| job.note.contains(&number));
    assert_eq!((noted.state.as_str(), noted.node.as_str(), noted.restarts), ("RUNNING", "gpu003", 0));
    wait_until("the runbook waits for the job", SOON, || {
        let runs = site.items(&["run", "list", "--incident", &number]);
        let drain = runs.iter().flat_map(|run| run["steps"].as_array().cloned().unwrap_or_default());
        let drain: Vec<_> = drain.filter(|step| step["id"] == "drain").collect();
        if drain.iter().any(|step| step["waiting_for"] == "jobs") {
            Ok(())
        } else {
            Err(format!("{drain:?}"))
        }
    });
    assert_eq!(site.node("gpu003")["phase"], "draining", "DRAIN and busy is not drained");
    assert!(!site.asks_a_person(&number), "nobody is sent to a node that runs a job");

    testbed.cancel(job);
    site.wait_human_step(&number, LONG);
    assert_eq!(site.node("gpu003")["phase"], "awaiting_repair");
    assert!(testbed.node("gpu003").is_drained());
}

#[test]
fn case_b23_two_recoveries_at_once_leave_no_drain_behind() {
    let (testbed, site, agents) = started();
    agents.kernel("gpu003", XID_79);
    agents.kernel("gpu003", XID_79_OTHER);
    testbed.wait_node("gpu003", "is drained", SOON, |node| node.is_drained());
    let executions = wait_until("both GPUs wait for a person", LONG, || {
        let incidents = site.open_incidents("gpu003");
        let waiting: Vec<String> = incidents
            .iter()
            .filter_map(|incident| incident["number"].as_str())
            .filter(|number| site.asks_a_person(number))
            .map(str::to_owned)
            .collect();
        if waiting.len() == 2 { Ok(waiting) } else { Err(format!("{waiting:?} of {}", incidents.len())) }
    });
    let runs: Vec<String> = executions.iter().map(|number| site.wait_human_step(number, SOON)).collect();
    for run in &runs {
        site.answer(run);
    }
    let free = testbed.wait_node("gpu003", "is free", LONG, |node| !node.is_drained());
    assert_eq!((free.reason.as_str(), free.comment.as_str()), ("", ""));
    site.wait_phase("gpu003", "in_service", LONG);
    for number in &executions {
        site.wait_resolved(number, LONG);
    }
    assert_eq!(site.holders("gpu003"), Vec::<String>::new());
    assert!(!testbed.node("gpu003").is_drained());
}

#[test]
fn case_b23_a_fault_just_after_the_recovery_counts() {
    let (testbed, site, agents) = started();
    agents.kernel("gpu003", XID_79);
    let first = site.wait_incident("gpu003", SOON);
    site.answer(&site.wait_human_step(&first, LONG));
    testbed.wait_node("gpu003", "is released", LONG, |node| !node.is_drained());
    agents.kernel("gpu003", XID_79);
    let again = testbed.wait_node("gpu003", "is drained again", SOON, |node| node.is_drained());
    assert!(again.reason.starts_with("provost INC-"), "{again:?}");
    let number = wait_until("an incident that is open", SOON, || {
        let open = site.open_incidents("gpu003");
        open.first()
            .and_then(|one| one["number"].as_str())
            .map(str::to_owned)
            .ok_or_else(|| "none".to_owned())
    });
    // It goes its way to the end, like the first.
    site.answer(&site.wait_human_step(&number, LONG));
    testbed.wait_node("gpu003", "is released again", LONG, |node| !node.is_drained());
    site.wait_resolved(&number, LONG);
    site.wait_phase("gpu003", "in_service", LONG);
    site.verify();
}

#[test]
fn the_stop_file_stops_every_new_action_and_no_detection() {
    let (testbed, site, agents) = started();
    let stop = site.data().join("STOP");
    fs::write(&stop, "").expect("the file can be made");
    wait_until("the guard is stopped", Duration::from_secs(1), || {
        let guard = site.json(&["guard", "status"]);
        if guard["stopped"] == true { Ok(()) } else { Err(guard.to_string()) }
    });
    agents.kernel("gpu003", XID_79);
    let number = site.wait_incident("gpu003", SOON);
    assert!(site.provost(&["status"]).out.contains("GUARD STOPPED"));
    assert!(site.records("effect.requested").is_empty(), "nothing new is done");
    assert!(!testbed.node("gpu003").is_drained());

    fs::remove_file(&stop).expect("the file is there");
    site.provost(&["guard", "start", "-m", "go on"]).ok();
    let held = testbed.wait_node("gpu003", "is drained", SOON, |node| node.is_drained());
    assert!(held.reason.starts_with(&format!("provost {number}")), "{held:?}");
}
