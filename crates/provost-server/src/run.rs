//! `provost up`: everything is opened and checked first, then started in the order in which it depends on each
//! other, and ended the other way round.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use provost_api::Api;
use provost_connect::slurm::{self, Cluster};
use provost_controller::{Committed, Controller, Handle, Message, Progress};
use provost_journal::{Emergency, Journal, Reader, Sealer};
use provost_model::input::Input;
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinSet;

use crate::agents::Agents;
use crate::attend::bind;
use crate::backend::ServerBackend;
use crate::bmc::Bmcs;
use crate::certificates::Authority;
use crate::clock::{self, SystemClock};
use crate::config::{Config, SlurmCluster};
use crate::executors::{Executors, Reached};
use crate::local::{self, Local};
use crate::poll::Poll;
use crate::{listener, maintenance, runbooks, stop_file};

/// Records that a slow reader of the live stream may lag behind before it reads from the journal again.
pub(crate) const LIVE_RECORDS: usize = 16_384;
/// How often the journal's log is copied back and its tiles are written.
const MAINTAIN_EVERY: Duration = Duration::from_secs(1);
/// How often silence of agents and the stop file are looked for.
pub(crate) const WATCH_EVERY: Duration = Duration::from_millis(250);

/// What to run.
#[derive(Debug)]
pub struct Up {
    /// Configuration.
    pub config: Config,
    /// Data directory.
    pub data: PathBuf,
    /// Gets the line `ready https://ADDR`, and progress of a long start on another line.
    pub say: fn(&str),
}

