//! From a record to what it reports.
//!
//! The parser is told every record of one log, in order, because some reports take several lines: a GPU that is
//! lost, the details behind a PCI Express error, the history behind a firmware timeout. What it remembers is
//! bounded in number and in age, and the age is counted in records, so that a replay sees what was seen live.

use std::borrow::Cow;
use std::sync::Arc;

use provost_model::catalogue::{Assessment, Catalogue, LinkLayout};
use provost_model::signal::{Impact, PciAddress, Signal, SignalFields, SignalKind, Trust};
use provost_model::time::Timestamp;
use serde_json::Value;

use super::gpu_lost::{self, Lost};
use super::record::{Record, Split};
use super::{cpu, memory, nic, nvidia, pcie, storage, sxid, xid};

/// The longest text that a [`Signal`] carries, in bytes.
const MAX_TEXT: usize = 1024;

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// Reports a condition.
    Signal(SignalKind),
    /// Belongs to the report of an earlier line.
    Continuation,
    /// Registers of an SXid.
    SxidDetail,
    /// Details of a PCI Express error.
    PcieAerDetail,
    /// Details of a machine check.
    MceDetail,
    /// Nothing that Provost watches.
    None,
}

impl LineKind {
    /// The name as written in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            LineKind::Signal(kind) => kind.name(),
            LineKind::Continuation => "continuation",
            LineKind::SxidDetail => "sxid_detail",
            LineKind::PcieAerDetail => "pcie_aer_detail",
            LineKind::MceDetail => "mce_detail",
            LineKind::None => "none",
        }
    }
}

/// Why a line that looks like one of ours reports nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It starts like a line that matters and can't be understood. To be counted.
    Unparsed,
    /// The log says that user space wrote it.
    UserSpace,
}

/// What the parser makes of one line.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the line is.
    pub kind: LineKind,
    /// The device that it names.
    pub pci: Option<PciAddress>,
    /// Xid or SXid number.
    pub code: Option<u32>,
    /// How grave, by the line's own words and the catalogue.
    pub impact: Impact,
    /// It was understood as a report.
    pub parses: bool,
    /// The report is worth an alert.
    pub raises: bool,
    /// The line that it belongs to, by the number given to [`Parser::parse`].
    pub of: Option<u64>,
    /// First and last line, where the report takes several and ends here.
    pub span: Option<(u64, u64)>,
    /// Parts that decisions need.
    pub fields: SignalFields,
    /// Parts that only people need; they may hold personal data.
    pub extra: Vec<(&'static str, Value)>,
    /// Why it reports nothing although it looks as if.
    pub doubt: Option<Doubt>,
    text: String,
}

/// What the agent knows about where a line came from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Name of the node.
    pub node: String,
    /// When the kernel wrote it, as far as known.
    pub at: Timestamp,
    /// Boot that it belongs to.
    pub boot_id: Option<String>,
    /// Number in the kernel's ring.
    pub sequence: Option<u64>,
    /// Older than the agent's first start on this boot.
    pub historic: bool,
    /// How far the source can be trusted.
    pub trust: Trust,
}

impl Outcome {
    fn nothing() -> Outcome {
        Outcome {
            kind: LineKind::None,
            pci: None,
            code: None,
            impact: Impact::None,
            parses: false,
            raises: false,
            of: None,
            span: None,
            fields: SignalFields::default(),
            extra: Vec::new(),
            doubt: None,
            text: String::new(),
        }
    }

    /// The signal for the controller; none where the line reports nothing. Lines that raise nothing are signals
    /// too: they become notes, or end a condition.
    pub fn into_signal(self, origin: Origin) -> Option<Signal> {
        let LineKind::Signal(kind) = self.kind else { return None };
        Some(Signal {
            node: origin.node,
            kind,
            code: self.code,
            pci: self.pci,
            impact: self.impact,
            fields: self.fields,
            at: origin.at,
            boot_id: origin.boot_id,
            sequence: origin.sequence,
            historic: origin.historic,
            trust: origin.trust,
            line: self.text,
        })
    }
}

