//! Agents on the cluster's nodes, configured by the project's own example, and the kernel logs that they read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::cable::Cable;
use crate::daemon::{Daemon, Paused};
use crate::programs::{program, project_root};
use crate::site::{EXAMPLE_DIR, NODE, Site, example, more};
use crate::wait::wait_until;

/// A GPU of every node is lost.
pub const XID_79: &str =
    "NVRM: Xid (PCI:0000:3b:00.0): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";
/// A program's fault on a GPU of every node.
pub const XID_31: &str = "NVRM: Xid (PCI:0000:3b:00.0): 31, pid=4711, name=python3, Ch 00000008, intr 00000000. MMU Fault: \
     ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f12_34567000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ";

/// The work of a program that ended was taken off a GPU; the number of a channel follows.
pub const XID_45: &str = "NVRM: Xid (PCI:0000:3b:00.0): 45, pid=4711, name=python3, Ch 000000";

/// The configuration of all nodes that share a process.
const SHARED: &str = "agent.toml";

/// The agents of all nodes of the example.
#[derive(Debug)]
pub struct Agents {
    kmsg: PathBuf,
    state: PathBuf,
    /// By the file of their configuration: one for all, and one for each node that has a process of its own.
    processes: BTreeMap<String, Daemon>,
    log: PathBuf,
    dir: PathBuf,
    /// The network namespace in which nodes with a process of their own are.
    cable: Option<String>,
}

impl Agents {
    /// Enrols the agents of all nodes with the site's controller, and waits until all have reported. The nodes of
    /// `own` have a process of their own each, so that one can fall silent; those of `kmsg` read records of the
    /// kernel's device in place of plain lines.
    ///
    /// # Panics
    /// Where they do not report in time.
    #[track_caller]
    pub fn enrol(site: &Site, own: &[&str], kmsg: &[&str]) -> Agents {
        Agents::enrol_behind(site, own, kmsg, None)
    }

    /// The same, with a cable between the controller and the nodes of `own`.
    ///
    /// # Panics
    /// Where they do not report in time.
    #[track_caller]
    pub fn enrol_behind(site: &Site, own: &[&str], kmsg: &[&str], cable: Option<&Cable>) -> Agents {
        let testbed = site.testbed_dir();
        let (dir, folder) = (site.dir().to_owned(), testbed.join("kmsg"));
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(&folder).expect("a folder for the kernel logs");
        for node in names(site.nodes()) {
            File::create(folder.join(format!("{node}.log"))).expect("an empty kernel log");
        }
        install_actions(testbed);
        let (nodes, uses) =
            (format!("gpu[001-{:03}],spare[01-02]", site.nodes()), (site.nodes() + 2).to_string());
        let args = ["agent", "token", "create", "--nodes", &nodes, "--uses", &uses];
        fs::write(dir.join("token"), site.provost(&args).ok().out).expect("the token can be written");

        let mut agents = Agents {
            kmsg: folder,
            state: dir.join("agent"),
            processes: BTreeMap::new(),
            log: dir.join("agent.log"),
            dir,
            cable: cable.map(|cable| cable.namespace().to_owned()),
        };
        for (name, text) in configurations(site, own, kmsg) {
            fs::write(agents.dir.join(&name), text).expect("the configuration can be written");
            agents.start(&name);
        }
        agents.wait_reported(site);
        agents
    }

    #[track_caller]
    fn start(&mut self, name: &str) {
        let (file, agent) = (self.dir.join(name), program("provost-agent"));
        let args = ["--config", file.to_str().expect("a path of text")];
        let daemon = match self.cable.as_deref().filter(|_| name != SHARED) {
            None => Daemon::start("provost-agent", &agent, &args, &self.log),
            Some(namespace) => {
                let inside = ["netns", "exec", namespace, agent.to_str().expect("a path of text")];
                Daemon::start("provost-agent", Path::new("ip"), &[&inside[..], &args].concat(), &self.log)
            }
        };
        self.processes.insert(name.to_owned(), daemon);
    }

    #[track_caller]
    fn wait_reported(&mut self, site: &Site) {
        wait_until("every agent has reported", Duration::from_secs(20), || {
            for daemon in self.processes.values_mut() {
                assert!(daemon.ended().is_none(), "an agent does not run:\n{}", daemon.output());
            }
            let nodes = site.items(&["node", "list"]);
            let silent: Vec<&str> = nodes
                .iter()
                .filter(|node| node["health"] == "unknown")
                .filter_map(|node| node["name"].as_str())
                .collect();
            if nodes.len() == usize::from(site.nodes()) + 2 && silent.is_empty() {
                Ok(())
            } else {
                Err(format!("{} nodes, silent: {silent:?}", nodes.len()))
            }
        });
    }

