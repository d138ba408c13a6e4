//! Documents may not name what does not exist. A link in a Markdown file leads to a tracked file, and a link
//! whose text is one identifier in backticks and whose target is a Rust file names something that stands in
//! that file: so does ARCHITECTURE.md name the test of each invariant.

use std::collections::BTreeMap;

use super::{File, Finding};

/// Finds links that lead nowhere, invariants without a test, and decisions whose numbers leave a gap.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let by_path: BTreeMap<&str, &File> = files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (number, line) in file.text().unwrap_or_default().lines().enumerate() {
            let broken = links(line).filter_map(|(text, target)| broken(&file.path, text, target, &by_path));
            findings.extend(broken.map(|text| Finding::new(&file.path, number + 1, text)));
        }
    }
    findings.extend(by_path.get("ARCHITECTURE.md").into_iter().flat_map(|file| untested_invariants(file)));
    findings.extend(gap_in_decisions(&by_path));
    findings
}

/// The links of one line: text and target.
fn links(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.match_indices("](").filter_map(|(at, mark)| {
        let target = line[at + mark.len()..].split(')').next()?;
        let text = &line[line[..at].rfind('[')? + 1..at];
        Some((text, target))
    })
}

/// What is wrong with a link in the document `path`.
fn broken(path: &str, text: &str, target: &str, files: &BTreeMap<&str, &File>) -> Option<String> {
    let target = target.split('#').next().unwrap_or_default();
    if target.is_empty() || target.contains("://") {
        return None;
    }
    let to = resolve(path, target);
    let folder = format!("{}/", to.trim_end_matches('/'));
    let Some(file) = files.get(to.as_str()) else {
        let is_folder = files.keys().any(|file| file.starts_with(&folder));
        return (!is_folder).then(|| format!("the link leads to `{to}`, which does not exist"));
    };
    let name = text.strip_prefix('`').and_then(|text| text.strip_suffix('`'))?;
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let missing = is_name && to.ends_with(".rs") && !file.text().unwrap_or_default().contains(name);
    missing.then(|| format!("`{name}` does not stand in {to}"))
}

/// `target` as seen from the document `path`, from the root.
fn resolve(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Rows of the table under `## Invariants` that name no test.
fn untested_invariants(file: &File) -> Vec<Finding> {
    let lines = file.text().unwrap_or_default().lines().enumerate();
    let section = lines.skip_while(|(_, line)| *line != "## Invariants").skip(1);
    // The table's head and its rule are no invariants.
    let rows =
        section.take_while(|(_, line)| !line.starts_with("## ")).filter(|(_, line)| line.starts_with('|'));
    let untested = rows.skip(2).filter(|(_, line)| !links(line).any(|(_, target)| target.ends_with(".rs")));
    untested.map(|(number, _)| Finding::new(&file.path, number + 1, "this invariant names no test")).collect()
}

/// Decisions are numbered from 0001 without gaps, so that a number names one for ever.
fn gap_in_decisions(files: &BTreeMap<&str, &File>) -> Option<Finding> {
    let names =
        files.keys().filter_map(|path| path.strip_prefix("docs/adr/")).filter(|name| *name != "README.md");
    let numbers = names.filter_map(|name| name.get(..4));
    let wrong = (1..).zip(numbers).find(|(expected, number)| **number != format!("{expected:04}"));
    wrong.map(|(expected, number)| {
        Finding::new("docs/adr", 1, format!("{number} stands where decision {expected:04} should"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Vec<File> {
        let file =
            |(path, text): &(&str, &str)| File { path: (*path).to_owned(), bytes: text.as_bytes().to_vec() };
        list.iter().map(file).collect()
    }

    #[test]
    fn links_lead_somewhere() {
        let check = |line: &str, count: usize| {
            let files = files(&[("docs/a.md", line), ("src/a.rs", "fn holds_are_owned() {}"), ("B.md", "")]);
            assert_eq!(super::check(&files).len(), count, "{line}");
        };
        check("[b](../B.md), [b](../B.md#part) and [c](#part)", 0);
        check("[b](B.md)", 1);
        check("[b](../C.md) [c](../D.md)", 2);
        check("[folder](../src) and [again](../src/)", 0);
        check("[web](https://example.org/a)", 0);
        check("[`holds_are_owned`](../src/a.rs)", 0);
        check("[`holds_are_lost`](../src/a.rs)", 1);
        check("[`a.rs`](../src/a.rs)", 0);
    }

    #[test]
    fn invariants_name_their_tests() {
        let check = |rows: &str, count: usize| {
            let text = format!(
                "# A\n| x |\n\n## Invariants\n\n| invariant | test |\n|---|---|\n{rows}\n## B\n| y |\n"
            );
            let files = files(&[("ARCHITECTURE.md", &text), ("a.rs", "fn b() {}")]);
            assert_eq!(super::check(&files).len(), count, "{rows}");
        };
        check("", 0);
        check("| Holds are owned. | [`b`](a.rs) |\n", 0);
        check("| Holds are owned. | |\n", 1);
        check("| [Holds](ARCHITECTURE.md) are owned. | |\n", 1);
        check("| Holds are owned. | [`c`](a.rs) |\n", 1);
    }

    #[test]
    fn decisions_have_no_gap() {
        let check = |paths: &[&str], count: usize| {
            let list: Vec<_> = paths.iter().map(|path| (*path, "")).collect();
            assert_eq!(super::check(&files(&list)).len(), count, "{paths:?}");
        };
        check(&["docs/adr/0001-a.md", "docs/adr/0002-b.md"], 0);
        check(&["docs/adr/0001-a.md", "docs/adr/0003-b.md"], 1);
        check(&["docs/adr/0001-a.md", "docs/adr/0001-b.md"], 1);
    }
}
