//! Reads what `scontrol show node`, `scontrol show partition` and `sacctmgr show event` print.
//!
//! The form with line breaks is read, never `-o`: on one line a reason such as `x State=IDLE` can't be told from
//! a field. In the form with line breaks a field that starts a line has exactly three spaces before it, and
//! the lines of a reason are set in further. Only `Comment` and `Extra` (operators) and `OS` (the node's own root)
//! could hold a line of their own making; a field or node that is there twice makes the record ambiguous, and
//! ambiguous is unparsed. Jobs are never read from this text: their users choose JobName, which comes first
//! and may hold line breaks. They are read as JSON.

use std::collections::BTreeMap;

use provost_model::scheduler::ObservedNode;
use provost_model::time::Timestamp;

use super::hostlist::{expand, is_name};
use super::words::{cut, gpu_count, node_from_flags};

/// What was understood, and how many records were not.
#[derive(Debug, Default)]
pub(super) struct Parsed<T> {
    pub(super) items: T,
    pub(super) unparsed: u64,
}

/// Longest reason or comment that is kept, in characters.
pub(super) const MAX_REASON: usize = 256;

/// Nodes by name, from `scontrol -a show nodes`.
pub(super) fn nodes(text: &str) -> Parsed<BTreeMap<String, ObservedNode>> {
    by_name(text, "NodeName=", node)
}

/// The nodes of each partition, from `scontrol -a show partition`.
pub(super) fn partitions(text: &str) -> Parsed<BTreeMap<String, Vec<String>>> {
    by_name(text, "PartitionName=", |record| expand(record.required("Nodes")?))
}

/// Reads each record of `text`; one that is ambiguous or named twice is counted and left out.
fn by_name<T>(
    text: &str,
    start: &str,
    read: impl Fn(&Record<'_>) -> Option<T>,
) -> Parsed<BTreeMap<String, T>> {
    let (records, mut unparsed) = records(text, start);
    let mut items: BTreeMap<String, Option<T>> = BTreeMap::new();
    for record in &records {
        if !is_name(record.name) {
            unparsed += 1;
            continue;
        }
        let value = read(record);
        unparsed += u64::from(value.is_none());
        match items.entry(record.name.to_owned()) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(value);
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                // Neither of the two can be believed.
                unparsed += u64::from(value.is_some()) + u64::from(entry.insert(None).is_some());
            }
        }
    }
    let items = items.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    Parsed { items, unparsed }
}

/// The lines of one node or partition.
struct Record<'a> {
    name: &'a str,
    lines: Vec<&'a str>,
}

impl<'a> Record<'a> {
    /// Where the line of `key` is and what follows it; the outer `None` is "there twice".
    fn line(&self, key: &str) -> Option<Option<(usize, &'a str)>> {
        let mut found = None;
        for (at, line) in self.lines.iter().enumerate() {
            let Some(value) =
                line.strip_prefix("   ").and_then(|l| l.strip_prefix(key)).and_then(|l| l.strip_prefix('='))
            else {
                continue;
            };
            if found.replace((at, value)).is_some() {
                return None;
            }
        }
        Some(found)
    }

    /// The first word of a line that must be there.
    fn required(&self, key: &str) -> Option<&'a str> {
        let (_, value) = self.line(key)??;
        Some(value.split(' ').next().unwrap_or(value))
    }

    /// The whole line; empty where it is absent.
    fn free(&self, key: &str) -> Option<&'a str> {
        Some(self.line(key)?.map_or("", |(_, value)| value.trim_end()))
    }
}

/// Splits into records; text before the first one counts as unparsed.
fn records<'a>(text: &'a str, start: &str) -> (Vec<Record<'a>>, u64) {
    let (mut records, mut stray): (Vec<Record<'a>>, bool) = (Vec::new(), false);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix(start) {
            let name = rest.split(' ').next().unwrap_or(rest);
            records.push(Record { name, lines: Vec::new() });
        } else if let Some(record) = records.last_mut() {
            record.lines.push(line);
        } else {
            stray |= !line.trim().is_empty();
        }
    }
    (records, u64::from(stray))
}

