//! The adapter against a real Slurm cluster, which the test installs and starts itself. It fails where that can't
//! be done; it is never skipped. Scenarios share one cluster (starting one takes about 12 s) and put it back.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod testbed;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use provost_connect::slurm::{
    Cluster, Config, Error, Gap, Held, HoldMark, Mark, Outcome, Owner, Probe, RestConfig, WriteError,
};
use provost_model::scheduler::{JobState, Observation, ObservedJob};
use provost_model::time::Timestamp;
use testbed::Testbed;

fn config(testbed: &Testbed) -> Config {
    Config {
        name: "main".to_owned(),
        conf: testbed.conf(),
        bin_dir: Some(testbed.bin_dir()),
        rest: None,
        partitions: vec!["serving".to_owned(), "batch".to_owned()],
        spare_partition: Some("spare".to_owned()),
        call_timeout: Config::CALL_TIMEOUT,
    }
}

fn cluster(testbed: &Testbed) -> Cluster {
    Cluster::new(config(testbed)).unwrap()
}

/// A cluster whose scontrol first runs `script`.
fn cluster_with(testbed: &Testbed, name: &str, script: &str) -> Cluster {
    let bin_dir = Some(testbed.tools_with(name, script));
    Cluster::new(Config { bin_dir, call_timeout: Duration::from_millis(1_500), ..config(testbed) }).unwrap()
}

fn mark(number: u32) -> HoldMark {
    HoldMark {
        reason: format!("provost INC-2026-{number:06}: gpu lost"),
        comment: format!("provost:hold_{number}"),
    }
}

/// Submits a batch job that writes nothing; gives its JobId.
fn submit(testbed: &Testbed, args: &[&str]) -> u32 {
    let args: Vec<&str> =
        ["--parsable", "-p", "batch", "-o", "/dev/null"].iter().chain(args).copied().collect();
    testbed.run("sbatch", &args).trim().parse().unwrap()
}

/// Polls until `found` gives something; the cluster is real, so its changes take their time.
async fn until<T>(cluster: &Cluster, what: &str, found: impl Fn(&Observation) -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        let seen = cluster.observe().await.unwrap();
        if let Some(value) = found(&seen) {
            return value;
        }
        assert!(started.elapsed() < Duration::from_secs(15), "{what} was not seen within 15 s: {seen:?}");
    }
}

async fn job(cluster: &Cluster, id: u32, state: JobState) -> ObservedJob {
    until(cluster, &format!("job {id} {state:?}"), |seen| {
        seen.jobs.iter().find(|job| job.key.id == id && job.state == state).cloned()
    })
    .await
}

fn drain_as_operator(testbed: &Testbed, node: &str, reason: &str) {
    testbed.run(
        "scontrol",
        &["update", &format!("NodeName={node}"), "State=DRAIN", &format!("Reason={reason}")],
    );
}

fn undrain_as_operator(testbed: &Testbed, node: &str) {
    testbed.run("scontrol", &["update", &format!("NodeName={node}"), "State=UNDRAIN"]);
}

fn not_done<T: std::fmt::Debug>(result: Result<T, WriteError>) -> Error {
    let error = result.unwrap_err();
    assert_eq!(error.outcome, Outcome::NotDone, "{error}");
    error.source
}

#[tokio::test]
async fn the_adapter_and_a_real_slurm_agree() {
    let started = Instant::now();
    let mut testbed = Testbed::up(3);
    let said = |what: &str| eprintln!("{:6.2} s  {what}", started.elapsed().as_secs_f64());
    said(&format!("up, Slurm {:?}", cluster(&testbed).version().await.unwrap()));
    observations_are_the_same_by_every_way(&testbed).await;
    said("observe");
    holds_are_written_and_read_back(&testbed).await;
    said("hold and release");
    foreign_drains_stay(&testbed).await;
    said("foreign drains");
    foreign_drains_in_the_gap_come_back(&testbed).await;
    said("gaps");
    unknown_outcomes_are_settled_by_looking(&testbed).await;
    said("unknown outcomes");
    jobs_are_requeued_and_noted(&testbed).await;
    said("jobs");
    only_the_task_that_is_meant_is_requeued(&testbed).await;
    said("arrays and heterogeneous jobs");
    a_spare_serves_and_goes_back(&testbed).await;
    said("spares");
    marks_are_found_and_cleared(&testbed).await;
    said("marks");
    a_controller_that_is_away_is_said_to_be(&mut testbed).await;
    said("controller away");
}