    /// What Slurm's prolog would be told on a node, and how it would end.
    ///
    /// # Panics
    /// Where the program can't be run.
    pub fn prolog(&self, node: &str) -> (Option<i32>, String) {
        let mut prolog = Command::new(program("provost-agent"));
        prolog.arg("prolog").arg("--state-dir").arg(&self.state).args(["--node", node]);
        let output = prolog.output().expect("the agent's program runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Lets the kernel of a node write lines, all at once.
    ///
    /// # Panics
    /// Where the file can't be written.
    pub fn kernel_burst(&self, node: &str, lines: impl Iterator<Item = String>) {
        self.kernel(node, &lines.collect::<Vec<_>>().join("\n"));
    }

    /// Lets the kernel of a node write a line.
    ///
    /// # Panics
    /// Where the file can't be written.
    pub fn kernel(&self, node: &str, line: &str) {
        let path = self.kmsg.join(format!("{node}.log"));
        let file = File::options().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Ends the process of a node that has its own, as a crash would.
    ///
    /// # Panics
    /// Where it has none.
    #[track_caller]
    pub fn kill9(&mut self, node: &str) {
        self.processes.remove(&file_of(node)).expect("the node has a process of its own").kill9();
    }

    /// The process of a node that has its own stands still for as long as the guard lives.
    ///
    /// # Panics
    /// Where it has none.
    #[track_caller]
    #[must_use]
    pub fn paused(&self, node: &str) -> Paused<'_> {
        self.processes.get(&file_of(node)).expect("the node has a process of its own").paused()
    }

    /// Starts it again.
    #[track_caller]
    pub fn revive(&mut self, node: &str) {
        self.start(&file_of(node));
    }

    /// Sequences of the intents that the agents have started, of all nodes, in the order of their logs.
    ///
    /// # Panics
    /// Where a log can't be read.
    pub fn orders_started(&self) -> Vec<u64> {
        let mut started = Vec::new();
        for folder in fs::read_dir(&self.state).expect("the agents have a state").flatten() {
            let log = folder.path().join("orders.log");
            let text = fs::read_to_string(&log).unwrap_or_default();
            for line in text.lines() {
                let entry: Value = serde_json::from_str(line).unwrap_or_default();
                if entry["entry"] == "started" {
                    started.push(entry["intent"].as_u64().expect("an intent has a sequence"));
                }
            }
        }
        started
    }
}

/// The nodes of the example.
fn names(nodes: u16) -> impl Iterator<Item = String> {
    let spares = (1..=2).map(|n| format!("spare{n:02}"));
    (1..=nodes).map(|n| format!("gpu{n:03}")).chain(spares)
}

fn file_of(node: &str) -> String {
    format!("agent-{node}.toml")
}

/// The example's configuration: for all nodes that share a process, and for each that has its own.
fn configurations(site: &Site, own: &[&str], kmsg: &[&str]) -> BTreeMap<String, String> {
    let path = |name: &str| format!("{EXAMPLE_DIR}/{name}");
    let of_site = |name: &str| site.dir().join(name).display().to_string();
    let text = more(&example("agent.toml"), site.nodes())
        .replace(&path("provost/ca.pem"), &site.data().join("ca.pem").display().to_string())
        .replace(&path("token"), &of_site("token"))
        .replace(&path("agent"), &of_site("agent"))
        .replace(EXAMPLE_DIR, &site.testbed_dir().display().to_string())
        .replace("127.0.0.1:8443", site.address());
    let (head, rest) = text.split_once(NODE).expect("the example has nodes");
    let (nodes, actions) = rest.split_once("# All").expect("the example has actions");
    let mut shared = head.to_owned();
    let mut all = BTreeMap::new();
    for node in nodes.split(NODE) {
        let named = |names: &[&str]| names.iter().any(|name| node.contains(&format!("name = \"{name}\"")));
        let format = if named(kmsg) { "\"kmsg\"" } else { "\"text\"" };
        let section = format!("{NODE}{}", node.replace("\"text\"", format));
        match own.iter().find(|name| named(&[name])) {
            Some(name) => drop(all.insert(file_of(name), format!("{head}{section}# All{actions}"))),
            None => shared += &section,
        }
    }
    all.insert(SHARED.to_owned(), format!("{shared}# All{actions}"));
    all
}

/// The example's actions, where the example says that they are.
fn install_actions(testbed: &Path) {
    let to = testbed.join("actions");
    fs::create_dir_all(&to).expect("a folder for the actions");
    let from = project_root().join("examples/testbed/actions");
    for action in fs::read_dir(&from).expect("the example has actions").flatten() {
        let path = to.join(action.file_name());
        fs::copy(action.path(), &path).expect("an action can be copied");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("an action can be run");
    }
    fs::create_dir_all(testbed.join("fail")).expect("a folder for what is to fail");
}
