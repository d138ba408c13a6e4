//! Files that grow, and FIFOs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use super::{FileId, MAX_HISTORY, Position, Read, Restart, Source};

/// Names that are looked at for a file that was rotated away while the agent was not running.
const MAX_SIBLINGS: usize = 1_000;

/// A FIFO. It is opened for writing too, so that it does not come to an end when its last writer goes.
pub(super) struct Fifo {
    file: File,
}

impl Fifo {
    pub(super) fn open(path: &Path) -> io::Result<Fifo> {
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        Ok(Fifo { file: OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)? })
    }
}

impl Source for Fifo {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn read(&mut self, chunk: &mut [u8]) -> io::Result<Read> {
        match self.file.read(chunk) {
            Ok(0) => Ok(Read::Nothing),
            Ok(count) => Ok(Read::Bytes(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Read::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Read::Bytes(0)),
            Err(error) => Err(error),
        }
    }

    fn position(&self) -> Option<Position> {
        None
    }
}

/// A file that grows.
pub(super) struct FollowedFile {
    path: PathBuf,
    file: File,
    id: FileId,
    offset: u64,
    watch: Option<Watch>,
    /// Nothing more was there at the last read, so the reader may have been woken since.
    was_idle: bool,
}

impl FollowedFile {
    /// Opens the file where `restart` says, and says whether that is inside a line. A file that was rotated away
    /// meanwhile is read to its end first.
    pub(super) fn open(path: &Path, restart: Option<&Restart>) -> io::Result<(FollowedFile, bool)> {
        let (mut file, mut offset, mut is_in_line) = (File::open(path)?, 0, false);
        let mut id = FileId::of_file(&file)?;
        let length = file.metadata()?.len();
        match restart.map(|restart| restart.position) {
            Some(Some(Position::File { file: old, offset: to })) if old == id => {
                // Shorter than it was: cut off meanwhile, and all of it is new.
                offset = if to <= length { to } else { 0 };
            }
            Some(Some(Position::File { file: old, offset: to })) => {
                if let Some(rotated) = find(path, old, to) {
                    (file, id, offset) = (rotated, old, to);
                }
            }
            // Seen before without a position in a file: it was absent then.
            Some(_) => {}
            None if length > MAX_HISTORY => (offset, is_in_line) = (length - MAX_HISTORY, true),
            None => {}
        }
        file.seek(SeekFrom::Start(offset))?;
        let watch = Watch::new(path).ok();
        Ok((FollowedFile { path: path.to_owned(), file, id, offset, watch, was_idle: false }, is_in_line))
    }

    /// At the end of the open file: was it cut off, or does its name belong to another file by now?
    fn look_around(&mut self) -> io::Result<Read> {
        if self.file.metadata()?.len() < self.offset {
            self.file.seek(SeekFrom::Start(0))?;
            self.offset = 0;
            return Ok(Read::Restarted);
        }
        let id = match fs::metadata(&self.path) {
            Ok(metadata) => FileId::of(&metadata),
            // Rotated away, and the next one is not there yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Read::Nothing),
            Err(error) => return Err(error),
        };
        if id == self.id {
            return Ok(Read::Nothing);
        }
        if self.file.metadata()?.len() > self.offset {
            // Its writer was faster than the rotation.
            return Ok(Read::Bytes(0));
        }
        let named = File::open(&self.path)?;
        let id = FileId::of_file(&named)?;
        (self.file, self.id, self.offset) = (named, id, 0);
        if let Some(watch) = &mut self.watch {
            watch.follow(&self.path);
        }
        Ok(Read::Restarted)
    }
}

impl Source for FollowedFile {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(|watch| watch.inotify.as_fd())
    }

    fn read(&mut self, chunk: &mut [u8]) -> io::Result<Read> {
        if std::mem::replace(&mut self.was_idle, false)
            && let Some(watch) = &mut self.watch
        {
            watch.take();
        }
        match self.file.read(chunk) {
            Ok(0) => {
                let read = self.look_around()?;
                self.was_idle = read == Read::Nothing;
                Ok(read)
            }
            Ok(count) => {
                self.offset += count as u64;
                Ok(Read::Bytes(count))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Read::Bytes(0)),
            Err(error) => Err(error),
        }
    }

    fn position(&self) -> Option<Position> {
        Some(Position::File { file: self.id, offset: self.offset })
    }
}

/// The file that was at `offset` when it still had the name `path`.
fn find(path: &Path, id: FileId, offset: u64) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder).ok()?.take(MAX_SIBLINGS).flatten() {
        if let Ok(metadata) = entry.metadata()
            && metadata.is_file()
            && FileId::of(&metadata) == id
            && metadata.len() >= offset
        {
            return File::open(entry.path()).ok();
        }
    }
    None
}

/// Tells when a file was written to, or its name given to another.
struct Watch {
    inotify: OwnedFd,
    of_file: Option<i32>,
}

impl Watch {
    fn new(path: &Path) -> io::Result<Watch> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        inotify::add_watch(
            &inotify,
            folder,
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR,
        )?;
        let mut watch = Watch { inotify, of_file: None };
        watch.follow(path);
        Ok(watch)
    }

    /// Watches the file that has the name now, and no other.
    fn follow(&mut self, path: &Path) {
        if let Some(old) = self.of_file.take() {
            // Fails where the file is gone, and the watch with it.
            inotify::remove_watch(&self.inotify, old).ok();
        }
        self.of_file = inotify::add_watch(&self.inotify, path, WatchFlags::MODIFY).ok();
    }

    /// Takes what has been told, before the file is read. What it says does not matter: the reader looks at
    /// everything. What is left wakes the reader once more.
    fn take(&mut self) {
        // It fails only where nothing is there.
        rustix::io::read(&self.inotify, &mut [0_u8; 4096]).ok();
    }
}
