//! `cargo xtask`: everything that is done to this repository and is not a build: its checks, its one test
//! command, its measurements and its generated pages. It is a program and not a pile of scripts so that the
//! checks have tests of their own. It uses the standard library and a JSON reader, nothing of the product.

use std::process::ExitCode;

use anyhow::{Result, bail};

mod bench;
mod fuzz;
mod generate;
mod process;
mod prove;
mod suite;
mod tidy;
mod workspace;

const USAGE: &str = "\
cargo xtask <command>

  test              install the peers, check, build, run every test; the one command before a change is handed in
  ci                what CI does: .ci/run
  tidy              check the rules of the house: arrows, sizes, words, blobs, cryptography
  e2e [NAME]        only the tests against real peers: one test file, or all tests whose name contains NAME
  bench [NAME]      measure, and write the tables of docs/benchmarks.md
  prove NAME [N]    one of the long loops at full count, and a row in docs/proofs.md: kill, seeds
  fuzz [NAME [S]]   look for bytes that break a reader of what comes from outside: one or all, S seconds each (60)
  gen [--check]     write the generated pages; with --check fail where a committed one differs
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match dispatch(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(words: &[&str]) -> Result<()> {
    match words {
        ["test"] => suite::test(),
        ["ci"] => suite::ci(),
        ["tidy"] => tidy::run(),
        ["e2e"] => suite::e2e(None),
        ["e2e", name] => suite::e2e(Some(name)),
        ["bench"] => bench::run(None),
        ["bench", name] => bench::run(Some(name)),
        ["prove", name] => prove::run(name, None),
        ["prove", name, count] => prove::run(name, Some(count)),
        ["fuzz"] => fuzz::run(&workspace::Workspace::load()?, None, fuzz::SECONDS),
        ["fuzz", name] => fuzz::run(&workspace::Workspace::load()?, Some(name), fuzz::SECONDS),
        ["fuzz", name, seconds] => fuzz::run(&workspace::Workspace::load()?, Some(name), seconds.parse()?),
        ["gen"] => generate::run(generate::Mode::Write),
        ["gen", "--check"] => generate::run(generate::Mode::Check),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => bail!("there is no such command: {}\n\n{USAGE}", words.join(" ")),
    }
}
