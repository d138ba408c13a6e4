//! The fuzzer over each reader of bytes from outside: libFuzzer, guided by coverage. What breaks a reader is kept in
//! `target/fuzz` and told with the command that shows it again.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process;
use crate::suite::cargo_in;
use crate::workspace::Workspace;

/// The crate with the readers and the fuzzer.
const CRATE: &str = "provost-fuzz";

/// The readers, and folders with examples of what they read; those of `../shared` are left out where it is missing.
const TARGETS: &[(&str, &[&str])] = &[
    ("kernel_log", &["../shared/fixtures/kmsg", "../shared/fixtures/data/xid-lines"]),
    ("wire", &[]),
    ("record", &["crates/provost-fuzz/seeds/record"]),
    ("checkpoint", &["crates/provost-fuzz/seeds/checkpoint"]),
    ("agent_config", &["examples/agent", "examples/testbed"]),
    ("runbook", &["runbooks"]),
];

/// How long each reader is tried where nothing else is said, and in CI.
pub(crate) const SECONDS: u32 = 60;
pub(crate) const SECONDS_IN_CI: u32 = 5;

/// Bytes of one input at most: longer ones find nothing new and are slow.
const MAX_INPUT_BYTES: u32 = 16 * 1024;

/// Runs the fuzzer over one reader or all, so many seconds each.
pub(crate) fn run(workspace: &Workspace, name: Option<&str>, seconds: u32) -> Result<()> {
    let chosen: Vec<_> =
        TARGETS.iter().filter(|(target, _)| name.is_none_or(|name| name == *target)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
        bail!("there is no such reader; there are: {}", names.join(", "));
    }
    let program = build(workspace)?;
    let mut broken = Vec::new();
    for (target, examples) in chosen {
        if !fuzz(workspace, &program, target, examples, seconds)? {
            broken.push(*target);
        }
    }
    if broken.is_empty() { Ok(()) } else { bail!("inputs were found that break: {}", broken.join(", ")) }
}

/// Builds it with counters at every branch of our own crates. They are compiled once more for that, their
/// dependencies are not.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    let mut command = cargo_in(workspace);
    command.args(["build", "--quiet", "--package", CRATE, "--bin", CRATE, "--features", "libfuzzer"]);
    command.env("RUSTC_WORKSPACE_WRAPPER", workspace.root.join("xtask/src/with-counters"));
    process::run(&mut command)?;
    Ok(workspace.target.join("debug").join(CRATE))
}

/// Whether nothing was found.
fn fuzz(
    workspace: &Workspace,
    program: &Path,
    target: &str,
    examples: &[&str],
    seconds: u32,
) -> Result<bool> {
    let found = workspace.target.join("fuzz").join(target);
    let (corpus, breaks, told) = (found.join("corpus"), found.join("breaks"), found.join("log"));
    for folder in [&corpus, &breaks] {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let log = std::fs::File::create(&told).with_context(|| told.display().to_string())?;
    let mut command = Command::new(program);
    command.env("PROVOST_FUZZ", target).current_dir(&workspace.root).arg(&corpus);
    let examples = examples.iter().map(|folder| workspace.root.join(folder)).filter(|folder| folder.is_dir());
    command.args(examples);
    command.arg(format!("-artifact_prefix={}/", breaks.display()));
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-max_len={MAX_INPUT_BYTES}"));
    // One input that takes a second, or much memory, is a find too.
    command.args([
        "-timeout=5",
        "-rss_limit_mb=1024",
        "-verbosity=0",
        "-print_funcs=0",
        "-print_final_stats=1",
    ]);
    command.stderr(log);
    let ok = command.status().with_context(|| format!("{} does not start", program.display()))?.success();
    let told = String::from_utf8_lossy(&std::fs::read(&told)?).into_owned();
    let count =
        |name: &str| told.lines().find_map(|line| line.strip_prefix(name)).unwrap_or(": -").to_owned();
    eprintln!("{target:<13} inputs{}", count("stat::number_of_executed_units"));
    if !ok {
        let last: Vec<&str> = told.lines().rev().take(40).collect();
        eprintln!("{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
        eprintln!("see {}; again: PROVOST_FUZZ={target} {} FILE", breaks.display(), program.display());
    }
    Ok(ok)
}
