//! Rust source as the checks read it: the code with comments and the insides of literals blanked out, so that
//! a brace or a banned call in a string or a comment is never taken for code; and which lines are tests.

use super::File;

/// One Rust file.
pub(super) struct Source<'a> {
    /// From the root.
    pub(super) path: &'a str,
    /// As written.
    pub(super) text: &'a str,
    /// The same with comments and the insides of literals blank: equal length, equal lines.
    pub(super) code: String,
    /// For each line of the file, whether it belongs to tests.
    test_lines: Vec<bool>,
}

/// A function found in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// Its name.
    pub(super) name: String,
    /// Line of its signature, from 1.
    pub(super) line: usize,
    /// From the signature to the closing brace.
    pub(super) lines: usize,
}

impl Source<'_> {
    /// Reads `file`; none where it is not Rust.
    pub(super) fn read(file: &File) -> Option<Source<'_>> {
        let text = file.text().filter(|_| file.path.ends_with(".rs"))?;
        let code = blank(text);
        let test_lines =
            if is_test_path(&file.path) { vec![true; text.lines().count()] } else { test_lines(&code) };
        Some(Source { path: &file.path, text, code, test_lines })
    }

    /// The lines of code that are not tests, numbered from 1.
    pub(super) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().filter(|(i, _)| !self.test_lines[*i]).map(|(i, line)| (i + 1, line))
    }

    /// Every function with a body, tests too.
    pub(super) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        let mut start = 0;
        for (i, line) in self.code.split('\n').enumerate() {
            if let Some(name) = function_name(line)
                && let Some(end) = item_end(&self.code, start)
                && self.code.as_bytes()[end - 1] == b'}'
            {
                let lines = self.code[start..end].split('\n').count();
                functions.push(Function { name, line: i + 1, lines });
            }
            start += line.len() + 1;
        }
        functions
    }
}

/// Folders and files that hold nothing but tests and measurements.
fn is_test_path(path: &str) -> bool {
    let folder = |name: &str| path.split('/').any(|part| part == name);
    let file = path.rsplit('/').next().unwrap_or(path);
    ["tests", "testing", "benches", "examples", "provost-testkit"].into_iter().any(folder)
        || matches!(file, "tests.rs" | "testing.rs")
        || file.ends_with("_tests.rs")
}

/// The name of the function whose signature begins on this line of blanked code.
fn function_name(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let mut word = words.next()?;
    while word.starts_with("pub")
        || matches!(word, "const" | "async" | "unsafe" | "extern" | "default" | "in")
        || word.starts_with('"')
        || word.ends_with(')')
    {
        word = words.next()?;
    }
    if word != "fn" {
        return None;
    }
    let name: String = words.next()?.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// Where the item that begins at `start` ends: after the brace that closes its body, or after its semicolon.
fn item_end(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (i, byte) in code.as_bytes().iter().enumerate().skip(start) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 && *byte == b'}' {
                    return Some(i + 1);
                }
            }
            b';' if depth == 0 => return Some(i + 1),
            _ => {}
        }
    }
    None
}

/// Marks the lines of every item under `#[cfg(test)]`.
fn test_lines(code: &str) -> Vec<bool> {
    let mut marks = vec![false; code.lines().count()];
    for (at, attribute) in code.match_indices("#[cfg(test)]") {
        let end = item_end(code, skip_attributes(code, at + attribute.len())).unwrap_or(code.len());
        let first = code[..at].matches('\n').count();
        let last = code[..end].matches('\n').count();
        for mark in marks.iter_mut().take(last + 1).skip(first) {
            *mark = true;
        }
    }
    marks
}

/// The place behind white space and further attributes.
fn skip_attributes(code: &str, mut at: usize) -> usize {
    loop {
        at += code[at..].len() - code[at..].trim_start().len();
        match code[at..].strip_prefix("#[").and_then(|rest| rest.find(']')) {
            Some(length) => at += 2 + length + 1,
            None => return at,
        }
    }
}

/// Blanks comments and the insides of string and character literals.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let (end, keep) = token(bytes, at);
        for (i, byte) in bytes[at..end].iter().enumerate() {
            let edge = i < keep || end - at - i <= keep;
            out.push(if *byte == b'\n' || edge { *byte } else { b' ' });
        }
        at = end;
    }
    // Only whole tokens were blanked, byte by byte with ASCII, so what is left is UTF-8 still.
    String::from_utf8_lossy(&out).into_owned()
}