async fn observations_are_the_same_by_every_way(testbed: &Testbed) {
    let id = submit(
        testbed,
        &[
            "--gres=gpu:2",
            "-w",
            "gpu001",
            "-J",
            "x\n   JobState=FAILED\n\nJobId=4000000 JobName=y NodeList=gpu003",
            "--comment=provost:x\n   NodeList=gpu003",
            "--wrap",
            "sleep 600",
        ],
    );
    let waiting = submit(testbed, &["-H", "--wrap", "true"]);
    let cluster = cluster(testbed);
    let seen = job(&cluster, id, JobState::Running).await;
    assert_eq!(seen.nodes, ["gpu001"]);
    assert_eq!(seen.gpus["gpu001"], [0, 1]);
    assert_eq!(seen.pinned, ["gpu001"]);
    assert!(seen.requeue && seen.started_at.is_some() && seen.ended_at.is_none());
    let by_tools = cluster.observe().await.unwrap();
    assert_eq!((by_tools.unparsed, by_tools.jobs_pending), (0, 1));
    assert_eq!(by_tools.jobs.len(), 1, "the name of a job forged one: {by_tools:?}");
    assert_eq!(by_tools.nodes.keys().collect::<Vec<_>>(), ["gpu001", "gpu002", "gpu003", "spare01"]);
    assert!(by_tools.nodes["gpu001"].busy && !by_tools.nodes["gpu003"].busy);
    assert_eq!(by_tools.nodes["gpu002"].gpus, Some(4));
    assert_eq!(by_tools.partitions["batch"], ["gpu001", "gpu002", "gpu003"]);
    assert_eq!(by_tools.partitions["spare"], ["spare01"]);

    let token_file = testbed.dir.join("token");
    std::fs::write(&token_file, format!("{}\n", testbed.setting("SLURM_TESTBED_JWT"))).unwrap();
    let socket = format!("unix://{}", testbed.setting("SLURM_TESTBED_REST_SOCKET"));
    let port = testbed.setting("SLURM_TESTBED_REST_URL");
    for (endpoint, user, token) in [(socket.as_str(), None, None), (port, Some("root"), Some(token_file))] {
        let rest = RestConfig {
            endpoint: endpoint.parse().unwrap(),
            ca_file: None,
            user: user.map(str::to_owned),
            token_file: token.clone(),
        };
        // The tools are out of reach, so what is seen came through slurmrestd.
        let bin_dir = Some(PathBuf::from("/nonexistent"));
        let by_rest = Cluster::new(Config { rest: Some(rest), bin_dir, ..config(testbed) }).unwrap();
        let by_rest = by_rest.observe().await.unwrap();
        assert_eq!(Observation { at: by_tools.at, ..by_rest }, by_tools, "{endpoint}");
    }
    // A slurmrestd that is away: the tools answer.
    let rest = RestConfig {
        endpoint: "unix:///nonexistent".parse().unwrap(),
        ca_file: None,
        user: None,
        token_file: None,
    };
    let fallen_back = Cluster::new(Config { rest: Some(rest), ..config(testbed) }).unwrap();
    let fallen_back = fallen_back.observe().await.unwrap();
    assert_eq!(Observation { at: by_tools.at, ..fallen_back }, by_tools);
    testbed.run("scancel", &[&id.to_string(), &waiting.to_string()]);
}

