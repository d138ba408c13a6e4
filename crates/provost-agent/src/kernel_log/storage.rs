//! Network file systems and local disks.

use provost_model::signal::{Impact, SignalKind};

use super::parse::{Context, Found, Report};
use super::pcie;
use super::scan::Scan;

/// The NFS client.
pub(super) fn nfs(_context: &Context<'_>, text: &str) -> Option<Found> {
    let stall = Report::new(SignalKind::StorageStall).with("fs", "nfs");
    if let Some(body) = text.strip_prefix("nfs: server ") {
        if let Some(server) = body.strip_suffix(" OK") {
            return stall.with("server", server).clearing().found();
        }
        let (server, rest) = body.split_once(" not responding, ")?;
        return stall.with("server", server).with("soft_mount", rest.starts_with("timed out")).found();
    }
    text.ends_with("nfs4_reclaim_open_state: Lock reclaim failed!").then_some(stall)?.found()
}

/// The Lustre client: `Lustre: ` tells, `LustreError: ` complains.
pub(super) fn lustre(_context: &Context<'_>, text: &str) -> Option<Found> {
    let (level, body) = text.split_once(": ")?;
    let on = |kind| Report::new(kind).with("fs", "lustre");
    if let Some(target) = target(body, "Connection to ", " (at ")
        && body.contains(") was lost; in progress operations")
    {
        return on(SignalKind::StorageStall).with("target", target).found();
    }
    if let Some(target) = target(body, "Connection restored to ", " ") {
        return on(SignalKind::StorageStall).with("target", target).clearing().found();
    }
    if level != "LustreError" {
        return None;
    }
    if let Some(target) = target(body, "This client was evicted by ", ";") {
        return on(SignalKind::StorageError).stated(Impact::Critical).with("target", target).found();
    }
    let (_, failed) = body.split_once(" to node ")?;
    let mut scan = Scan::behind_last(failed, " failed: rc = -")?;
    let code: i32 = scan.last_number()?;
    on(SignalKind::StorageError).with("rc", -code).found()
}

fn target<'a>(body: &'a str, before: &str, after: &str) -> Option<&'a str> {
    body.split_once(before)?.1.split_once(after).map(|(target, _)| target)
}

/// `nvme nvme4: …` and the block layer above it.
pub(super) fn nvme(_context: &Context<'_>, text: &str) -> Option<Found> {
    let (_, rest) = text.split_once(' ')?;
    let (device, body) = rest.split_once(": ")?;
    if !device.starts_with("nvme") {
        return pcie::detail(text);
    }
    let report = Report::new(SignalKind::Disk).with("device", device);
    let gone = ["Disabling device after reset failure", "Removing after probe failure", "no available path"];
    if gone.iter().any(|start| body.starts_with(start)) {
        return report.stated(Impact::Critical).found();
    }
    (body.starts_with("I/O ") && body.contains(" timeout, ")).then(|| report.stated(Impact::Major))?.found()
}

/// `EXT4-fs (md0): …`, `XFS (dm-0): …`.
pub(super) fn file_system(_context: &Context<'_>, text: &str) -> Option<Found> {
    let (_, rest) = text.split_once('(')?;
    let (device, body) = rest.split_once("): ")?;
    let device = device.strip_prefix("device ").unwrap_or(device);
    let stopped = ["Remounting filesystem read-only", "Shutting down filesystem", "shutting down filesystem"];
    stopped
        .iter()
        .any(|words| body.contains(words))
        .then(|| Report::new(SignalKind::Disk).with("device", device).stated(Impact::Critical))?
        .found()
}

/// `Buffer I/O error on dev sda1, …`, `I/O error, dev sda, sector …`.
pub(super) fn block(_context: &Context<'_>, text: &str) -> Option<Found> {
    let text = text.strip_prefix("blk_update_request: ").unwrap_or(text);
    let (impact, rest) = match text.strip_prefix("Buffer I/O error on dev ") {
        Some(rest) => (Impact::Critical, rest),
        None => (Impact::Major, text.strip_prefix("I/O error, dev ")?),
    };
    let (device, _) = rest.split_once(',')?;
    Report::new(SignalKind::Disk).with("device", device).stated(impact).found()
}