/// The end of the token at `at`, and how many of its first and last bytes are code.
fn token(bytes: &[u8], at: usize) -> (usize, usize) {
    let rest = &bytes[at..];
    let after_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest {
        [b'/', b'/', ..] => (at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()), 0),
        [b'/', b'*', ..] => (at + block_comment(rest), 0),
        [b'"', ..] => (at + quoted(rest, b'"'), 1),
        [b'r', b'"' | b'#', ..] if !after_word => raw_string(rest).map_or((at + 1, 1), |end| (at + end, 1)),
        [b'b' | b'c', b'r', b'"' | b'#', ..] if !after_word => {
            raw_string(&rest[1..]).map_or((at + 1, 1), |end| (at + 1 + end, 1))
        }
        [b'\'', b'\\', ..] => (at + quoted(rest, b'\''), 1),
        [b'\'', ..] => char_literal(rest).map_or((at + 1, 1), |end| (at + end, 1)),
        _ => (at + 1, 1),
    }
}

/// Length of a block comment; they nest.
fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at + 1 < rest.len() {
        match &rest[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Length of a literal with escapes, from one `quote` to the next.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a raw string that begins with its `r`; none where it is a raw identifier.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    let body = 2 + hashes;
    let length = rest[body..].windows(end.len()).position(|window| window == end);
    Some(length.map_or(rest.len(), |length| body + length + end.len()))
}

/// Length of a character literal without an escape; none where the quote begins a lifetime.
fn char_literal(rest: &[u8]) -> Option<usize> {
    let head = &rest[1..rest.len().min(5)];
    // A cut last character is no part of the first one.
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).ok()?,
    };
    let length = text.chars().next().map_or(4, char::len_utf8);
    (rest.get(1 + length) == Some(&b'\'')).then_some(1 + length + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let check = |text: &str, kept: &str| {
            let code = blank(text);
            assert_eq!(code.len(), text.len(), "{text}");
            assert_eq!(code.split(' ').collect::<String>(), kept, "{text}");
        };
        check("a // b {\nc", "a\nc");
        check("a /* { /* } */ { */ b", "ab");
        check(r#"f("a { \" }", 1)"#, r#"f("",1)"#);
        check(r##"f(r#"a " {"#, 1)"##, "f(r#,1)");
        check("f('{', '\\'', 'a')", "f('','','')");
        check("fn f<'a>(x: &'a str) {}", "fnf<'a>(x:&'astr){}");
        check("'é' 'x", "'''x");
        check("r#type + br\"{\"", "r#type+b\"");
        check("\"open {\n{", "\"\n{");
        check("/* open {", "");
    }

    #[test]
    fn functions_are_measured_to_their_brace() {
        let check = |text: &str, expected: &[(&str, usize, usize)]| {
            let file = File { path: "a.rs".to_owned(), bytes: text.as_bytes().to_vec() };
            let found = Source::read(&file).unwrap().functions();
            let found: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("fn a() {}", &[("a", 1, 1)]);
        check("\npub(crate) async fn a(\n    x: [u8; 4],\n) {\n    b(\"}\");\n}\n", &[("a", 2, 5)]);
        check("trait T {\n    fn a(&self);\n    fn b(&self) {\n    }\n}\n", &[("b", 3, 2)]);
        check("pub(in crate::x) unsafe extern \"C\" fn a() {\n}\n", &[("a", 1, 2)]);
        check("// fn a() {}\nlet f: fn() = b;\n", &[]);
    }

    #[test]
    fn lines_under_cfg_test_are_no_product() {
        let check = |path: &str, text: &str, expected: &[usize]| {
            let file = File { path: path.to_owned(), bytes: text.as_bytes().to_vec() };
            let source = Source::read(&file).unwrap();
            let lines: Vec<usize> = source.product_lines().map(|(line, _)| line).collect();
            assert_eq!(lines, expected, "{path}: {text}");
        };
        check("a.rs", "a\n#[cfg(test)]\nmod tests {\n}\nb\n", &[1, 5]);
        check("a.rs", "#[cfg(test)]\nmod tests;\nb\n", &[3]);
        check("a.rs", "#[cfg(test)]\n#[path = \"x\"]\nuse a::{b};\nc\n", &[4]);
        check("a.rs", "// #[cfg(test)]\nmod a {\n}\n", &[1, 2, 3]);
        check("crates/a/tests/a.rs", "a\nb\n", &[]);
        check("crates/a/src/b/tests.rs", "a\n", &[]);
        check("crates/a/src/json_tests.rs", "a\n", &[]);
        check("crates/a/src/testing.rs", "a\n", &[]);
        check("crates/a/src/testing/executor.rs", "a\n", &[]);
        check("crates/a/src/contests.rs", "a\n", &[1]);
    }
}