async fn holds_are_written_and_read_back(testbed: &Testbed) {
    let cluster = cluster(testbed);
    let started = Instant::now();
    let held = cluster.hold_node("gpu002", &mark(1)).await.unwrap();
    eprintln!("          held and read back in {} ms", started.elapsed().as_millis());
    assert!(held.node.drain && held.watch.is_some() && held.replaced.is_none());
    assert_eq!((&held.reason, &held.comment), (&Owner::Ours, &Owner::Ours));
    assert_eq!(
        (held.node.reason.as_str(), held.node.comment.as_str()),
        (&*mark(1).reason, &*mark(1).comment)
    );
    assert_eq!(held.node.reason_user.as_deref(), Some("root"));
    assert_eq!(cluster.check_gap(&held.watch.unwrap()).await, Gap::Clean);
    // Again: nothing is written.
    let again = cluster.hold_node("gpu002", &mark(1)).await.unwrap();
    assert_eq!((again.node.reason_at, again.watch), (held.node.reason_at, None));
    assert!(matches!(cluster.probe_hold("gpu002", &mark(1)).await, Probe::Done));
    assert!(matches!(cluster.probe_hold("gpu002", &mark(2)).await, Probe::NotDone));
    assert!(matches!(cluster.probe_release("gpu002").await, Probe::NotDone));

    let released = cluster.release_node("gpu002").await.unwrap();
    assert!(released.resumed && !released.node.drain);
    assert_eq!(
        (released.reason, released.gap, released.node.comment.as_str()),
        (Owner::Nobody, Gap::Clean, "")
    );
    assert!(matches!(cluster.probe_release("gpu002").await, Probe::Done));
    // Again: nothing is written, nothing is refused.
    assert!(!cluster.release_node("gpu002").await.unwrap().resumed);

    // A node that went down under our hold comes back with it.
    cluster.hold_node("gpu002", &mark(1)).await.unwrap();
    testbed.run(
        "scontrol",
        &["update", "NodeName=gpu002", "State=DOWN", "Reason=provost INC-2026-000001: gpu lost"],
    );
    let released = cluster.release_node("gpu002").await.unwrap();
    assert!(released.resumed && !released.node.down && !released.node.drain, "{released:?}");

    let unknown = not_done(cluster.hold_node("gpu999", &mark(1)).await);
    assert!(matches!(unknown, Error::NotFound { .. }), "{unknown}");
    for name in ["ALL", "gpu[001-003]", "-x", "gpu001,gpu002", ""] {
        let bad = not_done(cluster.hold_node(name, &mark(1)).await);
        assert!(matches!(bad, Error::BadInput { .. }), "{name}: {bad}");
    }
}

/// "Show it" 3 of the walking line, at the adapter.
async fn foreign_drains_stay(testbed: &Testbed) {
    let cluster = cluster(testbed);
    let dimm = |held: &Held| {
        assert!(held.node.drain);
        assert_eq!(held.node.reason, "dimm");
        assert_eq!(held.reason, Owner::Foreign(Some("root".to_owned())));
        assert_eq!(held.node.comment, mark(2).comment);
    };
    // Before: it stays, our hold lives in the comment.
    drain_as_operator(testbed, "gpu003", "dimm");
    let held = cluster.hold_node("gpu003", &mark(2)).await.unwrap();
    dimm(&held);
    assert_eq!(held.watch, None);
    let released = cluster.release_node("gpu003").await.unwrap();
    assert!(!released.resumed && released.node.drain);
    assert_eq!(released.reason, Owner::Foreign(Some("root".to_owned())));
    assert_eq!((released.node.reason.as_str(), released.node.comment.as_str()), ("dimm", ""));
    // The operator is done while we still hold: the next reconcile drains it for us.
    cluster.hold_node("gpu003", &mark(2)).await.unwrap();
    undrain_as_operator(testbed, "gpu003");
    let held = cluster.hold_node("gpu003", &mark(2)).await.unwrap();
    assert!(held.node.drain && held.reason == Owner::Ours);
    // During: the reason becomes theirs and stays theirs.
    drain_as_operator(testbed, "gpu003", "dimm");
    dimm(&cluster.hold_node("gpu003", &mark(2)).await.unwrap());
    let released = cluster.release_node("gpu003").await.unwrap();
    assert!(!released.resumed && released.node.drain && released.node.reason == "dimm");
    undrain_as_operator(testbed, "gpu003");
    // After the release: untouched.
    // (Each on a node of its own: slurmdbd mixes up two drains of one node in one second.)
    cluster.hold_node("gpu001", &mark(2)).await.unwrap();
    let released = cluster.release_node("gpu001").await.unwrap();
    assert!(released.resumed, "{released:?} {:?}", cluster.events_since(Timestamp::from_millis(0)).await);
    drain_as_operator(testbed, "gpu001", "dimm");
    let released = cluster.release_node("gpu001").await.unwrap();
    assert!(released.node.drain && released.node.reason == "dimm");
    undrain_as_operator(testbed, "gpu001");
    // A comment of somebody else is never touched.
    testbed.run("scontrol", &["update", "NodeName=gpu002", "Comment=rack 7"]);
    let held = cluster.hold_node("gpu002", &mark(2)).await.unwrap();
    assert_eq!((held.comment, held.node.comment.as_str()), (Owner::Foreign(None), "rack 7"));
    let released = cluster.release_node("gpu002").await.unwrap();
    assert!(released.resumed && released.node.comment == "rack 7");
    testbed.run("scontrol", &["update", "NodeName=gpu002", "Comment="]);
}

