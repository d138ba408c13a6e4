//! PCI Express advanced error reporting: the port says that an error came, then what it was.

use provost_model::signal::{Impact, SignalKind};

use super::parse::{Context, Found, LineKind, Report};
use super::scan::{Scan, device};

/// Lines of ports and of devices whose driver lets the kernel report.
pub(super) fn parse(_context: &Context<'_>, text: &str) -> Option<Found> {
    let (_, pci, rest) = device(text)?;
    let body = rest.strip_prefix(':')?;
    let event = body.trim_start().strip_prefix("AER: ").and_then(received);
    if let Some((aer, impact, source)) = event {
        return Report::new(SignalKind::PcieAer)
            .on(pci)
            .stated(impact)
            .with("aer", aer)
            .with_some("device", source.map(|pci| pci.to_string()))
            .found();
    }
    detail(text)
}

/// `Corrected error received: id=0010` and, of newer kernels,
/// `Uncorrectable (Fatal) error message received from 0000:01:00.0`.
fn received(body: &str) -> Option<(&'static str, Impact, Option<provost_model::signal::PciAddress>)> {
    let body = body.strip_prefix("Multiple ").unwrap_or(body);
    let (severity, rest) =
        body.split_once(" error received").or_else(|| body.split_once(" error message received"))?;
    let (aer, impact) = match severity {
        "Corrected" | "Correctable" => ("corrected", Impact::Minor),
        "Uncorrected (Non-Fatal)" | "Uncorrectable (Non-Fatal)" => ("nonfatal", Impact::Minor),
        "Uncorrected (Fatal)" | "Uncorrectable (Fatal)" => ("fatal", Impact::Critical),
        _ => return None,
    };
    let source = rest.strip_prefix(" from ").or_else(|| rest.strip_prefix(": "));
    Some((aer, impact, source.and_then(|text| Scan::new(text).pci())))
}

/// The lines behind the first, of the port or of the device.
pub(super) fn detail(text: &str) -> Option<Found> {
    let (_, pci, rest) = device(text)?;
    let body = rest.strip_prefix(':')?.trim_start();
    let body = body.strip_prefix("AER: ").unwrap_or(body).trim_start();
    let bit = error_bit(body);
    let known =
        ["PCIe Bus Error: ", "device [", "device has no AER-aware driver", "TLP Header: ", "can't recover"];
    if bit.is_none() && !known.iter().any(|start| body.starts_with(start)) {
        return None;
    }
    let extra = bit.map(|bit| vec![("bit", bit.into())]).unwrap_or_default();
    Some(Found::Detail { kind: LineKind::PcieAerDetail, pci: Some(pci), code: None, extra })
}

/// `[ 5] Surprise Down Error    (First)` is `surprise_down`.
fn error_bit(body: &str) -> Option<String> {
    let (number, name) = body.strip_prefix('[')?.split_once(']')?;
    let _bit: u8 = number.trim().parse().ok()?;
    let name = name.trim().trim_end_matches("(First)").trim_end();
    let name = name.strip_suffix(" Error").unwrap_or(name);
    (!name.is_empty()).then(|| name.to_ascii_lowercase().replace(' ', "_"))
}
