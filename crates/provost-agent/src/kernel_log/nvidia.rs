//! What the NVIDIA driver says without a number.

use provost_model::signal::{Impact, SignalKind};

use super::parse::{Context, Found, LineKind, Report};
use super::scan::Scan;

/// Lines that start with `NVRM: ` and are no Xid.
pub(super) fn parse(_context: &Context<'_>, text: &str) -> Option<Found> {
    let body = text.strip_prefix("NVRM: ")?;
    if body.starts_with("The NVIDIA probe routine failed for ") {
        return Report::new(SignalKind::GpuDriver).found();
    }
    if body.starts_with("knvlink") && body.contains("Failed") {
        return Report::new(SignalKind::GpuNvlink).found();
    }
    if let Some(device) = body.strip_prefix("GPU ") {
        let mut scan = Scan::new(device);
        if let Some(pci) = scan.pci()
            && scan.skip(": RmInitAdapter failed!")
        {
            return Report::new(SignalKind::GpuDriver).on(pci).found();
        }
    }
    if firmware_history(body) {
        return Some(Found::Detail {
            kind: LineKind::Continuation,
            pci: None,
            code: None,
            extra: Vec::new(),
        });
    }
    if body.starts_with("The NVIDIA GPU ") || body.starts_with("fallen off the bus") {
        return Some(Found::Unparsed);
    }
    None
}

/// What follows a firmware timeout: `GPU4 GSP RPC buffer contains …`, `GPU4 RPC history (CPU -> GSP):`, and
/// indented rows of a table.
fn firmware_history(body: &str) -> bool {
    let by_gpu = || {
        let mut scan = Scan::new(body);
        scan.tag("GPU")?;
        let _gpu: u32 = scan.number()?;
        (scan.skip(" GSP RPC ") || scan.skip(" RPC ")).then_some(())
    };
    body.starts_with("    ") || by_gpu().is_some()
}

/// `nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, …`.
pub(super) fn peermem(_context: &Context<'_>, text: &str) -> Option<Found> {
    text.contains(" ERROR detected invalid context")
        .then(|| Report::new(SignalKind::GpuPeermem).stated(Impact::Minor))?
        .found()
}
