//! The driver lost a GPU and wrote no Xid.
//!
//! When the driver can't even read the identity of a GPU, it writes one message of three lines, which `/dev/kmsg`
//! shows as one record and other logs as three:
//!
//! ```text
//! NVRM: The NVIDIA GPU 0000:b3:00.0
//! NVRM: (PCI ID: 10de:26b5) installed in this system has
//! NVRM: fallen off the bus and is not responding to commands.
//! ```
//!
//! The first line alone proves nothing: the driver starts other messages with it. The device stands only there,
//! so the report is complete when the last line comes.

use std::collections::VecDeque;

use provost_model::signal::PciAddress;

use super::scan::Scan;

const FIRST: &str = "NVRM: The NVIDIA GPU ";
const SECOND: &str = "NVRM: (PCI ID: ";
const LAST: &str = "NVRM: fallen off the bus and is not responding to commands";
/// The form of the later driver check, one line with the device in front.
const SHORT: &str = "GPU has fallen off the bus";

/// The three lines come from one call, so few others can get between them.
const MAX_DISTANCE: u64 = 8;
/// GPUs of a node that may be lost at the same time, each with its lines interleaved.
const MAX_PENDING: usize = 16;

/// What a line has to do with a loss.
#[derive(Debug)]
pub(super) enum Lost {
    /// Nothing.
    No,
    /// A report may begin here.
    Opens,
    /// It goes on, and began in `first`.
    Goes { first: u64 },
    /// It is complete.
    Whole { pci: PciAddress, first: u64, text: String },
}

#[derive(Debug)]
struct Pending {
    pci: PciAddress,
    first: u64,
    at: u64,
    has_second: bool,
    text: String,
}

#[derive(Debug, Default)]
pub(super) struct Tracker {
    pending: VecDeque<Pending>,
}

impl Tracker {
    /// The first line of the oldest report that may still be completed.
    pub(super) fn opening(&self, records: u64) -> Option<u64> {
        self.pending.iter().find(|pending| records - pending.at < MAX_DISTANCE).map(|pending| pending.first)
    }

    /// `number` is the caller's number of the line, `records` how many records were read.
    pub(super) fn read(&mut self, number: u64, records: u64, text: &str) -> Lost {
        while self.pending.front().is_some_and(|pending| records - pending.at > MAX_DISTANCE) {
            self.pending.pop_front();
        }
        if text.starts_with(FIRST) {
            return self.first(number, records, text);
        }
        if let Some(pci) = short_form(text) {
            return Lost::Whole { pci, first: number, text: text.to_owned() };
        }
        if text.starts_with(SECOND) {
            let Some(pending) = self.pending.iter_mut().find(|pending| !pending.has_second) else {
                return Lost::No;
            };
            pending.has_second = true;
            push_line(&mut pending.text, text);
            return Lost::Goes { first: pending.first };
        }
        if !text.starts_with(LAST) {
            return Lost::No;
        }
        let at = self.pending.iter().position(|pending| pending.has_second).unwrap_or(0);
        match self.pending.remove(at) {
            Some(mut pending) => {
                push_line(&mut pending.text, text);
                Lost::Whole { pci: pending.pci, first: pending.first, text: pending.text }
            }
            None => Lost::No,
        }
    }

    fn first(&mut self, number: u64, records: u64, text: &str) -> Lost {
        let mut scan = Scan::new(&text[FIRST.len()..]);
        let Some(pci) = scan.pci() else { return Lost::No };
        let rest = scan.rest();
        if whole_message(rest) {
            return Lost::Whole { pci, first: number, text: text.to_owned() };
        }
        // The driver always writes the function; an address without it may have been cut.
        let address = &text[FIRST.len()..text.len() - rest.len()];
        if !rest.trim().is_empty() || !address.contains('.') {
            return Lost::No;
        }
        if self.pending.len() == MAX_PENDING {
            self.pending.pop_front();
        }
        let text = text.trim_end().to_owned();
        self.pending.push_back(Pending { pci, first: number, at: records, has_second: false, text });
        Lost::Opens
    }
}

/// The second and third line in the same record, however the log joins them.
fn whole_message(rest: &str) -> bool {
    let mut scan = Scan::new(rest);
    joined(&mut scan, SECOND)
        && scan.until(" installed in this system has").is_some()
        && joined(&mut scan, LAST)
}

fn joined(scan: &mut Scan<'_>, line: &str) -> bool {
    *scan = Scan::new(scan.rest().trim_start_matches([' ', '\n', '/']));
    scan.skip("NVRM: ");
    scan.skip(line.strip_prefix("NVRM: ").unwrap_or(line))
}

fn push_line(text: &mut String, line: &str) {
    text.push('\n');
    text.push_str(line);
}

/// `NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.`
fn short_form(text: &str) -> Option<PciAddress> {
    let mut scan = Scan::new(text);
    scan.tag("NVRM: GPU ")?;
    scan.skip("at PCI:");
    let pci = scan.pci()?;
    scan.tag(": ")?;
    scan.tag(SHORT).map(|()| pci)
}
