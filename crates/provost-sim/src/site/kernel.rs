//! Kernel lines of the site's nodes, as its agents would have parsed them.

use provost_model::signal::{Impact, Signal, SignalFields, SignalKind, Trust};
use provost_model::time::Timestamp;

use super::layout::pci;

/// An Xid on a GPU of a node. The impact is the catalogue's to say.
pub fn xid(node: &str, gpu: u32, code: u32, at: Timestamp) -> Signal {
    let text = match code {
        79 => "GPU has fallen off the bus.",
        95 => "Uncontained ECC error.",
        45 => "Preemptive Channel Removal",
        _ => "made up",
    };
    let place = pci(gpu).to_string();
    let line =
        format!("NVRM: Xid (PCI:{}): {code}, pid=4711, name=python, {text}", place.trim_end_matches(".0"));
    signal(node, SignalKind::Xid, Some(code), gpu, Impact::Info, line, at)
}

/// The driver lost a GPU and wrote no Xid: the three lines of case B01, which the agent makes one signal.
pub fn gpu_lost(node: &str, gpu: u32, at: Timestamp) -> Signal {
    let line = format!(
        "NVRM: The NVIDIA GPU {} (PCI ID: 10de:2330) installed in this system has fallen off the bus and is not \
         responding to commands.",
        pci(gpu)
    );
    signal(node, SignalKind::GpuLost, Some(79), gpu, Impact::Critical, line, at)
}

fn signal(
    node: &str,
    kind: SignalKind,
    code: Option<u32>,
    gpu: u32,
    impact: Impact,
    line: String,
    at: Timestamp,
) -> Signal {
    Signal {
        node: node.to_owned(),
        kind,
        code,
        pci: Some(pci(gpu)),
        impact,
        fields: SignalFields::default(),
        at,
        boot_id: Some(format!("boot-{node}")),
        sequence: None,
        historic: false,
        trust: Trust::Kernel,
        line,
    }
}
