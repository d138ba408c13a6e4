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
    splitter: Splitter,
    parser: Parser,
    number: u64,
    buffer: Vec<u8>,
    held: VecDeque<Line>,
    ended: bool,
}

impl<R: BufRead> Explain<R> {
    /// With a parser that has read nothing yet.
    pub fn new(reader: R, format: Format, parser: Parser) -> Explain<R> {
        Explain {
            lines: BoundedLines::new(reader),
            splitter: Splitter::new(format),
            parser,
            number: 0,
            buffer: Vec::new(),
            held: VecDeque::new(),
            ended: false,
        }
    }
}

impl<R: BufRead> Iterator for Explain<R> {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<io::Result<Line>> {
        loop {
            let waits_for = if self.ended { None } else { self.parser.opening() };
            if self.held.front().is_some_and(|line| waits_for.is_none_or(|first| line.line < first)) {
                return self.held.pop_front().map(Ok);
            }
            if self.ended {
                return None;
            }
            match self.lines.next_into(&mut self.buffer) {
                Ok(true) => self.read(),
                Ok(false) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl<R> Explain<R> {
    fn read(&mut self) {
        self.number += 1;
        let split = self.splitter.split(&self.buffer);
        let outcome = self.parser.parse(self.number, &split);
        let Some((first, last)) = outcome.span else {
            self.held.push_back(line(self.parser.catalogue(), self.number, outcome, &split));
            return;
        };
        // The report belongs to its first line, which is still held back.
        let report = line(self.parser.catalogue(), first, outcome, &split);
        if let Some(held) = self.held.iter_mut().find(|held| held.line == first) {
            *held = report;
        }
        let mut rest = Line::empty(last, LineKind::Continuation.name());
        rest.fields.insert("of".to_owned(), json!(first));
        self.held.push_back(rest);
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

fn line(catalogue: &Catalogue, number: u64, outcome: Outcome, split: &Split<'_>) -> Line {
    let mut line = Line::empty(number, outcome.kind.name());
    if let LineKind::Signal(kind) = outcome.kind {
        let entry = catalogue.entry(kind, outcome.code);
        (line.meaning, line.action) = (Some(entry.meaning.clone()), Some(entry.action.clone()));
    }
    (line.pci, line.code, line.severity) = (outcome.pci, outcome.code, outcome.impact);
    (line.parses, line.raises) = (outcome.parses, outcome.raises);
    let mut put = |name: &str, value: Value| drop(line.fields.insert(name.to_owned(), value));
    if let Split::Record(Record { facility: Some(facility), level, .. }) = split {
        put("facility", json!(facility));
        put("level", json!(level));
    }
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
