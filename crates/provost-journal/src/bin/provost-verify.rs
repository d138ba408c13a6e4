//! Verifies a journal or an export of one, offline. Small on purpose: an auditor runs it on a machine of their
//! own, with no other part of Provost there.

use std::path::PathBuf;
use std::process::ExitCode;

use provost_journal::verify::{Failure, VerifyOptions, verify};

const USAGE: &str = "\
usage: provost-verify DIR|FILE [--keys FILE] [--strict]

DIR|FILE   data directory, journal.db, or an export
--keys     file with verifier keys (a line each, as in keys/journal.vkey) and, below them, any
           checkpoints kept from earlier runs; without it the key beside the data is taken
--strict   also the canonical form of every record and the root of every batch

Exit 0: says what is proved. 1: names the first record that is wrong. 2: can't say.";

fn parse(arguments: impl Iterator<Item = std::ffi::OsString>) -> Option<(PathBuf, VerifyOptions)> {
    let mut path = None;
    let mut options = VerifyOptions::default();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--strict") => options.strict = true,
            Some("--keys") if options.keys.is_none() => options.keys = Some(arguments.next()?.into()),
            Some(text) if text.starts_with('-') => return None,
            _ if path.is_none() => path = Some(argument.into()),
            _ => return None,
        }
    }
    path.map(|path| (path, options))
}

fn main() -> ExitCode {
    let Some((path, options)) = parse(std::env::args_os().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match verify(&path, &options) {
        Ok(report) => {
            println!("{report}");
            if let Some(note) = &report.note {
                println!("\nTo notice a roll-back later, keep this checkpoint below your key:\n\n{note}");
            }
            ExitCode::SUCCESS
        }
        Err(Failure::Wrong(finding)) => {
            eprintln!("{}: {finding}", path.display());
            ExitCode::FAILURE
        }
        Err(Failure::Unreadable(why)) => {
            eprintln!("{}: {why}", path.display());
            ExitCode::from(2)
        }
    }
}
