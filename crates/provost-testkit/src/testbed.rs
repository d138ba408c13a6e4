//! A throw-away Slurm cluster of `testbed/slurm` in a temporary directory, with ports of its own.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::programs::project_root;
use crate::wait::wait_until;

/// Ports of one block: three of Slurm, one for each node from the tenth on, and those of the tests.
const BLOCK: u16 = 40;
/// The first port of a block that the cluster does not use.
const SPARE_PORTS: u16 = 30;
/// One cluster at a time: tests measure time. Whoever holds the file's lock may run one.
const LOCK: &str = "/tmp/provost-e2e.lock";
/// Production nodes of `examples/testbed/inventory.toml`.
pub(crate) const EXAMPLE_NODES: u16 = 8;
/// The most that a block has ports for.
const MAX_NODES: u16 = 18;
const SPARES: &str = "spare[01-02]";

/// Slurm with the nodes gpu001…gpu008 and spare01, spare02, eight GPUs each.
#[derive(Debug)]
pub struct Testbed {
    dir: PathBuf,
    port: u16,
    /// Production nodes.
    nodes: u16,
    env: HashMap<String, String>,
    /// Stops the cluster when this process ends, however that is.
    _reaper: Child,
}

/// What Slurm says about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// `MIXED+DRAIN`.
    pub state: String,
    /// The reason alone; empty where there is none.
    pub reason: String,
    /// The comment; empty where there is none.
    pub comment: String,
}

impl NodeState {
    /// New work is kept out.
    pub fn is_drained(&self) -> bool {
        self.state.contains("DRAIN")
    }
}

static SHARED: Mutex<Option<Testbed>> = Mutex::new(None);
static FAILED: AtomicBool = AtomicBool::new(false);

