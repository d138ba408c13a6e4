//! A whole agent against a controller that is played by hand over real TLS.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Instant;

use provost_agent::{AgentError, Config, Shutdown};
use provost_model::body::SourceState;
use provost_model::effect::{Approach, EffectResult};
use provost_model::signal::{Signal, Trust};
use provost_model::time::Timestamp;
use provost_wire::{Ack, Order, OrderResult, Refused, ToServer};
use support::{Controller, DEADLINE, Folder, Peer};

const XID: &str = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.";
const NEVER: Timestamp = Timestamp::from_millis(4_000_000_000_000);

/// One node's place: its files, and its agent while that runs.
struct Site {
    controller: Controller,
    folder: Folder,
    agent: Option<(Shutdown, JoinHandle<Result<(), AgentError>>)>,
}

impl Site {
    fn new() -> Site {
        let (controller, folder) = (Controller::new(), Folder::new());
        fs::write(folder.path().join("ca.pem"), controller.authority.ca_pem()).unwrap();
        fs::write(folder.path().join("token"), "a-token\n").unwrap();
        fs::write(folder.path().join("log"), "").unwrap();
        Site { controller, folder, agent: None }
    }

    /// A site whose agent has enrolled and is connected in epoch 5.
    fn connected() -> (Site, Peer) {
        let mut site = Site::new();
        site.start();
        site.controller.enrol("a-token", NEVER);
        let peer = site.controller.welcome(5).0;
        (site, peer)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&mut self) {
        let text = format!(
            r#"
server = "https://127.0.0.1:{}"
ca_file = "ca.pem"
enrol_token_file = "token"
state_dir = "state"
[[node]]
name = "gpu001"
kernel_log = "log"
kernel_log_format = "text"
[[action]]
name = "mark"
argv = ["sh", "-c", "echo {{node}} {{gpu.pci}} >> {}"]
"#,
            self.controller.port(),
            self.path("ran").display()
        );
        let config = Config::parse(&text, self.folder.path()).unwrap();
        let shutdown = Shutdown::new().unwrap();
        let end = shutdown.clone();
        self.agent = Some((shutdown, std::thread::spawn(move || provost_agent::run(&config, &end))));
    }

    fn stop(&mut self) {
        let (shutdown, thread) = self.agent.take().unwrap();
        let told = Instant::now();
        shutdown.trigger();
        thread.join().unwrap().unwrap();
        assert!(told.elapsed().as_secs_f64() < 1.0, "{:?}", told.elapsed());
    }

