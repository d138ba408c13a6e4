//! `/dev/kmsg`: one record a read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{Position, Read, Source};

pub(super) struct Device {
    file: File,
}

impl Device {
    /// Opens it at the oldest record that the ring still has. Records that were read before are known by their
    /// sequence.
    pub(super) fn open(path: &Path) -> io::Result<Device> {
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        Ok(Device { file: OpenOptions::new().read(true).custom_flags(flags).open(path)? })
    }
}

impl Source for Device {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn read(&mut self, chunk: &mut [u8]) -> io::Result<Read> {
        match self.file.read(chunk) {
            Ok(0) => Ok(Read::Nothing),
            Ok(count) => Ok(Read::Bytes(count)),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::AGAIN) => Ok(Read::Nothing),
                Some(Errno::INTR) => Ok(Read::Bytes(0)),
                // The kernel has moved the reader to the oldest record that is left.
                Some(Errno::PIPE) => Ok(Read::Overrun),
                _ => Err(error),
            },
        }
    }

    fn position(&self) -> Option<Position> {
        Some(Position::Device { next: 0 })
    }
}
