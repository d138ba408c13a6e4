//! The rules of the house that no compiler knows, checked over every tracked file. All findings are reported
//! at once, each with its file and line. `cargo test -p xtask` fails where one is found.

use std::fmt;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

mod arrows;
mod crates;
mod crypto;
mod documents;
mod purity;
mod rust;
mod size;
mod words;

/// Lines a function may have, its signature included: what one screen shows, so that a reviewer sees all of it.
const MAX_FUNCTION_LINES: usize = 70;
/// Lines a file may have without its tests: beyond that it has a second subject.
const MAX_FILE_LINES: usize = 500;
/// Bytes a tracked file may have: every clone carries it for ever.
const MAX_BLOB_BYTES: usize = 256 * 1024;
/// Files that may be larger: the lock file is written by cargo, screens are pictures.
const LARGE_FILES: &[&str] = &["Cargo.lock", "docs/screens/"];
/// Files that may hold unsafe code, each with the reason. The workspace denies it, so each place also says why
/// in an `#[expect]`.
const UNSAFE_FILES: &[(&str, &str)] = &[];

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    file: String,
    line: usize,
    text: String,
}

impl Finding {
    fn new(file: &str, line: usize, text: impl Into<String>) -> Finding {
        Finding { file: file.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

/// A tracked file.
struct File {
    /// From the root, with `/`.
    path: String,
    /// What it holds.
    bytes: Vec<u8>,
}

impl File {
    /// Its text; none where it is binary.
    fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }
}

/// Checks everything; an error where something was found.
pub(crate) fn run() -> Result<()> {
    let findings = findings(&Workspace::load()?)?;
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() { Ok(()) } else { bail!("tidy found {} breaches", findings.len()) }
}

fn findings(workspace: &Workspace) -> Result<Vec<Finding>> {
    let mut files = Vec::new();
    for path in workspace.files()? {
        let bytes = std::fs::read(workspace.root.join(&path))?;
        files.push(File { path, bytes });
    }
    let sources: Vec<rust::Source<'_>> = files.iter().filter_map(rust::Source::read).collect();
    let mut findings = Vec::new();
    findings.extend(arrows::check(workspace));
    findings.extend(crates::check(workspace, &sources)?);
    findings.extend(crypto::check(workspace)?);
    findings.extend(documents::check(&files));
    findings.extend(purity::check(&sources));
    findings.extend(size::check(&files, &sources));
    findings.extend(words::check(workspace, &files, &sources));
    findings.sort();
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let findings = findings(&Workspace::load().unwrap()).unwrap();
        let report: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
        assert!(findings.is_empty(), "tidy found {} breaches:\n{report}", findings.len());
    }
}