    fn append(&self, text: &str) {
        OpenOptions::new().append(true).open(self.path("log")).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn ran(&self) -> String {
        fs::read_to_string(self.path("ran")).unwrap_or_default()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some((shutdown, _)) = &self.agent {
            shutdown.trigger();
        }
    }
}

fn signals(peer: &mut Peer) -> (u64, Vec<Signal>) {
    peer.wait_for(|message| match message {
        ToServer::Signals(batch) => Some((batch.batch, batch.signals)),
        _ => None,
    })
}

fn result(peer: &mut Peer) -> OrderResult {
    peer.wait_for(|message| if let ToServer::OrderResult(result) = message { Some(result) } else { None })
}

/// Waits until nothing is unacknowledged.
fn drained(peer: &mut Peer) {
    peer.wait_for(|message| match message {
        ToServer::Heartbeat(heartbeat) => (heartbeat.queued == 0).then_some(()),
        _ => None,
    });
}

fn order(intent: u64) -> Order {
    Order {
        intent,
        epoch: 5,
        approach: Approach::Act,
        action: "mark".into(),
        node: "gpu001".into(),
        pci: Some("0000:3b:00.0".parse().unwrap()),
        expires_at: NEVER,
    }
}

#[test]
fn from_a_token_to_an_order_that_is_done() {
    let mut site = Site::new();
    site.append(&format!("{XID}\n"));
    site.start();
    site.controller.enrol("a-token", NEVER);
    let (mut peer, hello) = site.controller.welcome(5);
    assert_eq!((hello.node.as_str(), hello.gpus), ("gpu001", None));
    assert_eq!(hello.actions.into_iter().collect::<Vec<_>>(), ["mark"]);
    assert!(hello.boot_id.is_some());
    let (batch, found) = signals(&mut peer);
    assert_eq!((found.len(), found[0].historic, found[0].trust), (1, true, Trust::Text));
    peer.send(Ack { batch });
    drained(&mut peer);

    site.append(&format!("[ 12.000000] {XID}\n"));
    let (next, found) = signals(&mut peer);
    assert_eq!(
        (next, found[0].code, found[0].historic, found[0].line.as_str()),
        (batch + 1, Some(79), false, XID)
    );
    peer.send(Ack { batch: next });

    peer.send(order(71));
    let done = result(&mut peer);
    assert_eq!((done.intent, done.epoch, done.facts.exit_code), (71, 5, Some(0)));
    assert!(matches!(done.result, EffectResult::Done { .. }));
    assert_eq!(site.ran(), "gpu001 0000:3b:00.0\n");

    // Again after a restart, which needs no token and replays nothing.
    drained(&mut peer);
    site.stop();
    assert_eq!(peer.read().map(|_| ()), None);
    fs::remove_file(site.path("token")).unwrap();
    site.append("usb 1-1: new device\n");
    site.append(&format!("{XID}\n"));
    site.start();
    let (mut peer, again) = site.controller.welcome(5);
    assert_ne!(again.instance, hello.instance);
    assert_eq!(signals(&mut peer).1.len(), 1);
    peer.send(order(71));
    assert_eq!(result(&mut peer), done);
    assert_eq!(site.ran(), "gpu001 0000:3b:00.0\n");
    site.stop();
}

#[test]
fn what_was_not_acknowledged_comes_again() {
    let (mut site, mut peer) = Site::connected();
    drained(&mut peer);
    site.append(&format!("{XID}\n"));
    let first = signals(&mut peer);
    drop(peer);
    // The same batch over the next connection.
    let (mut peer, _) = site.controller.welcome(5);
    assert_eq!(signals(&mut peer), first);
    // And the same lines after a restart.
    site.stop();
    site.start();
    let (mut peer, _) = site.controller.welcome(5);
    let (batch, found) = signals(&mut peer);
    assert_eq!((found.len(), found[0].historic, &found[0].line), (1, false, &first.1[0].line));
    peer.send(Ack { batch });
    drained(&mut peer);
    site.stop();
}

#[test]
fn a_new_controller_and_a_stale_one() {
    let (mut site, mut peer) = Site::connected();
    peer.send(order(1));
    result(&mut peer);
    drop(peer);
    let (mut peer, _) = site.controller.welcome(6);
    // The intent of the controller before: only asked for.
    peer.send(Order { epoch: 6, approach: Approach::Probe, ..order(1) });
    assert!(matches!(result(&mut peer).result, EffectResult::Done { .. }));
    // The controller before is still there.
    peer.send(order(2));
    let refused = EffectResult::NotDone { code: "older_epoch".into(), retry: false };
    assert_eq!(result(&mut peer).result, refused);
    assert_eq!(site.ran().lines().count(), 1);
    site.stop();
}

#[test]
fn a_log_that_is_missing_is_told_and_found() {
    let mut site = Site::new();
    fs::remove_file(site.path("log")).unwrap();
    site.start();
    site.controller.enrol("a-token", NEVER);
    let (mut peer, _) = site.controller.welcome(5);
    let state = |wanted| {
        move |message| match message {
            ToServer::Heartbeat(heartbeat) => (heartbeat.kernel_log == wanted).then_some(()),
            _ => None,
        }
    };
    peer.wait_for(state(SourceState::Blind));
    fs::write(site.path("log"), format!("{XID}\n")).unwrap();
    let (_, found) = signals(&mut peer);
    assert_eq!((found[0].code, found[0].historic), (Some(79), false));
    peer.wait_for(state(SourceState::Fresh));
    site.stop();
}

#[test]
fn hostile_lines_are_counted_and_the_next_one_is_read() {
    let (mut site, mut peer) = Site::connected();
    drained(&mut peer);
    let mut text = vec![b'x'; 10 << 20];
    text.extend_from_slice(b"\nNVRM: Xid (PCI:0000:3b:00): 18446744073709551616, x\n");
    text.extend_from_slice(b"\xff\xfe\0\nNVRM: Xid (PCI:\xff0000:3b:00): 79\n");
    text.extend_from_slice(b"May 15 08:57:36 host python[1]: NVRM: Xid (PCI:0000:3b:00): 79, x\n");
    let mut file = OpenOptions::new().append(true).open(site.path("log")).unwrap();
    file.write_all(&text).unwrap();
    site.append(&format!("{XID}\n"));
    let (mut found, mut unparsed) = (Vec::new(), 0);
    while found.is_empty() || unparsed < 3 {
        match peer.read().expect("the agent has gone") {
            ToServer::Signals(batch) => found.extend(batch.signals),
            ToServer::Unparsed(report) => unparsed += report.count,
            _ => {}
        }
    }
    assert_eq!((found.len(), found[0].line.as_str(), unparsed), (1, XID, 3));
    site.stop();
}

#[test]
fn a_server_that_talks_nonsense_is_left_and_tried_again() {
    let (mut site, mut peer) = Site::connected();
    for nonsense in [&b"\xff\xff\xff\xff"[..], b"\0\0\0\0", b"\0\0\0\x03\x82{}", &[0x82; 100_000]] {
        peer.send_bytes(nonsense);
        drop(peer);
        peer = site.controller.welcome(5).0;
    }
    // Bytes that are no TLS, before any handshake.
    drop(peer);
    let mut socket = site.controller.accept_socket();
    socket.write_all(&[b'x'; 4_096]).unwrap();
    drop(socket);
    let (mut peer, _) = site.controller.welcome(5);
    // A kind of the next version is no nonsense.
    peer.send_bytes(b"\0\0\0\x03\xf0{}");
    drained(&mut peer);
    site.stop();
}

#[test]
fn a_refusal_is_tried_again() {
    let mut site = Site::new();
    site.start();
    let mut peer = site.controller.accept();
    assert!(matches!(peer.read(), Some(ToServer::EnrolRequest(_))));
    peer.send(Refused { code: "token_invalid".into(), message: "make a new one".into() });
    fs::write(site.path("token"), "another").unwrap();
    site.controller.enrol("another", NEVER);
    site.controller.welcome(5);
    site.stop();
}

#[test]
fn a_certificate_is_renewed_in_time() {
    let mut site = Site::new();
    site.start();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    // Two thirds of five seconds are over before the deadline, and the whole is not.
    site.controller.enrol("a-token", Timestamp::from_millis(i64::try_from(now).unwrap() + 5_000));
    let (mut peer, _) = site.controller.welcome(5);
    let request = peer
        .wait_for(|message| if let ToServer::RenewRequest(request) = message { Some(request) } else { None });
    peer.send(site.controller.authority.reply(&request.csr_pem, NEVER));
    let (mut peer, _) = site.controller.welcome(5);
    drained(&mut peer);
    site.stop();
    let identity = fs::read_to_string(site.path("state/gpu001/identity.json")).unwrap();
    assert!(identity.contains(&NEVER.to_string()));
}

#[test]
fn what_an_agent_can_not_start_without() {
    let site = Site::new();
    let run = |text: &str| {
        let config = Config::parse(text, site.folder.path()).unwrap();
        provost_agent::run(&config, &Shutdown::new().unwrap()).unwrap_err()
    };
    let server = "server = \"https://127.0.0.1:1\"\nstate_dir = \"state\"\n";
    assert!(matches!(run(&format!("{server}ca_file = \"absent\"")), AgentError::CaFile { .. }));
    assert!(matches!(run(&format!("{server}ca_file = \"token\"")), AgentError::Ca { .. }));
    let in_file = server.replace("\"state\"", "\"log\"");
    assert!(matches!(run(&format!("{in_file}ca_file = \"ca.pem\"")), AgentError::Store(_)));
}

#[test]
fn it_ends_at_once_where_nobody_answers() {
    let mut site = Site::new();
    site.start();
    // The connection is made, and then nothing.
    let socket = site.controller.accept_socket();
    assert!(DEADLINE.as_secs() > 10);
    site.stop();
    drop(socket);
}
