//! A controller that reads the BMC of a node: sushy-emulator pretends the machine, and its power really changes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use provost_testkit::{Answer, Daemon, program, project_root, wait_until};

const MACHINE: &str = "/redfish/v1/Systems/27946b59-9e44-4fa7-8e91-f3527a1ef094";

/// A temporary folder with a controller's configuration, and the port of the BMC in it.
struct Place {
    dir: PathBuf,
    port: u16,
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

impl Place {
    fn new() -> Place {
        let dir = std::env::temp_dir().join(format!("provost-e2e-bmc-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary folder");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = Place { dir, port: free.local_addr().expect("an address").port() };
        place.write("inventory.toml", "[[node]]\nname = \"gpu001\"\n[[node]]\nname = \"gpu002\"\n");
        let config = format!(
            "[site]\nname = \"bmc\"\n[listen]\naddress = \"127.0.0.1:0\"\n[inventory]\nfile = \"inventory.toml\"\n\
             [[bmc]]\nnodes = \"gpu001\"\naddress = \"http://127.0.0.1:{}\"\nevery = \"1s\"\n",
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

    fn provost(&self, args: &[&str]) -> Answer {
        let data = self.path("data");
        Answer::of("provost", &[args, &["--data", &data]].concat())
    }

    /// Waits until `node show gpu001` has a line about its BMC that begins so and ends so.
    #[track_caller]
    fn wait_for_bmc(&self, begin: &str, end: &str) {
        wait_until(&format!("bmc: {begin}…{end}"), Duration::from_secs(40), || {
            let shown = self.provost(&["node", "show", "gpu001"]);
            let found = shown.out.lines().any(|line| {
                line.strip_prefix("bmc: ").is_some_and(|said| said.starts_with(begin) && said.ends_with(end))
            });
            if found { Ok(()) } else { Err(format!("{shown:?}")) }
        });
    }
}

#[test]
fn power_is_read_and_a_bmc_that_is_away_is_told() {
    let place = Place::new();
    let emulator = place.emulator();
    let args = ["up", "--config", &place.path("provost.toml"), "--data", &place.path("data")];
    let mut controller = Daemon::start("provost", &program("provost"), &args, &place.dir.join("provost.log"));
    controller.wait_for_line("ready ", Duration::from_secs(30));

    place.wait_for_bmc("power on, health OK, read ", " s ago");
    let without = place.provost(&["node", "show", "gpu002"]).ok();
    assert!(!without.out.contains("bmc"), "{without:?}");
    place.reset("ForceOff");
    place.wait_for_bmc("power off, health OK, read ", " s ago");

    // Asked by hand, whatever the controller does.
    let asked = Answer::of(
        "provost",
        &["bmc", "show", "gpu001", "--config", &place.path("provost.toml"), "-o", "json"],
    );
    let asked = asked.ok().json();
    assert_eq!(
        (&asked["system"]["power"], &asked["system"]["can_be_switched"]),
        (&"off".into(), &true.into()),
        "{asked}"
    );
    let unknown = Answer::of("provost", &["bmc", "show", "gpu002", "--config", &place.path("provost.toml")]);
    assert!(
        unknown.code != 0 && unknown.err.contains("no [[bmc]] of the configuration names `gpu002`"),
        "{unknown:?}"
    );

    // Only what was new is in the record: on, off.
    let records = place.provost(&["audit", "search", "--type", "bmc.", "-o", "json"]).ok().json();
    let said: Vec<&serde_json::Value> = records["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|record| &record["data"]["view"]["power"])
        .collect();
    assert_eq!(said.len(), 2, "{records}");

    drop(emulator);
    place.wait_for_bmc("silent; it said last: power off, health OK, read ", " s ago");
    let alerts = place.provost(&["alert", "list", "-o", "json"]).ok().json();
    let alert = &alerts["items"][0];
    assert_eq!(
        (&alert["condition"], &alert["impact"]),
        (&"source.silent".into(), &"minor".into()),
        "{alerts}"
    );
    assert_eq!(alert["subject"]["id"], "bmc:gpu001", "{alerts}");
    let incidents = place.provost(&["incident", "list", "-o", "json"]).ok().json();
    assert_eq!(incidents["items"][0]["title"], "BMC of gpu001 is silent", "{incidents}");
    assert_eq!(incidents["items"][0]["severity"], "SEV4", "{incidents}");
}
