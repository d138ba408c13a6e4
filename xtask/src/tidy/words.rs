//! Words and calls that may not be handed in: unfinished work, swallowed errors, words that the glossary has
//! replaced, and names of the machine or the network that a change was made on.
//!
//! The lists are written in pieces, so that this file does not find itself.

use super::rust::Source;
use super::{File, Finding, UNSAFE_FILES};
use crate::workspace::Workspace;

/// A phrase and what to do instead.
type Rule = (&'static str, &'static str);

/// In any text that people write.
const UNFINISHED: &[Rule] = &[
    (concat!("to", "do!("), "finish it"),
    (concat!("unimple", "mented!("), "finish it"),
    (concat!("#[ig", "nore"), "a test runs or does not exist"),
    (concat!("FIX", "ME"), "fix it, or write an issue"),
    (concat!("XX", "X"), "fix it, or write an issue"),
    (concat!("for ", "now"), "say what is true, and for how long"),
    (concat!("place", "holder"), "put the real thing there"),
];

/// In code that is not a test.
const CARELESS: &[Rule] = &[
    (".unwrap()", "handle it, or `expect` with the invariant that rules it out"),
    ("let _ =", "handle the result, or say in code why it does not matter"),
];

/// Words of the field that have another name here.
const REPLACED: &[Rule] = &[
    (concat!("audit", "verify"), "`provost-verify`"),
    (concat!("audit-", "event"), "`record`"),
    (concat!("led", "ger"), "`journal`"),
    (concat!("telemetry-", "lost"), "a `stale` source"),
    (concat!("gpu-fallen-", "off-bus"), "`gpu-lost`"),
];

/// Hosts and paths that mean something on one machine or network only.
const LOCAL: &[Rule] = &[
    (concat!("/wo", "rk/"), "a path from the root of the repository"),
    (concat!("crates", ".io/"), "name the package, not its host"),
    (concat!("py", "pi.org"), "name the package, not its host"),
    (concat!("registry.", "npmjs"), "name the package, not its host"),
    (concat!("deb.", "debian"), "name the package, not its host"),
];

/// May speak of replaced words: it says what replaced them.
const GLOSSARY: &str = "GLOSSARY.md";
/// A path of the contract that has kept the word of the standards that auditors know.
const CONTRACT_PATH: &str = concat!("/v1/audit-", "events");
/// Written by cargo, hosts included.
const LOCK: &str = "Cargo.lock";

/// Finds such words.
pub(super) fn check(workspace: &Workspace, files: &[File], sources: &[Source<'_>]) -> Vec<Finding> {
    let root = format!("{}/", workspace.root.display());
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path != LOCK) {
        for (number, line) in file.text().unwrap_or_default().lines().enumerate() {
            findings.extend(
                text_breaches(&file.path, line).map(|text| Finding::new(&file.path, number + 1, text)),
            );
            if root.len() > 2 && line.contains(&root) {
                findings.push(Finding::new(
                    &file.path,
                    number + 1,
                    "a path of the machine that this was made on",
                ));
            }
        }
    }
    for source in sources {
        for (line, code) in source.product_lines() {
            findings
                .extend(code_breaches(source.path, code).map(|text| Finding::new(source.path, line, text)));
        }
    }
    findings
}

fn text_breaches(path: &str, line: &str) -> impl Iterator<Item = String> {
    let replaced = if path == GLOSSARY { &[] } else { REPLACED };
    let rules = [UNFINISHED, replaced, LOCAL].into_iter().flatten();
    let line = line.replace(CONTRACT_PATH, "");
    rules
        .filter(move |(phrase, _)| has(&line, phrase))
        .map(|(phrase, instead)| format!("`{phrase}`: {instead}"))
}

fn code_breaches<'a>(path: &'a str, code: &'a str) -> impl Iterator<Item = String> + 'a {
    let careless = CARELESS.iter().filter(|(phrase, _)| code.contains(phrase));
    let unsafe_code = ["unsafe {", "unsafe fn", "unsafe impl"].into_iter().any(|start| has(code, start));
    let listed = UNSAFE_FILES.iter().any(|(file, _)| *file == path);
    careless
        .map(|(phrase, instead)| format!("`{phrase}`: {instead}"))
        .chain((unsafe_code && !listed).then(|| "unsafe code in a file that is not listed for it".to_owned()))
}

/// Whether `line` holds `phrase` in any case, alone or in the plural, not as a part of a longer word.
fn has(line: &str, phrase: &str) -> bool {
    let line = line.to_ascii_lowercase();
    let phrase = phrase.to_ascii_lowercase();
    let letter = |c: char| c.is_alphanumeric();
    line.match_indices(&phrase).any(|(at, _)| {
        let after = &line[at + phrase.len()..];
        let after = after.strip_prefix('s').unwrap_or(after);
        let goes_before = phrase.starts_with(letter) && line[..at].ends_with(letter);
        let goes_on = phrase.ends_with(letter) && after.starts_with(letter);
        !goes_before && !goes_on
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_text() {
        let check = |path: &str, line: String, count: usize| {
            assert_eq!(text_breaches(path, &line).count(), count, "{path}: {line}");
        };
        let at = |parts: &[&str]| parts.concat();
        check("a.rs", at(&["    to", "do!()"]), 1);
        check("a.rs", at(&["#[ig", "nore = \"slow\"]"]), 1);
        check("a.md", at(&["Enough for ", "now."]), 1);
        check("a.md", at(&["before", " now"]), 0);
        check("a.md", at(&["Place", "holders"]), 1);
        check("a.sh", at(&["mktemp -d /tmp/a.XX", "XXXX"]), 0);
        check("a.md", at(&["the led", "ger"]), 1);
        check("GLOSSARY.md", at(&["not led", "ger"]), 0);
        check("a.rs", at(&["an audit-", "event"]), 1);
        check("a.rs", at(&["get(\"/v1/audit-", "events?limit=3\")"]), 0);
        check("a.md", at(&["see /wo", "rk/a"]), 1);
        check("a.rs", "a plain line".to_owned(), 0);
    }

    #[test]
    fn words_in_code() {
        let check = |code: &str, count: usize| {
            assert_eq!(code_breaches("crates/a/src/lib.rs", code).count(), count, "{code}");
        };
        check("a.unwrap();", 1);
        check("a.unwrap_or(1);", 0);
        check("let _ = a();", 1);
        check("let _guard = a();", 0);
        check("unsafe { a() }", 1);
        check("#![deny(unsafe_code)]", 0);
    }

    #[test]
    fn comments_strings_and_tests_are_not_code() {
        let text = "// a.unwrap()\nlet a = \"let _ =\";\n#[cfg(test)]\nmod tests {\n a.unwrap();\n}\n";
        let file = File { path: "crates/a/src/lib.rs".to_owned(), bytes: text.as_bytes().to_vec() };
        let source = Source::read(&file).unwrap();
        let found = source.product_lines().flat_map(|(_, code)| code_breaches(source.path, code)).count();
        assert_eq!(found, 0);
    }
}
