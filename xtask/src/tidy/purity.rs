//! The engine does no I/O: it has no clock, socket, file, task or random source, and no order that differs from
//! one process to the next. The types that would break that are not named in it, nor in the model.

use super::Finding;
use super::rust::Source;

/// Folders that this holds for.
const PURE: &[&str] = &["crates/provost-engine/src/", "crates/provost-model/src/"];

/// What may not be named there, and why.
const FORBIDDEN: &[(&str, &str)] = &[
    ("std::fs", "a file"),
    ("std::net", "a socket"),
    ("std::env", "the environment"),
    ("std::process", "a process"),
    ("std::thread", "a thread"),
    ("SystemTime", "a clock"),
    ("Instant", "a clock"),
    ("Timestamp::now", "a clock"),
    ("HashMap", "an order that differs from one process to the next: BTreeMap"),
    ("HashSet", "an order that differs from one process to the next: BTreeSet"),
    ("thread_rng", "randomness"),
];

/// Finds such names in the product code of the pure crates.
pub(super) fn check(sources: &[Source<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| PURE.iter().any(|folder| source.path.starts_with(folder))) {
        for (line, code) in source.product_lines() {
            for (name, what) in FORBIDDEN.iter().filter(|(name, _)| names(code, name)) {
                let text = format!("`{name}` brings in {what}; pass what you need in as a value");
                findings.push(Finding::new(source.path, line, text));
            }
        }
    }
    findings
}

/// Whether `code` holds `name` as a whole path.
fn names(code: &str, name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name)
        .any(|(at, _)| !code[..at].ends_with(word) && !code[at + name.len()..].starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::super::File;
    use super::*;

    #[test]
    fn pure_crates_name_no_source_of_surprise() {
        let check = |path: &str, text: &str, count: usize| {
            let file = File { path: path.to_owned(), bytes: text.as_bytes().to_vec() };
            assert_eq!(super::check(&[Source::read(&file).unwrap()]).len(), count, "{path}: {text}");
        };
        let engine = "crates/provost-engine/src/a.rs";
        check(engine, "use std::collections::BTreeMap;", 0);
        check(engine, "use std::collections::HashMap;", 1);
        check(engine, "let a: HashMap<u8, SystemTime>;", 2);
        check(engine, "let a = MyInstantOf::b();", 0);
        check(engine, "// a HashMap would differ\n", 0);
        check(engine, "#[cfg(test)]\nmod tests {\nuse std::fs;\n}\n", 0);
        check("crates/provost-server/src/a.rs", "use std::fs;", 0);
    }
}
