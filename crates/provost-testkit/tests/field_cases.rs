//! Cases from the field on a real Slurm: what comparable systems got wrong, and what is right.

use std::fs;
use std::time::Duration;

use provost_testkit::{Agents, Lease, Site, Testbed, XID_79, wait_until};

const SOON: Duration = Duration::from_secs(15);
const LONG: Duration = Duration::from_secs(90);

fn started(own: &[&str]) -> (Lease, Site, Agents) {
    let testbed = Testbed::lease();
    let site = Site::of_example(&testbed).started();
    let agents = Agents::enrol(&site, own, &[]);
    (testbed, site, agents)
}

fn xid(text: &str) -> String {
    format!("NVRM: Xid (PCI:0000:3b:00): {text}")
}

/// The one incident of a node, by its severity, with the runbooks that it began.
fn stand(site: &Site, node: &str) -> (String, Vec<String>) {
    let number = site.wait_incident(node, SOON);
    let severity = site.incident(&number)["severity"].as_str().unwrap_or_default().to_owned();
    let runs = site.items(&["run", "list", "--incident", &number, "--all"]);
    (severity, runs.iter().filter_map(|run| run["runbook"].as_str()).map(str::to_owned).collect())
}

/// A lost GPU and the advice for it were written while no monitor looked.
#[test]
fn case_b02_faults_before_the_monitor_is_up_are_not_missed() {
    let (testbed, site, mut agents) = started(&["gpu004"]);
    agents.kill9("gpu004");
    agents.kernel("gpu004", XID_79);
    agents.kernel(
        "gpu004",
        &xid("154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
    );
    agents.revive("gpu004");
    testbed.wait_node("gpu004", "is drained", SOON, |node| node.is_drained());
    assert_eq!(stand(&site, "gpu004"), ("SEV3".to_owned(), vec!["gpu-lost".to_owned()]));
}

#[test]
fn case_b05_a_non_fatal_subcode_isolates_nothing() {
    let (testbed, site, agents) = started(&[]);
    let before = testbed.node("gpu003");
    for _ in 0..3 {
        agents.kernel("gpu003", &xid("145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 17 (0x04084507 0x00000004 0x00000000 0x00000000 0x00000000 0x00000000)"));
    }
    assert_eq!(stand(&site, "gpu003"), ("SEV4".to_owned(), Vec::new()));
    let number = site.wait_incident("gpu003", SOON);
    wait_until("all are evidence of the one", SOON, || {
        let count = site.incident(&number)["count"].as_u64();
        if count == Some(3) { Ok(()) } else { Err(format!("{count:?}")) }
    });
    assert_eq!(testbed.node("gpu003"), before);
}

/// The machine is away and Slurm has not noticed: undrained, it would be given jobs.
#[test]
fn case_b21_no_release_before_the_node_is_back_and_tested() {
    let (testbed, site, mut agents) = started(&["gpu003"]);
    agents.kernel("gpu003", XID_79);
    let number = site.wait_incident("gpu003", SOON);
    let execution = site.wait_human_step(&number, LONG);
    agents.kill9("gpu003");
    site.answer(&execution);
    let held = || {
        let node = testbed.node("gpu003");
        assert!(node.is_drained() && !node.state.contains("NOT_RESPONDING"), "{node:?}");
    };
    wait_until("it could not be tested", LONG, || {
        held();
        let run = site.json(&["run", "show", &execution]);
        let steps = run["steps"].as_array().cloned().unwrap_or_default();
        let state = steps.iter().find(|step| step["id"] == "revalidate").map(|step| step["state"].clone());
        if state == Some("retrying".into()) { Ok(()) } else { Err(format!("{state:?}")) }
    });
    held();
    agents.revive("gpu003");
    testbed.wait_node("gpu003", "is released", LONG, |node| !node.is_drained());
    let incident = site.incident(&number);
    assert!(
        Site::told(&incident, &["revalidate", "succeeded"]) < Site::told(&incident, &["released gpu003"])
    );
    site.wait_phase("gpu003", "in_service", SOON);
}

#[test]
fn case_b25_94_takes_no_gpu_away_109_is_reset_and_999_asks_a_person() {
    let (testbed, site, agents) = started(&[]);
    let job = site.job_on_gpu003(&testbed);
    agents.kernel("gpu003", &xid("94, pid=7, name=gull, Contained: SM (0x1). RST: No, D-RST: No"));
    agents.kernel(
        "gpu004",
        &xid("109, pid=7, name=gull, Ch 0000000a, errorString CTX SWITCH TIMEOUT, Info 0x1c002"),
    );
    agents.kernel("gpu006", &xid("999, pid=1234, name=linnet"));
    testbed.wait_node("gpu004", "is drained", SOON, |node| node.is_drained());
    assert_eq!(stand(&site, "gpu003"), ("SEV3".to_owned(), vec!["row-remap-pending".to_owned()]));
    assert_eq!(stand(&site, "gpu006"), ("SEV3".to_owned(), Vec::new()));
    testbed.wait_node("gpu004", "was reset and is back", LONG, |node| !node.is_drained());
    let resets = fs::read_to_string(testbed.dir().join("resets")).expect("a reset was done");
    assert_eq!(resets.lines().collect::<Vec<_>>(), ["gpu004 0000:3b:00.0"]);
    assert!(!testbed.node("gpu003").is_drained() && !testbed.node("gpu006").is_drained());
    let runs = testbed.try_job(job).expect("the job is known");
    assert_eq!((runs.state.as_str(), runs.node.as_str(), runs.restarts), ("RUNNING", "gpu003", 0));
}
