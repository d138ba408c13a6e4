//! What Provost makes of a kernel log that a person has. Acts on nothing.
//!
//! One [`Line`] comes out for each line that goes in, in order. A report of several lines is told at its first
//! line, so a few lines are held back while one may be under way; memory does not grow with the input.

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::sync::Arc;

use provost_model::catalogue::Catalogue;
use provost_model::signal::{Impact, PciAddress};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::lines::BoundedLines;
use super::parse::{Doubt, LineKind, Outcome, Parser};
use super::record::{Format, Record, Split, Splitter};

/// One line of the input, explained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Number of the line, from 1.
    pub line: u64,
    /// What it is: the name of a signal kind, or `continuation`, `sxid_detail`, `pcie_aer_detail`, `mce_detail`,
    /// `none`.
    pub kind: &'static str,
    /// The device that it names.
    pub pci: Option<PciAddress>,
    /// Xid or SXid number.
    pub code: Option<u32>,
    /// How grave.
    pub severity: Impact,
    /// It was understood as a report.
    pub parses: bool,
    /// It is worth an alert.
    pub raises: bool,
    /// What else it says.
    pub fields: Map<String, Value>,
    /// What it means, one sentence; none for lines that report nothing.
    pub meaning: Option<String>,
    /// What a person does about it.
    pub action: Option<String>,
}

/// Explains every line of `reader`. `driver` is the major version of the NVIDIA driver that wrote it, where
/// known.
pub fn explain<R: BufRead>(reader: R, format: Format, driver: Option<u32>) -> Explain<R> {
    Explain::new(reader, format, Parser::new(Arc::new(Catalogue::embedded()), driver))
}

/// The lines of a log, explained; see [`explain`].
#[derive(Debug)]
pub struct Explain<R> {
    lines: BoundedLines<R>,
    reader: Reader,
    ended: bool,
}

impl<R: BufRead> Explain<R> {
    /// With a parser that has read nothing yet.
    pub fn new(reader: R, format: Format, parser: Parser) -> Explain<R> {
        let splitter = Splitter::new(format);
        let held = VecDeque::new();
        let lines = BoundedLines::new(reader);
        let reader = Reader { splitter, parser, number: 0, held, only_reports: false };
        Explain { lines, reader, ended: false }
    }

    /// Lines read so far.
    pub fn lines_read(&self) -> u64 {
        self.reader.number
    }

    /// Leaves out the lines that report nothing: hardly any line of a log does.
    #[must_use]
    pub fn reports(mut self) -> Explain<R> {
        self.reader.only_reports = true;
        self
    }
}

impl<R: BufRead> Iterator for Explain<R> {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<io::Result<Line>> {
        loop {
            if let Some(line) = self.reader.release(self.ended) {
                return Some(Ok(line));
            }
            if self.ended {
                return None;
            }
            match self.lines.next_with(|bytes| self.reader.read(bytes)) {
                Ok(Some(())) => {}
                Ok(None) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Explains one line after the other, and holds back those that may be part of a report under way.
#[derive(Debug)]
struct Reader {
    splitter: Splitter,
    parser: Parser,
    number: u64,
    /// In the order of their numbers.
    held: VecDeque<Line>,
    only_reports: bool,
}

impl Reader {
    /// The next line that nothing to come can change.
    fn release(&mut self, ended: bool) -> Option<Line> {
        let first = self.held.front()?.line;
        let waits_for = if ended { None } else { self.parser.opening() };
        if waits_for.is_none_or(|opening| first < opening) { self.held.pop_front() } else { None }
    }

    fn read(&mut self, bytes: &[u8]) {
        self.number += 1;
        let split = self.splitter.split(bytes);
        let Some(outcome) = self.parser.parse_known(self.number, &split) else {
            if !self.only_reports {
                self.hold(plain(self.number, LineKind::None.name(), &split));
            }
            return;
        };
        let span = outcome.span;
        let first = span.map_or(self.number, |(first, _)| first);
        // A report belongs to its first line, which is still held back.
        self.hold(line(self.parser.catalogue(), first, outcome, &split));
        if let Some((_, last)) = span {
            let mut rest = Line::empty(last, LineKind::Continuation.name());
            rest.fields.insert("of".to_owned(), json!(first));
            self.hold(rest);
        }
    }

    /// Puts a line in its place; what was held of the same line goes.
    fn hold(&mut self, line: Line) {
        if self.only_reports && !line.parses {
            return;
        }
        match self.held.binary_search_by_key(&line.line, |held| held.line) {
            Ok(at) => self.held[at] = line,
            Err(at) => self.held.insert(at, line),
        }
    }
}

impl Line {
    fn empty(number: u64, kind: &'static str) -> Line {
        Line {
            line: number,
            kind,
            pci: None,
            code: None,
            severity: Impact::None,
            parses: false,
            raises: false,
            fields: Map::new(),
            meaning: None,
            action: None,
        }
    }
}

/// A line of which is known what its log says about it.
fn plain(number: u64, kind: &'static str, split: &Split<'_>) -> Line {
    let mut line = Line::empty(number, kind);
    if let Split::Record(Record { facility: Some(facility), level, .. }) = split {
        line.fields.insert("facility".to_owned(), json!(facility));
        line.fields.insert("level".to_owned(), json!(level));
    }
    line
}

fn line(catalogue: &Catalogue, number: u64, outcome: Outcome, split: &Split<'_>) -> Line {
    let mut line = plain(number, outcome.kind.name(), split);
    if let LineKind::Signal(kind) = outcome.kind {
        let entry = catalogue.entry(kind, outcome.code);
        (line.meaning, line.action) = (Some(entry.meaning.clone()), Some(entry.action.clone()));
    }
    (line.pci, line.code, line.severity) = (outcome.pci, outcome.code, outcome.impact);
    (line.parses, line.raises) = (outcome.parses, outcome.raises);
    let mut put = |name: &str, value: Value| drop(line.fields.insert(name.to_owned(), value));
    if let Some(of) = outcome.of {
        put("of", json!(of));
    }
    if let Some((first, last)) = outcome.span {
        put("spans", json!([first, last]));
    }
    if outcome.kind == LineKind::Signal(provost_model::signal::SignalKind::GpuLost) {
        put("implied_xid", json!(true));
    }
    if outcome.fields.clears {
        put("clears", json!(true));
    }
    for (name, value) in outcome.extra {
        put(name, value);
    }
    line.meaning = line.meaning.or_else(|| doubt(outcome.doubt).map(str::to_owned));
    line
}

fn doubt(doubt: Option<Doubt>) -> Option<&'static str> {
    doubt.map(|doubt| match doubt {
        Doubt::Unparsed => "It starts like a line that matters, but the rest is missing or makes no sense; it is counted as unparsed.",
        Doubt::UserSpace => "A program wrote it, not the kernel; it proves nothing.",
    })
}
