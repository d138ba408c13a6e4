//! Reads the lists of nodes, jobs and partitions as slurmrestd and `squeue --json` write them, in the shapes of
//! the openapi plugins 0.0.36 to 0.0.38 (Slurm 22.05) and the data parsers 0.0.39 to 0.0.45 (23.02 to 26.05).
//!
//! One element that can't be read is counted and left out; its neighbours stay. Names of jobs, users, paths and
//! comments of users are never decoded, so they can't get anywhere.

use serde::Deserialize;
use serde_json::value::RawValue;

use provost_model::scheduler::{JobKey, JobState, ObservedJob, ObservedNode, Tier};
use provost_model::time::Timestamp;

use super::error::{Error, first_line};
use super::hostlist::{expand, is_name};
use super::text::{MAX_REASON, Parsed};
use super::words::{cut, gpu_count, gpu_indexes, job_state, node_from_flags};

/// A job with what is needed to act on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) observed: ObservedJob,
    /// Its array and its place there.
    pub(super) array: Option<(u32, u32)>,
    /// The leader of its heterogeneous job.
    pub(super) het_leader: Option<u32>,
    /// Written by operators and us only.
    pub(super) admin_comment: String,
}

impl Job {
    /// What scontrol calls it. A bare id would mean the whole array where the id is also the array's
    /// (the last task of an array gets it), and a part of a heterogeneous job is refused.
    pub(super) fn target(&self) -> String {
        match (self.array, self.het_leader) {
            (Some((array, task)), _) => format!("{array}_{task}"),
            (None, Some(leader)) => leader.to_string(),
            (None, None) => self.observed.key.id.to_string(),
        }
    }
}

/// One answer: a list under its key, beside what went wrong.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    nodes: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    jobs: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    partitions: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    errors: Vec<serde_json::Value>,
}

/// Which list.
#[derive(Clone, Copy, Debug)]
pub(super) enum List {
    Nodes,
    Jobs,
    Partitions,
}

/// The elements of a list. An answer with entries in `errors` is an error, whatever its status was: `squeue
/// --json` exits with 0 and an empty list while slurmctld is down.
fn elements<'a>(tool: &'static str, text: &'a str, list: List) -> Result<Vec<&'a RawValue>, Error> {
    let document: Document<'a> = serde_json::from_str(text).map_err(|error| Error::Unparsable {
        tool,
        // Not serde's whole message: it may quote the answer.
        detail: format!("JSON, line {} column {}", error.line(), error.column()),
    })?;
    if let Some(error) = document.errors.first() {
        return Err(refusal(tool, error));
    }
    let list = match list {
        List::Nodes => document.nodes,
        List::Jobs => document.jobs,
        List::Partitions => document.partitions,
    };
    list.ok_or_else(|| Error::Unparsable { tool, detail: "the list is missing".to_owned() })
}

/// An entry of `errors`; three spellings of its number in 22.05 alone.
fn refusal(tool: &'static str, error: &serde_json::Value) -> Error {
    let text = |key: &str| error.get(key).and_then(|v| v.as_str()).unwrap_or_default();
    let number = ["error_number", "errno", "error_code"].iter().find_map(|key| error.get(*key)?.as_i64());
    let said = [text("error"), text("description")].join(" ");
    let detail = first_line(&said);
    match number {
        // -1: 22.05's word for "slurmctld does not answer" (and for a bad token); 1800…: no connection.
        Some(-1 | 1800..=1899) => Error::ControllerAway { detail },
        Some(7000..=7099) => Error::DatabaseAway { detail },
        Some(number) => Error::Refused { tool, message: format!("{detail} ({number})") },
        None => Error::Refused { tool, message: detail },
    }
}

fn decode<'a, W: Deserialize<'a>, T>(
    tool: &'static str,
    text: &'a str,
    list: List,
    read: impl Fn(W) -> Option<T>,
) -> Result<Parsed<Vec<T>>, Error> {
    let mut parsed = Parsed::<Vec<T>>::default();
    for element in elements(tool, text, list)? {
        match serde_json::from_str(element.get()).ok().and_then(&read) {
            Some(item) => parsed.items.push(item),
            None => parsed.unparsed += 1,
        }
    }
    Ok(parsed)
}

/// Things with their names, in the order of the answer.
pub(super) type Named<T> = Parsed<Vec<(String, T)>>;

/// Nodes with their names.
pub(super) fn nodes(tool: &'static str, text: &str) -> Result<Named<ObservedNode>, Error> {
    decode(tool, text, List::Nodes, WireNode::read)
}

/// Jobs of `cluster`, also those that wait.
pub(super) fn jobs(tool: &'static str, text: &str, cluster: &str) -> Result<Parsed<Vec<Job>>, Error> {
    decode(tool, text, List::Jobs, |job: WireJob| job.read(cluster))
}

/// Partitions with their nodes.
pub(super) fn partitions(tool: &'static str, text: &str) -> Result<Named<Vec<String>>, Error> {
    decode(tool, text, List::Partitions, |wire: WirePartition| {
        let nodes = match &wire.nodes {
            Nodes::List(list) => list,
            Nodes::Object { configured } => configured,
        };
        is_name(&wire.name).then_some(())?;
        Some((wire.name, expand(nodes)?))
    })
}

/// A number: plain, absent, or from 0.0.39 on `{"set":…, "infinite":…, "number":…}`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(i64),
    Object { set: bool, infinite: bool, number: i64 },
    Absent(()),
}

