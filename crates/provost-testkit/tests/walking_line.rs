//! A GPU fails on a real Slurm cluster: the node is contained, the job moves, a spare serves, a person repairs, the
//! node returns, and the record proves all of it.

use std::time::Duration;

use provost_testkit::{Agents, Lapse, Lease, Site, Testbed, XID_31, XID_45, XID_79, wait_until};
use serde_json::Value;

/// Slurm lets a requeued job start after `cred_expire`, 5 s on the testbed; we add 3 s at most.
const ELSEWHERE: Duration = Duration::from_secs(8);
const SOON: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);

/// A cluster, a controller in act mode, agents.
fn started() -> (Lease, Site, Agents) {
    let testbed = Testbed::lease();
    let site = Site::of_example(&testbed).started();
    let agents = Agents::enrol(&site, &[], &["gpu005"]);
    (testbed, site, agents)
}

/// From the fault to the human step, then to the end.
fn the_line(testbed: &Testbed, site: &Site, agents: &Agents, fault: impl FnOnce()) {
    let job = site.job_on_gpu003(testbed);
    let lapse = Lapse::new();
    fault();
    let drained = testbed.wait_node("gpu003", "is drained", Duration::from_secs(3), |node| node.is_drained());
    let line_to_drained = lapse.millis();
    assert!(drained.reason.starts_with("provost INC-"), "{drained:?}");
    assert!(line_to_drained <= 1_000, "drained after {line_to_drained} ms");
    // What Slurm would do if a job were on its way there already, and on a node without a fault.
    let (exit, answer) = agents.prolog("gpu003");
    assert!(exit == Some(1) && answer.starts_with("no: provost INC-"), "{exit:?} {answer}");
    assert_eq!(agents.prolog("gpu002"), (Some(0), "yes".to_owned()));

    let runs =
        testbed.wait_job(job, "runs elsewhere", ELSEWHERE, |job| job.state == "RUNNING" && job.restarts == 1);
    let line_to_running = lapse.millis();
    assert_ne!(runs.node, "gpu003");
    println!("bench: line_to_drained_ms={line_to_drained} line_to_running_ms={line_to_running}");

    let number = site.wait_incident("gpu003", SOON);
    assert!(drained.reason.starts_with(&format!("provost {number}: ")), "{drained:?}");
    let spare = Site::wait_spare(testbed);
    for partition in ["serving", "interactive", "scavenger", "spare"] {
        assert!(testbed.partition(partition).contains(&spare), "{spare} is not in {partition}");
    }

    let execution = site.wait_human_step(&number, LONG);
    waits_for_a_person(testbed, site, &number, &execution);
    site.answer(&execution);
    returned(testbed, site, agents, &number);
    site.verify();
    testbed.cancel(job);
}

/// The story so far, and the state in which the technician finds the node.
fn waits_for_a_person(testbed: &Testbed, site: &Site, number: &str, execution: &str) {
    let incident = site.incident(number);
    assert_eq!(incident["severity"], "SEV2", "a critical fault under a job");
    for clock in ["fault_at", "detected_at", "opened_at", "isolated_at", "mitigated_at"] {
        assert!(incident[clock].is_string(), "{clock}: {incident}");
    }
    assert_eq!(incident["resolved_at"], Value::Null);
    told_in_order(
        &incident,
        &[
            &["seen on gpu003"],
            &["opened", "gpu003"],
            &["to do: drain gpu003"],
            &["done: drain gpu003"],
            &["isolated"],
        ],
    );
    told_in_order(
        &incident,
        &[
            &["opened"],
            &["to do: requeue"],
            &["done: requeue"],
            &["a spare serves"],
            &["mitigated"],
            &["awaiting human"],
        ],
    );
    let shown = site.provost(&["incident", "show", number]).ok().out;
    assert!(shown.lines().any(|line| line.trim_start().starts_with("+0.")), "with durations:\n{shown}");

    let node = site.node("gpu003");
    assert_eq!(node["schedulable"], false);
    assert!(testbed.node("gpu003").comment.starts_with("provost:hold_"), "{:?}", testbed.node("gpu003"));
    let run = site.json(&["run", "show", execution]);
    let waiting = run["steps"].as_array().and_then(|steps| steps.iter().find(|step| step["id"] == "repair"));
    assert_eq!(waiting.map(|step| step["state"].clone()), Some("waiting".into()), "{run}");
    let status = site.provost(&["status", "-o", "json"]);
    assert_ne!(status.code, 0, "somebody is needed");
    assert!(status.json()["needs_you"].to_string().contains(number), "{}", status.out);
}

/// Lines of the story, by words that they hold, come one after the other.
fn told_in_order(incident: &Value, lines: &[&[&str]]) {
    let places: Vec<usize> = lines.iter().map(|words| Site::told(incident, words)).collect();
    assert!(places.is_sorted(), "{lines:?} are told at {places:?}:\n{}", incident["timeline"]);
}

