//! The program as the service manager sees it.

mod support;

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use provost_model::time::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use support::{Controller, Folder};

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
