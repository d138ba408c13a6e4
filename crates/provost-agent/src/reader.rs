//! The thread that reads a node's kernel log and finds signals in it.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_model::body::SourceState;
use provost_model::catalogue::Catalogue;
use provost_model::signal::Trust;

use crate::clock;
use crate::config::{LogFormat, NodeConfig};
use crate::follow::{Line, Log, Position, Restart, Sink};
use crate::kernel_log::{Doubt, Format, LineKind, Origin, Parser, Split, Splitter};
use crate::log;
use crate::outbox::{Findings, Found, Outbox};
use crate::wait::{Interest, Shutdown, wait};

/// A log that can't be opened is tried again after this; and without any news it is looked at this often.
const LOOK: Duration = Duration::from_secs(1);
/// The same where the kernel can't tell when a file has grown.
const LOOK_BLINDLY: Duration = Duration::from_millis(5);
/// After each look, lines gather for a while, because a look costs as much as a hundred lines. A line that comes
/// alone does not wait. In a flood the while doubles up to the longer one.
const GATHER: Duration = Duration::from_millis(2);
const GATHER_IN_FLOOD: Duration = Duration::from_millis(10);
/// When the next line came sooner than this after the while, it is a flood.
const CALM: Duration = Duration::from_millis(2);

/// Reads until the end. `restart` is what was kept by the run before.
pub(crate) fn run(
    config: &NodeConfig,
    boot_id: Option<String>,
    mut restart: Option<Restart>,
    catalogue: &Arc<Catalogue>,
    outbox: &Outbox,
    shutdown: &Shutdown,
) {
    let mut reported = None;
    loop {
        let result = follow(config, boot_id.clone(), restart.clone(), catalogue, outbox, shutdown);
        let Err(error) = result else { return };
        outbox.set_kernel_log(SourceState::Blind);
        if restart.is_none() && error.kind() == ErrorKind::NotFound {
            // It was not there at the first start. All that it will hold is news.
            let nothing = Restart { boot_id: boot_id.clone(), position: None, historic_until: None };
            outbox.add(&mut Findings { read_to: Some(nothing), ..Findings::default() });
        }
        restart = outbox.read_to().or(restart);
        let text = format!("can't read the kernel log `{}`: {error}", config.kernel_log.display());
        if reported.as_ref() != Some(&text) {
            log::warn(&config.name, &text);
            reported = Some(text);
        }
        if shutdown.sleep(LOOK) {
            return;
        }
    }
}

/// Reads until the end, or until the log can't be read.
fn follow(
    config: &NodeConfig,
    boot_id: Option<String>,
    restart: Option<Restart>,
    catalogue: &Arc<Catalogue>,
    outbox: &Outbox,
    shutdown: &Shutdown,
) -> io::Result<()> {
    let mut log = Log::open(&config.kernel_log, restart.as_ref())?;
    outbox.set_kernel_log(SourceState::Fresh);
    let mut interpreter = Interpreter::new(config, &log, boot_id, restart, catalogue);
    let mut gather = GATHER;
    loop {
        let more = log.read(&mut interpreter);
        interpreter.note_position();
        outbox.add(&mut interpreter.findings);
        if more? {
            if shutdown.is_triggered() {
                return Ok(());
            }
            continue;
        }
        if shutdown.sleep(gather) {
            return Ok(());
        }
        let gathered = Instant::now();
        let look = if log.fd().is_some() { LOOK } else { LOOK_BLINDLY };
        let until = log.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = Some(until.map_or(look, |until| until.min(look)));
        let end = (shutdown.as_fd(), Interest::Read);
        let ended = match log.fd() {
            Some(fd) => wait([end, (fd, Interest::Read)], timeout)[0],
            None => wait([end], timeout)[0],
        };
        if ended {
            return Ok(());
        }
        let is_flood = gathered.elapsed() < CALM;
        gather = if is_flood { (gather * 2).min(GATHER_IN_FLOOD) } else { GATHER };
    }
}

/// Makes signals of lines, and keeps the books of what was read.
struct Interpreter {
    node: String,
    trust: Trust,
    is_device: bool,
    boot_id: Option<String>,
    splitter: Splitter,
    parser: Parser,
    number: u64,
    /// Reports that are not complete, and where their first line stands.
    opening: Option<Option<Position>>,
    /// The device's next record that was not read before.
    next_sequence: Option<u64>,
    /// The device's record that is being read: it may have several lines.
    current: Option<u64>,
    /// Everything so far was there before the first start.
    is_catching_up: bool,
    historic_until: Option<Position>,
    read_to: Option<Position>,
    findings: Findings,
}

impl Interpreter {
    fn new(
        config: &NodeConfig,
        log: &Log,
        boot_id: Option<String>,
        restart: Option<Restart>,
        catalogue: &Arc<Catalogue>,
    ) -> Interpreter {
        Interpreter::with(config, log.is_device(), log.position(), boot_id, restart, catalogue)
    }

