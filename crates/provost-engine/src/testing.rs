//! A site for tests: nodes with eight GPUs under one scheduler, and inputs in their order.

pub(crate) mod executor;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use provost_model::body::Body;
use provost_model::fleet::{GpuFacts, NodeFacts};
use provost_model::input::{Action, Command, Input, Reply};
use provost_model::policy::{ClusterPolicy, EngineConfig, Mode, Role};
use provost_model::record::{Actor, ActorKind, Record, Sealed, Sensitive};
use provost_model::runbook::Runbook;
use provost_model::scheduler::{JobKey, JobState, Observation, ObservedJob, ObservedNode, Tier};
use provost_model::signal::{Impact, PciAddress, Signal, SignalFields, SignalKind, Trust};
use provost_model::time::Timestamp;

use crate::state::{Alert, Incident, Node, State};
use crate::{Turn, turn};

/// Where tests begin: 2026-11-30T19:00:00Z.
pub(crate) const T0: Timestamp = Timestamp::from_millis(1_796_065_200_000);

/// The address of the GPU with this index.
pub(crate) fn pci(index: u32) -> PciAddress {
    let bus = u8::try_from(0x1b + index * 0x10).expect("tests use eight GPUs");
    PciAddress { domain: 0, bus, device: 0, function: 0 }
}

/// An Xid on a GPU of a node, written at [`T0`].
pub(crate) fn signal(node: &str, code: u32, gpu: Option<u32>) -> Signal {
    Signal {
        node: node.to_owned(),
        kind: SignalKind::Xid,
        code: Some(code),
        pci: gpu.map(pci),
        impact: Impact::Info,
        fields: SignalFields::default(),
        at: T0,
        boot_id: None,
        sequence: None,
        historic: false,
        trust: Trust::Kernel,
        line: format!("NVRM: Xid (PCI:0000:1b:00): {code}, made up"),
    }
}

/// Seals by forgetting: tests look at what is in plain fields.
pub(crate) struct Forget;

impl Turn for Forget {
    fn seal(&mut self, values: &[Sensitive]) -> Vec<Sealed> {
        let seal = |value: &Sensitive| Sealed {
            field: value.field.to_owned(),
            key: "test".to_owned(),
            ct: String::new(),
            tag: String::new(),
        };
        values.iter().map(seal).collect()
    }
}

#[derive(Clone)]
/// A site, its scheduler as tests pretend it to be, and everything recorded so far.
pub(crate) struct Site {
    pub(crate) state: State,
    pub(crate) now: Timestamp,
    pub(crate) config: EngineConfig,
    /// Nodes of the cluster `main`, by name.
    pub(crate) nodes: BTreeMap<String, ObservedNode>,
    pub(crate) jobs: Vec<ObservedJob>,
    pub(crate) records: Vec<Record>,
    /// Runbooks of the next start.
    pub(crate) runbooks: Vec<(String, Runbook)>,
    requests: u32,
}

impl Site {
    /// `n` nodes `gpu001`… of the cluster `main` with eight GPUs each, in `mode = act`, started and polled once.
    pub(crate) fn new(n: u32) -> Site {
        let names: Vec<String> = (1..=n).map(|i| format!("gpu{i:03}")).collect();
        let gpus = |node: &str| {
            let gpu = |index| GpuFacts {
                index,
                pci: pci(index),
                uuid: Some(format!("GPU-{node}-{index}")),
                model: None,
                serial: None,
            };
            (0..8).map(gpu).collect()
        };
        let inventory = names.iter().map(|name| NodeFacts {
            name: name.clone(),
            serial: Some(format!("SN-{name}")),
            rack: None,
            leaf: None,
            slurm: Some(format!("main/{name}")),
            gpus: gpus(name),
        });
        let policy = ClusterPolicy {
            mode: None,
            partitions: vec!["batch".to_owned()],
            spare_partition: Some("spare".to_owned()),
        };
        let config = EngineConfig {
            site: "test".to_owned(),
            mode: Mode::Act,
            clusters: BTreeMap::from([("main".to_owned(), policy)]),
            inventory: inventory.collect(),
            ..EngineConfig::default()
        };
        let node = ObservedNode {
            state: "IDLE".to_owned(),
            partitions: vec!["batch".to_owned()],
            ..ObservedNode::default()
        };
        let mut site = Site {
            state: State::new("test"),
            now: T0,
            config,
            nodes: names.into_iter().map(|name| (name, node.clone())).collect(),
            jobs: Vec::new(),
            records: Vec::new(),
            runbooks: Vec::new(),
            requests: 0,
        };
        site.start();
        site.poll();
        site
    }

