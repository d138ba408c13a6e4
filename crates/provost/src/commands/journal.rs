//! `provost verify` and `provost audit export`: the record, without a server.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use provost_journal::verify::{Failure, VerifyOptions};

use crate::cli::Verify;
use crate::error::{Error, Exit};
use crate::output;

/// Proves, or names the first record that is wrong.
pub fn verify(command: &Verify) -> Result<u8, Error> {
    let options = VerifyOptions { keys: command.keys.clone(), strict: command.strict };
    match provost_journal::verify::verify(&command.path, &options) {
        Ok(report) => output::print(&format!("{report}\n"))?,
        Err(failure @ Failure::Wrong(_)) => {
            output::print(&format!("{failure}\n"))?;
            return Ok(Exit::Failure as u8);
        }
        Err(failure @ Failure::Unreadable(_)) => return Err(Error::new(Exit::Usage, failure.to_string())),
    }
    if command.replay {
        let report = provost_server::replay(&command.path).map_err(|e| Error::chain(Exit::Failure, &e))?;
        output::print(&format!("{report}\n"))?;
    }
    Ok(0)
}

/// Writes an export that `provost-verify` proves alone.
pub fn export(data: &Path, to: Option<&Path>, from: Option<u64>, until: Option<u64>) -> Result<(), Error> {
    let range = from.unwrap_or(0)..until.unwrap_or(u64::MAX);
    let written = match to {
        Some(path) => provost_journal::export::export(data, range, &mut BufWriter::new(File::create(path)?)),
        None => provost_journal::export::export(data, range, &mut BufWriter::new(std::io::stdout().lock())),
    };
    let written = written.map_err(|e| Error::chain(Exit::Failure, &e))?;
    if written.unsigned > 0 {
        eprintln!(
            "{} records are not signed yet and were left out; they are within a minute",
            written.unsigned
        );
    }
    Ok(())
}
