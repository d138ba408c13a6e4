//! An export: JSON Lines as `export` writes them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use provost_model::record::MAX_RECORD_BYTES;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::trust::Trust;
use super::walk::Walk;
use super::{Failure, GIVE, Report, VerifyOptions};
use crate::export::{FORMAT, RECORD};
use crate::merkle::{Hash, Tree, root_from_inclusion};
use crate::note::{Checkpoint, MAX_NOTE_BYTES};

/// A record, its hash and a proof of 64 hashes; or the header with a note.
const MAX_LINE_BYTES: usize = MAX_RECORD_BYTES + MAX_NOTE_BYTES * 2;

#[derive(Deserialize)]
struct Header {
    checkpoint: String,
    format: String,
    from: u64,
    key: String,
    proofs: bool,
    to: u64,
}

#[derive(Deserialize)]
struct Proof {
    leaf: String,
    #[serde(default)]
    proof: Vec<String>,
}

#[derive(Deserialize)]
struct Trailer {
    records: u64,
}

pub(super) fn verify(path: &Path, options: &VerifyOptions) -> Result<Report, Failure> {
    let file = File::open(path)
        .map_err(|error| Failure::Unreadable(format!("{} can't be read: {error}; {GIVE}", path.display())))?;
    let mut lines = Lines { input: BufReader::with_capacity(1 << 20, file), line: Vec::new() };
    let header: Header = lines
        .next()?
        .and_then(|line| serde_json::from_slice(line).ok())
        .filter(|header: &Header| header.format == FORMAT)
        .ok_or_else(|| {
            Failure::Unreadable(format!(
                "{} is neither a journal nor an export of one; {GIVE}",
                path.display()
            ))
        })?;
    let trust = match &options.keys {
        Some(keys) => Trust::from_file(keys)?,
        None => Trust::beside_the_data(Some(&header.key))?,
    };
    let checkpoint = trust
        .checkpoint(&header.checkpoint)
        .map_err(|why| Failure::wrong(None, format!("the checkpoint of the export {why}")))?;
    if header.from >= header.to || header.to > checkpoint.size {
        return Err(Failure::wrong(None, "the range of the export is not within its checkpoint"));
    }
    let mut check = Check {
        header: &header,
        checkpoint: &checkpoint,
        tree: Tree::new(),
        walk: Walk::new(header.from, options.strict),
    };
    while check.walk.next < header.to {
        let line = lines.next()?.ok_or_else(|| cut(check.walk.next))?;
        check.record(line)?;
    }
    let trailer: Option<Trailer> = lines.next()?.and_then(|line| serde_json::from_slice(line).ok());
    if trailer.is_none_or(|trailer| trailer.records != header.to - header.from) {
        return Err(Failure::wrong(
            None,
            "the last line does not count the records; the file was cut or joined",
        ));
    }
    if lines.next()?.is_some() {
        return Err(Failure::wrong(None, "there is something behind the last line"));
    }
    let kept = check.finish(&trust)?;
    Ok(Report {
        origin: checkpoint.origin.clone(),
        records: header.from..header.to,
        times_ms: check.walk.times,
        checkpoint: Some(checkpoint.clone()),
        note: Some(header.checkpoint.clone()),
        checkpoints: 1,
        kept,
        keys: trust.names(),
        independent: trust.independent,
        strict: options.strict,
        overdue: None,
    })
}

fn cut(seq: u64) -> Failure {
    Failure::wrong(Some(seq), "is missing: the file ends before it")
}

struct Lines {
    input: BufReader<File>,
    line: Vec<u8>,
}

impl Lines {
    /// The next line without its line feed; `None` at the end. A longer one than any of ours is cut, and then
    /// fits nothing.
    fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        self.line.clear();
        (&mut self.input)
            .take(MAX_LINE_BYTES as u64)
            .read_until(b'\n', &mut self.line)
            .map_err(|error| Failure::Unreadable(format!("the export can't be read: {error}")))?;
        Ok(self.line.strip_suffix(b"\n").or(Some(&self.line)).filter(|line| !line.is_empty()))
    }
}

struct Check<'a> {
    header: &'a Header,
    checkpoint: &'a Checkpoint,
    tree: Tree,
    walk: Walk,
}

impl Check<'_> {
    fn record(&mut self, line: &[u8]) -> Result<(), Failure> {
        let seq = self.walk.next;
        let (bytes, proof) =
            split(line).ok_or_else(|| Failure::wrong(Some(seq), "its line is not one of an export"))?;
        let leaf = self.walk.record(seq, None, bytes)?;
        if decode(&proof.leaf) != Some(leaf) {
            return Err(Failure::wrong(Some(seq), "its bytes have not the hash that stands beside them"));
        }
        if !self.header.proofs {
            self.tree.push(leaf);
            return Ok(());
        }
        let proof: Option<Vec<Hash>> = proof.proof.iter().map(|hash| decode(hash)).collect();
        let root = proof.and_then(|proof| root_from_inclusion(leaf, seq, self.checkpoint.size, &proof));
        if root != Some(self.checkpoint.root) {
            return Err(Failure::wrong(Some(seq), "its proof does not lead to the signed checkpoint"));
        }
        Ok(())
    }

    /// Compares with the signed root, where there were no proofs, and with what the verifier kept.
    fn finish(&self, trust: &Trust) -> Result<u64, Failure> {
        if !self.header.proofs
            && (self.tree.size(), self.tree.root()) != (self.checkpoint.size, self.checkpoint.root)
        {
            let what = "from here on at least one record is not what was signed: together they do not give the signed root";
            return Err(Failure::wrong(Some(0), what));
        }
        let mut same = 0;
        for kept in trust.kept.iter().filter(|kept| kept.size == self.checkpoint.size) {
            if kept.root != self.checkpoint.root {
                return Err(Failure::wrong(
                    None,
                    "the checkpoint of the export is not the one of that size that you kept",
                ));
            }
            same += 1;
        }
        Ok(same)
    }
}

/// The canonical bytes in a line, as they are, and what follows them.
fn split(line: &[u8]) -> Option<(&[u8], Proof)> {
    let rest = line.strip_prefix(RECORD)?;
    let mut stream = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
    stream.next()?.ok()?;
    let (bytes, rest) = rest.split_at_checked(stream.byte_offset())?;
    let mut fields = rest.strip_prefix(b",")?.to_vec();
    fields.insert(0, b'{');
    Some((bytes, serde_json::from_slice(&fields).ok()?))
}

fn decode(text: &str) -> Option<Hash> {
    BASE64.decode(text).ok()?.try_into().ok()
}
