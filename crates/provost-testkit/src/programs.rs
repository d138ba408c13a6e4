//! Where the programs under test are.

use std::path::{Path, PathBuf};

/// The root of the project.
pub fn project_root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the project's root is there, since this crate was built in it")
}

/// A built program, by its name: in the folder that `PROVOST_BIN_DIR` names, else in `target/debug`.
///
/// # Panics
/// Where it was not built.
pub fn program(name: &str) -> PathBuf {
    let dir = std::env::var_os("PROVOST_BIN_DIR")
        .map_or_else(|| project_root().join("target/debug"), PathBuf::from);
    let path = dir.join(name);
    assert!(path.is_file(), "{} is not there: run `cargo xtask e2e`, which builds it", path.display());
    path
}
