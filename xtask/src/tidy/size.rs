//! Limits on functions, files and blobs.

use super::rust::Source;
use super::{File, Finding, LARGE_FILES, MAX_BLOB_BYTES, MAX_FILE_LINES, MAX_FUNCTION_LINES};

/// Finds what is too large.
pub(super) fn check(files: &[File], sources: &[Source<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_blob(&file.path, file.bytes.len())) {
        let text = format!("{} bytes; a tracked file may have {MAX_BLOB_BYTES}", file.bytes.len());
        findings.push(Finding::new(&file.path, 1, text));
    }
    for source in sources {
        let lines = source.product_lines().count();
        if lines > MAX_FILE_LINES {
            let text =
                format!("{lines} lines without tests; {MAX_FILE_LINES} are allowed: split it by subject");
            findings.push(Finding::new(source.path, 1, text));
        }
        for function in source.functions().into_iter().filter(|function| function.lines > MAX_FUNCTION_LINES)
        {
            let (name, lines) = (&function.name, function.lines);
            let text = format!("`{name}` has {lines} lines; {MAX_FUNCTION_LINES} are allowed");
            findings.push(Finding::new(source.path, function.line, text));
        }
    }
    findings
}

fn is_blob(path: &str, bytes: usize) -> bool {
    bytes > MAX_BLOB_BYTES && !LARGE_FILES.iter().any(|large| path.starts_with(large))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive() {
        let check = |path: &str, text: String, expected: &[&str]| {
            let files = [File { path: path.to_owned(), bytes: text.into_bytes() }];
            let sources: Vec<_> = files.iter().filter_map(Source::read).collect();
            let found: Vec<String> = check(&files, &sources).into_iter().map(|f| f.text).collect();
            assert!(found.len() == expected.len(), "{path}: {found:?}");
            found
                .iter()
                .zip(expected)
                .for_each(|(found, start)| assert!(found.starts_with(start), "{found}"));
        };
        let function = |lines: usize| format!("fn a() {{\n{}}}\n", "b();\n".repeat(lines - 2));
        check("a.rs", function(70), &[]);
        check("a.rs", function(71), &["`a` has 71 lines"]);
        check("tests/a.rs", function(71), &["`a` has 71 lines"]);
        check("a.rs", "const A: u8 = 1;\n".repeat(500), &[]);
        check("a.rs", "const A: u8 = 1;\n".repeat(501), &["501 lines"]);
        let tested =
            "const A: u8 = 1;\n".repeat(480) + "#[cfg(test)]\nmod tests {\n" + &"\n".repeat(90) + "}\n";
        check("a.rs", tested, &[]);
        check("tests/a.rs", "const A: u8 = 1;\n".repeat(501), &[]);
        check("a.csv", "x".repeat(MAX_BLOB_BYTES), &[]);
        check("a.csv", "x".repeat(MAX_BLOB_BYTES + 1), &["262145 bytes"]);
        check("docs/screens/a.png", "x".repeat(MAX_BLOB_BYTES + 1), &[]);
        check("Cargo.lock", "x".repeat(MAX_BLOB_BYTES + 1), &[]);
    }
}