/// The cluster of this test file, while one test has it.
#[derive(Debug)]
pub struct Lease(MutexGuard<'static, Option<Testbed>>);

impl std::ops::Deref for Lease {
    type Target = Testbed;

    fn deref(&self) -> &Testbed {
        self.0.as_ref().expect("it was filled before it was lent")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if std::thread::panicking() && !FAILED.swap(true, Ordering::SeqCst) {
            let dir = self.dir.clone();
            fs::write(dir.join("KEEP"), "").ok();
            eprintln!("everything of this test is kept in {}", dir.display());
        }
    }
}

impl Testbed {
    /// The cluster of this test file: started by the first test that asks, clean for each.
    ///
    /// # Panics
    /// Where Slurm can't be installed or started.
    pub fn lease() -> Lease {
        Testbed::lease_of(EXAMPLE_NODES)
    }

    /// As [`Testbed::lease`], with so many production nodes; the same for all tests of a file.
    ///
    /// # Panics
    /// Where Slurm can't be installed or started.
    pub fn lease_of(nodes: u16) -> Lease {
        assert!((EXAMPLE_NODES..=MAX_NODES).contains(&nodes), "8 to {MAX_NODES} nodes");
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        match &*shared {
            Some(testbed) => testbed.reset(),
            None => *shared = Some(Testbed::up(nodes)),
        }
        let lease = Lease(shared);
        assert_eq!(lease.nodes, nodes, "one cluster a test file");
        lease
    }

    fn up(nodes: u16) -> Testbed {
        let dir = PathBuf::from(format!("/tmp/pvt{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a temporary directory");
        // The user slurm must get through.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("a temporary directory");
        let reaper = start_reaper(&dir);
        install();
        let port = free_block();
        let printed = script(&dir, port, nodes, &["up"]);
        let exports = printed.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
        let env = exports.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Testbed { dir, port, nodes, env, _reaper: reaper }
    }

    /// Everything of the cluster and of the tests is below it.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Number of production nodes: gpu001 and so on.
    pub fn nodes(&self) -> u16 {
        self.nodes
    }

    /// Folder of Slurm's tools where the cluster brings its own: those of another release than the machine's.
    pub(crate) fn tools(&self) -> Option<PathBuf> {
        Some(self.dir.join("bin")).filter(|dir| dir.is_dir())
    }

    /// A port that the cluster leaves to the tests.
    ///
    /// # Panics
    /// Where the block has no such port.
    pub fn port(&self, index: u16) -> u16 {
        assert!(index < BLOCK - SPARE_PORTS, "a block leaves {} ports", BLOCK - SPARE_PORTS);
        self.port + SPARE_PORTS + index
    }

    /// Runs one of Slurm's tools as root, as an operator would; it must succeed.
    ///
    /// # Panics
    /// Where it fails.
    #[track_caller]
    pub fn slurm(&self, tool: &str, args: &[&str]) -> String {
        succeed(self.try_slurm(tool, args), &format!("{tool} {args:?}"))
    }

    /// Runs one of Slurm's tools as root.
    ///
    /// # Panics
    /// Where there is no such tool.
    pub fn try_slurm(&self, tool: &str, args: &[&str]) -> Output {
        let mut command =
            Command::new(self.tools().map_or_else(|| PathBuf::from(tool), |dir| dir.join(tool)));
        command.args(args).env("SLURM_CONF", &self.env["SLURM_CONF"]).env("TZ", "UTC").stdin(Stdio::null());
        command.output().expect("Slurm's tools are installed")
    }

    /// A node's state; none where slurmctld does not answer.
    pub fn try_node(&self, node: &str) -> Option<NodeState> {
        let output = self.try_slurm("scontrol", &["show", "node", node]);
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
            line.unwrap_or_default().to_owned()
        };
        let state = field("State=").split_whitespace().next()?.to_owned();
        let reason = field("Reason=");
        let reason = reason.rsplit_once(" [").map_or(reason.as_str(), |(reason, _)| reason).to_owned();
        Some(NodeState { state, reason, comment: field("Comment=") })
    }

    /// A node's state.
    ///
    /// # Panics
    /// Where slurmctld does not answer.
    #[track_caller]
    pub fn node(&self, node: &str) -> NodeState {
        self.try_node(node).unwrap_or_else(|| panic!("slurmctld does not answer about {node}"))
    }

    /// Waits until a node is as `wanted` says.
    ///
    /// # Panics
    /// Where it is not after `limit`.
    #[track_caller]
    pub fn wait_node(
        &self,
        node: &str,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&NodeState) -> bool,
    ) -> NodeState {
        wait_until(&format!("{node} {what}"), limit, || {
            let seen = self.node(node);
            if wanted(&seen) { Ok(seen) } else { Err(format!("{seen:?}")) }
        })
    }

    /// Drains a node as an operator does.
    pub fn drain(&self, node: &str, reason: &str) {
        let (node, reason) = (format!("NodeName={node}"), format!("Reason={reason}"));
        self.slurm("scontrol", &["update", &node, "State=DRAIN", &reason]);
    }

    /// Takes any drain away, as an operator does.
    pub fn undrain(&self, node: &str) {
        self.slurm("scontrol", &["update", &format!("NodeName={node}"), "State=UNDRAIN"]);
    }

    /// Names of a partition's nodes.
    ///
    /// # Panics
    /// Where slurmctld does not answer.
    #[track_caller]
    pub fn partition(&self, partition: &str) -> Vec<String> {
        let printed = self.slurm("sinfo", &["-h", "-N", "-p", partition, "-o", "%N"]);
        let mut nodes: Vec<String> = printed.lines().map(|line| line.trim().to_owned()).collect();
        nodes.dedup();
        nodes
    }

    /// Stops slurmctld, and waits until it has saved its state and is gone.
    ///
    /// # Panics
    /// Where it does not run, or does not end.
    pub fn stop_controller(&self) {
        let pid = fs::read_to_string(self.dir.join("run/slurmctld.pid")).expect("slurmctld runs");
        let pid = pid.trim();
        succeed(Command::new("kill").args(["-TERM", pid]).output().expect("kill"), "kill slurmctld");
        wait_until("the end of slurmctld", Duration::from_secs(20), || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = stat.rsplit(')').next().unwrap_or_default().trim();
            if state.is_empty() || state.starts_with('Z') { Ok(()) } else { Err(state.to_owned()) }
        });
    }

    /// Starts again what does not run.
    pub fn repair(&self) {
        script(&self.dir, self.port, self.nodes, &["up"]);
    }

    /// Ends a node's slurmd as a crash would; its jobs go on.
    pub fn kill_node(&self, node: &str) {
        script(&self.dir, self.port, self.nodes, &["kill-node", node]);
    }

    /// Starts a node's slurmd again.
    pub fn start_node(&self, node: &str) {
        script(&self.dir, self.port, self.nodes, &["start-node", node]);
    }

    /// As it was at the start: no job, no drain, no comment, partitions as configured.
    fn reset(&self) {
        self.slurm("scancel", &["--full", "-u", "root"]);
        let nodes = format!("gpu[001-{:03}]", self.nodes);
        for partition in ["serving", "interactive", "batch", "scavenger"] {
            let args = [format!("PartitionName={partition}"), format!("Nodes={nodes}")];
            self.slurm("scontrol", &["update", &args[0], &args[1]]);
        }
        self.slurm("scontrol", &["update", "PartitionName=spare", &format!("Nodes={SPARES}")]);
        let all = format!("NodeName={nodes},{SPARES}");
        self.slurm("scontrol", &["update", &all, "State=UNDRAIN"]);
        self.slurm("scontrol", &["update", &all, "Comment="]);
        wait_until("an idle cluster", Duration::from_secs(30), || {
            let printed = self.slurm("sinfo", &["-h", "-N", "-o", "%N %T"]);
            let busy: Vec<&str> = printed.lines().filter(|line| !line.trim().ends_with(" idle")).collect();
            if busy.is_empty() { Ok(()) } else { Err(busy.join(", ")) }
        });
        for folder in ["fail", "kmsg"] {
            fs::remove_dir_all(self.dir.join(folder)).ok();
        }
        fs::remove_file(self.dir.join("resets")).ok();
    }

    /// Nodes with drain events in accounting, and everything that Slurm shows of each node: what nobody must
    /// change in observe mode. What changes by itself (load, memory, times of day) is left out.
    pub fn fingerprint(&self) -> String {
        let shown = self.slurm("scontrol", &["show", "node"]);
        let by_itself = ["CPULoad=", "FreeMem=", "SlurmdStartTime=", "LastBusyTime=", "BootTime="];
        let kept = shown.lines().map(|line| {
            let words = line.split_whitespace();
            let kept = words.filter(|word| !by_itself.iter().any(|start| word.starts_with(start)));
            kept.collect::<Vec<_>>().join(" ") + "\n"
        });
        let nodes: String = kept.collect();
        nodes + &self.slurm("sacctmgr", &["-n", "-P", "show", "event", "start=now-1days"])
    }
}