impl Default for Number {
    fn default() -> Number {
        Number::Absent(())
    }
}

impl Number {
    fn get(&self) -> Option<i64> {
        match self {
            Number::Plain(n) | Number::Object { set: true, infinite: false, number: n } => Some(*n),
            _ => None,
        }
    }

    /// An id or count; 0 is "none" for ids.
    fn id(&self) -> Option<u32> {
        self.get().and_then(|n| u32::try_from(n).ok()).filter(|n| *n != 0)
    }

    /// A point in time in seconds; 0 is "none".
    fn time(&self) -> Option<Timestamp> {
        let seconds = self.get().filter(|s| (1..=253_402_300_799).contains(s))?;
        Some(Timestamp::from_millis(seconds * 1_000))
    }
}

/// A text, or from 0.0.39 on an array of texts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
    Absent(()),
}

impl Default for Texts {
    fn default() -> Texts {
        Texts::Absent(())
    }
}

impl Texts {
    fn as_slice(&self) -> &[String] {
        match self {
            Texts::One(text) => std::slice::from_ref(text),
            Texts::Many(texts) => texts,
            Texts::Absent(()) => &[],
        }
    }
}

#[derive(Deserialize)]
struct WireNode {
    name: String,
    state: Texts,
    #[serde(default)]
    state_flags: Vec<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    reason_changed_at: Number,
    #[serde(default)]
    reason_set_by_user: Option<String>,
    #[serde(default)]
    comment: Option<String>,
    #[serde(default)]
    partitions: Vec<String>,
    gres: Option<String>,
}

impl WireNode {
    fn read(self) -> Option<(String, ObservedNode)> {
        let flags = self.state.as_slice().iter().chain(&self.state_flags).map(String::as_str);
        let mut node = node_from_flags(flags)?;
        if !is_name(&self.name) || !self.partitions.iter().all(|name| is_name(name)) {
            return None;
        }
        node.reason = cut(self.reason.unwrap_or_default().trim(), MAX_REASON);
        if !node.reason.is_empty() {
            node.reason_user =
                self.reason_set_by_user.filter(|user| !user.is_empty()).map(|user| cut(&user, 64));
            node.reason_at = self.reason_changed_at.time();
        }
        node.comment = cut(self.comment.unwrap_or_default().trim_end(), MAX_REASON);
        node.partitions = self.partitions;
        node.gpus = self.gres.as_deref().and_then(gpu_count);
        Some((self.name, node))
    }
}

#[derive(Deserialize)]
struct WirePartition {
    name: String,
    nodes: Nodes,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Nodes {
    List(String),
    Object { configured: String },
}

#[derive(Deserialize)]
struct WireJob {
    job_id: Number,
    submit_time: Number,
    job_state: Texts,
    #[serde(default)]
    account: Option<String>,
    #[serde(default)]
    qos: Option<String>,
    #[serde(default)]
    partition: Option<String>,
    #[serde(default)]
    nodes: Option<String>,
    #[serde(default)]
    gres_detail: Vec<String>,
    requeue: bool,
    restart_cnt: Number,
    #[serde(default)]
    required_nodes: Texts,
    #[serde(default)]
    start_time: Number,
    #[serde(default)]
    end_time: Number,
    #[serde(default)]
    array_job_id: Number,
    #[serde(default)]
    array_task_id: Number,
    #[serde(default)]
    het_job_id: Number,
    #[serde(default)]
    admin_comment: Option<String>,
}

impl WireJob {
    fn read(self, cluster: &str) -> Option<Job> {
        let flags: Vec<&str> = self.job_state.as_slice().iter().map(String::as_str).collect();
        if flags.is_empty() {
            return None;
        }
        let state = job_state(&flags);
        let nodes = expand(self.nodes.as_deref().unwrap_or_default())?;
        let pinned =
            self.required_nodes.as_slice().iter().map(|list| expand(list)).collect::<Option<Vec<_>>>()?;
        // One detail a node, in the order of the nodes; where the counts differ nothing is known.
        let details = self.gres_detail.iter().map(|detail| gpu_indexes(detail));
        let gpus = match nodes.len() == self.gres_detail.len() {
            true => {
                nodes.iter().cloned().zip(details).filter_map(|(node, gpus)| Some((node, gpus?))).collect()
            }
            false => Default::default(),
        };
        let key = JobKey {
            cluster: cluster.to_owned(),
            id: self.job_id.id()?,
            submitted_at: self.submit_time.time()?,
        };
        let task = self.array_task_id.get().and_then(|n| u32::try_from(n).ok());
        let observed = ObservedJob {
            key,
            state,
            project: cut(&self.account.unwrap_or_default(), 64),
            tier: Tier::from_name(&self.qos.unwrap_or_default()),
            partition: cut(&self.partition.unwrap_or_default(), 256),
            nodes: if state == JobState::Pending { Vec::new() } else { nodes },
            gpus,
            requeue: self.requeue,
            restarts: u32::try_from(self.restart_cnt.get()?).ok()?,
            pinned: pinned.concat(),
            // Start and end of a job that waits, and the end of one that runs, are forecasts.
            started_at: if state == JobState::Pending { None } else { self.start_time.time() },
            ended_at: if state.ended() { self.end_time.time() } else { None },
        };
        Some(Job {
            observed,
            array: self.array_job_id.id().zip(task),
            het_leader: self.het_job_id.id(),
            admin_comment: cut(&self.admin_comment.unwrap_or_default(), 4_096),
        })
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
