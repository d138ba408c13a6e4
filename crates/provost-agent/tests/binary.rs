//! The program as the service manager sees it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod support;

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use provost_model::time::Timestamp;
use provost_wire::{Ack, Standing, ToServer};
use rustix::process::{Pid, Signal, kill_process};
use support::{Controller, DEADLINE, Folder, Peer};

const PROGRAM: &str = env!("CARGO_BIN_EXE_provost-agent");

#[test]
fn a_config_with_errors_is_told_whole_and_exits_2() {
    let folder = Folder::new();
    let path = folder.path().join("agent.toml");
    fs::write(&path, "server = 1\nca = \"x\"\n").unwrap();
    let output = Command::new(PROGRAM).arg("--config").arg(&path).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(2), 3), "{text}");
    assert!(text.contains("agent.toml: line 2: ca: is not a key"), "{text}");
}

#[test]
fn sigterm_ends_it_cleanly_within_a_second() {
    let (controller, folder) = (Controller::new(), Folder::new());
    fs::write(folder.path().join("ca.pem"), controller.authority.ca_pem()).unwrap();
    fs::write(folder.path().join("token"), "a-secret-token").unwrap();
    fs::write(folder.path().join("log"), "").unwrap();
    let text = format!(
        "server = \"https://127.0.0.1:{}\"\nca_file = \"ca.pem\"\nenrol_token_file = \"token\"\n\
         state_dir = \"state\"\n[[node]]\nname = \"gpu001\"\nkernel_log = \"log\"\n",
        controller.port()
    );
    let path = folder.path().join("agent.toml");
    fs::write(&path, text).unwrap();
    let mut agent = Command::new(PROGRAM).arg("--config").arg(&path).stderr(Stdio::piped()).spawn().unwrap();
    controller.enrol("a-secret-token", Timestamp::from_millis(4_000_000_000_000));
    let (mut peer, _) = controller.welcome(1);
    peer.read().unwrap();
    let told = Instant::now();
    kill_process(Pid::from_child(&agent), Signal::TERM).unwrap();
    assert_eq!(agent.wait().unwrap().code(), Some(0));
    assert!(told.elapsed().as_secs_f64() < 1.0, "{:?}", told.elapsed());
    while peer.read().is_some() {}
    let mut log = String::new();
    agent.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.contains("connected") && !log.contains("secret"), "{log}");
}

const NEVER: Timestamp = Timestamp::from_millis(4_000_000_000_000);

/// Starts the program for gpu001, whose kernel log is a FIFO.
fn start(controller: &Controller, folder: &Path) -> Child {
    let config = folder.join("agent.toml");
    if !config.exists() {
        fs::write(folder.join("ca.pem"), controller.authority.ca_pem()).unwrap();
        fs::write(folder.join("token"), "token").unwrap();
        assert!(Command::new("mkfifo").arg(folder.join("log")).status().unwrap().success());
        let text = format!(
            "server = \"https://127.0.0.1:{}\"\nca_file = \"ca.pem\"\nenrol_token_file = \"token\"\n\
             state_dir = \"state\"\n[[node]]\nname = \"gpu001\"\nkernel_log = \"log\"\n\
             kernel_log_format = \"text\"\n",
            controller.port()
        );
        fs::write(&config, text).unwrap();
    }
    Command::new(PROGRAM).arg("--config").arg(config).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until something is so.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

fn signals(peer: &mut Peer) -> (u64, Vec<u32>) {
    peer.wait_for(|message| match message {
        ToServer::Signals(batch) => {
            Some((batch.batch, batch.signals.iter().filter_map(|signal| signal.code).collect()))
        }
        _ => None,
    })
}

#[test]
fn case_b02_what_was_not_acknowledged_survives_kill_9_where_the_log_is_gone() {
    let (controller, folder) = (Controller::new(), Folder::new());
    let mut agent = start(&controller, folder.path());
    controller.enrol("token", NEVER);
    let (mut peer, _) = controller.welcome(1);
    let mut log = OpenOptions::new().append(true).open(folder.path().join("log")).unwrap();
    for code in [79, 154] {
        writeln!(log, "NVRM: Xid (PCI:0000:3b:00): {code}, GPU has fallen off the bus.").unwrap();
        signals(&mut peer);
    }
    let spool = folder.path().join("state/gpu001/spool.jsonl");
    let kept = || fs::read_to_string(&spool).unwrap_or_default();
    wait_until("both are kept", || kept().contains("): 79") && kept().contains("): 154"));
    agent.kill().unwrap();
    agent.wait().unwrap();
    drop(peer);
    // As if it was killed while it wrote: half a line.
    OpenOptions::new().append(true).open(&spool).unwrap().write_all(b"{\"signals\":[{").unwrap();
    let mut agent = start(&controller, folder.path());
    let (mut peer, _) = controller.welcome(1);
    let (batch, codes) = signals(&mut peer);
    assert_eq!(codes, [79, 154]);
    peer.send(Ack { batch });
    wait_until("the spool is empty", || kept().is_empty());
    agent.kill().unwrap();
    agent.wait().unwrap();
}

fn ask(question: &str, folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(PROGRAM);
    command.arg(question).arg("--state-dir").arg(folder).args(words).env("SLURMD_NODENAME", "gpu001");
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_prolog_says_what_the_controller_said_last_and_doubt_means_yes() {
    let (controller, folder) = (Controller::new(), Folder::new());
    let state = folder.path().join("state");
    let unsure = |(code, text): (Option<i32>, String)| code == Some(0) && text.starts_with("yes (");
    assert!(unsure(ask("prolog", &state, &[])));
    let mut agent = start(&controller, folder.path());
    controller.enrol("token", NEVER);
    let (mut peer, _) = controller.welcome(1);
    assert!(unsure(ask("prolog", &state, &[])));
    let why = "provost INC-2026-000001: GPU 0 lost";
    peer.send(Standing { may_work: false, why: why.into() });
    let no = format!("no: {why}\n");
    wait_until("no", || ask("prolog", &state, &[]) == (Some(1), no.clone()));
    assert_eq!(ask("epilog", &state, &[]), (Some(0), no.clone()));
    // Another node, and words that are none.
    assert!(unsure(ask("prolog", &state, &["--node", "gpu002"])));
    assert!(unsure(ask("prolog", &state, &["--nod", "gpu001"])));
    assert!(unsure(ask("epilog", &state, &["gpu001"])));
    assert_eq!(ask("prolog", &state, &["--node", "gpu001"]), (Some(1), no.clone()));
    // Nobody has to be there for the answer.
    agent.kill().unwrap();
    agent.wait().unwrap();
    drop(peer);
    assert_eq!(ask("prolog", &state, &[]), (Some(1), no));
    let mut agent = start(&controller, folder.path());
    let (mut peer, _) = controller.welcome(1);
    peer.send(Standing { may_work: true, why: String::new() });
    wait_until("yes", || ask("prolog", &state, &[]) == (Some(0), "yes\n".into()));
    agent.kill().unwrap();
    agent.wait().unwrap();
}
