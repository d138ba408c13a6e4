//! The Slurm adapter, for Slurm 22.05 to 26.05.
//!
//! * **Reads** go through slurmrestd where one is configured and answers, else through `scontrol` and `squeue`.
//!   One poll is three calls.
//! * **Writes** go through `scontrol`, the only way that every version has, and are read back with another call:
//!   neither an exit status nor an HTTP status tells whether something was done.
//! * **Ownership.** A reason is ours where it starts with `provost `, a node comment where it starts with
//!   `provost:`. Nothing else is ever overwritten or resumed; Slurm has no compare-and-swap, so what is lost
//!   between a look and a write is found in slurmdbd's events and put back ([`Cluster::check_gap`]).
//! * **Nodes are drained**, never set DOWN (that kills jobs) or FAIL.
//!
//! A job's submit time changes when it is requeued (seen on 22.05 and 24.11), so a [`JobKey`] names one run of a
//! job; [`Requeued`] says under which key it goes on.
//!
//! [`JobKey`]: provost_model::scheduler::JobKey

mod cli;
mod error;
mod gap;
mod hostlist;
mod jobs;
mod json;
mod marks;
mod nodes;
mod partitions;
mod rest;
mod text;
mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use provost_model::scheduler::{JobState, Observation, ObservedNode};
use provost_model::time::Timestamp;
use tokio::sync::{Mutex, OnceCell};

use cli::{MAX_JOBS_OUTPUT, Tools};
pub use error::{Error, Outcome, Probe, WriteError};
pub use gap::{Gap, GapWatch};
use hostlist::is_name;
pub use hostlist::{compress, expand};
pub use jobs::Requeued;
use json::Job;
pub use marks::Mark;
pub use nodes::{Held, HoldMark, Owner, Released};
pub use partitions::PartitionReadback;
use rest::Rest;
pub use rest::RestConfig;
pub use text::NodeEvent;
use text::Parsed;

/// One `[[slurm]]` entry.
#[derive(Clone, Debug)]
pub struct Config {
    /// Our name for the cluster.
    pub name: String,
    /// slurm.conf for the tools.
    pub conf: PathBuf,
    /// Where the tools are, if not on PATH.
    pub bin_dir: Option<PathBuf>,
    /// slurmrestd for reading, where there is one.
    pub rest: Option<RestConfig>,
    /// Partitions of production.
    pub partitions: Vec<String>,
    /// The partition that spares wait in.
    pub spare_partition: Option<String>,
    /// For each call to a tool or slurmrestd. Slurm's own limit is 4 to 5 s; [`Config::CALL_TIMEOUT`] leaves it
    /// room to answer.
    pub call_timeout: Duration,
}

impl Config {
    /// The default of [`Config::call_timeout`].
    pub const CALL_TIMEOUT: Duration = Duration::from_secs(6);
}

/// A Slurm cluster. Calls may run at the same time; changes of partitions wait for each other.
#[derive(Debug)]
pub struct Cluster {
    config: Config,
    tools: Tools,
    rest: Option<Rest>,
    version: OnceCell<(u16, u16)>,
    partition_edits: Mutex<()>,
}

impl Cluster {
    /// A cluster; nothing is asked yet. The names of partitions are checked: they end up in arguments.
    pub fn new(config: Config) -> Result<Cluster, Error> {
        for partition in config.partitions.iter().chain(&config.spare_partition) {
            checked("partition", partition)?;
        }
        let tools = Tools {
            conf: config.conf.clone(),
            bin_dir: config.bin_dir.clone(),
            timeout: config.call_timeout,
        };
        let rest = config.rest.clone().map(|rest| Rest::new(rest, config.call_timeout)).transpose()?;
        Ok(Cluster { config, tools, rest, version: OnceCell::new(), partition_edits: Mutex::new(()) })
    }

    /// What it was made of.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Slurm's version, such as (22, 5); of the tools on this host, which work with slurmctld of the same version
    /// or newer.
    pub async fn version(&self) -> Result<(u16, u16), Error> {
        let ask = async || {
            let text = self.tools.run("scontrol", &["--version"]).await?;
            cli::version(&text)
                .ok_or_else(|| Error::Unparsable { tool: "scontrol", detail: "no version".to_owned() })
        };
        self.version.get_or_try_init(ask).await.copied()
    }

