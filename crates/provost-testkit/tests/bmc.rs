//! A controller that reads the BMC of a node: sushy-emulator pretends the machine, and its power really changes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use provost_testkit::{Answer, Daemon, program, project_root, wait_until};

const MACHINE: &str = "/redfish/v1/Systems/27946b59-9e44-4fa7-8e91-f3527a1ef094";

/// A temporary folder with the configuration of a controller of three nodes: gpu001 has a BMC at `port`, that of gpu002
/// takes connections and never answers, gpu003 has none.
struct Place {
    dir: PathBuf,
    port: u16,
    _hangs: TcpListener,
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

impl Place {
    fn new(test: &str) -> Place {
        let dir = std::env::temp_dir().join(format!("provost-e2e-bmc-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary folder");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
        // Nobody accepts: the kernel does, and whoever connects waits.
        let hangs = TcpListener::bind("127.0.0.1:0").expect("a port");
        let hanging = port(&hangs);
        let place = Place { dir, port: port(&free), _hangs: hangs };
        let node = |n| {
            let gpu = "{ index = 0, pci = \"0000:3b:00.0\" }";
            format!("[[node]]\nname = \"gpu00{n}\"\ngpus = [{gpu}]\n")
        };
        let inventory: Vec<String> = (1..=3).map(node).collect();
        place.write("inventory.toml", &inventory.concat());
        let config = format!(
            "[site]\nname = \"bmc\"\nmode = \"act\"\n[listen]\naddress = \"127.0.0.1:0\"\n\
             [inventory]\nfile = \"inventory.toml\"\n[governor]\nmax_unavailable = 3\nbreaker_percent = 90\n\
             [timers]\nheartbeat = \"500ms\"\nsilent_after = \"2s\"\nadvice = \"1s\"\nsoak = \"1s\"\nretry = \"500ms\"\n\
             [[bmc]]\nnodes = \"gpu001\"\naddress = \"http://127.0.0.1:{}\"\nevery = \"1s\"\n\
             [[bmc]]\nnodes = \"gpu002\"\naddress = \"http://127.0.0.1:{hanging}\"\nevery = \"1s\"\n",
            place.port
        );
        place.write("provost.toml", &config);
        let emulator = format!(
            "SUSHY_EMULATOR_STATE_DIR = {:?}\nSUSHY_EMULATOR_FAKE_SYSTEMS = [{{'uuid': \
             '27946b59-9e44-4fa7-8e91-f3527a1ef094', 'name': 'gpu001', 'power_state': 'On', 'external_notifier': False, \
             'nics': []}}]\n",
            place.dir
        );
        place.write("emulator.conf", &emulator);
        place
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.join(name), text).expect("a file");
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn emulator(&self) -> Daemon {
        let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../redfish");
        let script = project_root().join("testbed/redfish");
        let installed = Command::new(script).arg("install").env("REDFISH_TESTBED_DIR", &environment).status();
        assert!(installed.expect("a shell").success(), "testbed/redfish install failed");
        let port = self.port.to_string();
        let config = self.path("emulator.conf");
        let args = ["--fake", "--config", &config, "-i", "127.0.0.1", "-p", &port];
        Daemon::start(
            "sushy-emulator",
            &environment.join("bin/sushy-emulator"),
            &args,
            &self.dir.join("emulator.log"),
        )
    }

    /// Tells the machine what to do with its power, as somebody else would.
    fn reset(&self, word: &str) {
        let body = format!("{{\"ResetType\": \"{word}\"}}");
        let request = format!(
            "POST {MACHINE}/Actions/ComputerSystem.Reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the emulator listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }

    /// The controller, ready; and where it listens.
    fn controller(&self) -> (Daemon, String) {
        let args = ["up", "--config", &self.path("provost.toml"), "--data", &self.path("data")];
        let log = self.dir.join("provost.log");
        let mut controller = Daemon::start("provost", &program("provost"), &args, &log);
        let server = controller.wait_for_line("ready ", Duration::from_secs(30));
        (controller, server)
    }

    /// The agent of gpu001, whose one action is a test that passes.
    fn agent(&self) -> Daemon {
        let file = self.path("agent.toml");
        Daemon::start("agent", &program("provost-agent"), &["--config", &file], &self.dir.join("agent.log"))
    }

    fn provost(&self, args: &[&str]) -> Answer {
        let data = self.path("data");
        Answer::of("provost", &[args, &["--data", &data]].concat())
    }

    /// Waits until `node show` has a line about the BMC of a node that begins so and ends so.
    #[track_caller]
    fn wait_for_bmc(&self, node: &str, begin: &str, end: &str) {
        wait_until(&format!("bmc: {begin}…{end}"), Duration::from_secs(60), || {
            let shown = self.provost(&["node", "show", node]);
            let found = shown.out.lines().any(|line| {
                line.strip_prefix("bmc: ").is_some_and(|said| said.starts_with(begin) && said.ends_with(end))
            });
            if found { Ok(()) } else { Err(format!("{shown:?}")) }
        });
    }
}

#[test]
fn power_is_read_and_a_bmc_that_is_away_is_told() {
    let place = Place::new("read");
    let emulator = place.emulator();
    let (_controller, _) = place.controller();

    place.wait_for_bmc("gpu001", "power on, health OK, read ", " s ago");
    let without = place.provost(&["node", "show", "gpu003"]).ok();
    assert!(!without.out.contains("bmc"), "{without:?}");
    place.reset("ForceOff");
    place.wait_for_bmc("gpu001", "power off, health OK, read ", " s ago");

    // Asked by hand, whatever the controller does.
    let config = place.path("provost.toml");
    let asked =
        Answer::of("provost", &["bmc", "show", "gpu001", "--config", &config, "-o", "json"]).ok().json();
    let (power, switched) = (&asked["system"]["power"], &asked["system"]["can_be_switched"]);
    assert_eq!((power, switched), (&"off".into(), &true.into()), "{asked}");
    let unknown = Answer::of("provost", &["bmc", "show", "gpu003", "--config", &config]);
    assert!(unknown.err.contains("no [[bmc]] of the configuration names `gpu003`"), "{unknown:?}");
    assert_ne!(unknown.code, 0);

    // Only what was new is in the record: on, off.
    let records = place.provost(&["audit", "search", "--type", "bmc.", "-o", "json"]).ok().json();
    assert_eq!(records["items"].as_array().map(Vec::len), Some(2), "{records}");

    drop(emulator);
    place.wait_for_bmc("gpu001", "silent; it said last: power off, health OK, read ", " s ago");
    // The one that hangs has taken no other's place, and is told as silent in its own time.
    place.wait_for_bmc(
        "gpu002",
        "silent; it said last: power unknown, health unknown, ",
        "not read since the start",
    );
    let alerts = place.provost(&["alert", "list", "-o", "json"]).ok().json();
    let told: Vec<String> = alerts["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|alert| {
            format!("{} {} {}", alert["condition"], alert["subject"]["id"], alert["impact"]).replace('"', "")
        })
        .collect();
    for node in ["gpu001", "gpu002"] {
        assert!(told.contains(&format!("source.silent bmc:{node} minor")), "{told:?}");
    }
    let incidents = place.provost(&["incident", "list", "-o", "json"]).ok().json();
    let titles: Vec<String> = incidents["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|incident| format!("{} {}", incident["severity"], incident["title"]).replace('"', ""))
        .collect();
    assert!(titles.contains(&"SEV4 BMC of gpu001 is silent".to_owned()), "{titles:?}");
}

#[test]
fn a_node_that_needs_more_than_a_reset_loses_its_power_and_gets_it_back() {
    let place = Place::new("cycle");
    let _emulator = place.emulator();
    let (_controller, server) = place.controller();
    let token = place.provost(&["agent", "token", "create", "--nodes", "gpu001"]).ok().out;
    place.write("token", &token);
    place.write("kmsg.log", "");
    place.write(
        "agent.toml",
        &format!(
            "server = {server:?}\nca_file = {:?}\nenrol_token_file = {:?}\nstate_dir = {:?}\n[[node]]\nname = \"gpu001\"\n\
             kernel_log = {:?}\nkernel_log_format = \"text\"\nnvml = \"off\"\n\
             [[action]]\nname = \"validate\"\nargv = [\"/bin/true\"]\ntimeout = \"5s\"\n",
            place.path("data/ca.pem"),
            place.path("token"),
            place.path("agent"),
            place.path("kmsg.log"),
        ),
    );
    let agent = place.agent();
    place.wait_for_bmc("gpu001", "power on, health OK, read ", " s ago");
    wait_until("the agent reports", Duration::from_secs(20), || {
        let shown = place.provost(&["node", "show", "gpu001", "-o", "json"]).ok().json();
        if shown["health"] == "ok" { Ok(()) } else { Err(shown.to_string()) }
    });
    let line = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)\n";
    place.write("kmsg.log", line);
    let wait_for_run = |state: &str, why: &str| {
        wait_until(&format!("{state}: {why}"), Duration::from_secs(90), || {
            let runs = place.provost(&["run", "list", "--all", "-o", "json"]).ok().json();
            let run = &runs["items"][0];
            if run["state"] == state && run["why"] == why { Ok(()) } else { Err(runs.to_string()) }
        });
    };
    // The machine was off and is on again; who says that it has booted is its agent.
    wait_for_run("waiting", "boot");
    place.wait_for_bmc("gpu001", "power on, ", " s ago");
    drop(agent);
    wait_until("the agent is silent", Duration::from_secs(20), || {
        let alerts = place.provost(&["alert", "list", "-o", "json"]).ok().json();
        if alerts.to_string().contains("agent:gpu001") { Ok(()) } else { Err(alerts.to_string()) }
    });
    let _agent = place.agent();
    // Evidence is collected by an action that this agent does not have.
    wait_for_run("succeeded", "done_with_failures");
    let runs = place.provost(&["run", "list", "--all", "-o", "json"]).ok().json();
    let number = runs["items"][0]["incident"].as_str().expect("it belongs to an incident");
    let story = place.provost(&["incident", "show", number]).ok().out;
    for line in [
        "done: take the power of gpu001 by its BMC, read back as power off",
        "done: give gpu001 power by its BMC, read back as power on",
    ] {
        assert!(story.contains(line), "{line} is not in\n{story}");
    }
}