/// Why the server does not run. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port.
    #[error(
        "cannot listen on {address}; stop the program that has this port, or choose another with --listen"
    )]
    Listen {
        /// Address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The journal.
    #[error(transparent)]
    Journal(#[from] provost_journal::Error),
    /// The controller.
    #[error(transparent)]
    Controller(#[from] provost_controller::Error),
    /// Certificates, tokens.
    #[error(transparent)]
    Certificates(#[from] crate::certificates::Error),
    /// Runbooks.
    #[error(transparent)]
    Runbooks(#[from] runbooks::Error),
    /// The authority of a BMC.
    #[error(transparent)]
    Trust(#[from] provost_connect::tls::TrustError),
    /// A scheduler's configuration.
    #[error("the scheduler `{name}` cannot be used")]
    Scheduler {
        /// Name.
        name: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The thread of the controller could not be started, or ended by itself.
    #[error("the controller has ended; its last log lines say why")]
    Ended,
    /// The system.
    #[error("failed to {what}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// Where something can't be opened or started.
pub async fn up(up: Up) -> Result<(), Error> {
    let Up { config, data, say } = up;
    let books = runbooks::load(config.runbooks.as_deref())?;
    let journal = Journal::open(&data, provost_journal::Options::new(&config.engine.site))?;
    let authority = Arc::new(Authority::open(&data, &config.engine.site, journal.size() == 0)?);
    let tls = authority.server_config(config.tls.as_ref(), config.listen.ip(), provost_wire::ALPN)?;
    let (listener, server) = bind(config.listen).await?;
    let reached = clusters(&config.slurm)?;
    let bmcs = Arc::new(Bmcs::new(&config.bmc)?);
    let (executors, connection) = Executors::new(&reached, Arc::clone(&bmcs));
    let (live, _) = broadcast::channel(LIVE_RECORDS);
    let controller = open_controller(&config, &data, journal, executors, live.clone(), say)?;

    let token = tell_local(&server, &data)?;

    let handle = controller.handle();
    let started = Input::Started {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config: Box::new(config.engine.clone()),
        runbooks: books,
    };
    let agents = Agents::new(handle.clone(), Arc::clone(&authority));
    connection.attach(handle.clone(), Arc::clone(&agents));
    let thread = spawn_controller(controller, started).await?;
    let backend = ServerBackend::new(&data, &token, Arc::clone(&agents))?.with_bmcs(Arc::clone(&bmcs));
    let api = Api { handle: handle.clone(), backend: Arc::new(backend), live };
    let mut tasks = JoinSet::new();
    start_tasks(&mut tasks, &handle, &agents, &bmcs, reached, &data);
    let (followed, records) = (Arc::clone(&agents), api.live.subscribe());
    tasks.spawn(async move { followed.follow(records).await });
    tasks.spawn(listener::serve(listener, tls, provost_api::router(api), agents));
    say(&format!("ready {server}"));
    let ended = until_stopped(&mut tasks, &thread).await;
    stop(tasks, &handle, thread).await;
    ended
}

/// Writes `local.toml` with a new token and gives it. On a full disk the file of the last start serves on: a
/// controller that can't be asked is worse than a token that is not new.
pub(crate) fn tell_local(server: &str, data: &Path) -> Result<String, Error> {
    let ca_file = data.join("ca.pem").display().to_string();
    let local = Local { server: server.to_owned(), ca_file, token: local::new_token()? };
    let Err(error) = local.write(data) else { return Ok(local.token) };
    match Local::read(data).filter(|last| last.server == server) {
        Some(last) => {
            tracing::warn!(error = %error, "local.toml is the one of the last start");
            Ok(last.token)
        }
        None => Err(error.into()),
    }
}

/// The adapters, by name.
fn clusters(configured: &[SlurmCluster]) -> Result<BTreeMap<String, Reached>, Error> {
    let open = |written: &SlurmCluster| -> Result<Reached, Box<dyn std::error::Error + Send + Sync>> {
        let rest = match &written.rest {
            None => None,
            Some(rest) => Some(slurm::RestConfig {
                endpoint: rest.url.parse()?,
                ca_file: rest.ca_file.clone(),
                user: rest.user.clone(),
                token_file: rest.token_file.clone(),
            }),
        };
        let cluster = Cluster::new(slurm::Config {
            name: written.name.clone(),
            conf: written.conf.clone(),
            bin_dir: written.bin.clone(),
            rest,
            partitions: written.partitions.clone(),
            spare_partition: written.spare_partition.clone(),
            call_timeout: slurm::Config::CALL_TIMEOUT,
        })?;
        Ok(Reached { cluster: Arc::new(cluster), hint: Arc::new(Notify::new()) })
    };
    configured
        .iter()
        .map(|written| {
            let reached =
                open(written).map_err(|source| Error::Scheduler { name: written.name.clone(), source })?;
            Ok((written.name.clone(), reached))
        })
        .collect()
}

fn open_controller(
    config: &Config,
    data: &Path,
    journal: Journal,
    executors: Executors,
    live: broadcast::Sender<Committed>,
    say: fn(&str),
) -> Result<Controller, Error> {
    let emergency = config.emergency.clone().unwrap_or_else(|| Emergency::default_path(data));
    let options = provost_controller::Options {
        site: config.engine.site.clone(),
        sealer: Sealer::open(data, journal.size() == 0)?,
        emergency: Emergency::open(&emergency)?,
        journal,
        clock: Box::new(SystemClock),
        neighbours: Box::new(executors),
        on_commit: Box::new(move |records| {
            for record in records {
                // Nobody listens most of the time; a listener that comes later reads the journal first.
                drop(live.send(record.clone()));
            }
        }),
    };
    let mut reported = false;
    let mut report = |progress: Progress| {
        let left = progress.total - progress.from_snapshot;
        if !reported && left > 200_000 {
            reported = true;
            say(&format!(
                "reading {left} of {} records; this takes about {} s",
                progress.total,
                left / 100_000
            ));
        }
    };
    Ok(Controller::open(options, &mut report)?)
}

/// Starts the one thread that owns State and journal; returns when its start is recorded.
async fn spawn_controller(controller: Controller, started: Input) -> Result<JoinHandle<()>, Error> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let run = move || {
        let mut controller = controller;
        let answer = Box::new(move |answer| drop(sender.send(answer)));
        controller.process(vec![Message::Ask { input: started, answer }]);
        controller.merge_emergency();
        if let Err(error) = controller.run() {
            tracing::error!(error = %error, "the system gives no thread to write the journal; the controller ends");
        }
    };
    let thread = std::thread::Builder::new()
        .name("controller".to_owned())
        .spawn(run)
        .map_err(|source| Error::System { what: "start the controller's thread", source })?;
    match receiver.await {
        Ok(Ok(_)) => Ok(thread),
        // With a full disk the server still runs: it shows, detects and contains; the start is recorded later.
        Ok(Err(unavailable)) => {
            tracing::error!(error = %unavailable, "the start could not be recorded yet");
            Ok(thread)
        }
        Err(_) => Err(Error::Ended),
    }
}

fn start_tasks(
    tasks: &mut JoinSet<()>,
    handle: &Handle,
    agents: &Arc<Agents>,
    bmcs: &Arc<Bmcs>,
    reached: BTreeMap<String, Reached>,
    data: &Path,
) {
    for Reached { cluster, hint } in reached.into_values() {
        tasks.spawn(Poll { handle: handle.clone(), cluster, hint }.run());
    }
    agents.expect_known(clock::now());
    let (watched, witnesses) = (Arc::clone(agents), Arc::clone(bmcs));
    tasks.spawn(async move {
        let mut every = tokio::time::interval(WATCH_EVERY);
        loop {
            every.tick().await;
            for node in watched.watch(clock::now()) {
                witnesses.look(&node);
            }
            watched.tell_standings();
        }
    });
    tasks.spawn(Arc::clone(bmcs).run(handle.clone()));
    tasks.spawn(maintenance::keep(data.to_owned(), MAINTAIN_EVERY));
    tasks.spawn(stop_file::watch(handle.clone(), data.join("STOP"), WATCH_EVERY));
}

/// Waits for a signal; a task or the controller that ends by itself is an error.
async fn until_stopped(tasks: &mut JoinSet<()>, thread: &JoinHandle<()>) -> Result<(), Error> {
    use tokio::signal::unix::{SignalKind, signal};
    let system = |source| Error::System { what: "listen for signals", source };
    let mut terminate = signal(SignalKind::terminate()).map_err(system)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(system)?;
    let mut alive = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            Some(ended) = tasks.join_next() => {
                tracing::error!(ended = ?ended, "a part of the server has ended");
                return Err(Error::Ended);
            }
            _ = alive.tick() => if thread.is_finished() {
                return Err(Error::Ended);
            },
        }
    }
}

/// No new input; what is in the inbox is still made durable, then the controller ends.
async fn stop(mut tasks: JoinSet<()>, handle: &Handle, thread: JoinHandle<()>) {
    tasks.shutdown().await;
    let handle = handle.clone();
    let joined = tokio::task::spawn_blocking(move || {
        if handle.send(Message::Stop).is_ok() {
            drop(thread.join());
        }
    });
    drop(joined.await);
}

/// Opens the journal for reading, beside the writer.
pub(crate) fn reader(data: &Path) -> Result<Reader, provost_journal::Error> {
    Reader::open(data)
}
