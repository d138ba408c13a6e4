//! The Redfish client against servers that are not ours: recorded trees of real servers, served by sushy-static, and a
//! machine whose power really changes, pretended by sushy-emulator. They are installed by the test; it fails where that
//! can't be done. Recorded trees are read in place from `../shared` beside the checkout.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use provost_connect::http::Endpoint;
use provost_connect::redfish::{
    Bmc, Config, Enabled, Error, Indicator, Limits, PartKind, PowerAction, Sensor, Verdict,
};
use provost_model::bmc::{Health, Power};
use provost_model::effect::EffectResult;

/// A program that is ended with the test.
struct Server {
    child: Child,
    bmc: Bmc,
    _dir: Folder,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("redfish-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// The folder of the programs, installed.
fn programs() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/redfish");
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../redfish");
    let installed =
        Command::new(script).arg("install").env("REDFISH_TESTBED_DIR", &environment).status().unwrap();
    assert!(installed.success(), "testbed/redfish install failed");
    environment.join("bin")
}

/// Starts a program that gets a free port as `-p`, and waits until it answers.
async fn start(program: &str, args: &[&str], dir: Folder, config: impl FnOnce(Config) -> Config) -> Server {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = Command::new(programs().join(program))
        .args(["-i", "127.0.0.1", "-p", &port.to_string()])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let limits =
        Limits { settle: Duration::from_secs(30), pause: Duration::from_millis(200), ..Limits::default() };
    let endpoint = format!("http://127.0.0.1:{port}").parse::<Endpoint>().unwrap();
    let plain = Config { limits, ..Config::at(endpoint) };
    let server = Server { child, bmc: Bmc::new(config(plain)), _dir: dir };
    let started = Instant::now();
    while let Err(Error::Http(error)) = server.bmc.system().await {
        assert!(started.elapsed() < Duration::from_secs(30), "{program} did not come up: {error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server
}

/// A recorded tree, unpacked and served; none where there are no recordings here.
async fn recorded(test: &str, archive: &str) -> Option<Server> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    if !shared.is_dir() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{} is missing", shared.display());
        println!("skipped: {test} needs ../shared");
        return None;
    }
    let dir = Folder::new(test);
    let archive = shared.join("fixtures/data").join(archive);
    let unpacked = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&dir.0).status().unwrap();
    assert!(unpacked.success(), "{}", archive.display());
    let inside = dir.0.join("redfish/v1");
    let tree = if inside.join("index.json").exists() { inside } else { dir.0.clone() };
    Some(start("sushy-static", &["-m", tree.to_str().unwrap()], dir, |config| config).await)
}

fn named<'a>(sensors: &'a [Sensor], name: &str) -> &'a Sensor {
    sensors.iter().find(|sensor| sensor.name == name).unwrap_or_else(|| panic!("no {name} in {sensors:?}"))
}

fn counted(sensors: &[Sensor], verdict: Verdict) -> usize {
    sensors.iter().filter(|sensor| sensor.verdict == verdict).count()
}

#[tokio::test]
async fn a_recorded_gh200_is_read() {
    let Some(server) = recorded("gh200", "redfish-bmm/gh200.tar.gz").await else { return };
    // Of two systems the host is the one that can be switched.
    let system = server.bmc.system().await.unwrap();
    assert_eq!(
        (system.id.as_deref(), system.power, system.health),
        (Some("System_0"), Some(Power::On), Some(Health::Ok))
    );
    assert_eq!(
        (system.serial, system.model, system.boot_progress.as_deref()),
        (None, None, Some("OSRunning"))
    );
    assert_eq!(system.indicator, Some(Indicator::Off));
    assert_eq!(
        (system.boot.enabled, system.boot.target.as_deref()),
        (Some(Enabled::Continuous), Some("Hdd"))
    );

    let inventory = server.bmc.inventory().await.unwrap();
    assert_eq!(inventory.systems.len(), 2);
    let gpus: Vec<_> = inventory.parts.iter().filter(|part| part.kind == PartKind::Gpu).collect();
    let serials: Vec<_> = gpus.iter().map(|gpu| gpu.serial.as_deref().unwrap()).collect();
    assert_eq!(serials, ["1640124000234", "1640124000373"]);
    assert!(gpus.iter().all(|gpu| gpu.model.as_deref() == Some("NVIDIA GH200 96GB HBM3")), "{gpus:?}");

    let sensors = server.bmc.sensors(true).await.unwrap();
    let power = named(&sensors, "HGX GPU 0 Power 0");
    assert_eq!((power.reading, power.unit.as_deref(), power.verdict), (Some(84.766), Some("W"), Verdict::Ok));
    // For 80 more the server had an error in place of a sensor: nothing is made of them.
    assert_eq!(sensors.len(), 247);
    let without = named(&sensors, "TEMP SSD 02");
    assert_eq!(
        (without.reading, without.verdict),
        (None, Verdict::Ok),
        "it calls itself well and measures nothing"
    );
    assert_eq!((counted(&sensors, Verdict::Alarm), counted(&sensors, Verdict::Fault)), (0, 0));

    let events = server.bmc.events(3).await.unwrap();
    assert_eq!((events.entries.len(), events.complete), (3, false));
    assert!(events.entries.is_sorted_by(|a, b| a.created >= b.created), "{events:?}");
    assert!(events.entries.iter().all(|entry| entry.created.is_some()));
}

