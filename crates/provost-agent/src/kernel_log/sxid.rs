//! `nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 …`: numbered errors of NVSwitch.
//!
//! One error takes several lines with the same code; only the first is the report.

use provost_model::signal::{SignalFields, SignalKind};

use super::parse::{Context, Found, LineKind, Report};
use super::scan::Scan;

/// A switch that has cooled down says so with a code of its own.
const THERMAL_END: u32 = 10_005;

pub(super) fn parse(_context: &Context<'_>, text: &str) -> Option<Found> {
    let (switch, rest) = text.split_once(": ")?;
    let mut scan = Scan::new(rest);
    scan.tag("SXid (")?;
    let mut head = || {
        scan.skip("PCI:");
        let pci = scan.pci()?;
        scan.tag("): ")?;
        let code: u32 = scan.number()?;
        scan.tag(",")?;
        Some((pci, code))
    };
    let Some((pci, code)) = head() else { return Some(Found::Unparsed) };
    scan.spaces();
    let message = scan.rest();
    if message.starts_with("Data {") || message.starts_with("Severity ") {
        let extra = Vec::new();
        return Some(Found::Detail { kind: LineKind::SxidDetail, pci: Some(pci), code: Some(code), extra });
    }
    let fatal = match message.split_once(',') {
        Some(("Fatal", _)) => Some(true),
        Some(("Non-fatal", _)) => Some(false),
        _ => None,
    };
    let link = message.find("Link ").and_then(|at| Scan::new(&message[at + 5..]).number::<u32>());
    let fields = SignalFields { fatal, link, clears: code == THERMAL_END, ..SignalFields::default() };
    Report { code: Some(code), pci: Some(pci), fields, ..Report::new(SignalKind::Sxid) }
        .with("switch", switch)
        .with_some("fatal", fatal)
        .with_some("link", link)
        .found()
}