fn node(record: &Record<'_>) -> Option<ObservedNode> {
    let mut node = node_from_flags(record.required("State")?.split('+'))?;
    node.partitions = match record.free("Partitions")? {
        "" => Vec::new(),
        list => list.split(',').map(str::to_owned).collect(),
    };
    if !node.partitions.iter().all(|name| is_name(name)) {
        return None;
    }
    node.gpus = gpu_count(record.free("Gres")?);
    node.comment = cut(record.free("Comment")?, MAX_REASON);
    if let Some((at, first)) = record.line("Reason")? {
        let (words, user, set_at) = reason(first);
        let more = record.lines[at + 1..].iter().take_while(|line| line.starts_with("    "));
        let words = more.fold(words.to_owned(), |words, line| words + "\n" + line.trim());
        node.reason = cut(words.trim(), MAX_REASON);
        node.reason_user = user.map(str::to_owned);
        node.reason_at = set_at;
    }
    Some(node)
}

/// Splits `dimm [root@2026-11-30T20:23:48]`. The words may hold brackets of their own; ours is the last.
fn reason(line: &str) -> (&str, Option<&str>, Option<Timestamp>) {
    let line = line.trim_end();
    let tag = line.strip_suffix(']').and_then(|rest| rest.rsplit_once(" [")).and_then(|(words, tag)| {
        let (user, at) = tag.rsplit_once('@')?;
        Some((words, user, time(at)?))
    });
    match tag {
        Some((words, user, at)) => (words, Some(user).filter(|user| !user.is_empty()), Some(at)),
        None => (line, None, None),
    }
}

/// A time as Slurm's tools print it; they run with TZ=UTC. `Unknown` and `None` are no time.
fn time(text: &str) -> Option<Timestamp> {
    if text.len() != "2026-11-30T20:23:48".len() {
        return None;
    }
    format!("{text}Z").parse().ok()
}

/// A state of a node that slurmdbd recorded: a drain or a failure with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// Node.
    pub node: String,
    /// When it began; whole seconds of slurmctld's clock.
    pub from: Timestamp,
    /// When it ended; absent where it goes on.
    pub until: Option<Timestamp>,
    /// `DRAIN`, `DOWN` and so on, as Slurm writes it.
    pub state: String,
    /// Who set it, by name.
    pub user: String,
    /// The reason, cut to 256 characters.
    pub reason: String,
}

/// What `sacctmgr -nP show event` is asked for; the reason, which may hold `|`, is last.
pub(super) const EVENT_FORMAT: &str = "format=NodeName,TimeStart,TimeEnd,State,User,Reason";

/// Events in the order in which they began. Rows about the cluster itself have no node and are left out.
pub(super) fn events(text: &str) -> Parsed<Vec<NodeEvent>> {
    let mut parsed = Parsed::<Vec<NodeEvent>>::default();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('|')) {
        match event(line) {
            Some(event) => parsed.items.push(event),
            None => parsed.unparsed += 1,
        }
    }
    parsed.items.sort_by_key(|event| event.from);
    parsed
}

fn event(line: &str) -> Option<NodeEvent> {
    let mut fields = line.splitn(6, '|');
    let node = fields.next().filter(|name| is_name(name))?.to_owned();
    let from = time(fields.next()?)?;
    let until = match fields.next()? {
        "Unknown" => None,
        text => Some(time(text)?),
    };
    let state = cut(fields.next()?, 64);
    let user = fields.next()?;
    // `root(0)`
    let user = cut(user.rsplit_once('(').map_or(user, |(name, _)| name), 64);
    Some(NodeEvent { node, from, until, state, user, reason: cut(fields.next()?, MAX_REASON) })
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
