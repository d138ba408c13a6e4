//! Starting programs: what they print is shown as it comes, how long they take is kept, and the results of
//! test runs are added up.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// The parts of one command, how long each took and how it ended.
#[derive(Default)]
pub(crate) struct Parts {
    done: Vec<(&'static str, Duration, bool)>,
}

impl Parts {
    /// Does one part and keeps how it went. An error is printed here, so that later parts can still run.
    pub(crate) fn run<T>(&mut self, name: &'static str, part: impl FnOnce() -> Result<T>) -> Option<T> {
        eprintln!("\n── {name} ──");
        let start = Instant::now();
        let result = part();
        let took = start.elapsed();
        if let Err(error) = &result {
            eprintln!("{name}: {error:#}");
        }
        eprintln!("── {name}: {} in {} ──", verdict(result.is_ok()), seconds(took));
        self.done.push((name, took, result.is_ok()));
        result.ok()
    }

    /// Says what each part took; an error where one of them failed.
    pub(crate) fn finish(self) -> Result<()> {
        eprintln!();
        for (name, took, ok) in &self.done {
            eprintln!("{name:<12} {:>9}  {}", seconds(*took), verdict(*ok));
        }
        let total = self.done.iter().map(|(_, took, _)| *took).sum();
        eprintln!("{:<12} {:>9}", "total", seconds(total));
        let failed: Vec<&str> = self.done.iter().filter(|(_, _, ok)| !ok).map(|(name, _, _)| *name).collect();
        if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
    }
}

fn verdict(ok: bool) -> &'static str {
    if ok { "ok" } else { "FAILED" }
}

/// A duration for people.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Runs a program, its output shown; an error where it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = show(command);
    let status = command.status().with_context(|| format!("`{name}` does not start"))?;
    if status.success() { Ok(()) } else { bail!("`{name}` ended with {status}") }
}

/// Runs a program and returns what it printed on standard output, without the last newline.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let name = show(command);
    let output = command.output().with_context(|| format!("`{name}` does not start"))?;
    if !output.status.success() {
        bail!("`{name}` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8(output.stdout).with_context(|| format!("`{name}` printed no UTF-8"))?;
    Ok(text.trim_end().to_owned())
}

/// Runs a program with its output shown, and gives each line of its standard output to `line` too.
/// Returns whether it succeeded.
pub(crate) fn follow(command: &mut Command, mut line: impl FnMut(&str)) -> Result<bool> {
    let name = show(command);
    eprintln!("$ {name}");
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("`{name}` does not start"))?;
    if let Some(stdout) = child.stdout.take() {
        // Bytes and not lines of text: a failing test may print anything.
        for bytes in BufReader::new(stdout).split(b'\n') {
            let bytes = bytes.with_context(|| format!("the output of `{name}` can't be read"))?;
            let text = String::from_utf8_lossy(&bytes);
            println!("{text}");
            line(&text);
        }
    }
    Ok(child.wait().with_context(|| format!("`{name}` was lost"))?.success())
}

fn show(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let program = program.rsplit('/').next().unwrap_or(&program);
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    std::iter::once(program.to_owned()).chain(args).collect::<Vec<_>>().join(" ")
}

/// What test runs found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that ran and passed.
    pub(crate) passed: u32,
    /// Tests that failed.
    pub(crate) failed: u32,
    /// Tests that said that they need `../shared` and did nothing.
    pub(crate) skipped: u32,
}

impl Tally {
    /// Reads one line of a test run: a `test result:` line, or the line that a skipped test prints.
    pub(crate) fn read(&mut self, line: &str) {
        if line.starts_with("skipped: ") {
            // libtest has counted the test among those that passed, or will.
            self.skipped += 1;
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += count_before(result, " passed");
            self.failed += count_before(result, " failed");
        }
    }

    /// The sum of both.
    pub(crate) fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed.saturating_sub(self.skipped), self.failed)?;
        if self.skipped > 0 { write!(f, ", {} skipped", self.skipped) } else { Ok(()) }
    }
}

/// The number that stands directly before `word`; 0 where there is none.
fn count_before(text: &str, word: &str) -> u32 {
    let number = text.split_once(word).and_then(|(before, _)| before.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_runs_are_added_up() {
        let check = |lines: &[&str], expected: &str| {
            let mut tally = Tally::default();
            lines.iter().for_each(|line| tally.read(line));
            assert_eq!(tally.to_string(), expected, "{lines:?}");
        };
        let ok =
            "test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.01s";
        let bad = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        check(&[], "0 passed, 0 failed");
        check(&[ok], "7 passed, 0 failed");
        check(&[ok, bad], "10 passed, 2 failed");
        check(&["skipped: kmsg lines needs ../shared", ok], "6 passed, 0 failed, 1 skipped");
        check(
            &["test a ... ok", " test result: ok. 7 passed; 0 failed", "running 7 tests"],
            "0 passed, 0 failed",
        );
        check(&["test result: nonsense", "test result: x passed; y failed"], "0 passed, 0 failed");
    }

    #[test]
    fn a_failed_part_does_not_stop_the_next_but_fails_the_whole() {
        let mut parts = Parts::default();
        assert_eq!(parts.run("first", || -> Result<u8> { bail!("broken") }), None);
        assert_eq!(parts.run("second", || Ok(7)), Some(7));
        let error = parts.finish().unwrap_err().to_string();
        assert_eq!(error, "failed: first");
    }
}