/// An operator drains in the moment between our look and our write.
async fn foreign_drains_in_the_gap_come_back(testbed: &Testbed) {
    let drain = "$real update NodeName=$node State=DRAIN Reason=fan";
    let slow =
        cluster_with(testbed, "gap-release", &format!("case $* in *UNDRAIN*) node=spare01; {drain};; esac"));
    slow.hold_node("spare01", &mark(3)).await.unwrap();
    let released = slow.release_node("spare01").await.unwrap();
    assert_eq!(released.gap, Gap::Restored { reason: "fan".to_owned(), user: "root".to_owned() });
    assert!(!released.resumed && released.node.drain);
    assert_eq!(released.node.reason, "fan (set by root, put back)");
    assert_eq!(released.reason, Owner::Foreign(Some("root".to_owned())));
    undrain_as_operator(testbed, "spare01");

    // slurmdbd has one row a second and node, so the operator is a second earlier here.
    let slow = cluster_with(
        testbed,
        "gap-hold",
        &format!("case $* in *DRAIN*provost*) node=gpu003; {drain}; sleep 1.1;; esac"),
    );
    let held = slow.hold_node("gpu003", &mark(3)).await.unwrap();
    assert_eq!(held.reason, Owner::Ours, "Slurm's last writer wins, so the drain is hidden: {held:?}");
    let gap = slow.check_gap(&held.watch.unwrap()).await;
    assert_eq!(gap, Gap::Restored { reason: "fan".to_owned(), user: "root".to_owned() });
    let node = slow.node("gpu003").await.unwrap();
    assert_eq!(
        (node.reason.as_str(), node.comment.as_str()),
        ("fan (set by root, put back)", &*mark(3).comment)
    );
    assert!(!slow.release_node("gpu003").await.unwrap().resumed);
    undrain_as_operator(testbed, "gpu003");

    let (events, unparsed) = slow.events_since(Timestamp::from_millis(0)).await.unwrap();
    assert_eq!(unparsed, 0);
    let fans = events.iter().filter(|e| e.reason == "fan" && e.user == "root").count();
    assert_eq!(fans, 2, "{events:?}");
}

async fn unknown_outcomes_are_settled_by_looking(testbed: &Testbed) {
    // Done, but the tool never returns: reading back shows it.
    let done = cluster_with(testbed, "hangs-after", "case $* in update*) $real \"$@\"; exec sleep 60;; esac");
    let held = done.hold_node("gpu003", &mark(4)).await.unwrap();
    assert!(held.node.drain && held.reason == Owner::Ours);
    cluster(testbed).release_node("gpu003").await.unwrap();
    // Not done, and nobody can say that it will not be.
    let lost = cluster_with(testbed, "hangs-before", "case $* in update*) exec sleep 60;; esac");
    let error = lost.hold_node("gpu003", &mark(4)).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Unknown, "{error}");
    assert!(matches!(lost.probe_hold("gpu003", &mark(4)).await, Probe::NotDone));
    // Claimed, but not done.
    let liar = cluster_with(testbed, "lies", "case $* in update*) exit 0;; esac");
    let error = not_done(liar.hold_node("gpu003", &mark(4)).await);
    assert!(matches!(error, Error::NotConfirmed { .. }), "{error}");
}

