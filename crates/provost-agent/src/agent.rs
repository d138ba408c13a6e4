//! Starts the threads of all nodes, keeps their positions on disk, and ends them.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use provost_model::catalogue::Catalogue;
use rustls::RootCertStore;

use crate::config::{Config, NodeConfig};
use crate::connection::{self, Connection};
use crate::follow::Restart;
use crate::identity::{self, IdentityError};
use crate::log;
use crate::order::{self, OrderLog, Orders, Worker};
use crate::outbox::Outbox;
use crate::reader;
use crate::spool::{self, Spool};
use crate::standing::Kept;
use crate::store::{Store, StoreError};
use crate::wait::{Interest, Shutdown, Wake, wait};

/// Name of the file in the node's folder that holds how far the kernel log was read.
const POSITION_FILE: &str = "kernel_log.json";
/// How often positions are saved. After a crash, signals of this time may be sent twice.
const SAVE: Duration = Duration::from_millis(500);
/// Until a first position is saved: without one, a restart takes all that it finds for the time before.
const FIRST_SAVE: Duration = Duration::from_millis(20);
/// Threads have this long to end; one that hangs in a name server does not hold the process.
const END: Duration = Duration::from_millis(800);
/// TLS needs the most, about a quarter of it.
const STACK: usize = 256 * 1024;

/// Why an agent can't start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The file of the authorities can't be read.
    #[error("failed to read the ca_file `{path}`; copy ca.pem there from the controller's data directory")]
    CaFile {
        /// Path.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// It holds no certificates.
    #[error("failed to use the ca_file `{path}`")]
    Ca {
        /// Path.
        path: PathBuf,
        /// Cause.
        source: IdentityError,
    },
    /// A node's folder can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system gives no descriptor.
    #[error("failed to make a descriptor to wait for")]
    Descriptor(#[source] io::Error),
    /// The system gives no thread or no descriptor.
    #[error("failed to start the threads of node `{node}`")]
    Threads {
        /// Name of the node.
        node: String,
        /// Cause.
        source: io::Error,
    },
    /// A thread has panicked: a bug.
    #[error("a thread of the agent has ended by itself; its message stands above")]
    Ended,
}

/// Runs an agent until `shutdown` is triggered, and then ends within a second.
///
/// # Errors
/// Where it can't start. A controller that can't be reached and a kernel log that can't be read are no such
/// reasons: they are tried again for ever.
pub fn run(config: &Config, shutdown: &Shutdown) -> Result<(), AgentError> {
    let roots = Arc::new(read_roots(&config.ca_file)?);
    let catalogue = Arc::new(Catalogue::embedded());
    let boot_id = boot_id();
    let wake = Arc::new(Wake::new().map_err(AgentError::Descriptor)?);
    let nodes: Vec<Node> =
        config.nodes.iter().map(|node| Node::open(config, node, &wake)).collect::<Result<_, _>>()?;
    let (alive, ended) = mpsc::channel();
    let mut threads = Vec::new();
    let mut result = Ok(());
    for node in &nodes {
        let started = node.start(config, &roots, &catalogue, boot_id.as_deref(), shutdown, &alive);
        match started {
            Ok(started) => threads.extend(started),
            Err(source) => {
                result = Err(AgentError::Threads { node: node.config.name.clone(), source });
                shutdown.trigger();
                break;
            }
        }
    }
    drop(alive);
    let mut next = Instant::now();
    loop {
        let on = [(shutdown.as_fd(), Interest::Read), (wake.as_fd(), Interest::Read)];
        if wait(on, Some(next.saturating_duration_since(Instant::now())))[0] {
            break;
        }
        wake.clear();
        nodes.iter().for_each(Node::save_standing);
        if Instant::now() < next {
            continue;
        }
        nodes.iter().for_each(|node| node.save(false));
        next = Instant::now() + if nodes.iter().all(Node::has_saved) { SAVE } else { FIRST_SAVE };
        // In this order: threads that were told to end are no surprise.
        if threads.iter().any(JoinHandle::is_finished) && !shutdown.is_triggered() {
            result = Err(AgentError::Ended);
            shutdown.trigger();
        }
    }
    // Nobody sends: this waits until all threads have dropped their ends, or the time is over.
    let all_ended = ended.recv_timeout(END) == Err(mpsc::RecvTimeoutError::Disconnected);
    if all_ended && threads.into_iter().any(|thread| thread.join().is_err()) {
        result = Err(AgentError::Ended);
    }
    nodes.iter().for_each(|node| node.save(true));
    result
}

/// The authorities that may have signed the controller's certificate.
pub(crate) fn read_roots(path: &Path) -> Result<RootCertStore, AgentError> {
    let pem = fs::read(path).map_err(|source| AgentError::CaFile { path: path.to_owned(), source })?;
    identity::roots(&pem).map_err(|source| AgentError::Ca { path: path.to_owned(), source })
}

fn boot_id() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty() && id.len() <= 64)
}

/// What the threads of one node share.
struct Node {
    config: NodeConfig,
    store: Arc<Store>,
    outbox: Arc<Outbox>,
    orders: Arc<Orders>,
    standing: Arc<Kept>,
    restart: Option<Restart>,
    saved: RefCell<Option<Restart>>,
    /// None where it can't be used.
    spool: RefCell<Option<Spool>>,
}

