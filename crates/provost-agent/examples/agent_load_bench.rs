//! What an agent costs on a healthy node: memory, and processor time at 1,000 benign kernel lines a second; and
//! how long a kernel line takes to the controller's socket.
//!
//! The agent is the release program in a process of its own, so nothing of this one is measured. Its controller
//! is played here, over real TLS. `cargo run --release -p provost-agent --example agent_load_bench`; the program
//! is looked for in `PROVOST_BIN_DIR`, else beside the folder of this one.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a measurement may fail")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use provost_model::time::Timestamp;
use provost_wire::{Ack, ToServer};
use support::{Controller, Folder, Peer};

const LOAD: Duration = Duration::from_secs(20);
const PER_SECOND: u32 = 1_000;
const SAMPLES: usize = 200;
const XID: &str =
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=1234, name=python3, Ch 00000008, intr 00000000. MMU Fault";

/// Lines of a healthy node; some begin like those that matter.
const BENIGN: [&str; 6] = [
    "[ 1234.567890] usb 1-1: new high-speed USB device number 4 using xhci_hcd",
    "[ 1234.567890] nvidia-nvlink: Nvlink Core is being initialized, major device number 509",
    "[ 1234.567890] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.10  Thu Jan  1 00:00:00 UTC 2026",
    "[ 1234.567890] audit: type=1400 audit(1790000000.123:45): apparmor=\"STATUS\" operation=\"profile_load\"",
    "[ 1234.567890] docker0: port 1(veth12ab34c) entered forwarding state",
    "[ 1234.567890] IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
];

fn main() {
    let (controller, folder) = (Controller::new(), Folder::new());
    let mut log = prepare(&controller, folder.path());
    let agent = Agent::start(folder.path());
    controller.enrol("token", Timestamp::from_millis(4_000_000_000_000));
    let (mut peer, _) = controller.welcome_with(1, 1_000);
    let quiet = latencies(&mut log, &mut peer);
    let (started, cpu) = (Instant::now(), agent.cpu());
    feed(&mut log);
    let share = (agent.cpu() - cpu).as_secs_f64() / started.elapsed().as_secs_f64() * 100.0;
    println!("bench: agent_rss_kib={} agent_cpu_percent={share:.2}", agent.rss_kib());
    println!("bench: line_to_controller_p50_us={} p99_us={}", at(&quiet, 50), at(&quiet, 99));
}

fn prepare(controller: &Controller, folder: &Path) -> File {
    fs::write(folder.join("ca.pem"), controller.authority.ca_pem()).unwrap();
    fs::write(folder.join("token"), "token").unwrap();
    let text = format!(
        "server = \"https://127.0.0.1:{}\"\nca_file = \"ca.pem\"\nenrol_token_file = \"token\"\n\
         state_dir = \"state\"\n[[node]]\nname = \"gpu001\"\nkernel_log = \"log\"\nkernel_log_format = \"text\"\n",
        controller.port()
    );
    fs::write(folder.join("agent.toml"), text).unwrap();
    OpenOptions::new().append(true).create(true).open(folder.join("log")).unwrap()
}

/// Time from before a line is written to when its signal is read here, each alone, sorted.
fn latencies(log: &mut File, peer: &mut Peer) -> Vec<Duration> {
    let mut all = Vec::new();
    for _ in 0..SAMPLES {
        let written = Instant::now();
        writeln!(log, "{XID}").unwrap();
        let batch = peer.wait_for(|message| match message {
            ToServer::Signals(batch) => Some(batch.batch),
            _ => None,
        });
        all.push(written.elapsed());
        peer.send(Ack { batch });
        std::thread::sleep(Duration::from_millis(20));
    }
    all.sort();
    all
}

fn at(sorted: &[Duration], percent: usize) -> u128 {
    sorted[(sorted.len() - 1) * percent / 100].as_micros()
}

/// One line at a time, evenly: that costs the reader the most.
fn feed(log: &mut File) {
    let started = Instant::now();
    for count in 0.. {
        let due = started + Duration::from_secs(1) / PER_SECOND * count;
        if due - started >= LOAD {
            return;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        writeln!(log, "{}", BENIGN[count as usize % BENIGN.len()]).unwrap();
    }
}

struct Agent(Child);

impl Agent {
    fn start(folder: &Path) -> Agent {
        let beside = || std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
        let program =
            std::env::var_os("PROVOST_BIN_DIR").map_or_else(beside, PathBuf::from).join("provost-agent");
        let mut command = Command::new(&program);
        command.arg("--config").arg(folder.join("agent.toml")).stderr(Stdio::null());
        let child = command.spawn();
        Agent(child.unwrap_or_else(|error| panic!("can't start {}: {error}", program.display())))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.0.id())).unwrap()
    }

    fn rss_kib(&self) -> u64 {
        let status = self.read("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Processor time so far, in nanoseconds by the scheduler's own count, of all threads.
    fn cpu(&self) -> Duration {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let nanos = tasks.map(|task| {
            let stat = fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
            stat.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        });
        Duration::from_nanos(nanos.sum())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
