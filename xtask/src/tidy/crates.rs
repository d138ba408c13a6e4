//! What every crate and every source file must have: its folder's name, the lints of the workspace, code, and
//! a first sentence that says why it exists.

use anyhow::{Context as _, Result};

use super::Finding;
use super::rust::Source;
use crate::bench::BENCHES;
use crate::workspace::{Package, Workspace};

/// Characters that a module's first line has at least; fewer say nothing.
const MIN_DOC_CHARS: usize = 20;

/// Checks the crates and their files.
pub(super) fn check(workspace: &Workspace, sources: &[Source<'_>]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let path = package.dir.join("Cargo.toml");
        let manifest = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let path = workspace.relative(&path);
        if package.dir.file_name().is_none_or(|folder| *folder != *package.name) {
            findings.push(Finding::new(
                &path,
                1,
                format!("the folder of `{}` has another name", package.name),
            ));
        }
        if !inherits_lints(&manifest) {
            let text = "the lints of the workspace are not inherited: `[lints] workspace = true`";
            findings.push(Finding::new(&path, 1, text));
        }
        if is_empty(workspace, package, sources) {
            findings.push(Finding::new(&path, 1, format!("`{}` has no code", package.name)));
        }
    }
    for source in sources.iter().filter(|source| source.path.contains("/src/")) {
        if let Some(text) = missing_doc(source.text) {
            findings.push(Finding::new(source.path, 1, text));
        }
    }
    findings.extend(unlisted_benches(workspace));
    Ok(findings)
}

/// Benchmarks that `cargo xtask bench` does not know, and those that it knows and nobody wrote.
fn unlisted_benches(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut examples = Vec::new();
    for package in &workspace.packages {
        let benches = package.targets_of("example");
        for (target, name) in benches.filter_map(|target| Some((target, target.name.strip_suffix("_bench")?)))
        {
            examples.push((package.name.as_str(), name));
            if !BENCHES.iter().any(|bench| (bench.package, bench.name) == (package.name.as_str(), name)) {
                let text = format!("`{name}` is not in the list of xtask/src/bench.rs");
                findings.push(Finding::new(&workspace.relative(&target.source), 1, text));
            }
        }
    }
    for bench in BENCHES.iter().filter(|bench| !examples.contains(&(bench.package, bench.name))) {
        let text = format!("`{}` has no example `{}_bench`", bench.package, bench.name);
        findings.push(Finding::new("xtask/src/bench.rs", 1, text));
    }
    findings
}

fn inherits_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim);
    lines.any(|line| line == "[lints]") && lines.find(|line| !line.is_empty()) == Some("workspace = true")
}

/// Whether no file of the crate holds code, that of tests included.
fn is_empty(workspace: &Workspace, package: &Package, sources: &[Source<'_>]) -> bool {
    let folder = format!("{}/", workspace.relative(&package.dir));
    let has_code = |source: &Source<'_>| {
        let code = source.code.replace("fn main() {}", "");
        source.path.starts_with(&folder) && !code.trim().is_empty()
    };
    !sources.iter().any(has_code)
}

fn missing_doc(text: &str) -> Option<&'static str> {
    let first = text.lines().next().and_then(|line| line.strip_prefix("//!"));
    match first {
        None => Some("a file begins with `//!` and a sentence that says why it exists"),
        Some(doc) if doc.trim().chars().count() < MIN_DOC_CHARS => {
            Some("the first sentence of the file says nothing")
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lints_are_inherited() {
        let check = |manifest: &str, expected| assert_eq!(inherits_lints(manifest), expected, "{manifest}");
        check("[package]\n\n[lints]\nworkspace = true\n", true);
        check("[lints]\n[dependencies]\nworkspace = true\n", false);
        check("[package]\nname = \"a\"\n", false);
    }

    #[test]
    fn files_begin_with_their_reason() {
        let check = |text: &str, ok: bool| assert_eq!(missing_doc(text).is_none(), ok, "{text}");
        check("//! Holds are owned, and nobody removes another's.\n", true);
        check("//! ...\nfn main() {}\n", false);
        check("use std::fmt;\n", false);
        check("", false);
    }
}
