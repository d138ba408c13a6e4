//! Exports: JSON Lines that prove themselves, for an auditor who gets a file and nothing else.
//!
//! The first line names the log, its key, the range and the signed checkpoint that everything is proved
//! against; then comes one line a record, `{"record":<canonical bytes>,"leaf":…,"proof":[…]}`; the last line
//! counts them, so that a file that was cut is noticed. An export of all that the checkpoint covers needs no
//! proofs, since the whole tree can be computed from it; any other carries one inclusion proof a record.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

use crate::error::Error;
use crate::merkle::{inclusion_proof, leaf_hash};
use crate::note::{Checkpoint, Verifier};
use crate::reader::Reader;
use crate::tiles::Tiles;

/// What the first line calls the format.
pub(crate) const FORMAT: &str = "provost-export/1";
/// What a line of a record begins with; the canonical bytes follow.
pub(crate) const RECORD: &[u8] = b"{\"record\":";

/// What was exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Sequences in the export.
    pub records: Range<u64>,
    /// Records that were asked for and left out, because no signed checkpoint covers them yet.
    pub unsigned: u64,
    /// Whether each record carries a proof.
    pub proofs: bool,
}

/// Writes the records of `range` of the journal in `dir`, as far as they are signed.
///
/// # Errors
/// Where nothing of the range is signed yet, the journal can't be read, or `out` takes no more.
pub fn export(dir: &Path, range: Range<u64>, out: &mut impl Write) -> Result<Exported, Error> {
    let reader = Reader::open(dir)?;
    let nothing = |what: &str| Error::Export { what: what.to_owned() };
    let (size, note) =
        reader.last_checkpoint()?.ok_or_else(|| nothing("nothing is signed yet; try again in a minute"))?;
    let key = reader.key()?.ok_or_else(|| nothing("the journal has no key"))?;
    let checkpoint = signed(&key, &note).map_err(|why| Error::Inconsistent {
        seq: size,
        what: format!("the checkpoint of size {size} {why}"),
    })?;
    let asked = range.end.min(reader.size()?);
    let records = range.start..asked.min(size);
    if records.is_empty() {
        return Err(nothing(
            "no record of that range is signed yet; try again in a minute, or ask for others",
        ));
    }
    let proofs = records != (0..size);
    let failed = Error::file(Path::new("the export"), "written");
    let mut writer = Lines { out, reader: &reader, tiles: Tiles::new(dir, &reader), size, proofs };
    let header = json!({
        "checkpoint": note, "format": FORMAT, "from": records.start, "key": key, "origin": checkpoint.origin,
        "proofs": proofs, "to": records.end,
    });
    let result = writer.write(&header, records.clone());
    result.map_err(|error| match error {
        Failed::Journal(error) => error,
        Failed::Write(error) => failed(error),
    })?;
    Ok(Exported { unsigned: asked - records.end, records, proofs })
}

fn signed(key: &str, note: &str) -> Result<Checkpoint, String> {
    let key: Verifier = key.parse().map_err(|error| format!("can't be checked: {error}"))?;
    key.checkpoint(note)
}

/// Two kinds of failures while writing, which the caller tells apart.
enum Failed {
    Journal(Error),
    Write(io::Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Journal(error)
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Write(error)
    }
}

struct Lines<'a, W> {
    out: &'a mut W,
    reader: &'a Reader,
    tiles: Tiles<'a>,
    size: u64,
    proofs: bool,
}

impl<W: Write> Lines<'_, W> {
    fn write(&mut self, header: &serde_json::Value, records: Range<u64>) -> Result<(), Failed> {
        writeln!(self.out, "{header}")?;
        let mut next = records.start;
        let reader = self.reader;
        reader.each(records.clone(), |record| {
            if record.seq != next {
                return Err(missing(next));
            }
            next += 1;
            self.out.write_all(RECORD)?;
            self.out.write_all(record.bytes)?;
            write!(self.out, ",\"leaf\":\"{}\"", BASE64.encode(leaf_hash(record.bytes)))?;
            if self.proofs {
                let proof = inclusion_proof(&mut self.tiles, record.seq, self.size)?;
                let proof: Vec<String> = proof.iter().map(|hash| BASE64.encode(hash)).collect();
                write!(self.out, ",\"proof\":{}", json!(proof))?;
            }
            writeln!(self.out, "}}")?;
            Ok(())
        })?;
        if next != records.end {
            return Err(missing(next));
        }
        writeln!(self.out, "{}", json!({ "records": records.end - records.start }))?;
        self.out.flush()?;
        Ok(())
    }
}

fn missing(seq: u64) -> Failed {
    Failed::Journal(Error::Inconsistent { seq, what: "the record is missing".to_owned() })
}
