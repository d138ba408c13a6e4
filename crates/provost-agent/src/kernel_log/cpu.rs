//! Processors: too hot, stuck, waiting for ever, stopped.

use provost_model::signal::{Impact, SignalKind};

use super::parse::{Context, Found, Report};
use super::scan::Scan;

/// `CPU4: Package temperature above threshold, cpu clock throttled (total events = 1420)`.
pub(super) fn thermal(_context: &Context<'_>, text: &str) -> Option<Found> {
    let mut scan = Scan::new(text);
    scan.tag("CPU")?;
    let cpu: u32 = scan.number()?;
    scan.tag(": ")?;
    if !scan.skip("Package temperature") && !scan.skip("Core temperature") {
        return None;
    }
    let report = Report::new(SignalKind::CpuThermal).with("cpu", cpu);
    if scan.rest().starts_with("/speed normal") {
        return report.clearing().found();
    }
    scan.tag(" above threshold")?;
    let total: Option<u64> =
        Scan::behind_last(scan.rest(), "(total events = ").and_then(|mut scan| scan.number());
    report.with("total", total).found()
}

/// `INFO: task name:1 blocked for more than 120 seconds.` The name is whatever its process chose.
pub(super) fn hung_task(_context: &Context<'_>, text: &str) -> Option<Found> {
    let body = text.strip_prefix("INFO: task ")?;
    let (task, rest) = body.rsplit_once(" blocked for more than ")?;
    let (name, pid) = task.rsplit_once(':')?;
    let mut scan = Scan::new(rest);
    let seconds: u32 = scan.number()?;
    task_report(SignalKind::HungTask, name, pid.parse().ok()).with("seconds", seconds).found()
}

/// `watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [name:1]`.
pub(super) fn soft_lockup(_context: &Context<'_>, text: &str) -> Option<Found> {
    let mut scan = Scan::new(text);
    scan.skip("watchdog: ");
    scan.tag("BUG: soft lockup - CPU#")?;
    let cpu: u32 = scan.number()?;
    scan.tag(" stuck for ")?;
    let seconds: u32 = scan.number()?;
    scan.tag("s!")?;
    let task = scan.rest().trim().strip_prefix('[').and_then(|task| task.strip_suffix(']'));
    let report = match task.and_then(|task| task.rsplit_once(':')) {
        Some((name, pid)) => task_report(SignalKind::SoftLockup, name, pid.parse().ok()),
        None => Report::new(SignalKind::SoftLockup),
    };
    report.with("cpu", cpu).with("seconds", seconds).found()
}

fn task_report(kind: SignalKind, name: &str, pid: Option<u32>) -> Report {
    let mut report = Report::new(kind).with("task", name).with("pid", pid);
    report.fields.pid = pid;
    report
}

/// `Kernel panic - not syncing: …`.
pub(super) fn panic(_context: &Context<'_>, text: &str) -> Option<Found> {
    text.starts_with("Kernel panic - not syncing")
        .then(|| Report::new(SignalKind::Panic).stated(Impact::Critical))?
        .found()
}
