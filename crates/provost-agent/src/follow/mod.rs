//! Reading a kernel log as it grows, without missing or repeating anything across restarts.
//!
//! There are three kinds: the device `/dev/kmsg`, which gives one record a read and says when records were
//! overwritten before anybody read them; a FIFO, which has no past; and a file, which grows, is cut off, and is
//! rotated away. [`Log`] makes one stream of lines of them, each with its [`Position`].

mod device;
mod file;
mod lines;
mod position;

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) use lines::Line;
pub(crate) use position::{FileId, Position, Restart};

use device::Device;
use file::{Fifo, FollowedFile};
use lines::Lines;

/// Bytes that are read at once. A record of the device is smaller.
const CHUNK: usize = 16 * 1024;
/// A last line without an end is taken as it is after this.
const LINE_WAIT: Duration = Duration::from_secs(1);
/// Of a file that the agent has never seen, only the end is history worth reading.
const MAX_HISTORY: u64 = 16 << 20;

/// What a source gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// This many bytes.
    Bytes(usize),
    /// Nothing more at present.
    Nothing,
    /// What comes next does not continue what came before: another file, or the file was cut off.
    Restarted,
    /// Records were overwritten before they were read; how many is seen from the next one's sequence.
    Overrun,
}

/// Something that bytes of a kernel log come out of.
trait Source: Send {
    /// Becomes readable when more may have come. None where that can't be waited for, but has to be tried.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
    /// Reads.
    fn read(&mut self, chunk: &mut [u8]) -> io::Result<Read>;
    /// The position of the next byte to be read; none where the source has no past.
    fn position(&self) -> Option<Position>;
}

/// What a reader of the log sees.
pub(crate) trait Sink {
    /// A line, in order.
    fn line(&mut self, line: &Line<'_>);
    /// Kernel records were overwritten before they were read.
    fn overrun(&mut self);
    /// What comes next stands in another file, or in the same one that was cut off. It starts at `position`.
    fn restarted(&mut self, position: Option<Position>);
    /// Everything that is there was read.
    fn idle(&mut self);
}

/// An open kernel log.
pub(crate) struct Log {
    source: Box<dyn Source>,
    lines: Lines,
    /// A device gives whole records, so its lines are placed by their sequence, by whoever parses them.
    is_device: bool,
    /// Where the first byte of the line stands that is not complete.
    at: Option<Position>,
    /// Since when the last line has no end.
    open_since: Option<Instant>,
    chunk: Vec<u8>,
}

impl Log {
    /// Opens the log and goes to where the reader was before, if the log can still be told to be the same.
    /// Without `restart` it starts with what is there.
    ///
    /// # Errors
    /// Where it is absent or may not be read.
    pub(crate) fn open(path: &Path, restart: Option<&Restart>) -> io::Result<Log> {
        let kind = fs::metadata(path)?.file_type();
        let is_device = kind.is_char_device();
        let mut lines = Lines::default();
        let source: Box<dyn Source> = if is_device {
            Box::new(Device::open(path)?)
        } else if kind.is_fifo() {
            Box::new(Fifo::open(path)?)
        } else if kind.is_file() {
            let (file, is_in_line) = FollowedFile::open(path, restart)?;
            if is_in_line {
                lines.skip_to_end();
            }
            Box::new(file)
        } else {
            return Err(io::Error::other("it is neither a device, nor a file, nor a FIFO"));
        };
        let at = source.position();
        Ok(Log { source, lines, is_device, at, open_since: None, chunk: vec![0; CHUNK] })
    }

    /// Whether the kernel vouches for the log.
    pub(crate) fn is_device(&self) -> bool {
        self.is_device
    }

    /// The position of the next line.
    pub(crate) fn position(&self) -> Option<Position> {
        self.at
    }

    /// Becomes readable when more may have come.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.source.fd()
    }

    /// When a last line without an end is to be taken as it is: call [`Log::read`] then.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.open_since.map(|since| since + LINE_WAIT)
    }

    /// Hands over one piece of what has come. True where there may be more at once.
    ///
    /// # Errors
    /// Where the log can't be read any more; open it again.
    pub(crate) fn read(&mut self, sink: &mut impl Sink) -> io::Result<bool> {
        match self.source.read(&mut self.chunk)? {
            Read::Bytes(count) => {
                let at = &mut self.at;
                let take = |line: Line<'_>| deliver(line, at, sink);
                self.lines.push(&self.chunk[..count], take);
                self.open_since = (!self.lines.is_empty()).then(Instant::now);
                return Ok(true);
            }
            Read::Restarted => {
                self.take_open_line(sink);
                self.at = self.source.position();
                sink.restarted(self.at);
                return Ok(true);
            }
            Read::Overrun => {
                sink.overrun();
                return Ok(true);
            }
            Read::Nothing => {}
        }
        if self.deadline().is_some_and(|deadline| Instant::now() >= deadline) {
            self.take_open_line(sink);
        }
        sink.idle();
        Ok(false)
    }

    fn take_open_line(&mut self, sink: &mut impl Sink) {
        let at = &mut self.at;
        self.lines.flush(|line| deliver(line, at, sink));
        self.open_since = None;
    }
}

/// Says where the line stands, and moves on behind it.
fn deliver(mut line: Line<'_>, at: &mut Option<Position>, sink: &mut impl Sink) {
    line.start = *at;
    *at = at.map(|at| at.plus(line.length));
    line.end = *at;
    if !line.skipped {
        sink.line(&line);
    }
}

#[cfg(test)]
mod tests;
