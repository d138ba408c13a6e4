//! The time line of an episode: one thing a line, `when where what`.
//!
//! ```text
//! 0        gpu003          job train gpus=8
//! 20       gpu003          kernel NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.
//! 20.5     gpu[003-005]    kernel*45 NVRM: Xid (PCI:0000:1b:00): 45, pid=4{n}, name=train, Ch 00000008
//! 2m       -               slurmctld away
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use provost_model::scheduler::{JobState, Tier};
use provost_model::time::Span;

use super::play::LAYOUT;

/// Kernel lines of one episode at most: a corpus is read by people and played on a laptop.
const MAX_LINES: usize = 50_000;

/// Something that happens.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    /// Since the beginning of the episode.
    pub(super) at: Duration,
    /// Nodes; none where it is about the site.
    pub(super) nodes: Vec<String>,
    /// What.
    pub(super) what: What,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The kernel writes; several equal lines at once, where a copy's number may stand in for `{n}`.
    Kernel { text: String, copies: usize },
    /// The kernel had written it before the agent's first start.
    History(String),
    /// A program writes to `/dev/kmsg`.
    User(String),
    /// A record as the device gives it.
    Raw(String),
    /// The node starts anew: another boot, whose log the agent reads from its first record.
    Boot,
    /// The agent is connected or not.
    Agent(bool),
    /// The agent reads the kernel log, or can't make anything of it.
    Log(bool),
    /// slurmd answers or not.
    Slurmd(bool),
    /// slurmctld gives the node up.
    SlurmdDown,
    /// slurmctld answers or not.
    Slurmctld(bool),
    /// `scontrol reconfigure`: for two seconds no node is known.
    Reconfigure,
    /// Somebody drains the node behind our back.
    ForeignDrain(String),
    /// And resumes it.
    ForeignResume,
    /// An operator takes the node out through Provost.
    OperatorDrain,
    /// And brings it back.
    OperatorResume,
    /// The controller ends, and is away for so long.
    Restart(Duration),
    /// A job starts on the nodes.
    Job { name: String, gpus: u32, run_for: Duration, tier: Tier, requeue: bool },
    /// A job ends.
    End { name: String, state: JobState },
}

/// Reads a time line. Empty lines and those that start with `#` say nothing.
pub(super) fn parse(text: &str) -> Result<Vec<Moment>, String> {
    let mut moments: Vec<Moment> = Vec::new();
    let mut lines = 0;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let found = moment(line).map_err(|problem| format!("`{line}`: {problem}"))?;
        for moment in found {
            if moments.last().is_some_and(|last| last.at > moment.at) {
                return Err(format!("`{line}`: it happens before the line above it"));
            }
            let copies = if let What::Kernel { copies, .. } = moment.what { copies } else { 1 };
            lines += copies * moment.nodes.len();
            moments.push(moment);
        }
        if lines > MAX_LINES {
            return Err(format!("`{line}`: more than {MAX_LINES} kernel lines"));
        }
    }
    if moments.is_empty() { Err("the time line is empty".to_owned()) } else { Ok(moments) }
}

fn moment(line: &str) -> Result<Vec<Moment>, String> {
    let (when, rest) = word(line);
    let (place, rest) = word(rest);
    let (verb, rest) = word(rest);
    let at = time(when).ok_or("it starts with a time: 20, 20.5, 2m, 25h")?;
    let nodes = nodes(place)?;
    let on_node = !nodes.is_empty();
    let one = |what| Ok(vec![Moment { at, nodes: nodes.clone(), what }]);
    if let Some(storm) = verb.strip_prefix("kernel*").filter(|_| on_node) {
        return storm_of(at, &nodes, storm, rest);
    }
    let what = if on_node { on_nodes(verb, rest) } else { on_site(verb, rest) };
    one(what?)
}

/// `kernel*45 TEXT`, all at once; `kernel*800/5ms TEXT`, one after the other.
fn storm_of(at: Duration, nodes: &[String], storm: &str, text: &str) -> Result<Vec<Moment>, String> {
    let wrong = "a storm is written kernel*45 or kernel*800/5ms";
    let (count, step) = storm.split_once('/').map_or((storm, None), |(count, step)| (count, Some(step)));
    let copies: usize = count.parse().map_err(|_| wrong)?;
    if copies == 0 || copies > MAX_LINES {
        return Err(wrong.to_owned());
    }
    let moment = |at, what| Moment { at, nodes: nodes.to_vec(), what };
    let Some(step) = step else {
        return Ok(vec![moment(at, What::Kernel { text: text.to_owned(), copies })]);
    };
    let step: Span = step.parse().map_err(|_| wrong)?;
    let one = |(n, at)| moment(at, What::Kernel { text: numbered(text, n), copies: 1 });
    let times = std::iter::successors(Some(at), |at| Some(*at + step.0));
    Ok((0..copies).zip(times).map(one).collect())
}

/// The text of one copy.
pub(super) fn numbered(text: &str, n: usize) -> String {
    text.replace("{n}", &n.to_string())
}

