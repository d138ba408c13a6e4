//! Measurements, and the tables of `docs/benchmarks.md` that are written from them.
//!
//! A benchmark is an example program that prints its results as lines `bench: key=value key="a value"`. Lines
//! with the same keys become the rows of one table. How it is measured is written by hand above the table;
//! what stands between the two marks is replaced by each run, with commit, date and machine.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process;
use crate::suite::cargo_in;
use crate::workspace::Workspace;

/// The benchmarks. `tidy` compares this list with the example programs named `*_bench`.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        name: "append",
        package: "provost-journal",
        args: &[],
        what: "Records of 700 bytes, each hashed and durable, against plain appends of 4 KiB with fdatasync",
        reach: "a ratio of 0.85",
    },
    Bench {
        name: "verify",
        package: "provost-journal",
        // Records, and how many of them become durable at once.
        args: &["10000000", "20"],
        what: "Opening and verifying ten million records on one core",
        reach: "less than 60 s to verify",
    },
    Bench {
        name: "inbox",
        package: "provost-controller",
        args: &["10", "11"],
        what: "Signals a second at the inbox, each a durable episode of its own, and what the generator costs",
        reach: "20,000 a second with at most 1.2 records a signal",
    },
    Bench {
        name: "start",
        package: "provost-controller",
        args: &["10000000"],
        what: "The start of a controller on ten million records, with a snapshot and without",
        reach: "10 s with a snapshot at most 100,000 records old, 120 s without one",
    },
    Bench {
        name: "line",
        package: "provost-testkit",
        // Rounds of eight samples.
        args: &["25"],
        what: "From a kernel line to the incident on the event stream, and to the node drained in a real Slurm",
        reach: "50 ms to the incident and 1 s to the drained node, p99",
    },
    Bench {
        name: "agent_load",
        package: "provost-agent",
        args: &[],
        what: "What an agent costs on a healthy node, and how long a kernel line takes to the controller",
        reach: "12 MiB of memory and 2 % of a core at 1,000 benign lines a second",
    },
    Bench {
        name: "prolog",
        package: "provost-agent",
        // Runs of each answer.
        args: &["2000"],
        what: "How long `provost-agent prolog` takes from start to end, with no controller and no agent there",
        reach: "5 ms, p99",
    },
    Bench {
        name: "explain",
        package: "provost-agent",
        // Megabytes of kernel log, and pairs of runs.
        args: &["1000", "10"],
        what: "How fast `provost explain` goes through a kernel log, beside `grep -c NVRM` on the same file",
        reach: "200 MB/s on one core with constant memory",
    },
];

/// One benchmark.
pub(crate) struct Bench {
    /// As in `cargo xtask bench NAME`; the example is called `NAME_bench`.
    pub(crate) name: &'static str,
    /// The crate that has the example.
    pub(crate) package: &'static str,
    /// What the example is called with.
    args: &'static [&'static str],
    /// What it measures.
    what: &'static str,
    /// What must be reached.
    reach: &'static str,
}

const PAGE: &str = "docs/benchmarks.md";
/// What one benchmark may print at most; one that prints more is broken.
const MAX_ROWS: usize = 1_000;

/// Runs one benchmark or all, and writes their tables.
pub(crate) fn run(name: Option<&str>) -> Result<()> {
    let workspace = Workspace::load()?;
    let chosen: Vec<&Bench> =
        BENCHES.iter().filter(|bench| name.is_none_or(|name| name == bench.name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        bail!("there is no such benchmark; there are: {}", names.join(", "));
    }
    // Whatever a benchmark starts beside itself is a release build too.
    process::run(cargo_in(&workspace).args(["build", "--release", "--workspace", "--bins"]))?;
    let heading = format!("{}, {}, {}", commit(&workspace)?, today()?, machine());
    for bench in chosen {
        let rows = measure(&workspace, bench)?;
        let page = workspace.root.join(PAGE);
        let text = read_or_empty(&page)?;
        let section = format!("_{heading}_\n\n{}", tables(&rows));
        std::fs::write(&page, replace(&text, bench, &section)?)?;
    }
    Ok(())
}

fn measure(workspace: &Workspace, bench: &Bench) -> Result<Vec<Row>> {
    let example = format!("{}_bench", bench.name);
    let mut command = cargo_in(workspace);
    command.args(["run", "--release", "--package", bench.package, "--example", &example, "--"]);
    command.args(bench.args);
    command.env("PROVOST_BIN_DIR", workspace.target.join("release"));
    // On many machines the folder for temporary files is memory, where a sync costs nothing.
    command.env("TMPDIR", &workspace.target);
    let mut rows = Vec::new();
    let ok = process::follow(&mut command, |line| rows.extend(line.strip_prefix("bench: ").map(fields)))?;
    match rows.len() {
        _ if !ok => bail!("{example} failed"),
        0 => bail!("{example} printed no line that begins with `bench: `"),
        count if count > MAX_ROWS => bail!("{example} printed {count} rows"),
        _ => Ok(rows),
    }
}

/// Keys and values of one line, in its order.
type Row = Vec<(String, String)>;

/// Reads `key=value key="a value"`; a word without `=` is a value without a key.
fn fields(line: &str) -> Row {
    let mut row = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        let (value, after) = match after.strip_prefix('=') {
            None => (key, after),
            Some(after) => match after.strip_prefix('"').and_then(|text| text.split_once('"')) {
                Some((value, after)) => (value, after),
                None => after.split_at(after.find(' ').unwrap_or(after.len())),
            },
        };
        row.push((key.to_owned(), value.to_owned()));
        rest = after.trim_start();
    }
    row
}

