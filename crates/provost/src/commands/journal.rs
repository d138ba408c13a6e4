//! `provost verify` and `provost audit export`: the record, without a server.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use provost_journal::verify::{Failure, Report, VerifyOptions};
use provost_model::time::Timestamp;
use provost_server::Replayed;
use serde_json::{Value, json};

use crate::cli::{Format, Verify};
use crate::error::{Error, Exit};
use crate::output;

/// Proves, or names the first record that is wrong. What can't be read proves nothing either way: an error.
pub fn verify(command: &Verify, format: Format) -> Result<u8, Error> {
    let options = VerifyOptions { keys: command.keys.clone(), strict: command.strict };
    let report = match provost_journal::verify::verify(&command.path, &options) {
        Ok(report) => report,
        Err(Failure::Wrong(finding)) => return wrong(command, finding.seq, &finding.what, format),
        Err(failure @ Failure::Unreadable(_)) => return Err(Error::new(Exit::Usage, failure.to_string())),
    };
    let replayed = match command.replay.then(|| provost_server::replay(&command.path)).transpose() {
        Ok(replayed) => replayed,
        Err(error) => {
            let failed = Error::chain(Exit::Failure, &error);
            let what = std::iter::once(failed.title).chain(failed.why).collect::<Vec<_>>().join(": ");
            return wrong(command, None, &what, format);
        }
    };
    let proof = proof(&command.path, &report, replayed.as_ref());
    output::one(&proof, format, |_| {
        let replayed = replayed.map(|replayed| format!("{replayed}\n")).unwrap_or_default();
        format!("{report}\n{replayed}")
    })?;
    Ok(0)
}

/// The first thing that is wrong is the answer.
fn wrong(command: &Verify, seq: Option<u64>, what: &str, format: Format) -> Result<u8, Error> {
    let answer = json!({ "verified": false, "path": command.path.display().to_string(), "record": seq, "finding": what });
    output::one(&answer, format, |_| match seq {
        Some(seq) => format!("record {seq}: {what}\n"),
        None => format!("{what}\n"),
    })?;
    Ok(Exit::Failure as u8)
}

/// What was proved, for programs. `docs/reference/verify.md` names the fields.
fn proof(path: &Path, report: &Report, replayed: Option<&Replayed>) -> Value {
    let time = |millis: i64| Timestamp::from_millis(millis).to_string();
    let covered = report.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.size);
    json!({
        "verified": true,
        "path": path.display().to_string(),
        "origin": report.origin,
        "from": report.records.start,
        "to": report.records.end,
        "first_at": report.times_ms.map(|(first, _)| time(first)),
        "last_at": report.times_ms.map(|(_, last)| time(last)),
        "checkpoint": report.checkpoint.as_ref().map(|checkpoint| json!({
            "size": checkpoint.size,
            "root": BASE64.encode(checkpoint.root),
            "note": report.note,
        })),
        "checkpoints": report.checkpoints,
        "kept_checkpoints": report.kept,
        "unsigned": report.records.end.saturating_sub(covered.max(report.records.start)),
        "overdue": report.overdue,
        "keys": report.keys.split(", ").collect::<Vec<_>>(),
        "independent": report.independent,
        "strict": report.strict,
        "replayed": replayed.map(|replayed| json!({
            "records": replayed.records,
            "snapshot": replayed.snapshot,
        })),
    })
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