#[tokio::test]
async fn a_recorded_rack_server_is_read() {
    let Some(server) = recorded("rackmount", "redfish-dmtf-rackmount/public-rackmount1.tar.gz").await else {
        return;
    };
    let system = server.bmc.system().await.unwrap();
    assert_eq!((system.serial.as_deref(), system.model.as_deref()), (Some("437XR1138R2"), Some("3500")));
    assert_eq!((system.boot.enabled, system.boot.target.as_deref()), (Some(Enabled::Once), Some("Pxe")));
    let sensors = server.bmc.sensors(true).await.unwrap();
    assert_eq!(named(&sensors, "CPU #1 Temperature").reading, Some(37.0));
    assert_eq!(counted(&sensors, Verdict::Alarm), 0);
    let kinds: Vec<PartKind> =
        server.bmc.inventory().await.unwrap().parts.iter().map(|part| part.kind).collect();
    assert!(kinds.contains(&PartKind::Cpu) && kinds.contains(&PartKind::Gpu), "{kinds:?}");
    // The second page of its log was not recorded: the first counts, and is said not to be all.
    let events = server.bmc.events(10).await.unwrap();
    let ids: Vec<&str> = events.entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!((ids, events.complete), (vec!["2", "1"], false));
}

#[tokio::test]
async fn a_server_that_takes_every_order_and_does_nothing_is_not_believed() {
    let Some(server) = recorded("stubborn", "redfish-dmtf-rackmount/public-rackmount1.tar.gz").await else {
        return;
    };
    let limits = Limits { settle: Duration::from_secs(1), ..server.bmc.config().limits };
    let bmc = Bmc::new(Config { limits, ..server.bmc.config().clone() });
    let unknown = |code: &str| EffectResult::Unknown { code: code.to_owned() };
    assert_eq!(bmc.act(PowerAction::Off).await, unknown("no_change"));
    assert_eq!(bmc.act(PowerAction::Cycle).await, unknown("restart_not_seen"));
    assert!(matches!(bmc.boot_once(Some("Hdd")).await, EffectResult::NotDone { retry: false, .. }));
}

#[tokio::test]
async fn the_power_of_an_emulated_machine_really_changes() {
    let dir = Folder::new("emulator");
    let settings = format!(
        "SUSHY_EMULATOR_STATE_DIR = {state:?}\nSUSHY_EMULATOR_FAKE_SYSTEMS = [{{'uuid': \
         '27946b59-9e44-4fa7-8e91-f3527a1ef094', 'name': 'gpu001', 'power_state': 'On', 'external_notifier': False, \
         'nics': []}}]\n",
        state = dir.0
    );
    let config = dir.0.join("emulator.conf");
    std::fs::write(&config, settings).unwrap();
    let args = ["--fake", "--config", config.to_str().unwrap()];
    let server = start("sushy-emulator", &args, dir, |config| config).await;
    let done = |power: &str, notes: &[&str]| EffectResult::Done {
        observed: format!("power {power}"),
        notes: notes.iter().map(|&note| note.to_owned()).collect(),
    };
    assert_eq!(server.bmc.system().await.unwrap().power, Some(Power::On));
    // The emulator takes up to eleven seconds for each change.
    assert_eq!(server.bmc.act(PowerAction::Off).await, done("off", &[]));
    assert_eq!(server.bmc.act(PowerAction::Off).await, done("off", &["already"]));
    assert_eq!(server.bmc.probe(PowerAction::Off).await, done("off", &[]));
    assert_eq!(server.bmc.act(PowerAction::On).await, done("on", &[]));
    assert_eq!(server.bmc.act(PowerAction::Cycle).await, done("on", &[]));
    assert_eq!(
        server.bmc.probe(PowerAction::Cycle).await,
        EffectResult::Unknown { code: "restart_not_seen".to_owned() }
    );
    // It takes `once` and keeps `always`, which would boot a node into an installer for ever.
    let kept = EffectResult::NotDone { code: "not_kept".to_owned(), retry: false };
    assert_eq!(server.bmc.boot_once(Some("Pxe")).await, kept);
}
