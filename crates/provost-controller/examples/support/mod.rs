//! A site for the measurements: 1,250 nodes with 8 GPUs each under one scheduler, no jobs, and the signals of
//! its agents.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use provost_controller::{Clock, Controller, Neighbours, Options, Progress};
use provost_engine::Outstanding;
use provost_journal::{Emergency, Journal, Sealer};
use provost_model::fleet::{GpuFacts, NodeFacts};
use provost_model::input::Input;
use provost_model::policy::{ClusterPolicy, EngineConfig, Mode};
use provost_model::scheduler::{Observation, ObservedNode};
use provost_model::signal::{Impact, PciAddress, Signal, SignalFields, SignalKind, Trust};
use provost_model::time::Timestamp;

pub const NODES: u64 = 1_250;
pub const GPUS: u8 = 8;
/// Xids of programs; with no job on the GPU each is one record and no more.
const CODES: [u32; 3] = [31, 43, 45];
/// MIG instances that are named, to have more keys than the merger's window sees.
const INSTANCES: u64 = 8;

/// A folder of its own on the disk that `parent` is on, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(parent: Option<&str>, name: &str) -> Result<Folder, Box<dyn Error>> {
        let parent = parent.map_or_else(std::env::temp_dir, PathBuf::from);
        let path = parent.join(format!("provost-{name}-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} is left behind: {error}", self.0.display());
        }
    }
}

/// The machine's clock.
struct Wall;

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Nobody outside: no signal here leads to an effect.
struct Nobody;

impl Neighbours for Nobody {
    fn start(&mut self, _: Outstanding) {}
}

/// A controller over the journal in `dir`.
pub fn open(dir: &Path, report: &mut dyn FnMut(Progress)) -> Result<Controller, Box<dyn Error>> {
    let journal = Journal::open(dir, provost_journal::Options::new("bench"))?;
    let sealer = Sealer::open(dir, journal.size() == 0)?;
    let options = Options {
        site: "bench".to_owned(),
        journal,
        emergency: Emergency::open(&Emergency::default_path(dir))?,
        sealer,
        clock: Box::new(Wall),
        neighbours: Box::new(Nobody),
        on_commit: Box::new(|_| ()),
    };
    Ok(Controller::open(options, report)?)
}

/// What makes the site known: the start with its inventory, and a poll of the scheduler.
pub fn site() -> [Input; 2] {
    let cluster = ClusterPolicy { mode: None, partitions: vec!["batch".to_owned()], spare_partition: None };
    let config = EngineConfig {
        site: "bench".to_owned(),
        mode: Mode::Act,
        clusters: BTreeMap::from([("main".to_owned(), cluster)]),
        inventory: (0..NODES).map(node_facts).collect(),
        ..EngineConfig::default()
    };
    let seen = ObservedNode {
        state: "IDLE".to_owned(),
        partitions: vec!["batch".to_owned()],
        gpus: Some(GPUS.into()),
        ..ObservedNode::default()
    };
    let poll = Observation {
        cluster: "main".to_owned(),
        at: Wall.now(),
        nodes: (0..NODES).map(|n| (node_name(n), seen.clone())).collect(),
        jobs: Vec::new(),
        jobs_pending: 0,
        partitions: BTreeMap::from([("batch".to_owned(), (0..NODES).map(node_name).collect())]),
        unparsed: 0,
    };
    let started =
        Input::Started { version: "bench".to_owned(), config: Box::new(config), runbooks: Vec::new() };
    [started, Input::Observed(Box::new(poll))]
}

fn node_name(n: u64) -> String {
    format!("gpu{n:04}")
}

fn node_facts(n: u64) -> NodeFacts {
    let gpu = |index: u8| GpuFacts {
        index: index.into(),
        pci: pci(index),
        uuid: Some(format!("GPU-{n:08x}-0000-4000-8000-{index:012x}")),
        model: Some("H200".to_owned()),
        serial: Some(format!("16534{n:05}{index}")),
    };
    NodeFacts {
        name: node_name(n),
        serial: Some(format!("S{n:07}")),
        rack: Some(format!("r{:02}", n / 32)),
        leaf: Some(format!("leaf{:02}", n / 32)),
        slurm: Some(format!("main/{}", node_name(n))),
        gpus: (0..GPUS).map(gpu).collect(),
    }
}

fn pci(gpu: u8) -> PciAddress {
    PciAddress { domain: 0, bus: 0x10 + gpu * 0x10, device: 0, function: 0 }
}

/// The `n`th signal. Each of 240,000 in a row is another condition: node, GPU, MIG instance, code.
pub fn signal(n: u64) -> Signal {
    let gpu = u8::try_from(n / NODES % u64::from(GPUS)).unwrap_or(0);
    let rest = n / NODES / u64::from(GPUS);
    let mig = u32::try_from(rest % INSTANCES).unwrap_or(0);
    let code = CODES[usize::try_from(rest / INSTANCES).unwrap_or(0) % CODES.len()];
    let at = Wall.now();
    Signal {
        node: node_name(n % NODES),
        kind: SignalKind::Xid,
        code: Some(code),
        pci: Some(pci(gpu)),
        impact: Impact::Info,
        fields: SignalFields { pid: Some(4_711), mig: Some(mig), ..SignalFields::default() },
        at,
        boot_id: Some("1b4e28ba-2fa1-41d2-883f-0016d3cca427".to_owned()),
        sequence: Some(n),
        historic: false,
        trust: Trust::Kernel,
        line: format!(
            "NVRM: Xid (PCI:{} GPU-I:{mig:02}): {code}, pid=4711, name=python3, Ch {:08x}, intr 00000000",
            pci(gpu),
            n % 64
        ),
    }
}