async fn jobs_are_requeued_and_noted(testbed: &Testbed) {
    let cluster = cluster(testbed);
    let ids = [
        submit(testbed, &["--requeue", "--gres=gpu:1", "--wrap", "sleep 600"]),
        submit(testbed, &["--no-requeue", "--wrap", "sleep 600"]),
        submit(testbed, &["--requeue", "--wrap", "exit 3"]),
    ];
    let running = job(&cluster, ids[0], JobState::Running).await.key;
    let (note, other) = ("provost INC-2026-000005: gpu lost on gpu001", "provost INC-2026-000006: it moves");
    testbed.run("scontrol", &["update", &format!("JobId={}", ids[0]), "AdminComment=ask ops"]);
    assert!(matches!(cluster.probe_note(&running, note).await, Probe::NotDone));
    cluster.note_job(&running, note).await.unwrap();
    cluster.note_job(&running, note).await.unwrap();

    assert!(matches!(cluster.probe_requeue(&running, 0).await, Probe::NotDone));
    let moved = cluster.requeue_job(&running).await.unwrap().job;
    assert_eq!((moved.key.id, moved.restarts), (ids[0], 1));
    assert!(matches!(moved.state, JobState::Pending | JobState::Completing), "{moved:?}");
    assert!(matches!(cluster.probe_requeue(&running, 0).await, Probe::Done));
    let waiting = job(&cluster, ids[0], JobState::Pending).await.key;
    assert_ne!(waiting, running, "Slurm sets a new submit time");
    let error = not_done(cluster.requeue_job(&waiting).await);
    assert!(matches!(error, Error::AlreadyPending { .. }), "{error}");
    let error = not_done(cluster.requeue_job(&running).await);
    assert!(matches!(error, Error::OtherJob { .. }), "{error}");
    // A note may use the old key: it is the same job.
    cluster.note_job(&running, other).await.unwrap();
    let shown = testbed.run("scontrol", &["show", "job", &ids[0].to_string()]);
    assert!(shown.contains(&format!("AdminComment=ask ops | {note} | {other}")), "{shown}");

    let kept = job(&cluster, ids[1], JobState::Running).await.key;
    let error = not_done(cluster.requeue_job(&kept).await);
    assert!(matches!(error, Error::NotRequeueable { .. }), "{error}");
    let error = not_done(cluster.requeue_failed(&kept).await);
    assert!(matches!(error, Error::NotFailed { .. }), "{error}");

    let failed = job(&cluster, ids[2], JobState::Failed).await;
    assert!(failed.ended_at.is_some());
    let error = not_done(cluster.requeue_job(&failed.key).await);
    assert!(matches!(error, Error::Ended { .. }), "{error}");
    let error = not_done(cluster.note_job(&failed.key, note).await);
    assert!(matches!(error, Error::Ended { .. }), "{error}");
    assert_eq!(cluster.requeue_failed(&failed.key).await.unwrap().job.restarts, 1);

    let mut unknown = kept.clone();
    unknown.id = 3_999_999;
    let error = not_done(cluster.requeue_job(&unknown).await);
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    testbed.run("scancel", &ids.iter().map(String::as_str).collect::<Vec<_>>());
}

async fn only_the_task_that_is_meant_is_requeued(testbed: &Testbed) {
    let cluster = cluster(testbed);
    let array = submit(testbed, &["--array=1-2", "--wrap", "sleep 600"]);
    // The last task to start has the array's own id.
    let last = job(&cluster, array, JobState::Running).await.key;
    let restarts = |seen: &Observation| {
        let of_array = |job: &&ObservedJob| job.key.id == array || job.key.id == array + 1;
        let mut restarts: Vec<_> =
            seen.jobs.iter().filter(of_array).map(|job| (job.key.id, job.restarts)).collect();
        restarts.sort_unstable();
        (restarts.len() == 2).then_some(restarts)
    };
    until(&cluster, "both tasks", restarts).await;
    cluster.requeue_job(&last).await.unwrap();
    let after = until(&cluster, "both tasks", restarts).await;
    assert_eq!(after, [(array, 1), (array + 1, 0)]);

    // A part of a heterogeneous job goes with the whole.
    let leader = testbed.run(
        "sbatch",
        &["--parsable", "-o", "/dev/null", "-p", "batch", ":", "-p", "batch", "--wrap", "sleep 600"],
    );
    let leader: u32 = leader.trim().parse().unwrap();
    let part = job(&cluster, leader + 1, JobState::Running).await.key;
    assert_eq!(cluster.requeue_job(&part).await.unwrap().job.restarts, 1);
    testbed.run("scancel", &[&array.to_string(), &leader.to_string()]);
}

