//! A controller for tests: real engine, real journal in a directory of its own, a pretended server around it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::Response;
use provost_controller::{Clock, Committed, Controller, Handle, Message, Neighbours, Options, TrySendError};
use provost_engine::Outstanding;
use provost_journal::{Emergency, Journal, Sealer};
use provost_model::fleet::{GpuFacts, NodeFacts};
use provost_model::input::{Input, Reply};
use provost_model::policy::{ClusterPolicy, EngineConfig, Mode, Role};
use provost_model::record::{Actor, ActorKind, Record, Sealed};
use provost_model::scheduler::{JobKey, JobState, Observation, ObservedJob, ObservedNode, Tier};
use provost_model::signal::{Impact, PciAddress, Signal, SignalFields, SignalKind, Trust};
use provost_model::time::Timestamp;
use serde_json::Value;
use tokio::sync::broadcast;
use tower::ServiceExt as _;

use crate::backend::{Backend, HistoryError, Principal, Query, StoredRecord};
use crate::{Api, router};

/// Where tests begin: 2026-11-30T19:00:00Z.
pub(crate) const T0: Timestamp = Timestamp::from_millis(1_796_065_200_000);
/// Tokens that the pretended server knows are the names of their roles; `nobody` has none.
pub(crate) const TOKENS: &[&str] = &["viewer", "operator", "service", "admin", "nobody"];

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        T0
    }
}

/// Carries nothing out.
struct Idle;

impl Neighbours for Idle {
    fn start(&mut self, _: Outstanding) {}
}

/// The pretended server.
pub(crate) struct Server {
    records: Mutex<Vec<(StoredRecord, Record)>>,
    revoked: Mutex<BTreeSet<String>>,
    /// Searches fail while this is set.
    pub(crate) broken: std::sync::atomic::AtomicBool,
    sealer: Sealer,
    secrets: AtomicU32,
}

impl Server {
    pub(crate) fn revoke(&self, token: &str) {
        self.revoked.lock().unwrap().insert(token.to_owned());
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.records.lock().unwrap().iter().map(|(stored, _)| stored.kind.clone()).collect()
    }
}

fn matches(query: &Query, stored: &StoredRecord, record: &Record) -> bool {
    let is =
        |wanted: &Option<String>, found: Option<&str>| wanted.as_deref().is_none_or(|w| found == Some(w));
    let subject = record.subject.as_ref();
    let in_order = if query.newest_first { stored.seq <= query.from } else { stored.seq >= query.from };
    in_order
        && query.kind_prefix.as_ref().is_none_or(|prefix| stored.kind.starts_with(prefix))
        && is(&query.incident, record.corr.incident.as_deref())
        && is(&query.actor, Some(&record.actor.sub))
        && query
            .subject
            .as_ref()
            .is_none_or(|wanted| subject.is_some_and(|s| s.id == *wanted || s.name.as_ref() == Some(wanted)))
        && query.since.is_none_or(|since| record.at >= since)
        && query.until.is_none_or(|until| record.at < until)
}

impl Backend for Server {
    fn authenticate(&self, bearer: &str) -> Option<Principal> {
        let role = match bearer {
            "viewer" => Some(Role::Viewer),
            "operator" => Some(Role::Operator),
            "service" => Some(Role::Service),
            "admin" => Some(Role::Admin),
            "nobody" => None,
            _ => return None,
        };
        let known = !self.revoked.lock().unwrap().contains(bearer);
        let kind = if bearer == "service" { ActorKind::Service } else { ActorKind::Human };
        let actor = Actor { kind, sub: format!("local:{bearer}") };
        known.then(|| Principal { actor, roles: role.into_iter().collect() })
    }