/// One table for each set of keys, in the order in which they came.
fn tables(rows: &[Row]) -> String {
    let keys = |row: &Row| row.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let mut text = String::new();
    let mut previous = Vec::new();
    for row in rows {
        let cells = |values: Vec<&str>| format!("| {} |\n", values.join(" | ").replace('\n', " "));
        if keys(row) != previous {
            previous = keys(row);
            let gap = if text.is_empty() { "" } else { "\n" };
            text += gap;
            text += &cells(row.iter().map(|(key, _)| key.as_str()).collect());
            text += &format!("|{}\n", "---|".repeat(row.len()));
        }
        text += &cells(row.iter().map(|(_, value)| value.as_str()).collect());
    }
    text
}

/// The page with what stands between the marks of `bench` replaced; its section is added where it is missing.
fn replace(page: &str, bench: &Bench, section: &str) -> Result<String> {
    let begin = format!("<!-- bench {} -->\n", bench.name);
    let end = format!("<!-- end {} -->\n", bench.name);
    let Some((before, rest)) = page.split_once(&begin) else {
        let mut page = page.to_owned();
        if page.is_empty() {
            page.push_str("# Benchmarks\n\nMade by `cargo xtask bench`.\n");
        }
        writeln!(page, "\n## {}\n\n{}. To reach: {}.\n", bench.name, bench.what, bench.reach)?;
        return Ok(page + &begin + section + &end);
    };
    let (_, after) = rest.split_once(&end).with_context(|| format!("{PAGE} lacks `{}`", end.trim()))?;
    Ok([before, &begin, section, &end, after].concat())
}

/// A file's text; empty where there is none yet.
pub(crate) fn read_or_empty(path: &Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        text => text.with_context(|| format!("{} can't be read", path.display())),
    }
}

/// The commit that is checked out; says so where the tree differs from it.
pub(crate) fn commit(workspace: &Workspace) -> Result<String> {
    let git = |args: &[&str]| process::read(Command::new("git").args(args).current_dir(&workspace.root));
    let changed = if git(&["status", "--porcelain"])?.is_empty() { "" } else { " with changes" };
    Ok(format!("{}{changed}", git(&["rev-parse", "--short=12", "HEAD"])?))
}

/// Today's date in UTC.
pub(crate) fn today() -> Result<String> {
    process::read(Command::new("date").args(["-u", "+%F"]))
}

/// The processor and the memory, as the kernel names them.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let cpu = value(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown processor".to_owned());
    let memory = value(&read("/proc/meminfo"), "MemTotal").unwrap_or_else(|| "unknown".to_owned());
    format!("{cores} cores of {cpu}, {memory} memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BENCH: Bench = Bench { name: "append", package: "a", args: &[], what: "Appends", reach: "0.85" };

    #[test]
    fn lines_are_read() {
        let check = |line: &str, expected: &[(&str, &str)]| {
            let row = fields(line);
            let row: Vec<_> = row.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            assert_eq!(row, expected, "{line}");
        };
        check("", &[]);
        check("ratio=0.91", &[("ratio", "0.91")]);
        check("what=\"a b\"  p99=3ms", &[("what", "a b"), ("p99", "3ms")]);
        check("a= b=2", &[("a", ""), ("b", "2")]);
        check("note=\"open", &[("note", "\"open")]);
        check("word", &[("word", "word")]);
    }

    #[test]
    fn rows_with_the_same_keys_are_one_table() {
        let rows = [fields("a=1 b=2"), fields("a=3 b=4"), fields("c=5")];
        assert_eq!(tables(&rows), "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\n| c |\n|---|\n| 5 |\n");
    }

    #[test]
    fn only_what_stands_between_the_marks_changes() {
        let first = replace("", &BENCH, "old\n").unwrap();
        assert!(first.contains("## append\n\nAppends. To reach: 0.85.\n"), "{first}");
        let edited = first.replace("Appends.", "By hand.") + "\n## other\n";
        assert_eq!(replace(&edited, &BENCH, "new\n").unwrap(), edited.replace("old", "new"));
        assert!(replace(&edited.replace("<!-- end append -->", ""), &BENCH, "new\n").is_err());
    }
}
