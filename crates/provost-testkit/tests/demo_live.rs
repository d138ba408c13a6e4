//! The demo can be asked while it tells its story, as a controller can.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::time::Duration;

use provost_testkit::{Answer, Daemon, program, wait_until};

const SOON: Duration = Duration::from_secs(60);

#[test]
fn the_demo_is_asked_and_answered_while_it_lives() {
    let folder = std::env::temp_dir().join(format!("pvd{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let data = folder.join("data").display().to_string();
    let args = ["demo", "--nodes", "16", "--listen", "127.0.0.1:0", "--speed", "20", "--data", &data];
    let mut demo = Daemon::start("demo", &program("provost"), &args, &folder.join("log"));
    let ready = demo.wait_for_line("ready https://", SOON);
    assert!(ready.contains(&format!("provost --data {data} status")), "{ready}");
    let ask = |args: &[&str]| Answer::of("provost", &[args, &["--data", &data, "-o", "json"]].concat());

    assert_eq!(ask(&["node", "list"]).ok().json()["items"].as_array().map(Vec::len), Some(17));
    let execution = wait_until("a human step", SOON, || {
        let runs = ask(&["run", "list"]).ok().json();
        let waits = runs["items"].as_array().unwrap().iter().find(|run| run["state"] == "awaiting_human");
        waits.map(|run| run["id"].as_str().unwrap().to_owned()).ok_or_else(|| runs.to_string())
    });
    assert_eq!(ask(&["incident", "list"]).ok().json()["items"][0]["number"], "INC-2026-000001");
    assert!(ask(&["status"]).code >= 20, "something is wrong");
    Answer::of(
        "provost",
        &["run", "answer", &execution, "--step", "repair", "outcome=reseated", "-m", "done", "--data", &data],
    )
    .ok();
    wait_until("the story's end", SOON, || {
        let told = demo.output();
        if told.contains("journal verified") { Ok(()) } else { Err(told) }
    });
    assert_eq!(ask(&["node", "list"]).ok().json()["items"].as_array().map(Vec::len), Some(17), "it lives on");
    // Somebody else's folder is left alone.
    let other = Answer::of("provost", &["demo", "--data", &data, "--for", "1s"]);
    assert!(other.code == 2 && other.err.contains("is not empty"), "{}", other.err);
    assert_eq!(demo.stop(), 0, "{}", demo.output());
    let proof = Answer::of("provost", &["verify", &data]).ok();
    assert!(!proof.out.contains("nobody has signed"), "signed to the last record: {}", proof.out);
    std::fs::remove_dir_all(&folder).unwrap();
}