    /// One poll: nodes, partitions, and the jobs that hold a node, ended or were requeued lately (slurmctld
    /// remembers an ended job for MinJobAge, 300 s by default). The waiting tasks of an array count as one job.
    pub async fn observe(&self) -> Result<Observation, Error> {
        let at = now();
        let lists = match self.read_rest().await {
            Some(lists) => lists,
            None => self.read_tools().await?,
        };
        let (nodes, jobs, partitions) = lists;
        let waits = |job: &&Job| job.observed.state == JobState::Pending;
        let jobs_pending = jobs.items.iter().filter(waits).count() as u64;
        let jobs_of_interest = jobs.items.into_iter().map(|job| job.observed);
        Ok(Observation {
            cluster: self.config.name.clone(),
            at,
            nodes: nodes.items,
            jobs: jobs_of_interest.filter(|job| job.state != JobState::Pending || job.restarts > 0).collect(),
            jobs_pending,
            partitions: partitions.items,
            unparsed: nodes.unparsed + jobs.unparsed + partitions.unparsed,
        })
    }

    /// Reads through slurmrestd, where that is worth a try; a failure is logged and the tools are asked.
    async fn read_rest(&self) -> Option<Lists> {
        let rest = self.rest.as_ref()?;
        if !rest.worth_asking().await {
            return None;
        }
        let read = async {
            let lists = rest.read().await?;
            let nodes = keyed(json::nodes("slurmrestd", &lists.nodes)?);
            let jobs = json::jobs("slurmrestd", &lists.jobs, &self.config.name)?;
            Ok::<_, Error>((nodes, jobs, keyed(json::partitions("slurmrestd", &lists.partitions)?)))
        };
        match read.await {
            Ok(lists) => Some(lists),
            Err(error) => {
                tracing::warn!(cluster = %self.config.name, %error, "slurmrestd is left aside; reading with Slurm's tools");
                None
            }
        }
    }

    /// Nodes first: a cluster that is away then costs one time limit, not three.
    async fn read_tools(&self) -> Result<Lists, Error> {
        let nodes = self.read_nodes().await?;
        let jobs = self.read_jobs(None).await?;
        Ok((nodes, jobs, self.read_partitions().await?))
    }

    async fn read_nodes(&self) -> Result<Parsed<BTreeMap<String, ObservedNode>>, Error> {
        Ok(text::nodes(&self.tools.run("scontrol", &["-a", "show", "nodes"]).await?))
    }

    async fn read_partitions(&self) -> Result<Parsed<BTreeMap<String, Vec<String>>>, Error> {
        Ok(text::partitions(&self.tools.run("scontrol", &["-a", "show", "partition"]).await?))
    }

    /// All jobs, or those of one id (22.05 lists all the same). JSON, because no text form is safe against
    /// the names of jobs, and because it has the indexes of GPUs.
    async fn read_jobs(&self, id: Option<u32>) -> Result<Parsed<Vec<Job>>, Error> {
        let id = id.map(|id| id.to_string());
        let mut args = vec!["--json", "-a", "-t", "all"];
        if let Some(id) = &id {
            args.extend(["-j", id]);
        }
        let text = self.tools.run_bounded("squeue", &args, MAX_JOBS_OUTPUT).await?;
        json::jobs("squeue", &text, &self.config.name)
    }

    /// Slurm's changes of a node, job or partition: `scontrol update KEY=VALUE…`.
    async fn update(&self, args: &[&str]) -> Result<(), Error> {
        let args: Vec<&str> = std::iter::once("update").chain(args.iter().copied()).collect();
        self.tools.run("scontrol", &args).await.map(drop)
    }
}

type Lists =
    (Parsed<BTreeMap<String, ObservedNode>>, Parsed<Vec<Job>>, Parsed<BTreeMap<String, Vec<String>>>);

/// By name; a name that is there twice is ambiguous, so both are unparsed.
fn keyed<T>(list: json::Named<T>) -> Parsed<BTreeMap<String, T>> {
    let mut keyed = Parsed { items: BTreeMap::new(), unparsed: list.unparsed };
    let mut twice = Vec::new();
    for (name, item) in list.items {
        if keyed.items.insert(name.clone(), item).is_some() {
            twice.push(name);
        }
    }
    for name in twice {
        keyed.unparsed += 1 + u64::from(keyed.items.remove(&name).is_some());
    }
    keyed
}

/// `name`, where it may be put into an argument.
fn checked<'a>(what: &'static str, name: &'a str) -> Result<&'a str, Error> {
    if is_name(name) {
        Ok(name)
    } else {
        Err(Error::BadInput { what, text: name.escape_debug().take(80).collect() })
    }
}

/// `text`, where it is one printable line of at most `limit` characters that starts with `prefix`. A quote at
/// either end would be taken off by scontrol.
fn checked_text<'a>(what: &'static str, text: &'a str, prefix: &str, limit: usize) -> Result<&'a str, Error> {
    let fine = text.starts_with(prefix)
        && text.chars().count() <= limit
        && !text.chars().any(char::is_control)
        && !text.ends_with(['"', '\'', ' ']);
    if fine { Ok(text) } else { Err(Error::BadInput { what, text: text.escape_debug().take(80).collect() }) }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod fixture_tests;
