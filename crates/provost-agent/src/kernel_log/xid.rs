//! `NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=train, …`: the NVIDIA driver's numbered errors.
//!
//! Form after the driver's own source (`krcReportXid` of the open kernel modules): device, GPU and compute
//! instance of MIG, code, then process id and name where known, then a message, then for code 45 the cause.

use provost_model::signal::{PciAddress, SignalFields, SignalKind};
use serde_json::{Value, json};

use super::nvlink;
use super::parse::{Context, Found, Report};
use super::scan::Scan;

struct Head {
    pci: PciAddress,
    mig: Option<u32>,
    compute_instance: Option<u32>,
    code: u32,
}

pub(super) fn parse(context: &Context<'_>, text: &str) -> Option<Found> {
    let mut scan = Scan::new(text);
    let Some(head) = head(&mut scan) else { return Some(Found::Unparsed) };
    scan.spaces();
    let process = process(&mut scan);
    let message = scan.rest();
    let mut report = Report {
        code: Some(head.code),
        pci: Some(head.pci),
        fields: SignalFields { pid: process.pid, mig: head.mig, ..SignalFields::default() },
        ..Report::new(SignalKind::Xid)
    }
    .with("pid", process.pid)
    .with("process", process.name)
    .with_some("mig_gpu_instance", head.mig)
    .with_some("mig_compute_instance", head.compute_instance);
    details(context, head.code, message, &mut report);
    report.found()
}

/// Up to and with the comma after the code: without it the code may have been cut.
fn head(scan: &mut Scan<'_>) -> Option<Head> {
    scan.tag("NVRM: Xid (")?;
    // Old drivers leave the bus out.
    scan.skip("PCI:");
    let pci = scan.pci()?;
    let mig = scan.tag(" GPU-I:").map(|()| scan.number()).map_or(Some(None), |n| n.map(Some))?;
    let compute_instance =
        scan.tag(" GPU-CI:").map(|()| scan.number()).map_or(Some(None), |n| n.map(Some))?;
    scan.tag("): ")?;
    let code = scan.number()?;
    scan.tag(",")?;
    Some(Head { pci, mig, compute_instance, code })
}

#[derive(Default)]
struct Process<'a> {
    pid: Option<u32>,
    name: Option<&'a str>,
}

/// `pid=1, name=train, `. The name is whatever the job chose, so its end is a guess; nothing but its own text
/// depends on it.
fn process<'a>(scan: &mut Scan<'a>) -> Process<'a> {
    let mut process = Process::default();
    let mut ahead = *scan;
    if ahead.tag("pid=").is_none() {
        return process;
    }
    let Some(pid) = ahead.until(",") else { return process };
    process.pid = pid.parse().ok();
    ahead.spaces();
    *scan = ahead;
    if ahead.tag("name=").is_some()
        && let Some(name) = ahead.until(", ")
    {
        process.name = (name != "<unknown>").then_some(name);
        *scan = ahead;
    }
    process
}

fn details(context: &Context<'_>, code: u32, message: &str, report: &mut Report) {
    let extra = match code {
        13 => graphics_unit(message, &mut report.fields),
        45 => {
            report.fields.caused_by = cause(message);
            report.fields.caused_by.map(|code| vec![("caused_by", json!(code))])
        }
        63 => message.contains("reset gpu to activate").then(|| vec![("remap_pending", json!(true))]),
        74 => link_registers(message, &mut report.fields),
        94 | 95 => containment(message),
        144..=150 => nvlink::details(context, code, message, &mut report.fields),
        154 => advice(message, &mut report.fields),
        _ => None,
    };
    report.extra.extend(extra.unwrap_or_default());
}

type Extra = Option<Vec<(&'static str, Value)>>;

/// `(GPC 8, TPC 5, SM 1): `.
fn graphics_unit(message: &str, fields: &mut SignalFields) -> Extra {
    let mut scan = Scan::behind_last(message, "(GPC ")?;
    let gpc: u32 = scan.number()?;
    scan.tag(", TPC ")?;
    let tpc: u32 = scan.number()?;
    (fields.gpc, fields.tpc) = (Some(gpc), Some(tpc));
    let mut extra = vec![("gpc", json!(gpc)), ("tpc", json!(tpc))];
    if scan.tag(", SM ").is_some()
        && let Some(sm) = scan.number::<u32>()
    {
        extra.push(("sm", json!(sm)));
    }
    Some(extra)
}

/// The driver ends the line with it, so here the number may be the last thing.
fn cause(message: &str) -> Option<u32> {
    let mut scan = Scan::behind_last(message, "caused by previous Xid ")?;
    let code = scan.last_number()?;
    scan.rest().bytes().all(|b| matches!(b, b')' | b'.' | b' ')).then_some(code)
}

/// `link 14(0x0, 0x0, 0x10000, …)`.
fn link_registers(message: &str, fields: &mut SignalFields) -> Extra {
    let mut scan = Scan::behind_last(message, " link ")?;
    let link: u32 = scan.number()?;
    fields.link = Some(link);
    let mut extra = vec![("nvlink", json!(link))];
    scan.spaces();
    if scan.tag("(").is_some()
        && let Some(registers) = scan.until(")")
    {
        extra.push(("regs", json!(registers.split(',').map(str::trim).collect::<Vec<_>>())));
    }
    Some(extra)
}

/// `Contained: SM (0x1). RST: No, D-RST: No`.
fn containment(message: &str) -> Extra {
    let contained = match () {
        () if message.contains("Uncontained: ") => false,
        () if message.contains("Contained: ") => true,
        () => return None,
    };
    let mut extra = vec![("contained", json!(contained))];
    let mut scan = Scan::behind_last(message, ". RST: ")?;
    match scan.until(",") {
        Some("Yes") => extra.push(("reset_required", json!(true))),
        Some("No") => extra.push(("reset_required", json!(false))),
        _ => {}
    }
    Some(extra)
}

/// `GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)`.
fn advice(message: &str, fields: &mut SignalFields) -> Extra {
    let mut scan = Scan::behind_last(message, "GPU recovery action changed from ")?;
    let (_, from) = scan.hex_word()?;
    fields.recovery_from = Some(from);
    let mut extra = vec![("recovery_from", json!(from))];
    if scan.until(") to ").is_some()
        && let Some((_, to)) = scan.hex_word()
    {
        fields.recovery_to = Some(to);
        fields.clears = to == 0;
        extra.push(("recovery_to", json!(to)));
    }
    Some(extra)
}
