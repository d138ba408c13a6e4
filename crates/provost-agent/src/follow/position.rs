//! Where in a kernel log a reader stands, in a form that survives a restart.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;

use serde::{Deserialize, Serialize};

/// A place between two lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "in")]
pub(crate) enum Position {
    /// In the kernel's ring.
    Device {
        /// Sequence of the next record.
        next: u64,
    },
    /// In a file.
    File {
        /// Which.
        file: FileId,
        /// Bytes from its start.
        offset: u64,
    },
}

impl Position {
    /// Further by a line of so many bytes. The ring is not measured in bytes.
    pub(super) fn plus(self, length: u64) -> Position {
        match self {
            Position::Device { next } => Position::Device { next },
            Position::File { file, offset } => Position::File { file, offset: offset + length },
        }
    }

    /// Both are in the same log, and this one comes first.
    pub(crate) fn is_before(self, other: Position) -> bool {
        match (self, other) {
            (Position::Device { next }, Position::Device { next: other }) => next < other,
            (Position::File { file, offset }, Position::File { file: other_file, offset: other }) => {
                file == other_file && offset < other
            }
            _ => false,
        }
    }
}

/// Which file, whatever its name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(metadata: &Metadata) -> FileId {
        FileId { device: metadata.dev(), inode: metadata.ino() }
    }

    pub(super) fn of_file(file: &File) -> io::Result<FileId> {
        file.metadata().map(|metadata| FileId::of(&metadata))
    }
}

/// What is kept on disk, so that the next start goes on where this one was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Restart {
    /// Boot that the position belongs to; a ring begins anew with each boot, a file does not.
    pub(crate) boot_id: Option<String>,
    /// Everything before it is read, and acknowledged as far as it mattered.
    pub(crate) position: Option<Position>,
    /// Everything before it was there before the agent's first start.
    pub(crate) historic_until: Option<Position>,
}