    fn records(&self, query: Query) -> Result<Vec<StoredRecord>, HistoryError> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(HistoryError("/var/lib/secret-place: disk I/O error".to_owned()));
        }
        let records = self.records.lock().unwrap();
        let wanted = records.iter().filter(|(stored, record)| matches(&query, stored, record));
        let mut found: Vec<StoredRecord> = wanted.map(|(stored, _)| stored.clone()).collect();
        if query.newest_first {
            found.reverse();
        }
        found.truncate(query.limit);
        Ok(found)
    }

    fn unseal(&self, sealed: &Sealed) -> Option<String> {
        self.sealer.unseal(sealed).ok()
    }

    fn new_secret(&self) -> (String, String) {
        let n = self.secrets.fetch_add(1, Ordering::Relaxed);
        (format!("secret-{n}"), format!("{n:064x}"))
    }

    fn expand_nodes(&self, list: &str) -> Option<Vec<String>> {
        match list {
            "gpu[001-002]" => Some(vec!["gpu001".to_owned(), "gpu002".to_owned()]),
            "many[1-5000]" => Some((1..=5_000).map(|n| format!("many{n}")).collect()),
            list => (!list.contains(['[', ']'])).then(|| vec![list.to_owned()]),
        }
    }

    fn last_seen(&self, _: &str) -> Option<Timestamp> {
        None
    }

    fn bmc_read(&self, _: &str) -> Option<Timestamp> {
        None
    }

    fn now(&self) -> Timestamp {
        T0
    }

    fn version(&self) -> &str {
        "1.2.3"
    }
}

/// A directory of its own, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("provost-api-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Directory(dir)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Left behind, it harms nobody.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A controller with its interface.
pub(crate) struct Site {
    pub(crate) router: Router,
    pub(crate) server: Arc<Server>,
    pub(crate) handle: Handle,
    /// The controller; taken where a test drives it itself.
    thread: Option<JoinHandle<()>>,
    _dir: Directory,
}

/// An answer that was read to its end.
pub(crate) struct Reading {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reading {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl Site {
    /// Three nodes of eight GPUs and a spare, a job on gpu001, mode act; started and polled once.
    pub(crate) async fn new() -> Site {
        let site = Site::empty(1_024);
        site.feed(started()).await;
        site.feed(observation(None)).await;
        site
    }

    /// A controller that nothing has happened to; `lag` live records may wait for a stream.
    pub(crate) fn empty(lag: usize) -> Site {
        let dir = Directory::new();
        let journal = Journal::open(&dir.0, provost_journal::Options::new("test")).unwrap();
        let sealer = Sealer::open(&dir.0, true).unwrap();
        let server = Arc::new(Server {
            records: Mutex::default(),
            revoked: Mutex::default(),
            broken: Default::default(),
            sealer: Sealer::open(&dir.0, false).unwrap(),
            secrets: AtomicU32::new(0),
        });
        let (live, _) = broadcast::channel(lag);
        let (journalled, sender) = (Arc::clone(&server), live.clone());
        let options = Options {
            site: "test".to_owned(),
            journal,
            emergency: Emergency::open(&Emergency::default_path(&dir.0)).unwrap(),
            sealer,
            clock: Box::new(Still),
            neighbours: Box::new(Idle),
            on_commit: Box::new(move |committed: &[Committed]| {
                for one in committed {
                    let (seq, kind) = (one.record.seq, one.record.kind().to_owned());
                    let stored = StoredRecord { seq, kind, bytes: one.bytes.as_slice().into() };
                    journalled.records.lock().unwrap().push((stored, (*one.record).clone()));
                    // Nobody may be listening.
                    drop(sender.send(one.clone()));
                }
            }),
        };
        let controller = Controller::open(options, &mut |_| ()).unwrap();
        let handle = controller.handle();
        let thread = Some(std::thread::spawn(move || controller.run().unwrap()));
        let backend: Arc<dyn Backend> = Arc::clone(&server) as Arc<dyn Backend>;
        let router = router(Api { handle: handle.clone(), backend, live });
        Site { router, server, handle, thread, _dir: dir }
    }

    /// Gives the controller an input and waits until it is durable.
    pub(crate) async fn feed(&self, input: Input) -> Reply {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let answer = Box::new(move |answer| drop(sender.send(answer)));
        self.handle.try_send(Message::Ask { input, answer }).unwrap();
        receiver.await.unwrap().unwrap()
    }

    /// An Xid 79 on a GPU of gpu001, which opens an incident.
    pub(crate) async fn lose_gpu(&self) {
        let (sender, receiver) = mpsc::channel();
        let ack = Box::new(move || sender.send(()).unwrap());
        self.handle.try_send(Message::Signals { signals: vec![xid("gpu001", 79)], ack }).unwrap();
        tokio::task::spawn_blocking(move || receiver.recv()).await.unwrap().unwrap();
    }

    /// Ends the controller.
    pub(crate) fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            if let Err(error) = self.handle.try_send(Message::Stop) {
                assert_eq!(error, TrySendError::Stopped);
            }
            thread.join().unwrap();
        }
    }

