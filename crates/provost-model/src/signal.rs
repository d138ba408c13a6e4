//! Raw evidence as an agent sends it: one kernel condition seen once.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::Timestamp;

/// A PCI address `domain:bus:device.function`, written in lower-case hex with four, two, two and one digits:
/// `0000:3b:00.0`. NVIDIA's driver writes it without the function; that is function 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain (segment).
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device, five bits in the standard; virtual machines are seen to use more.
    pub device: u8,
    /// Function.
    pub function: u8,
}

/// The text is not a PCI address.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a PCI address such as 0000:3b:00.0")]
pub struct ParsePciError {
    text: String,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl FromStr for PciAddress {
    type Err = ParsePciError;

    fn from_str(text: &str) -> Result<PciAddress, ParsePciError> {
        let hex = |part: &str, digits: std::ops::RangeInclusive<usize>| {
            let valid = digits.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
            valid.then(|| u32::from_str_radix(part, 16).ok()).flatten()
        };
        let parse = || {
            let (domain, rest) = text.split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (device, function) = rest.split_once('.').unwrap_or((rest, "0"));
            Some(PciAddress {
                domain: hex(domain, 4..=8)?,
                bus: u8::try_from(hex(bus, 2..=2)?).ok()?,
                device: u8::try_from(hex(device, 2..=2)?).ok()?,
                function: u8::try_from(hex(function, 1..=1)?).ok()?,
            })
        };
        parse().ok_or_else(|| ParsePciError { text: text.chars().take(40).collect() })
    }
}

impl Serialize for PciAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PciAddress, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What a kernel line is about. The names are those that `provost explain` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalKind {
    /// NVIDIA driver error with a code.
    Xid,
    /// NVSwitch driver error with a code.
    Sxid,
    /// The driver lost a GPU and wrote no Xid; stands for Xid 79.
    GpuLost,
    /// The driver could not take a device.
    GpuDriver,
    /// The driver reports an NVLink problem without an Xid.
    GpuNvlink,
    /// GPUDirect RDMA module.
    GpuPeermem,
    /// A port of a network adapter went down or came up.
    NicLink,
    /// A network adapter's firmware refused a command or stopped.
    NicFirmware,
    /// A network adapter has too little power from its slot.
    NicPower,
    /// PCI Express advanced error reporting.
    PcieAer,
    /// Machine check.
    Mce,
    /// Memory controller error.
    Edac,
    /// Processor throttled by heat.
    CpuThermal,
    /// A network file system does not answer, or answers again.
    StorageStall,
    /// A network file system refused or evicted this client.
    StorageError,
    /// A task blocked for minutes.
    HungTask,
    /// A processor stuck in the kernel.
    SoftLockup,
    /// A local disk or file system failed.
    Disk,
    /// A process was killed for memory.
    Oom,
    /// Kernel panic.
    Panic,
}

impl SignalKind {
    /// The name as written in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            SignalKind::Xid => "xid",
            SignalKind::Sxid => "sxid",
            SignalKind::GpuLost => "gpu_lost",
            SignalKind::GpuDriver => "gpu_driver",
            SignalKind::GpuNvlink => "gpu_nvlink",
            SignalKind::GpuPeermem => "gpu_peermem",
            SignalKind::NicLink => "nic_link",
            SignalKind::NicFirmware => "nic_firmware",
            SignalKind::NicPower => "nic_power",
            SignalKind::PcieAer => "pcie_aer",
            SignalKind::Mce => "mce",
            SignalKind::Edac => "edac",
            SignalKind::CpuThermal => "cpu_thermal",
            SignalKind::StorageStall => "storage_stall",
            SignalKind::StorageError => "storage_error",
            SignalKind::HungTask => "hung_task",
            SignalKind::SoftLockup => "soft_lockup",
            SignalKind::Disk => "disk",
            SignalKind::Oom => "oom",
            SignalKind::Panic => "panic",
        }
    }
}

/// Where the kernel record came from, and so how far it may be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// `/dev/kmsg` with facility 0: the kernel wrote it; user space cannot.
    Kernel,
    /// A text file: anybody who may write the file may have written it.
    Text,
}

/// How grave one occurrence is, as far as its own words and the catalogue say. The order is: critical is worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Impact {
    /// Nothing at all.
    None,
    /// Worth a note.
    Info,
    /// Predictive or cosmetic.
    Minor,
    /// Something is degraded.
    Major,
    /// The subject can't be used.
    Critical,
}

/// The parts of a kernel line that decisions need; absent is absent, never zero. Process names and file
/// system servers are not here: they may carry personal data and stay in the sealed line.
/// Fields in canonical order, which spares the sorting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SignalFields {
    /// Xid 45 of newer drivers: "caused by previous Xid N".
    pub caused_by: Option<u32>,
    /// The line ends a condition (link active, server OK, recovery action none).
    pub clears: bool,
    /// The line itself says fatal or non-fatal.
    pub fatal: Option<bool>,
    /// Xid 13: graphics processing cluster.
    pub gpc: Option<u32>,
    /// NVLink or NVSwitch link.
    pub link: Option<u32>,
    /// MIG GPU instance (`GPU-I:05`).
    pub mig: Option<u32>,
    /// Process that the driver named.
    pub pid: Option<u32>,
    /// Xid 154: advice before (0 none … 7 system reboot).
    pub recovery_from: Option<u32>,
    /// Xid 154: advice now.
    pub recovery_to: Option<u32>,
    /// Xid 144–150: subcode from IntrInfo.
    pub subcode: Option<u32>,
    /// Xid 13: texture processing cluster.
    pub tpc: Option<u32>,
    /// Xid 144–150: reporting unit.
    pub unit: Option<String>,
}

/// One kernel condition seen once on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// Name of the node, as in the agent's certificate.
    pub node: String,
    /// What it is about.
    pub kind: SignalKind,
    /// Xid or SXid number; 79 for [`SignalKind::GpuLost`].
    pub code: Option<u32>,
    /// The device, where the line names one.
    pub pci: Option<PciAddress>,
    /// How grave the line itself or the rule that matched it says it is; the catalogue may know better.
    pub impact: Impact,
    /// Parsed parts.
    pub fields: SignalFields,
    /// When the kernel wrote it, as far as known; otherwise when the agent read it.
    pub at: Timestamp,
    /// Boot that the record belongs to.
    pub boot_id: Option<String>,
    /// Sequence of the record in the kernel's ring.
    pub sequence: Option<u64>,
    /// Read from before the agent's first start on this boot: history, not news.
    pub historic: bool,
    /// Where it came from.
    pub trust: Trust,
    /// The line as written, at most 1 KiB. Sealed before it reaches the journal.
    pub line: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(text.parse::<PciAddress>().ok().map(|a| a.to_string()).as_deref(), expected, "{text}");
        };
        check("0000:3b:00", Some("0000:3b:00.0"));
        check("0000:3B:00.1", Some("0000:3b:00.1"));
        check("00000000:10:1c.0", Some("0000:10:1c.0"));
        check("0018:01:00", Some("0018:01:00.0"));
        for bad in [
            "",
            "3b:00.0",
            "0000:3b",
            "0000:3b:00.",
            "0000:3b:00.g",
            "0000:+b:00",
            "0000:3b:000",
            "1111122222:3b:00",
        ] {
            check(bad, None);
        }
    }
}