async fn a_spare_serves_and_goes_back(testbed: &Testbed) {
    let cluster = cluster(testbed);
    let production = cluster.config().partitions.clone();
    assert!(matches!(cluster.probe_partitions("spare01", &production, true).await, Probe::NotDone));
    let spare = ["spare".to_owned()];
    let (one, two) = tokio::join!(
        cluster.add_to_partitions("spare01", &production),
        // At the same time, by another executor of ours.
        cluster.add_to_partitions("gpu001", &spare),
    );
    let batch = &one.unwrap()[0];
    assert_eq!(
        (batch.name.as_str(), batch.nodes.join(" ")),
        ("batch", "gpu001 gpu002 gpu003 spare01".to_owned())
    );
    assert_eq!(two.unwrap()[0].nodes, ["gpu001", "spare01"]);
    assert!(matches!(cluster.probe_partitions("spare01", &production, true).await, Probe::Done));
    let id = submit(testbed, &["-w", "spare01", "--wrap", "sleep 600"]);
    assert_eq!(job(&cluster, id, JobState::Running).await.nodes, ["spare01"]);
    testbed.run("scancel", &[&id.to_string()]);
    let back = cluster.remove_from_partitions("spare01", &production).await.unwrap();
    assert!(back.iter().all(|partition| partition.nodes == ["gpu001", "gpu002", "gpu003"]), "{back:?}");
    assert_eq!(cluster.remove_from_partitions("gpu001", &spare).await.unwrap()[0].nodes, ["spare01"]);
    let error = not_done(cluster.remove_from_partitions("spare01", &spare).await);
    assert!(matches!(error, Error::WouldEmpty { .. }), "{error}");
    let error = not_done(cluster.add_to_partitions("spare01", &["nosuch".to_owned()]).await);
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    let error = not_done(cluster.add_to_partitions("gpu999", &production).await);
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

async fn marks_are_found_and_cleared(testbed: &Testbed) {
    let cluster = cluster(testbed);
    let id = submit(testbed, &["--wrap", "sleep 600"]);
    let key = job(&cluster, id, JobState::Running).await.key;
    assert_eq!(live_marks(&cluster).await, []);
    drain_as_operator(testbed, "gpu003", "dimm");
    cluster.hold_node("gpu002", &mark(7)).await.unwrap();
    cluster.hold_node("gpu003", &mark(7)).await.unwrap();
    cluster.note_job(&key, "provost INC-2026-000007: look").await.unwrap();
    let marks = live_marks(&cluster).await;
    assert_eq!(marks.len(), 4, "{marks:?}");
    for mark in &marks {
        cluster.clear_mark(mark).await.unwrap();
    }
    assert_eq!(live_marks(&cluster).await, []);
    let gpu003 = cluster.node("gpu003").await.unwrap();
    assert!(gpu003.drain && gpu003.reason == "dimm", "a foreign drain is no mark of ours");
    assert!(!cluster.node("gpu002").await.unwrap().drain);
    undrain_as_operator(testbed, "gpu003");
    testbed.run("scancel", &[&id.to_string()]);
}

/// Marks that can be taken off.
async fn live_marks(cluster: &Cluster) -> Vec<Mark> {
    let (marks, unparsed) = cluster.marks().await.unwrap();
    assert_eq!(unparsed, 0);
    marks.into_iter().filter(|mark| !matches!(mark, Mark::JobNote { ended: true, .. })).collect()
}

async fn a_controller_that_is_away_is_said_to_be(testbed: &mut Testbed) {
    let cluster = cluster(testbed);
    cluster.version().await.unwrap();
    testbed.kill_controller();
    let (mark, batch) = (mark(8), ["batch".to_owned()]);
    let (seen, held, moved, probed) = tokio::join!(
        cluster.observe(),
        cluster.hold_node("gpu002", &mark),
        cluster.add_to_partitions("spare01", &batch),
        cluster.probe_hold("gpu002", &mark),
    );
    assert!(seen.as_ref().is_err_and(|error| error.is_away()), "{seen:?}");
    assert!(not_done(held).is_away());
    assert!(not_done(moved).is_away());
    assert!(matches!(&probed, Probe::Unknown(error) if error.is_away()), "{probed:?}");
    assert!(cluster.events_since(Timestamp::from_millis(0)).await.is_ok(), "slurmdbd still answers");
    testbed.restart();
    let seen = until(&cluster, "the cluster", |seen| Some(seen.clone())).await;
    assert!(!seen.nodes["gpu002"].drain);
}