    /// Sends a request and gives the answer with its body unread.
    pub(crate) async fn send(&self, request: Request<Body>) -> Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Sends a request and reads the answer.
    pub(crate) async fn read(&self, request: Request<Body>) -> Reading {
        let (parts, body) = self.send(request).await.into_parts();
        let bytes = to_bytes(body, 64 * 1024 * 1024).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Reading { status: parts.status, headers: parts.headers, text }
    }

    pub(crate) async fn get(&self, path: &str, token: &str) -> Reading {
        self.read(request(Method::GET, path, token, Body::empty())).await
    }

    pub(crate) async fn post(&self, path: &str, token: &str, body: &Value) -> Reading {
        self.read(request(Method::POST, path, token, Body::from(body.to_string()))).await
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A request; without a token where it is empty.
pub(crate) fn request(method: Method, path: &str, token: &str, body: Body) -> Request<Body> {
    let mut request = Request::builder().method(&method).uri(path);
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if method == Method::POST {
        request = request.header("content-type", "application/json");
    }
    request.body(body).unwrap()
}

fn pci(index: u32) -> PciAddress {
    PciAddress { domain: 0, bus: u8::try_from(0x1b + index * 0x10).unwrap(), device: 0, function: 0 }
}

fn xid(node: &str, code: u32) -> Signal {
    Signal {
        node: node.to_owned(),
        kind: SignalKind::Xid,
        code: Some(code),
        pci: Some(pci(2)),
        impact: Impact::Info,
        fields: SignalFields::default(),
        at: T0,
        boot_id: None,
        sequence: None,
        historic: false,
        trust: Trust::Kernel,
        line: format!("NVRM: Xid (PCI:0000:3b:00): {code}, made up"),
    }
}

/// The first input of a controller.
pub(crate) fn started() -> Input {
    let names = ["gpu001", "gpu002", "gpu003", "spare01"];
    let gpu = |name: &str, index| GpuFacts {
        index,
        pci: pci(index),
        uuid: Some(format!("GPU-{name}-{index}")),
        model: None,
        serial: None,
    };
    let inventory = names.map(|name| NodeFacts {
        name: name.to_owned(),
        serial: Some(format!("SN-{name}")),
        rack: Some("r1".to_owned()),
        leaf: None,
        slurm: Some(format!("main/{name}")),
        gpus: (0..8).map(|index| gpu(name, index)).collect(),
    });
    let policy = ClusterPolicy {
        mode: Some(Mode::Act),
        partitions: vec!["batch".to_owned()],
        spare_partition: Some("spare".to_owned()),
    };
    let config = EngineConfig {
        site: "test".to_owned(),
        mode: Mode::Act,
        clusters: BTreeMap::from([("main".to_owned(), policy)]),
        inventory: inventory.to_vec(),
        ..EngineConfig::default()
    };
    Input::Started { version: "1.2.3".to_owned(), config: Box::new(config), runbooks: Vec::new() }
}

/// A poll; gpu003 is drained where a reason is given.
pub(crate) fn observation(drained: Option<&str>) -> Input {
    let node = |partition: &str| ObservedNode {
        state: "IDLE".to_owned(),
        partitions: vec![partition.to_owned()],
        ..ObservedNode::default()
    };
    let mut nodes: BTreeMap<String, ObservedNode> =
        ["gpu001", "gpu002", "gpu003"].map(|name| (name.to_owned(), node("batch"))).into();
    nodes.insert("spare01".to_owned(), node("spare"));
    if let Some(reason) = drained {
        let gpu003 = ObservedNode { drain: true, reason: reason.to_owned(), ..node("batch") };
        nodes.insert("gpu003".to_owned(), gpu003);
    }
    let job = ObservedJob {
        key: JobKey { cluster: "main".to_owned(), id: 7, submitted_at: T0 },
        state: JobState::Running,
        project: "physics".to_owned(),
        tier: Tier::Batch,
        partition: "batch".to_owned(),
        nodes: vec!["gpu001".to_owned()],
        gpus: BTreeMap::from([("gpu001".to_owned(), (0..8).collect())]),
        requeue: true,
        restarts: 0,
        pinned: Vec::new(),
        started_at: Some(T0),
        ended_at: None,
    };
    Input::Observed(Box::new(Observation {
        cluster: "main".to_owned(),
        at: T0,
        nodes,
        jobs: vec![job],
        jobs_pending: 0,
        partitions: BTreeMap::new(),
        unparsed: 0,
    }))
}
