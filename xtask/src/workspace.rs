//! What cargo and git know about this repository: its crates, their targets and dependencies, its files.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The workspace as `cargo metadata` describes it.
pub(crate) struct Workspace {
    /// Folder of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
    /// The crates, in cargo's order.
    pub(crate) packages: Vec<Package>,
}

/// One crate of the workspace.
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its folder.
    pub(crate) dir: PathBuf,
    /// What it depends on directly.
    pub(crate) dependencies: Vec<Dependency>,
    /// What cargo builds of it.
    pub(crate) targets: Vec<Target>,
}

/// One direct dependency.
pub(crate) struct Dependency {
    /// The crate.
    pub(crate) name: String,
    /// In `[dev-dependencies]`.
    pub(crate) dev: bool,
    /// A crate of this workspace.
    pub(crate) local: bool,
}

/// One thing that cargo builds.
pub(crate) struct Target {
    /// Its name.
    pub(crate) name: String,
    /// `lib`, `bin`, `test`, `example`, `bench`, `custom-build`.
    pub(crate) kind: String,
    /// Its root file.
    pub(crate) source: PathBuf,
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn load() -> Result<Workspace> {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let output = Command::new(cargo())
            .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path", manifest])
            .output()
            .context("cargo does not start")?;
        if !output.status.success() {
            bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let json = serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
        Workspace::read(&json).context("cargo metadata lacks a field")
    }

    /// Reads the answer of `cargo metadata`.
    fn read(json: &Value) -> Option<Workspace> {
        let packages: Option<Vec<Package>> = json["packages"].as_array()?.iter().map(read_package).collect();
        Some(Workspace {
            root: PathBuf::from(json["workspace_root"].as_str()?),
            target: PathBuf::from(json["target_directory"].as_str()?),
            packages: packages?,
        })
    }

    /// The integration tests of all crates that `wanted` accepts, by target name.
    pub(crate) fn tests(&self, wanted: impl Fn(&Package) -> bool) -> Vec<&str> {
        let packages = self.packages.iter().filter(|package| wanted(package));
        packages.flat_map(|package| package.targets_of("test")).map(|target| target.name.as_str()).collect()
    }

    /// The files that git tracks or would track, relative to the root, sorted.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&self.root)
            .output()
            .context("git does not start; it lists the files of the repository")?;
        if !output.status.success() {
            bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
        let exists = |name: &&str| !name.is_empty() && self.root.join(name).is_file();
        let mut files: Vec<String> = names.split('\0').filter(exists).map(str::to_owned).collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// `path` as it is written from the root.
    pub(crate) fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

impl Package {
    /// Targets of one kind.
    pub(crate) fn targets_of(&self, kind: &str) -> impl Iterator<Item = &Target> {
        self.targets.iter().filter(move |target| target.kind == kind)
    }
}

fn read_package(json: &Value) -> Option<Package> {
    let manifest = PathBuf::from(json["manifest_path"].as_str()?);
    let dependencies: Option<Vec<Dependency>> = json["dependencies"]
        .as_array()?
        .iter()
        .map(|dependency| {
            Some(Dependency {
                name: dependency["name"].as_str()?.to_owned(),
                dev: dependency["kind"].as_str() == Some("dev"),
                local: dependency["path"].is_string(),
            })
        })
        .collect();
    let targets: Option<Vec<Target>> = json["targets"]
        .as_array()?
        .iter()
        .map(|target| {
            Some(Target {
                name: target["name"].as_str()?.to_owned(),
                kind: target["kind"][0].as_str()?.to_owned(),
                source: PathBuf::from(target["src_path"].as_str()?),
            })
        })
        .collect();
    Some(Package {
        name: json["name"].as_str()?.to_owned(),
        dir: manifest.parent()?.to_owned(),
        dependencies: dependencies?,
        targets: targets?,
    })
}

/// The cargo that started us, so that the toolchain stays the same.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}
