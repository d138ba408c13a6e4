//! The long loops: the same tests as in CI at full count, started by hand or at night. Each success adds a row
//! to `docs/proofs.md`, so that a claim about a commit can be looked up.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::bench::{commit, read_or_empty, today};
use crate::process::{self, Tally, seconds};
use crate::suite::{E2E_CRATE, build, install_peers, test_command};
use crate::workspace::Workspace;

/// The loops.
const PROOFS: &[Proof] = &[
    Proof {
        name: "kill",
        what: "the controller killed at random moments of a recovery, against a real Slurm",
        package: E2E_CRATE,
        filter: "kill",
        variable: "PROVOST_KILL_ROUNDS",
        count: 200,
    },
    Proof {
        name: "seeds",
        what: "seeds of the simulator with every checker after every step",
        package: "provost-sim",
        filter: "seeds",
        variable: "PROVOST_SIM_SEEDS",
        count: 20_000,
    },
];

struct Proof {
    /// As in `cargo xtask prove NAME`.
    name: &'static str,
    /// What is repeated.
    what: &'static str,
    /// The crate with the test.
    package: &'static str,
    /// Part of the name of the tests that loop.
    filter: &'static str,
    /// The variable that tells them how often.
    variable: &'static str,
    /// How often, where nothing else is said.
    count: u32,
}

const PAGE: &str = "docs/proofs.md";
const HEADER: &str = "# Proofs

Written by `cargo xtask prove`: the tests of CI at full count. One row a run, the newest last.

| date | commit | proof | count | result | took |
|---|---|---|---|---|---|
";

/// Runs one loop and adds its row.
pub(crate) fn run(name: &str, count: Option<&str>) -> Result<()> {
    let Some(proof) = PROOFS.iter().find(|proof| proof.name == name) else {
        let known: Vec<String> =
            PROOFS.iter().map(|proof| format!("  {:<8} {}", proof.name, proof.what)).collect();
        bail!("there is no proof `{name}`; there are\n{}", known.join("\n"));
    };
    let count = count.map_or(Ok(proof.count), str::parse)?;
    let workspace = Workspace::load()?;
    let peers = proof.package == E2E_CRATE;
    if peers {
        install_peers(&workspace)?;
        build(&workspace)?;
    }

    let tests = workspace.tests(|package| package.name == proof.package);
    let mut targets: Vec<&str> = tests.iter().flat_map(|test| ["--test", test]).collect();
    if targets.is_empty() {
        targets.push("--lib");
    }
    if !peers {
        // Virtual time is as fast as the code; against peers the programs under test are those of CI.
        targets.push("--release");
    }
    let mut command = test_command(&workspace, &targets);
    command
        .args(["--", proof.filter, "--nocapture", "--test-threads=1"])
        .env(proof.variable, count.to_string());
    let mut tally = Tally::default();
    let start = Instant::now();
    let ok = process::follow(&mut command, |line| tally.read(line))?;
    if !ok || tally.failed > 0 || tally.passed == 0 {
        bail!("{name} is not proved: {tally}");
    }

    let path = workspace.root.join(PAGE);
    let mut page = read_or_empty(&path)?;
    if page.is_empty() {
        page.push_str(HEADER);
    }
    let (date, commit, took) = (today()?, commit(&workspace)?, seconds(start.elapsed()));
    writeln!(page, "| {date} | {commit} | {name}: {} | {count} | {tally} | {took} |", proof.what)?;
    std::fs::write(&path, page)?;
    println!("{tally}");
    Ok(())
}