/// The node was tested and serves; the spare is home; the incident is over.
fn returned(testbed: &Testbed, site: &Site, agents: &Agents, number: &str) {
    let free = testbed.wait_node("gpu003", "is released", LONG, |node| !node.is_drained());
    assert_eq!((free.reason.as_str(), free.comment.as_str()), ("", ""));
    assert_eq!(agents.prolog("gpu003"), (Some(0), "yes".to_owned()), "jobs may start from here on");
    site.wait_phase("gpu003", "in_service", SOON);
    Site::wait_spares_home(testbed, LONG);
    let incident = site.wait_resolved(number, LONG);
    told_in_order(
        &incident,
        &[&["awaiting human"], &["repair", "answered"], &["revalidate", "succeeded"], &["released gpu003"]],
    );
    assert_eq!(incident["state"], "resolved");
    assert!(site.holders("gpu003").is_empty(), "{:?}", site.holders("gpu003"));
    assert_eq!(site.provost(&["status"]).code, 0, "nothing is wrong any more");
}

#[test]
fn a_lost_gpu_is_contained_its_job_moves_and_the_record_proves_it() {
    let (testbed, mut site, agents) = started();
    the_line(&testbed, &site, &agents, || agents.kernel("gpu003", XID_79));
    assert_eq!(site.stop(), 0);
    site.verify();
}

#[test]
fn case_b01_a_gpu_lost_without_an_xid_is_the_same_incident() {
    let (testbed, site, agents) = started();
    the_line(&testbed, &site, &agents, || {
        for line in [
            "NVRM: The NVIDIA GPU 0000:3b:00.0",
            "NVRM: (PCI ID: 10de:26b5) installed in this system has",
            "NVRM: fallen off the bus and is not responding to commands.",
        ] {
            agents.kernel("gpu003", line);
        }
    });
    // An Xid 79 that follows such a loss is more evidence of the same.
    for line in [
        "NVRM: The NVIDIA GPU 0000:3b:00.0",
        "NVRM: (PCI ID: 10de:26b5) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
        XID_79,
    ] {
        agents.kernel("gpu004", line);
    }
    let number = site.wait_incident("gpu004", SOON);
    wait_until("both lines are evidence", SOON, || {
        let count = site.incident(&number)["count"].as_u64();
        if count >= Some(2) { Ok(()) } else { Err(format!("{count:?}")) }
    });
    assert_eq!(site.open_incidents("gpu004").len(), 1);
}

#[test]
fn a_programs_fault_does_nothing_to_the_node() {
    let (testbed, site, agents) = started();
    let job = site.job_on_gpu003(&testbed);
    let before = testbed.node("gpu003");
    agents.kernel("gpu003", XID_31);
    let noted = testbed.wait_job(job, "has a note", SOON, |job| !job.note.is_empty());
    assert!(noted.note.starts_with("provost"), "{noted:?}");
    assert_eq!((noted.state.as_str(), noted.node.as_str(), noted.restarts), ("RUNNING", "gpu003", 0));
    assert_eq!(testbed.node("gpu003"), before);
    assert!(site.items(&["incident", "list", "--all"]).is_empty());
    assert_eq!(site.node("gpu003")["phase"], "in_service");
}

#[test]
fn case_b04_a_teardown_burst_hurts_nobody() {
    let (testbed, site, agents) = started();
    let job = site.job_on_gpu003(&testbed);
    let nodes = ["gpu001", "gpu002", "gpu003", "gpu004", "gpu006", "gpu007", "gpu008"];
    let before = nodes.map(|node| testbed.node(node));
    for node in nodes {
        agents.kernel_burst(node, (0..2_000).map(|channel| format!("{XID_45}{channel:02x}")));
    }
    // Told last, so that all before it was read when it is known.
    agents.kernel("gpu008", XID_31);
    wait_until("the whole burst is known", LONG, || {
        let told: u64 =
            site.records("episode.").iter().map(|r| r["data"]["count"].as_u64().unwrap_or(1)).sum();
        if told > 7 * 2_000 { Ok(()) } else { Err(told.to_string()) }
    });
    assert!(site.records("episode.").len() < 100, "a storm costs few records");
    assert!(site.items(&["incident", "list", "--all"]).is_empty());
    assert_eq!(nodes.map(|node| testbed.node(node)), before);
    let noted = testbed.wait_job(job, "has a note", SOON, |job| job.note.contains("Xid 45"));
    assert_eq!((noted.state.as_str(), noted.restarts), ("RUNNING", 0));
}

#[test]
fn a_forged_line_raises_nothing() {
    let (testbed, site, agents) = started();
    // Facility 1 is what a program of any user writes through /dev/kmsg.
    agents.kernel("gpu005", &format!("12,100,5000000,-;{XID_79}"));
    // The kernel's own, of a program: shows that the forged one before it was read.
    agents.kernel("gpu005", &format!("4,101,5000100,-;{XID_31}"));
    wait_until("the kernel's own line is known", SOON, || {
        let episodes = site.records("episode.opened");
        if episodes.is_empty() { Err("no episode".to_owned()) } else { Ok(()) }
    });
    let episodes = site.records("episode.opened");
    assert_eq!(episodes.len(), 1, "{episodes:?}");
    assert_eq!(episodes[0]["data"]["key"]["code"], 31);
    assert!(site.items(&["incident", "list", "--all"]).is_empty());
    assert!(!testbed.node("gpu005").is_drained());
}
