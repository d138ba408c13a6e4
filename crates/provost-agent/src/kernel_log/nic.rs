//! Lines of the mlx5 driver: ports, firmware and power of network adapters.

use provost_model::signal::{Impact, PciAddress, SignalKind};

use super::parse::{Context, Found, Report};
use super::pcie;
use super::scan::{Scan, device};

/// `mlx5_core 0000:ab:00.0…`.
pub(super) fn parse(_context: &Context<'_>, text: &str) -> Option<Found> {
    let (_, pci, rest) = device(text)?;
    match rest.strip_prefix(": ") {
        Some(body) => adapter(pci, body).or_else(|| pcie::detail(text)),
        None => port(pci, rest.strip_prefix(' ')?),
    }
}

fn adapter(pci: PciAddress, body: &str) -> Option<Found> {
    if let Some(mut scan) = Scan::behind_last(body, "Detected insufficient power on the PCIe slot (") {
        let watts: Option<u32> = scan.number();
        return Report::new(SignalKind::NicPower).on(pci).with("watts", watts).found();
    }
    if body.contains("device's health compromised") {
        return Report::new(SignalKind::NicFirmware).on(pci).stated(Impact::Critical).found();
    }
    (body.starts_with("mlx5_cmd") && body.contains(" failed, status "))
        .then(|| Report::new(SignalKind::NicFirmware).on(pci))?
        .found()
}

/// `mlx5_5: Port: 1 Link DOWN` of InfiniBand, `enp154s0np0: Link down` of Ethernet.
fn port(pci: PciAddress, body: &str) -> Option<Found> {
    let (name, state) = body.split_once(": ")?;
    let report = Report::new(SignalKind::NicLink).on(pci);
    let mut scan = Scan::new(state);
    if scan.skip("Port: ") {
        let port: u32 = scan.number()?;
        scan.tag(" Link ")?;
        let report = report.with("hca", name).with("port", port);
        return match scan.rest().trim_end() {
            "DOWN" => report.with("state", "down").stated(Impact::Major),
            "ACTIVE" => report.with("state", "active").clearing(),
            "INIT" => report.with("state", "init").stated(Impact::Info),
            _ => return None,
        }
        .found();
    }
    match state.trim_end() {
        // Which role the port has is not known here; a management port is noise.
        "Link down" => report.with("netdev", name).with("state", "down").stated(Impact::Minor),
        "Link up" => report.with("netdev", name).with("state", "up").clearing(),
        _ => return None,
    }
    .found()
}
