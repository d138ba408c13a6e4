//! Host memory: machine checks, memory controllers, and processes killed for memory.

use provost_model::signal::{Impact, SignalKind};

use super::cpu;
use super::parse::{Context, Found, LineKind, Report};
use super::scan::Scan;

/// `mce: [Hardware Error]: …` and the bare `[Hardware Error]: …` of the decoders.
pub(super) fn mce(context: &Context<'_>, text: &str) -> Option<Found> {
    let body = text.strip_prefix("mce: ").unwrap_or(text);
    if body.starts_with("CPU") {
        return cpu::thermal(context, body);
    }
    match body.strip_prefix("[Hardware Error]: ")? {
        "Machine check events logged" => Report::new(SignalKind::Mce).found(),
        _ => Some(Found::Detail { kind: LineKind::MceDetail, pci: None, code: None, extra: Vec::new() }),
    }
}

/// `{1}[Hardware Error]: …` of firmware-first reporting.
pub(super) fn apei(_context: &Context<'_>, text: &str) -> Option<Found> {
    let mut scan = Scan::new(text);
    scan.tag("{")?;
    let _record: u64 = scan.number()?;
    scan.tag("}[Hardware Error]: ")?;
    if scan.rest().starts_with("Hardware error from APEI") {
        return Report::new(SignalKind::Mce).found();
    }
    Some(Found::Detail { kind: LineKind::MceDetail, pci: None, code: None, extra: Vec::new() })
}

/// `EDAC MC0: 1 CE memory read error on LABEL (channel:1 …)`.
pub(super) fn edac(_context: &Context<'_>, text: &str) -> Option<Found> {
    let mut scan = Scan::new(text);
    scan.tag("EDAC MC")?;
    let controller: u32 = scan.number()?;
    scan.tag(": ")?;
    let count: u32 = scan.number()?;
    let (error, impact) = match () {
        () if scan.skip(" CE ") => ("CE", Impact::Minor),
        () if scan.skip(" UE ") => ("UE", Impact::Critical),
        () => return Some(Found::Unparsed),
    };
    let label = scan.until(" on ").and_then(|_| scan.until(" ("));
    Report::new(SignalKind::Edac)
        .stated(impact)
        .with("mc", controller)
        .with("count", count)
        .with("error", error)
        .with_some("label", label)
        .found()
}

/// `oom-kill:constraint=CONSTRAINT_MEMCG,…,task_memcg=…,task=name,pid=1,uid=2`. The task name may hold anything,
/// so what stands behind it is read from the end.
pub(super) fn oom_kill(_context: &Context<'_>, text: &str) -> Option<Found> {
    let mut scan = Scan::new(text);
    scan.tag("oom-kill:constraint=")?;
    let Some(constraint) = scan.until(",") else { return Some(Found::Unparsed) };
    let (groups, _) = scan.rest().split_once(",task=").unwrap_or((scan.rest(), ""));
    // The name is whole only where something follows it.
    let job = groups.split_once("/job_").and_then(|(_, rest)| Some(rest.split_once(['/', ','])?.0));
    let pid: Option<u32> = Scan::behind_last(text, ",pid=").and_then(|mut scan| scan.number());
    killed(constraint == "CONSTRAINT_MEMCG", pid).with_some("job", job).found()
}

/// `Memory cgroup out of memory: Killed process 1 (name) …`, `Out of memory: Killed process 123, UID 48, (httpd)`,
/// and the reaper's line that follows.
pub(super) fn oom(_context: &Context<'_>, text: &str) -> Option<Found> {
    let mut scan = Scan::new(text);
    if scan.skip("oom_reaper: reaped process ") {
        return Some(Found::Detail {
            kind: LineKind::Continuation,
            pci: None,
            code: None,
            extra: Vec::new(),
        });
    }
    let cgroup = scan.skip("Memory cgroup out of memory: ");
    if !cgroup {
        scan.tag("Out of memory: ")?;
    }
    if !scan.skip("Killed process ") && !scan.skip("Kill process ") {
        return None;
    }
    let pid: Option<u32> = scan.number();
    let (_, name) = scan.rest().split_once('(').unwrap_or_default();
    // The name may hold parentheses; what follows it, if anything, starts with a space.
    let name = name.split_once(") ").map(|(name, _)| name).or_else(|| name.strip_suffix(')'));
    killed(cgroup, pid).with_some("process", name).found()
}

/// A job over its own limit is the job's affair; a node out of memory is the node's.
fn killed(cgroup: bool, pid: Option<u32>) -> Report {
    let (scope, impact) = if cgroup { ("cgroup", Impact::Info) } else { ("system", Impact::Major) };
    let mut report = Report::new(SignalKind::Oom).stated(impact).with("scope", scope).with("pid", pid);
    report.fields.pid = pid;
    report
}