impl Node {
    fn open(config: &Config, node: &NodeConfig, wake: &Arc<Wake>) -> Result<Node, AgentError> {
        let store = Arc::new(Store::open(&config.state_dir, &node.name)?);
        let restart = store.read::<Restart>(POSITION_FILE).unwrap_or_else(|error| {
            // What is in the log is read as news then: rather twice than not at all.
            log::warn(&node.name, log::chain(&error));
            Some(Restart { boot_id: None, position: None, historic_until: None })
        });
        let failed = |source| AgentError::Threads { node: node.name.clone(), source };
        let outbox = Arc::new(Outbox::new().map_err(failed)?);
        let spool = Spool::open(&store.path(spool::FILE));
        let spool = spool.inspect_err(|error| log::warn(&node.name, log::chain(error))).ok();
        let (spool, kept) = spool.unzip();
        let kept = kept.unwrap_or_default();
        let restart = later(restart, kept.restart.clone());
        outbox.restore(kept);
        Ok(Node {
            config: node.clone(),
            store,
            outbox,
            orders: Arc::new(Orders::new().map_err(failed)?),
            standing: Arc::new(Kept::new(Arc::clone(wake))),
            saved: RefCell::new(restart.clone()),
            spool: RefCell::new(spool),
            restart,
        })
    }

    fn start(
        &self,
        config: &Config,
        roots: &Arc<RootCertStore>,
        catalogue: &Arc<Catalogue>,
        boot_id: Option<&str>,
        shutdown: &Shutdown,
        alive: &Sender<()>,
    ) -> io::Result<[JoinHandle<()>; 3]> {
        let name = &self.config.name;
        let boot_id = boot_id.map(str::to_owned);
        let actions = config.actions.iter().map(|action| action.name.clone());
        let connection = Connection {
            node: name.clone(),
            server: config.server.clone(),
            roots: Arc::clone(roots),
            enrol_token_file: config.enrol_token_file.clone(),
            hello: connection::hello(name, boot_id.clone(), actions),
            store: Arc::clone(&self.store),
            outbox: Arc::clone(&self.outbox),
            orders: Arc::clone(&self.orders),
            standing: Arc::clone(&self.standing),
            shutdown: shutdown.clone(),
        };
        let worker = Worker {
            node: name.clone(),
            actions: config.actions.clone().into(),
            log: self.open_order_log(),
            orders: Arc::clone(&self.orders),
            outbox: Arc::clone(&self.outbox),
            shutdown: shutdown.clone(),
            running: BTreeMap::new(),
            held_back: VecDeque::new(),
        };
        let (node, restart, outbox) = (self.config.clone(), self.restart.clone(), Arc::clone(&self.outbox));
        let (catalogue, end) = (Arc::clone(catalogue), shutdown.clone());
        let read = move || reader::run(&node, boot_id, restart, &catalogue, &outbox, &end);
        Ok([
            spawn("kernel log", alive, read)?,
            spawn("connection", alive, move || connection.run())?,
            spawn("orders", alive, move || worker.run())?,
        ])
    }

    fn open_order_log(&self) -> Option<OrderLog> {
        OrderLog::open(&self.store.path(order::FILE))
            .inspect_err(|error| log::warn(&self.config.name, log::chain(error)))
            .ok()
    }

    fn has_saved(&self) -> bool {
        self.saved.borrow().is_some()
    }

    /// Keeps whether the node may take work.
    fn save_standing(&self) {
        if let Err(error) = self.standing.save(&self.store) {
            log::warn(&self.config.name, log::chain(&error));
        }
    }

    /// Keeps the signals that wait for longer than a moment, or `all`, and how far the kernel log was read.
    fn save(&self, all: bool) {
        if let Some(spool) = &mut *self.spool.borrow_mut() {
            let waiting = self.outbox.for_spool(all);
            let up_to = waiting.up_to;
            match spool.keep(waiting) {
                Ok(()) => self.outbox.is_spooled(up_to),
                Err(error) => log::warn(&self.config.name, log::chain(&error)),
            }
        }
        let Some(restart) = self.outbox.restart_point() else { return };
        let mut saved = self.saved.borrow_mut();
        if saved.as_ref() == Some(&restart) {
            return;
        }
        match self.store.write(POSITION_FILE, &restart, false) {
            Ok(()) => *saved = Some(restart),
            Err(error) => log::warn(&self.config.name, log::chain(&error)),
        }
    }
}

/// From where the log is read on: what its own file says, unless the spool knows better.
fn later(of_log: Option<Restart>, of_spool: Option<Restart>) -> Option<Restart> {
    match (of_log, of_spool) {
        (Some(log), Some(spool)) => {
            let is_later = match (log.position, spool.position) {
                (Some(log), Some(spool)) => log.is_before(spool),
                _ => false,
            };
            Some(if log.boot_id == spool.boot_id && is_later { spool } else { log })
        }
        (log, spool) => log.or(spool),
    }
}

fn spawn(name: &str, alive: &Sender<()>, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let alive = alive.clone();
    Builder::new().name(name.to_owned()).stack_size(STACK).spawn(move || {
        work();
        drop(alive);
    })
}