    /// `opened_at` is where the log was opened.
    fn with(
        config: &NodeConfig,
        is_device: bool,
        opened_at: Option<Position>,
        boot_id: Option<String>,
        restart: Option<Restart>,
        catalogue: &Arc<Catalogue>,
    ) -> Interpreter {
        let format = match config.format {
            LogFormat::Kmsg => Format::Kmsg,
            LogFormat::Text => Format::Text,
        };
        let is_kernels = is_device && config.format == LogFormat::Kmsg;
        let is_first_start = restart.is_none() && opened_at.is_some();
        let same_boot = restart.as_ref().filter(|restart| restart.boot_id == boot_id);
        let next_sequence = match (is_device, &restart, same_boot.and_then(|restart| restart.position)) {
            (true, Some(_), Some(Position::Device { next })) => Some(next),
            // Another boot, whose ring is news from its first record on.
            (true, Some(_), _) => Some(0),
            _ => None,
        };
        let at = next_sequence.map(|next| Position::Device { next }).or(opened_at);
        let historic_until = match (is_device, &restart) {
            (true, _) => same_boot,
            // Cut off meanwhile.
            (false, Some(Restart { position: Some(was), .. })) if at.is_some_and(|at| at.is_before(*was)) => {
                None
            }
            (false, restart) => restart.as_ref(),
        };
        Interpreter {
            node: config.name.clone(),
            trust: if is_kernels { Trust::Kernel } else { Trust::Text },
            is_device,
            splitter: Splitter::new(format),
            parser: Parser::new(Arc::clone(catalogue), if is_device { driver_major() } else { None }),
            number: 0,
            opening: None,
            next_sequence,
            current: None,
            is_catching_up: is_first_start,
            historic_until: historic_until.and_then(|restart| restart.historic_until),
            read_to: at,
            findings: Findings::default(),
            boot_id,
        }
    }

    /// Where a record of the device stands; none where it was read before.
    fn place(&mut self, split: &Split<'_>, line: &Line<'_>) -> Option<(Option<Position>, Option<Position>)> {
        if !self.is_device {
            return Some((line.start, line.end));
        }
        let Split::Record(record) = split else { return Some((self.read_to, self.read_to)) };
        let sequence = record.sequence?;
        let end = Position::Device { next: sequence.saturating_add(1) };
        match self.next_sequence {
            // The second line of a record has the sequence of the first.
            _ if self.current == Some(sequence) => {}
            Some(next) if sequence < next => return None,
            Some(next) => self.findings.lost += sequence - next,
            None => {}
        }
        self.current = Some(sequence);
        self.next_sequence = Some(sequence.saturating_add(1));
        Some((Some(Position::Device { next: sequence }), Some(end)))
    }

    fn origin(&self, split: &Split<'_>, start: Option<Position>) -> Origin {
        let record = if let Split::Record(record) = split { Some(record) } else { None };
        let stamp = record.and_then(|record| record.timestamp_us).filter(|_| self.is_device);
        let is_before_first_start = match (start, self.historic_until) {
            (Some(start), Some(until)) => start.is_before(until),
            _ => false,
        };
        Origin {
            node: self.node.clone(),
            at: stamp.map_or_else(clock::now, clock::of_kernel_stamp),
            // Whoever writes a file may copy lines of another boot into it.
            boot_id: self.boot_id.clone().filter(|_| self.is_device),
            sequence: record.and_then(|record| record.sequence),
            historic: self.is_catching_up || is_before_first_start,
            trust: self.trust,
        }
    }

    fn note_position(&mut self) {
        if self.is_catching_up {
            return;
        }
        let position = self.opening.unwrap_or(self.read_to);
        let historic_until = self.historic_until;
        self.findings.read_to = Some(Restart { boot_id: self.boot_id.clone(), position, historic_until });
    }
}

impl Sink for Interpreter {
    fn line(&mut self, line: &Line<'_>) {
        let split = self.splitter.split(line.bytes);
        let Some((start, end)) = self.place(&split, line) else { return };
        self.read_to = end;
        if line.cut {
            // What a cut line says can't be known.
            self.findings.unparsed += 1;
            return;
        }
        self.number += 1;
        let outcome = self.parser.parse(self.number, &split);
        if outcome.doubt == Some(Doubt::Unparsed) {
            self.findings.unparsed += 1;
        }
        if matches!(outcome.kind, LineKind::Signal(_)) {
            let origin = self.origin(&split, start);
            let start = self.opening.unwrap_or(start);
            let found = outcome.into_signal(origin).map(|signal| Found { signal, start });
            self.findings.found.extend(found);
        }
        self.opening = self.parser.opening().map(|first| {
            let is_here = first == self.number;
            self.opening.filter(|_| !is_here).unwrap_or(start)
        });
    }

    fn overrun(&mut self) {
        if self.next_sequence.is_none() {
            // At the first start there is no record before, from which to count.
            self.findings.lost += 1;
        }
    }

    fn restarted(&mut self, position: Option<Position>) {
        self.is_catching_up = false;
        self.historic_until = None;
        self.read_to = position;
    }

    fn idle(&mut self) {
        if std::mem::take(&mut self.is_catching_up) {
            self.historic_until = self.read_to;
        }
    }
}

/// The major version of the NVIDIA driver that is loaded.
fn driver_major() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    driver_version(&text)
}

/// From `NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Thu …`.
fn driver_version(text: &str) -> Option<u32> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    line.split_whitespace().find_map(|word| word.split_once('.')?.0.parse().ok())
}

#[cfg(test)]
mod tests;
