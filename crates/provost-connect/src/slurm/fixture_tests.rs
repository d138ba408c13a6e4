//! Answers recorded from real clusters of both releases: the same cluster must look the same through every form.

use super::*;

/// The recorded file, or `None` (said so) where this checkout stands alone; in CI they must be there.
fn fixture(release: &str, name: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../../shared/fixtures/slurm-{release}/{name}"));
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{} is missing", path.display());
        eprintln!("skipped: {} is not in this checkout", path.display());
    }
    text
}

const NODES: [&str; 4] = [
    "gpu001 MIXED+DRAIN drain busy gpus=Some(4) user=Some(\"root\") draining",
    "gpu002 IDLE+DRAIN drain gpus=Some(4) user=Some(\"root\") provost: INC-1 xid79 on gpu 3",
    "gpu003 DOWN down gpus=Some(4) user=Some(\"root\") provost: INC-2",
    "spare01 IDLE+MAINTENANCE+RESERVED maintenance gpus=Some(4) user=None ",
];

fn check_nodes(release: &str, form: &str, nodes: Parsed<BTreeMap<String, ObservedNode>>) {
    let rows = nodes.items.iter().map(|(name, n)| {
        // The newer JSON names the two flags of a reservation in the other order.
        let mut row = format!("{name} {}", n.state.replace("RESERVED+MAINTENANCE", "MAINTENANCE+RESERVED"));
        for (set, word) in
            [(n.drain, "drain"), (n.down, "down"), (n.busy, "busy"), (n.maintenance, "maintenance")]
        {
            if set {
                row += &format!(" {word}");
            }
        }
        assert_eq!(n.reason_at.is_some(), !n.reason.is_empty(), "{name}");
        row + &format!(" gpus={:?} user={:?} {}", n.gpus, n.reason_user, n.reason)
    });
    assert_eq!(rows.collect::<Vec<_>>(), NODES, "{release} {form}");
    assert_eq!(nodes.unparsed, 0, "{release} {form}");
    assert_eq!(nodes.items["gpu002"].comment, "provost:INC-1");
    assert_eq!(nodes.items["gpu001"].partitions, ["serving", "interactive", "batch", "scavenger"]);
}

#[test]
fn nodes_look_the_same_in_every_form() {
    for (release, files) in [
        ("22.05", &["nodes.v0.0.37.json", "nodes.v0.0.38.json", "sinfo.json"][..]),
        ("24.11", &["nodes.v0.0.40.json", "nodes.v0.0.41.json", "nodes.v0.0.42.json", "scontrol-nodes.json"]),
    ] {
        for file in files {
            let Some(text) = fixture(release, file) else { return };
            check_nodes(release, file, keyed(json::nodes("slurmrestd", &text).unwrap()));
        }
        let Some(text) = fixture(release, "scontrol-nodes.txt") else { return };
        check_nodes(release, "text", text::nodes(&text));
    }
}

#[test]
fn partitions_look_the_same_in_every_form() {
    for (release, versions) in [("22.05", &[37, 38][..]), ("24.11", &[40, 41, 42])] {
        let Some(text) = fixture(release, "scontrol-partitions.txt") else { return };
        let expected = text::partitions(&text);
        assert_eq!((expected.items.len(), expected.unparsed), (5, 0));
        assert_eq!(expected.items["batch"], ["gpu001", "gpu002", "gpu003"]);
        assert_eq!(expected.items["spare"], ["spare01"]);
        for version in versions {
            let Some(text) = fixture(release, &format!("partitions.v0.0.{version}.json")) else { return };
            let parsed = keyed(json::partitions("slurmrestd", &text).unwrap());
            assert_eq!((parsed.items, parsed.unparsed), (expected.items.clone(), 0), "{release} {version}");
        }
    }
}

/// id, state, nodes, GPUs, restarts, requeue, target
const JOBS: [&str; 4] = [
    "1 Running [\"gpu001\"] {\"gpu001\": [0, 1]} 0 true 1",
    "2 Pending [] {} 0 true 2",
    "3 Failed [\"gpu001\"] {} 0 true 3",
    "4 Failed [\"gpu001\"] {} 0 true 4",
];

#[test]
fn jobs_look_the_same_in_every_form() {
    for (release, files) in [
        ("22.05", &["jobs.v0.0.37.json", "jobs.v0.0.38.json", "squeue.json"][..]),
        ("24.11", &["jobs.v0.0.40.json", "jobs.v0.0.41.json", "jobs.v0.0.42.json"]),
    ] {
        for file in files {
            let Some(text) = fixture(release, file) else { return };
            let parsed = json::jobs("squeue", &text, "main").unwrap();
            assert_eq!((parsed.items.len(), parsed.unparsed), (13, 0), "{release} {file}");
            let mut rows: Vec<_> = parsed.items.iter().map(|job| (job.observed.key.id, job)).collect();
            rows.sort_by_key(|(id, _)| *id);
            let rows: Vec<String> = rows
                .iter()
                .filter(|(id, _)| *id <= 4)
                .map(|(id, job)| {
                    let o = &job.observed;
                    let (state, nodes, gpus) = (o.state, &o.nodes, &o.gpus);
                    format!("{id} {state:?} {nodes:?} {gpus:?} {} {} {}", o.restarts, o.requeue, job.target())
                })
                .collect();
            assert_eq!(rows, JOBS, "{release} {file}");
            // Parts of the heterogeneous job and the array are called by what Slurm takes.
            let targets: Vec<String> = parsed.items.iter().map(Job::target).collect();
            assert!(targets.iter().any(|target| target.contains('_')), "{release} {file}: {targets:?}");
            let parts = parsed.items.iter().filter(|job| job.het_leader.is_some()).count();
            assert_eq!(parts, 2, "{release} {file}");
            let no_requeue: Vec<JobState> =
                parsed.items.iter().filter(|j| !j.observed.requeue).map(|j| j.observed.state).collect();
            assert_eq!(no_requeue, [JobState::NodeFailed], "{release} {file}");
        }
    }
}

#[test]
fn recorded_errors_are_errors() {
    for (release, file) in [("22.05", "errors.v0.0.38.json"), ("24.11", "errors.v0.0.42.json")] {
        let Some(text) = fixture(release, file) else { return };
        let cases: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        for case in
            cases.iter().filter(|case| case["body"]["errors"].as_array().is_some_and(|e| !e.is_empty()))
        {
            let body = case["body"].to_string();
            assert!(json::nodes("slurmrestd", &body).is_err(), "{case}");
            assert!(json::jobs("slurmrestd", &body, "main").is_err(), "{case}");
        }
    }
}
