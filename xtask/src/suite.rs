//! The one test command. `cargo xtask test` takes a fresh machine as it is, installs the peers that the tests
//! run against, and runs everything; a part that fails does not hide what a later part would have said.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::fuzz;
use crate::process::{self, Parts, Tally};
use crate::workspace::{Workspace, cargo};

/// The crate whose integration tests run the built programs against real peers.
pub(crate) const E2E_CRATE: &str = "provost-testkit";

/// Installs, checks, builds, tests.
pub(crate) fn test() -> Result<()> {
    let mut parts = Parts::default();
    let tally = run_all(&mut parts);
    close(parts, tally)
}

/// What CI does, by the very script that CI runs.
pub(crate) fn ci() -> Result<()> {
    process::run(Command::new("bash").arg(".ci/run").current_dir(&Workspace::load()?.root))
}

/// Only the tests against real peers.
pub(crate) fn e2e(name: Option<&str>) -> Result<()> {
    let workspace = Workspace::load()?;
    let mut parts = Parts::default();
    let mut tally = Tally::default();
    parts.run("peers", || install_peers(&workspace));
    if parts.run("build", || build(&workspace)).is_some() {
        parts.run("e2e", || run_e2e(&workspace, name)?.add_to(&mut tally));
    }
    close(parts, tally)
}

fn run_all(parts: &mut Parts) -> Tally {
    let mut tally = Tally::default();
    let Some(workspace) = parts.run("machine", check_machine) else { return tally };
    parts.run("peers", || install_peers(&workspace));
    parts.run("format", || process::run(cargo_in(&workspace).args(["fmt", "--all", "--check"])));
    parts.run("clippy", || {
        let args = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        process::run(cargo_in(&workspace).args(args))
    });
    if parts.run("build", || build(&workspace)).is_none() {
        return tally;
    }
    parts.run("unit", || run_unit(&workspace)?.add_to(&mut tally));
    parts.run("docs", || test_run(&workspace, &["--doc", "--quiet"], &[])?.add_to(&mut tally));
    parts.run("fuzz", || fuzz::run(&workspace, None, fuzz::SECONDS_IN_CI));
    parts.run("e2e", || run_e2e(&workspace, None)?.add_to(&mut tally));
    tally
}

/// The last line is the tally alone, so that whatever reads the output finds it.
fn close(parts: Parts, tally: Tally) -> Result<()> {
    let result = parts.finish();
    if tally.skipped > 0 {
        eprintln!("{} tests read captured files of ../shared, which is not here: skipped", tally.skipped);
    }
    println!("{tally}");
    result
}

/// What every later part needs; each missing thing is named with the command that brings it.
fn check_machine() -> Result<Workspace> {
    let workspace = Workspace::load()?;
    let mut missing = Vec::new();
    for (program, remedy) in [
        ("cc", "apt-get install gcc libc6-dev"),
        ("c++", "apt-get install g++"),
        ("git", "apt-get install git"),
    ] {
        if !on_path(program) {
            missing.push(format!("`{program}` is not here: {remedy}"));
        }
    }
    for component in ["fmt", "clippy"] {
        if process::read(cargo_in(&workspace).args([component, "--version"])).is_err() {
            missing.push(format!("`cargo {component}` is not here: rustup component add {component}"));
        }
    }
    if in_ci() && !shared(&workspace).is_dir() {
        missing.push(format!("{} is not here; in CI every test runs", shared(&workspace).display()));
    }
    if missing.is_empty() { Ok(workspace) } else { bail!("{}", missing.join("\n")) }
}

/// Installs what the tests against real peers start. Doing it again is cheap, so nothing is remembered.
pub(crate) fn install_peers(workspace: &Workspace) -> Result<()> {
    if !Path::new("/etc/debian_version").exists() {
        bail!("the peers are installed from Debian packages, and this is no Debian");
    }
    if process::read(Command::new("id").arg("-u"))? != "0" {
        bail!("the tests start a Slurm cluster, with its daemons and users, so they run as root");
    }
    process::run(Command::new("testbed/slurm").arg("install").current_dir(&workspace.root))?;
    let redfish = workspace.target.join("redfish");
    process::run(
        Command::new("testbed/redfish")
            .arg("install")
            .env("REDFISH_TESTBED_DIR", redfish)
            .current_dir(&workspace.root),
    )
}

/// The programs that the tests start. Always for the whole workspace: choosing single crates would give their
/// dependencies other features, and cargo would build those a second time.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    process::run(cargo_in(workspace).args(["build", "--workspace", "--bins", "--quiet"]))
}

fn run_unit(workspace: &Workspace) -> Result<TestRun> {
    let mut args = vec!["--lib", "--bins", "--quiet"];
    for test in workspace.tests(|package| package.name != E2E_CRATE) {
        args.extend(["--test", test]);
    }
    test_run(workspace, &args, &[])
}

/// Runs all tests against real peers, one file of them, or those whose name contains `name`.
fn run_e2e(workspace: &Workspace, name: Option<&str>) -> Result<TestRun> {
    let all = workspace.tests(|package| package.name == E2E_CRATE);
    let (files, filter) = match name {
        Some(name) if all.contains(&name) => (vec![name], None),
        filter => (all, filter),
    };
    if files.is_empty() {
        bail!("{E2E_CRATE} has no integration tests");
    }
    let args: Vec<&str> = files.iter().flat_map(|file| ["--test", file]).collect();
    // One at a time: each starts a cluster of its own and measures how long things take.
    let mut options = vec!["--test-threads=1"];
    options.extend(filter);
    let run = test_run(workspace, &args, &options)?;
    match filter {
        Some(name) if run.tally == Tally::default() => bail!("no test has `{name}` in its name"),
        _ => Ok(run),
    }
}

/// One run of `cargo test`.
struct TestRun {
    /// What it found.
    tally: Tally,
    /// Whether cargo was content: a crate that does not compile fails without a failed test.
    ok: bool,
}

impl TestRun {
    /// Adds what it found to `sum`; an error where it failed.
    fn add_to(&self, sum: &mut Tally) -> Result<()> {
        sum.add(self.tally);
        if self.ok { Ok(()) } else { bail!("{}", self.tally) }
    }
}

fn test_run(workspace: &Workspace, targets: &[&str], options: &[&str]) -> Result<TestRun> {
    let mut command = test_command(workspace, targets);
    command.arg("--").args(options);
    if !shared(workspace).is_dir() {
        // Only so does libtest show what a test that passed has printed, its `skipped:` line among it.
        command.arg("--show-output");
    }
    let mut tally = Tally::default();
    let ok = process::follow(&mut command, |line| tally.read(line))?;
    Ok(TestRun { tally, ok })
}

/// `cargo test` over the workspace, with what the tests want to know in their environment.
pub(crate) fn test_command(workspace: &Workspace, targets: &[&str]) -> Command {
    let mut command = cargo_in(workspace);
    command.args(["test", "--workspace", "--no-fail-fast"]).args(targets);
    command.env("PROVOST_BIN_DIR", workspace.target.join("debug"));
    command
}

/// Cargo, in the root.
pub(crate) fn cargo_in(workspace: &Workspace) -> Command {
    let mut command = Command::new(cargo());
    command.current_dir(&workspace.root);
    command
}

/// Captured files that may not be part of the project.
fn shared(workspace: &Workspace) -> std::path::PathBuf {
    workspace.root.join("../shared")
}

fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