/// What one family of lines found in a text.
#[derive(Debug)]
pub(super) enum Found {
    /// A report.
    Report(Report),
    /// Details of an earlier report.
    Detail { kind: LineKind, pci: Option<PciAddress>, code: Option<u32>, extra: Vec<(&'static str, Value)> },
    /// It starts like a report, and the rest is missing or makes no sense.
    Unparsed,
}

/// A report before it is judged.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) kind: SignalKind,
    pub(super) code: Option<u32>,
    pub(super) pci: Option<PciAddress>,
    /// How grave the rule that matched says it is; absent where the catalogue decides.
    pub(super) stated: Option<Impact>,
    pub(super) fields: SignalFields,
    pub(super) extra: Vec<(&'static str, Value)>,
}

impl Report {
    pub(super) fn new(kind: SignalKind) -> Report {
        Report {
            kind,
            code: None,
            pci: None,
            stated: None,
            fields: SignalFields::default(),
            extra: Vec::new(),
        }
    }

    pub(super) fn stated(mut self, impact: Impact) -> Report {
        self.stated = Some(impact);
        self
    }

    pub(super) fn on(mut self, pci: PciAddress) -> Report {
        self.pci = Some(pci);
        self
    }

    /// Ends a condition.
    pub(super) fn clearing(mut self) -> Report {
        self.fields.clears = true;
        self.stated(Impact::Info)
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Report {
        self.extra.push((name, value.into()));
        self
    }

    /// As [`Report::with`], where the value is there.
    pub(super) fn with_some(self, name: &'static str, value: Option<impl Into<Value>>) -> Report {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(super) fn found(self) -> Option<Found> {
        Some(Found::Report(self))
    }
}

/// What the families may look at.
pub(super) struct Context<'a> {
    pub(super) catalogue: &'a Catalogue,
    pub(super) layout: LinkLayout,
}

/// A report that details may follow.
#[derive(Clone, Copy, Debug)]
struct Open {
    line: u64,
    at: u64,
    code: Option<u32>,
    pci: Option<PciAddress>,
}

/// Which reports have details, and for how many records after the report a detail is taken for one of its own.
#[derive(Clone, Copy)]
enum Slot {
    Gsp,
    Sxid,
    Aer,
    Mce,
}

const SLOTS: usize = 4;
/// A firmware timeout prints its whole call history, hundreds of lines with the stack.
const AGES: [u64; SLOTS] = [512, 16, 32, 64];

/// Reads one log.
#[derive(Debug)]
pub struct Parser {
    catalogue: Arc<Catalogue>,
    layout: LinkLayout,
    records: u64,
    lost: gpu_lost::Tracker,
    open: [Option<Open>; SLOTS],
}

impl Parser {
    /// For one log of one node. `driver` is the major version of the NVIDIA driver, where known.
    pub fn new(catalogue: Arc<Catalogue>, driver: Option<u32>) -> Parser {
        Parser {
            catalogue,
            layout: LinkLayout::of_driver(driver),
            records: 0,
            lost: gpu_lost::Tracker::default(),
            open: [None; SLOTS],
        }
    }

    /// The catalogue that it judges by.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The first line of the oldest report that is not complete: what that line reports is known later.
    pub fn opening(&self) -> Option<u64> {
        self.lost.opening(self.records)
    }

    /// Reads the next line. `number` is how the caller counts lines or records; it grows, and comes back in
    /// [`Outcome::of`] and [`Outcome::span`].
    pub fn parse(&mut self, number: u64, split: &Split<'_>) -> Outcome {
        self.parse_known(number, split).unwrap_or_else(Outcome::nothing)
    }

    /// As [`Parser::parse`], with none for a line of which no family knows the start: that is nearly every line of
    /// a healthy node, and an outcome is large.
    pub(super) fn parse_known(&mut self, number: u64, split: &Split<'_>) -> Option<Outcome> {
        let record = match split {
            Split::Record(record) => record,
            Split::Dictionary | Split::Foreign => return None,
            Split::Malformed => return Some(Outcome { doubt: Some(Doubt::Unparsed), ..Outcome::nothing() }),
        };
        self.records += 1;
        let family = family(&record.text)?;
        if record.is_user_space() {
            return Some(Outcome { doubt: Some(Doubt::UserSpace), ..Outcome::nothing() });
        }
        Some(self.read(number, family, record))
    }

    fn read(&mut self, number: u64, family: Family, record: &Record<'_>) -> Outcome {
        // Nearly all lines are text, which is seen faster than it is mended.
        let text = std::str::from_utf8(&record.text)
            .map_or_else(|_| String::from_utf8_lossy(&record.text), Cow::Borrowed);
        match self.lost.read(number, self.records, &text) {
            Lost::No => {}
            Lost::Opens => return Outcome::nothing(),
            Lost::Goes { first } => return continuation(Some(first)),
            Lost::Whole { pci, first, text } => {
                let report = Report { code: Some(79), pci: Some(pci), ..Report::new(SignalKind::GpuLost) };
                let mut outcome = self.judge(number, report, &text);
                if first != number {
                    outcome.span = Some((first, number));
                }
                return outcome;
            }
        }
        let context = Context { catalogue: &self.catalogue, layout: self.layout };
        match family(&context, &text) {
            None => Outcome::nothing(),
            Some(Found::Unparsed) => Outcome { doubt: Some(Doubt::Unparsed), ..Outcome::nothing() },
            Some(Found::Report(report)) => self.judge(number, report, &text),
            Some(Found::Detail { kind, pci, code, extra }) => {
                Outcome { kind, pci, code, extra, of: self.owner(kind, pci, code), ..Outcome::nothing() }
            }
        }
    }

    fn judge(&mut self, number: u64, report: Report, text: &str) -> Outcome {
        let Report { kind, code, pci, stated, fields, mut extra } = report;
        let judged = self.catalogue.assess(kind, code, &fields, stated);
        describe(&judged, kind, &mut extra);
        let (impact, raises) = (judged.impact, judged.raises() && !fields.clears);
        let slot = match (kind, code) {
            (SignalKind::Xid, Some(119 | 120)) => Some(Slot::Gsp),
            (SignalKind::Sxid, _) => Some(Slot::Sxid),
            (SignalKind::PcieAer, _) => Some(Slot::Aer),
            (SignalKind::Mce, _) => Some(Slot::Mce),
            _ => None,
        };
        if let Some(slot) = slot {
            self.open[slot as usize] = Some(Open { line: number, at: self.records, code, pci });
        }
        Outcome {
            kind: LineKind::Signal(kind),
            pci,
            code,
            impact,
            parses: true,
            raises,
            of: None,
            span: None,
            fields,
            extra,
            doubt: None,
            text: cut(text).to_owned(),
        }
    }

    /// The line of the report that a detail belongs to, where it is not too long ago.
    fn owner(&self, kind: LineKind, pci: Option<PciAddress>, code: Option<u32>) -> Option<u64> {
        let slot = match kind {
            LineKind::SxidDetail => Slot::Sxid,
            LineKind::PcieAerDetail => Slot::Aer,
            LineKind::MceDetail => Slot::Mce,
            LineKind::Continuation => Slot::Gsp,
            LineKind::Signal(_) | LineKind::None => return None,
        };
        let open = self.open[slot as usize]?;
        let same = !matches!(slot, Slot::Sxid) || (open.code == code && open.pci == pci);
        (same && self.records - open.at <= AGES[slot as usize]).then_some(open.line)
    }
}

fn continuation(of: Option<u64>) -> Outcome {
    Outcome { kind: LineKind::Continuation, of, ..Outcome::nothing() }
}

/// Adds what the catalogue knows to the parts for people.
fn describe(judged: &Assessment<'_>, kind: SignalKind, extra: &mut Vec<(&'static str, Value)>) {
    if matches!(kind, SignalKind::Xid | SignalKind::Sxid) && judged.entry.code.is_none() {
        extra.push(("unknown_code", Value::Bool(true)));
    }
    if judged.entry.application {
        extra.push(("must_not_drain", Value::Bool(true)));
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

type Family = fn(&Context<'_>, &str) -> Option<Found>;

/// Which family may know a text, by how it starts. Nearly all lines of a healthy node end here, so this looks at
/// a few bytes and allocates nothing.
fn family(text: &[u8]) -> Option<Family> {
    let starts: &[(&[u8], Family)] = match text.first()? {
        b'N' => &[(b"NVRM: Xid", xid::parse), (b"NVRM: ", nvidia::parse), (b"NFS: ", storage::nfs)],
        b'n' => &[
            (b"nvidia-nvswitch", sxid::parse),
            (b"nvidia-peermem ", nvidia::peermem),
            (b"nvidia_peermem ", nvidia::peermem),
            (b"nvidia ", pcie::parse),
            (b"nvme ", storage::nvme),
            (b"nfs: ", storage::nfs),
            (b"nfs4_", storage::nfs),
        ],
        b'm' => &[(b"mlx5_core ", nic::parse), (b"mce: ", memory::mce)],
        b'p' => &[(b"pcieport ", pcie::parse)],
        b'E' => &[(b"EDAC MC", memory::edac), (b"EXT4-fs ", storage::file_system)],
        b'K' => &[(b"Kernel panic - ", cpu::panic)],
        b'C' => &[(b"CPU", cpu::thermal)],
        b'L' => &[(b"Lustre: ", storage::lustre), (b"LustreError: ", storage::lustre)],
        b'I' => &[(b"INFO: task ", cpu::hung_task), (b"I/O error, dev ", storage::block)],
        b'w' => &[(b"watchdog: BUG: soft lockup ", cpu::soft_lockup)],
        b'B' => &[(b"BUG: soft lockup ", cpu::soft_lockup), (b"Buffer I/O error on dev ", storage::block)],
        b'b' => &[(b"blk_update_request: ", storage::block), (b"block nvme", storage::nvme)],
        b'X' => &[(b"XFS (", storage::file_system)],
        b'o' => &[(b"oom-kill:", memory::oom_kill), (b"oom_reaper: ", memory::oom)],
        b'M' => &[(b"Memory cgroup out of memory: ", memory::oom)],
        b'O' => &[(b"Out of memory: ", memory::oom)],
        b'[' => &[(b"[Hardware Error]: ", memory::mce)],
        b'{' => &[(b"{", memory::apei)],
        _ => return None,
    };
    starts.iter().find(|(start, _)| text.starts_with(start)).map(|(_, family)| *family)
}