/// Installs Slurm once; a second caller waits for the first.
fn install() {
    let script = project_root().join("testbed/slurm");
    let output = Command::new("flock").arg("/tmp/provost-install.lock").arg(script).arg("install").output();
    succeed(output.expect("flock"), "testbed/slurm install (as root?)");
}

fn script(dir: &Path, port: u16, nodes: u16, args: &[&str]) -> String {
    let output = Command::new(project_root().join("testbed/slurm"))
        .args(args)
        .env("SLURM_TESTBED_DIR", dir)
        .env("SLURM_TESTBED_PORT", port.to_string())
        .env("SLURM_TESTBED_NODES", nodes.to_string())
        .output();
    succeed(output.expect("testbed/slurm can be run"), &format!("testbed/slurm {args:?}"))
}

/// A process of its own that waits for the end of this one, sees it by the end of a pipe, and stops the cluster.
/// It holds the lock until then, so the next cluster starts on a quiet machine.
fn start_reaper(dir: &Path) -> Child {
    let wait = "echo locked; cat >/dev/null; [ -e \"$1/KEEP\" ] || export SLURM_TESTBED_WIPE=1
        SLURM_TESTBED_DIR=$1 \"$2\" down >/dev/null 2>&1; umount -l \"$1\"/*/data 2>/dev/null; [ -e \"$1/KEEP\" ] || rm -rf \"$1\"";
    let mut reaper = Command::new("setsid")
        .args(["flock", LOCK, "sh", "-c", wait, "reaper"])
        .arg(dir)
        .arg(project_root().join("testbed/slurm"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the reaper can be started");
    let mut line = String::new();
    let out = reaper.stdout.take().expect("its output is a pipe");
    BufReader::new(out).read_line(&mut line).expect("the reaper gets the lock");
    reaper
}

/// The first port of a block whose ports are all free.
fn free_block() -> u16 {
    let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = 20_000 + u16::try_from(std::process::id() % 250).unwrap_or(0) * BLOCK;
    let blocks = (first..32_000 - BLOCK).step_by(usize::from(BLOCK));
    blocks.into_iter().find(|port| (*port..port + BLOCK).all(free)).expect("a free block of ports")
}

#[track_caller]
fn succeed(output: Output, what: &str) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} failed: {said}");
    String::from_utf8(output.stdout).expect("the tools write text")
}