    /// Takes one input; gives the kinds of the records that it led to.
    pub(crate) fn feed(&mut self, input: Input) -> Vec<&'static str> {
        self.outcome(input).0
    }

    fn outcome(&mut self, input: Input) -> (Vec<&'static str>, Option<Reply>) {
        let outcome = turn(&mut self.state, self.now, &input, &mut Forget);
        let kinds = outcome.records.iter().map(Record::kind).collect();
        self.records.extend(outcome.records);
        (kinds, outcome.reply)
    }

    /// Puts the built-in runbooks in force, by a start.
    pub(crate) fn with_runbooks(&mut self) {
        let built_in = crate::runbook::builtin().into_iter();
        let read = |(name, yaml): (&str, &str)| {
            (format!("version-of-{name}"), crate::runbook::parse(yaml).expect("a built-in runbook"))
        };
        self.runbooks = built_in.map(read).collect();
        self.start();
    }

    /// A controller takes over.
    pub(crate) fn start(&mut self) -> Vec<&'static str> {
        self.feed(Input::Started {
            version: "0.0.0".to_owned(),
            config: Box::new(self.config.clone()),
            runbooks: self.runbooks.clone(),
        })
    }

    /// Polls the scheduler as it pretends to be now.
    pub(crate) fn poll(&mut self) -> Vec<&'static str> {
        self.feed(self.observation())
    }

    /// What the scheduler answers now.
    pub(crate) fn observation(&self) -> Input {
        let observation = Observation {
            cluster: "main".to_owned(),
            at: self.now,
            nodes: self.nodes.clone(),
            jobs: self.jobs.clone(),
            jobs_pending: 0,
            partitions: BTreeMap::new(),
            unparsed: 0,
        };
        Input::Observed(Box::new(observation))
    }

    /// Lets time pass; deadlines on the way are met.
    pub(crate) fn wait(&mut self, length: Duration) -> Vec<&'static str> {
        let until = self.now + length;
        let mut kinds = Vec::new();
        while let Some(at) = crate::next_deadline(&self.state).filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let more = self.feed(Input::Tick);
            assert!(!more.is_empty(), "the deadline {at} wakes the engine and nothing comes of it");
            kinds.extend(more);
        }
        self.now = until;
        kinds
    }

    /// A signal that was written just now.
    pub(crate) fn signal(&mut self, signal: Signal) -> Vec<&'static str> {
        let signal = Signal { at: self.now, ..signal };
        self.feed(Input::Signal(Box::new(signal)))
    }

    /// An Xid on a GPU.
    pub(crate) fn xid(&mut self, node: &str, code: u32, gpu: u32) -> Vec<&'static str> {
        self.signal(signal(node, code, Some(gpu)))
    }

    /// A job that runs on these GPUs, seen by a poll.
    pub(crate) fn run_job(&mut self, id: u32, on: &[(&str, &[u32])]) -> JobKey {
        let key = JobKey { cluster: "main".to_owned(), id, submitted_at: T0 };
        self.jobs.push(ObservedJob {
            key: key.clone(),
            state: JobState::Running,
            project: "p".to_owned(),
            tier: Tier::Batch,
            partition: "batch".to_owned(),
            nodes: on.iter().map(|(node, _)| (*node).to_owned()).collect(),
            gpus: on.iter().map(|(node, gpus)| ((*node).to_owned(), gpus.to_vec())).collect(),
            requeue: true,
            restarts: 0,
            pinned: Vec::new(),
            started_at: Some(self.now),
            ended_at: None,
        });
        for (node, _) in on {
            if let Some(node) = self.nodes.get_mut(*node) {
                node.busy = true;
            }
        }
        self.poll();
        key
    }

    /// A person asks for something.
    pub(crate) fn ask(&mut self, role: Role, action: Action) -> Reply {
        self.ask_because(role, "because", action)
    }

    /// A person asks for something, with a reason.
    pub(crate) fn ask_because(&mut self, role: Role, reason: &str, action: Action) -> Reply {
        self.requests += 1;
        let command = Command {
            actor: Actor { kind: ActorKind::Human, sub: format!("local:{}", role.name()) },
            roles: BTreeSet::from([role]),
            request: format!("request-{}", self.requests),
            reason: reason.to_owned(),
            action,
        };
        self.outcome(Input::Command(Box::new(command))).1.expect("a command is answered")
    }

    pub(crate) fn node(&self, name: &str) -> &Node {
        self.state.node_by_name(name).expect("the node is adopted")
    }

    pub(crate) fn alert(&self, condition: &str) -> &Alert {
        let mut found = self.state.alerts.values().filter(|alert| alert.condition == condition);
        found.next_back().expect("the alert was raised")
    }

    pub(crate) fn incident(&self, number: u32) -> &Incident {
        self.state.incident_by_number(&format!("INC-2026-{number:06}")).expect("the incident was opened")
    }

    /// Bodies of one type, in order.
    pub(crate) fn bodies<'a, T>(&'a self, pick: impl Fn(&'a Body) -> Option<&'a T>) -> Vec<&'a T> {
        self.records.iter().filter_map(|record| pick(&record.body)).collect()
    }
}
