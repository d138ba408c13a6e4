//! From a kernel line to what a person sees: the incident on the event stream, and the node drained in a real Slurm
//! and read back.
//!
//! Each round is a fresh site beside the cluster; one node after the other loses a GPU, the next once the one before is
//! drained. The clock starts just before the line is written and stops when the event has come through the API, its
//! TLS and the command line.
//!
//! `line_bench [ROUNDS]`; eight samples a round.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use provost_testkit::{Agents, Site, Testbed, XID_79, program};
use serde_json::Value;

const NODES: usize = 8;
/// For one event.
const LIMIT: Duration = Duration::from_secs(20);

fn main() {
    let rounds = std::env::args().nth(1).map_or(5, |text| text.parse().expect("a number of rounds"));
    let (mut seen, mut drained) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        round(&mut seen, &mut drained);
    }
    tell("incident on the event stream", &mut seen, 50);
    tell("drained in Slurm and read back", &mut drained, 1_000);
}

fn round(seen: &mut Vec<Duration>, drained: &mut Vec<Duration>) {
    let testbed = Testbed::lease();
    // All eight nodes may be out at once: what is measured is the way, not the brake.
    let site = Site::of_example(&testbed)
        .with("max_unavailable = 6", "max_unavailable = 20")
        .with("isolations_per_window = 6", "isolations_per_window = 20")
        .started();
    let events = Events::follow(&site);
    let agents = Agents::enrol(&site, &[], &[]);
    for n in 1..=NODES {
        let node = format!("gpu{n:03}");
        let written = Instant::now();
        agents.kernel(&node, XID_79);
        seen.push(events.wait(&format!("an incident of {node}"), written, |event| {
            event["type"] == "incident.opened" && event["data"]["subject"]["node"] == *node
        }));
        drained.push(events.wait(&format!("{node} drained"), written, |event| {
            let effect = &event["data"]["effect"];
            event["type"] == "effect.completed"
                && (&effect["do"], &effect["node"]) == (&"scheduler_hold".into(), &node.as_str().into())
                && event["data"]["result"]["result"] == "done"
        }));
        assert!(testbed.node(&node).is_drained(), "Slurm itself says so: {node}");
    }
}

/// The event stream, each line with the time at which it came.
struct Events {
    child: Child,
    lines: Receiver<(Instant, Value)>,
}

impl Events {
    fn follow(site: &Site) -> Events {
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(program("provost"))
            .args(["events", "--after", "-1", "-o", "jsonl", "--data"])
            .arg(site.data())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command line can be started");
        let out = child.stdout.take().expect("it was asked for");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let at = Instant::now();
                let event = serde_json::from_str(&line).expect("an event is JSON");
                if sender.send((at, event)).is_err() {
                    return;
                }
            }
        });
        let events = Events { child, lines };
        events
            .wait("the stream's first event", Instant::now(), |event| event["type"] == "controller.started");
        events
    }

    /// Time from `since` to the event that was meant.
    fn wait(&self, what: &str, since: Instant, meant: impl Fn(&Value) -> bool) -> Duration {
        loop {
            let left = LIMIT.saturating_sub(since.elapsed());
            let (at, event) = self.lines.recv_timeout(left).unwrap_or_else(|error| panic!("{what}: {error}"));
            if meant(&event) {
                return at.saturating_duration_since(since);
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // It may have ended with the controller.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn tell(what: &str, all: &mut [Duration], target_ms: u32) {
    all.sort();
    let at = |percent: usize| all[(all.len() * percent).div_ceil(100).max(1) - 1].as_secs_f64() * 1e3;
    println!(
        "bench: kernel_line_to=\"{what}\" p50_ms={:.1} p99_ms={:.1} worst_ms={:.1} samples={} target_ms={target_ms}",
        at(50),
        at(99),
        at(100),
        all.len(),
    );
}
