//! Slurm's way to write many node names: `gpu[001-003,007],spare01`, also `rack[1-2]node[01-04]`.

/// Most names that one list may stand for; the largest clusters have about 10,000 nodes.
const MAX_NAMES: usize = 65_536;
/// Longest list that is looked at, in bytes.
const MAX_TEXT: usize = 1 << 20;

/// Whether a node, partition or account name is one that Slurm can have and that may be put into an argument:
/// it starts with a letter or digit and holds nothing that Slurm would expand. `ALL` would mean every node.
pub(super) fn is_name(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    name.len() <= 64
        && name.bytes().all(inner)
        && name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && !name.eq_ignore_ascii_case("ALL")
}

/// The names that `text` stands for, in its order; `None` where it is no hostlist or stands for too many.
/// Empty for ``, `(null)` and `None assigned`, Slurm's words for no node.
pub fn expand(text: &str) -> Option<Vec<String>> {
    if matches!(text, "" | "(null)" | "None assigned") {
        return Some(Vec::new());
    }
    if text.len() > MAX_TEXT {
        return None;
    }
    let mut names = Vec::new();
    for part in split_outside_brackets(text)? {
        expand_part(part, String::new(), &mut names)?;
    }
    Some(names)
}

fn split_outside_brackets(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' if !inside => inside = true,
            b']' if inside => inside = false,
            b'[' | b']' => return None,
            b',' if !inside => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (!inside).then_some(parts)
}

/// Expands the first bracket of `rest` behind `done`, then the others by recursion (a name has few brackets:
/// the length of a name bounds them).
fn expand_part(rest: &str, done: String, names: &mut Vec<String>) -> Option<()> {
    let Some((head, tail)) = rest.split_once('[') else {
        let name = done + rest;
        if !is_name(&name) || names.len() >= MAX_NAMES {
            return None;
        }
        names.push(name);
        return Some(());
    };
    let (ranges, tail) = tail.split_once(']')?;
    let prefix = done + head;
    if prefix.len() > 64 {
        return None;
    }
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (number(low)?, number(high)?);
        if first > last || last - first >= MAX_NAMES as u64 {
            return None;
        }
        for n in first..=last {
            expand_part(tail, format!("{prefix}{n:0width$}", width = low.len()), names)?;
        }
    }
    Some(())
}

fn number(digits: &str) -> Option<u64> {
    let plain = (1..=15).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// Writes names as a hostlist, so that thousands of nodes fit into one argument. Order is kept; only
/// neighbours that count up are folded.
pub fn compress<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut runs: Vec<Run<'a>> = Vec::new();
    for name in names {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &name[prefix.len()..];
        let number = number(digits);
        match (runs.last_mut(), number) {
            (Some(run), Some(n))
                if run.prefix == prefix
                    && run.width == digits.len()
                    && run.last == Some(n.wrapping_sub(1)) =>
            {
                run.last = number;
            }
            _ => runs.push(Run { name, prefix, width: digits.len(), first: number, last: number }),
        }
    }
    let mut text = String::new();
    let mut at = 0;
    while at < runs.len() {
        if at > 0 {
            text.push(',');
        }
        // Runs of one prefix share a bracket.
        let same = runs[at..].iter().take_while(|r| r.first.is_some() && r.prefix == runs[at].prefix).count();
        if same == 0 || (same == 1 && runs[at].first == runs[at].last) {
            text.push_str(runs[at].name);
            at += 1;
            continue;
        }
        let ranges: Vec<String> = runs[at..at + same].iter().map(Run::range).collect();
        text.push_str(&format!("{}[{}]", runs[at].prefix, ranges.join(",")));
        at += same;
    }
    text
}

/// Names of one prefix and width that count up.
struct Run<'a> {
    name: &'a str,
    prefix: &'a str,
    width: usize,
    first: Option<u64>,
    last: Option<u64>,
}

impl Run<'_> {
    fn range(&self) -> String {
        let digits = &self.name[self.prefix.len()..];
        match self.last {
            Some(last) if self.first != self.last => format!("{digits}-{last:0width$}", width = self.width),
            _ => digits.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(expand(text).map(|names| names.join(" ")).as_deref(), Some(expected), "{text}");
    }

    #[test]
    fn lists_are_expanded() {
        check("", "");
        check("(null)", "");
        check("gpu001", "gpu001");
        check("gpu[001-003,007],spare01", "gpu001 gpu002 gpu003 gpu007 spare01");
        check("gpu[8-11]", "gpu8 gpu9 gpu10 gpu11");
        check("gpu[098-101]", "gpu098 gpu099 gpu100 gpu101");
        check("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02");
        check("n[1-2]-ib", "n1-ib n2-ib");
    }

    #[test]
    fn other_text_is_no_list() {
        for text in [
            ",",
            "a,,b",
            "a,",
            "gpu[",
            "gpu]",
            "gpu[1",
            "gpu[1]]",
            "gpu[[1]]",
            "gpu[]",
            "gpu[2-1]",
            "gpu[1-]",
            "gpu[-1]",
            "gpu[a-b]",
            "gpu[1-70000]",
            "a[1-300]b[1-300]",
            "gpu[99999999999999999999]",
            "a b",
            "-x",
            "ALL",
            "a=b",
            "a\nb",
            "gpu[1-2",
            "é[1-2]",
        ] {
            assert_eq!(expand(text), None, "{text}");
        }
        assert_eq!(expand(&"a".repeat(MAX_TEXT + 1)), None);
        assert_eq!(expand(&"a[1]".repeat(10_000)), None);
    }

    #[test]
    fn names_are_folded() {
        let check = |names: &[&str], expected: &str| assert_eq!(compress(names.iter().copied()), expected);
        check(&[], "");
        check(&["gpu001"], "gpu001");
        check(&["gpu001", "gpu002", "gpu003", "gpu007", "spare01"], "gpu[001-003,007],spare01");
        check(&["gpu9", "gpu10"], "gpu[9,10]");
        check(&["login", "gpu1", "login"], "login,gpu1,login");
    }

    proptest! {
        #[test]
        fn folding_keeps_the_names(names in proptest::collection::vec("(gpu|n1-|x)[0-9]{0,4}", 0..40)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            prop_assert_eq!(expand(&compress(names.iter().copied())).unwrap(), names);
        }

        #[test]
        fn any_text_is_survived(text in "[a-c0-9,\\[\\]-]{0,40}") {
            if let Some(names) = expand(&text) {
                prop_assert!(names.iter().all(|name| is_name(name)));
            }
        }
    }
}
