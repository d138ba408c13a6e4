//! The few file operations that must survive a power cut: whole or not at all, and secret where they hold keys.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::error::Error;

/// Creates a directory that only its owner can enter; fine where it exists.
pub(crate) fn create_dir(dir: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(Error::file(dir, "created"))
}

/// Writes `bytes` so that after a crash the file has either its old content or the new.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    let temporary = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    };
    write().map_err(|source| {
        // The half-written file may be what fills the disk; that it can't be removed changes nothing.
        drop(fs::remove_file(&temporary));
        Error::File { path: path.to_owned(), what: "written", source }
    })
}

/// Reads a key file; refuses one that others can read. `None` where there is none.
pub(crate) fn read_secret(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let key_error = |why: String| Error::Key { path: path.to_owned(), why };
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(key_error(error.to_string())),
    };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(key_error(format!("others may read it (mode {mode:04o}); chmod 600 it")));
    }
    match fs::read(path) {
        Ok(bytes) if bytes.len() <= 65_536 => Ok(Some(bytes)),
        Ok(_) => Err(key_error("it is larger than any key; restore it from the backup".to_owned())),
        Err(error) => {
            Err(key_error(format!("{error}; it must be readable by the user that provost runs as")))
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A directory of its own for one test, removed at the end.
    pub(crate) struct TempDir(PathBuf);

    impl TempDir {
        pub(crate) fn new() -> TempDir {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let dir = std::env::temp_dir().join(format!("provost-journal-{}-{number}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            TempDir(dir)
        }
    }

    impl std::ops::Deref for TempDir {
        type Target = Path;

        fn deref(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for TempDir {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }
}
