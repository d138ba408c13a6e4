//! The runbooks in force: those of the program, and those of a folder that add to them or replace them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use provost_engine::runbook;
use provost_model::runbook::Runbook;

use crate::local::sha256_hex;

/// Largest file that is read.
const MAX_BYTES: u64 = 256 * 1024;

/// A runbook that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder or a file can't be read.
    #[error("failed to read runbooks from `{path}`")]
    Read {
        /// Path.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It has errors.
    #[error("the runbook `{name}` has errors; `provost runbook lint` shows them:\n{}", findings.join("\n"))]
    Invalid {
        /// File.
        name: String,
        /// All of them.
        findings: Vec<String>,
    },
}

/// Reads and checks every runbook. The version of each is the SHA-256 of its text.
///
/// # Errors
/// The first runbook that can't be used, with all its errors.
pub fn load(dir: Option<&Path>) -> Result<Vec<(String, Runbook)>, Error> {
    let mut texts: BTreeMap<String, String> =
        runbook::builtin().iter().map(|(id, text)| ((*id).to_owned(), (*text).to_owned())).collect();
    if let Some(dir) = dir {
        for (name, text) in read_folder(dir)? {
            texts.insert(name, text);
        }
    }
    texts.into_iter().map(|(name, text)| Ok((sha256_hex(text.as_bytes()), check(&name, &text)?))).collect()
}

/// Parses and lints one text.
///
/// # Errors
/// All its errors.
pub fn check(name: &str, text: &str) -> Result<Runbook, Error> {
    let invalid = |findings: Vec<String>| Error::Invalid { name: name.to_owned(), findings };
    let runbook = runbook::parse(text).map_err(|error| invalid(vec![error.to_string()]))?;
    let mut findings: Vec<String> = runbook::lint(&runbook)
        .iter()
        .map(|finding| format!("{}: {}", finding.path, finding.message))
        .collect();
    if runbook.id != name {
        findings.push(format!("id: is `{}`, but the file is named `{name}`", runbook.id));
    }
    if findings.is_empty() { Ok(runbook) } else { Err(invalid(findings)) }
}

/// The JSON Schema of a runbook file.
pub fn schema() -> serde_json::Value {
    runbook::schema()
}

fn read_folder(dir: &Path) -> Result<Vec<(String, String)>, Error> {
    let error = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Read { path, source }
    };
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(error(dir))? {
        let path = entry.map_err(error(dir))?.path();
        let is_yaml = path.extension().is_some_and(|ending| ending == "yaml");
        let Some(name) = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_yaml) else {
            continue;
        };
        if path.metadata().map_err(error(&path))?.len() > MAX_BYTES {
            let source = std::io::Error::other("the file is larger than 256 KiB");
            return Err(Error::Read { path, source });
        }
        texts.push((name.to_owned(), std::fs::read_to_string(&path).map_err(error(&path))?));
    }
    Ok(texts)
}