fn on_nodes(verb: &str, rest: &str) -> Result<What, String> {
    let text = rest.to_owned();
    let what = match (verb, rest) {
        ("kernel", _) => What::Kernel { text, copies: 1 },
        ("history", _) => What::History(text),
        ("user", _) => What::User(text),
        ("raw", _) => What::Raw(text),
        ("boot", "") => What::Boot,
        ("agent", "lost") => What::Agent(false),
        ("agent", "back") => What::Agent(true),
        ("log", "blind") => What::Log(false),
        ("log", "read") => What::Log(true),
        ("slurmd", "lost") => What::Slurmd(false),
        ("slurmd", "back") => What::Slurmd(true),
        ("slurmd", "down") => What::SlurmdDown,
        ("drain", reason) if !reason.is_empty() => What::ForeignDrain(text),
        ("resume", "") => What::ForeignResume,
        ("operator", "drain") => What::OperatorDrain,
        ("operator", "resume") => What::OperatorResume,
        ("job", _) => return job(rest),
        _ => return Err(format!("`{verb} {rest}` is nothing that happens on a node")),
    };
    Ok(what)
}

fn on_site(verb: &str, rest: &str) -> Result<What, String> {
    let what = match (verb, rest) {
        ("slurmctld", "away") => What::Slurmctld(false),
        ("slurmctld", "back") => What::Slurmctld(true),
        ("slurmctld", "reconfigured") => What::Reconfigure,
        ("end", _) => return end(rest),
        ("controller", _) => {
            let away = rest.strip_prefix("away ").and_then(|span| span.parse::<Span>().ok());
            What::Restart(away.ok_or("write `controller away 5s`")?.0)
        }
        _ => return Err(format!("`{verb} {rest}` is nothing that happens to the site")),
    };
    Ok(what)
}

/// `NAME gpus=8 for=10m tier=batch requeue=no`.
fn job(text: &str) -> Result<What, String> {
    let (name, options) = word(text);
    let (mut gpus, mut run_for) = (8, Duration::from_secs(30 * 86_400));
    let (mut tier, mut requeue) = (Tier::Batch, true);
    for option in options.split_whitespace() {
        let wrong = || format!("`{option}` is no option of a job: gpus=8 for=10m tier=batch requeue=no");
        match option.split_once('=').ok_or_else(wrong)? {
            ("gpus", number) => gpus = number.parse().map_err(|_| wrong())?,
            ("for", span) => run_for = span.parse::<Span>().map_err(|_| wrong())?.0,
            ("tier", name) => tier = Tier::from_name(name),
            ("requeue", "no") => requeue = false,
            _ => return Err(wrong()),
        }
    }
    if name.is_empty() || !(1..=8).contains(&gpus) {
        return Err("a job has a name and 1 to 8 GPUs of a node".to_owned());
    }
    Ok(What::Job { name: name.to_owned(), gpus, run_for, tier, requeue })
}

/// `NAME failed`.
fn end(text: &str) -> Result<What, String> {
    let (name, state) = word(text);
    let state = match state {
        "completed" => JobState::Completed,
        "failed" => JobState::Failed,
        "cancelled" => JobState::Cancelled,
        _ => return Err("a job ends completed, failed or cancelled".to_owned()),
    };
    Ok(What::End { name: name.to_owned(), state })
}

/// The first word, and what stands behind the space after it: a record may begin with a space of its own.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once(char::is_whitespace).unwrap_or((text, ""))
}

/// Seconds with or without a fraction, or a span with a unit.
fn time(text: &str) -> Option<Duration> {
    if let Ok(span) = text.parse::<Span>() {
        return Some(span.0);
    }
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) || fraction.len() > 3 {
        return None;
    }
    let millis: u64 = format!("{fraction:0<3}").parse().ok()?;
    Some(Duration::from_secs(seconds.parse().ok()?) + Duration::from_millis(millis))
}

/// `gpu003`, `gpu[003-006]`, `gpu001,gpu007`, or `-` for the site.
fn nodes(text: &str) -> Result<Vec<String>, String> {
    if text == "-" {
        return Ok(Vec::new());
    }
    let mut nodes = Vec::new();
    for part in text.split(',') {
        match part.strip_prefix("gpu[").and_then(|range| range.strip_suffix(']')?.split_once('-')) {
            None => nodes.push(part.to_owned()),
            Some((first, last)) => {
                let number = |text: &str| text.parse::<u32>().map_err(|_| format!("`{part}` is no range"));
                nodes.extend((number(first)?..=number(last)?.min(999)).map(|n| format!("gpu{n:03}")));
            }
        }
    }
    match nodes.iter().find(|node| !is_node(node)) {
        Some(unknown) => Err(format!("`{unknown}` is no node of the site")),
        None if nodes.is_empty() => Err(format!("`{text}` names no node; write - for the site")),
        None => Ok(nodes),
    }
}

/// A node of the corpus's site.
pub(super) fn is_node(name: &str) -> bool {
    LAYOUT.names().iter().any(|node| node == name)
}

/// What belongs to the same instant is one batch of kernel lines.
pub(super) fn by_instant(moments: &[Moment]) -> BTreeMap<Duration, Vec<&Moment>> {
    let mut instants: BTreeMap<Duration, Vec<&Moment>> = BTreeMap::new();
    for moment in moments {
        instants.entry(moment.at).or_default().push(moment);
    }
    instants
}
