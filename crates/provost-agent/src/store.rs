//! The folder of one node: what survives a restart.
//!
//! `lock` keeps a second agent out; `identity.json` holds the certificate and its key; `kernel_log.json` the
//! position; `orders.log` what was done; `spool.jsonl` what the controller was not told yet; `standing.json` whether the node may take work. Files are replaced whole, so that a crash leaves the old or the new.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A file of more bytes was not written by an agent.
const MAX_FILE: u64 = 1 << 20;

/// A node's folder, held by this process.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    /// Released when the file is closed.
    _lock: File,
}

/// Why a folder or a file in it can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder can't be made or locked.
    #[error(
        "failed to open the state folder `{path}`; it must be writable for the agent and on a local disk"
    )]
    Folder {
        /// Path.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Another process has it.
    #[error("the state folder `{path}` is in use by another agent; stop that one, or use another state_dir")]
    InUse {
        /// Path.
        path: PathBuf,
    },
    /// A file can't be read.
    #[error("failed to read `{path}`")]
    Read {
        /// Path.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file can't be written.
    #[error("failed to write `{path}`")]
    Write {
        /// Path.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

impl Store {
    /// Opens or makes the folder, readable for its owner only, and keeps others out.
    pub(crate) fn open(state_dir: &Path, node: &str) -> Result<Store, StoreError> {
        let folder = state_dir.join(node);
        let failed = |source| StoreError::Folder { path: folder.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        let lock = private().create(true).truncate(false).open(folder.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Store { folder, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: folder }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Reads a file; none where it is absent.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        let path = self.path(name);
        let failed = |source| StoreError::Read { path: path.clone(), source };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut bytes).map_err(failed)?;
        // The text of serde's error may quote a key.
        let malformed = |_| failed(io::Error::new(io::ErrorKind::InvalidData, "it is damaged"));
        serde_json::from_slice(&bytes).map(Some).map_err(malformed)
    }

    /// Replaces a file. Where `durable`, it is on the disk when this returns.
    pub(crate) fn write(&self, name: &str, value: &impl Serialize, durable: bool) -> Result<(), StoreError> {
        let path = self.path(name);
        let failed = |source| StoreError::Write { path: path.clone(), source };
        let bytes = serde_json::to_vec(value).map_err(|error| failed(error.into()))?;
        replace(&path, &bytes, durable).map_err(failed)
    }
}

/// Replaces a file, readable for its owner only.
pub(crate) fn replace(path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
    let next = path.with_extension("next");
    let mut file = private().create(true).truncate(true).open(&next)?;
    file.write_all(bytes)?;
    if durable {
        file.sync_all()?;
    }
    fs::rename(&next, path)?;
    match path.parent() {
        Some(folder) if durable => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

/// For writing, readable for the owner only.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::testing::Folder;

    #[test]
    fn a_folder_has_one_owner() {
        let folder = Folder::new();
        let store = Store::open(folder.path(), "gpu001").unwrap();
        assert!(matches!(Store::open(folder.path(), "gpu001"), Err(StoreError::InUse { .. })));
        Store::open(folder.path(), "gpu002").unwrap();
        drop(store);
        Store::open(folder.path(), "gpu001").unwrap();
    }

    #[test]
    fn files_are_private_and_read_back() {
        let folder = Folder::new();
        let store = Store::open(folder.path(), "gpu001").unwrap();
        assert_eq!(store.read::<Vec<u8>>("x.json").unwrap(), None);
        store.write("x.json", &vec![1, 2], true).unwrap();
        assert_eq!(store.read::<Vec<u8>>("x.json").unwrap(), Some(vec![1, 2]));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&store.path("x.json")), mode(&store.folder)), (0o600, 0o700));
        fs::write(store.path("x.json"), "{").unwrap();
        assert!(store.read::<Vec<u8>>("x.json").is_err());
    }
}
