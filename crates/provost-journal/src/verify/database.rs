//! A data directory or a database file.

use std::collections::VecDeque;
use std::path::Path;

use super::trust::Trust;
use super::walk::Walk;
use super::{Failure, Report, VerifyOptions, unsigned_too_long};
use crate::merkle::{Tree, leaf_hash};
use crate::note::Checkpoint;
use crate::reader::{Reader, RecordRef};
use crate::tiles::Tiles;

pub(super) fn verify(path: &Path, options: &VerifyOptions) -> Result<Report, Failure> {
    // Without a write-ahead log nobody has the journal open; then nothing at all is written beside it, and
    // read-only media will do. A controller that starts meanwhile makes such a reading worthless.
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let quiet = || std::fs::metadata(&log).map_or(0, |metadata| metadata.len()) == 0;
    let immutable = quiet();
    match run(path, options, immutable) {
        Err(_) if immutable && !quiet() => run(path, options, false),
        Err(Failure::Unreadable(why)) if !immutable => Err(Failure::Unreadable(format!(
            "{why} (where it lies on read-only media, verify a copy of the whole directory)"
        ))),
        result => result,
    }
}

fn run(path: &Path, options: &VerifyOptions, immutable: bool) -> Result<Report, Failure> {
    let reader = Reader::open_database(path, immutable)?;
    let trust = match &options.keys {
        Some(file) => Trust::from_file(file)?,
        None => Trust::beside_the_data(reader.key()?.as_deref())?,
    };
    Check {
        dir: path.parent().unwrap_or(Path::new(".")),
        reader: &reader,
        trust: &trust,
        walk: Walk::new(0, options.strict),
        tree: Tree::new(),
        ahead: VecDeque::new(),
        kept: 0,
        anchor: Tree::new(),
        signed: 0,
        checkpoints: 0,
        newest: None,
        complete: true,
    }
    .run(options.strict)
}

struct Check<'a> {
    dir: &'a Path,
    reader: &'a Reader,
    trust: &'a Trust,
    walk: Walk,
    tree: Tree,
    /// Stored checkpoints that lie ahead, as far as they are in memory.
    ahead: VecDeque<(u64, String)>,
    /// How many of the kept checkpoints are passed.
    kept: usize,
    /// The tree at the last size whose root was right.
    anchor: Tree,
    /// Size of the newest stored checkpoint at the beginning.
    signed: u64,
    checkpoints: u64,
    newest: Option<(Checkpoint, String)>,
    /// The last record seen ended a batch.
    complete: bool,
}

impl Check<'_> {
    fn run(mut self, strict: bool) -> Result<Report, Failure> {
        // Checkpoints first: what they cover is then surely among the records that are counted next.
        if let Some((size, note)) = self.reader.last_checkpoint()? {
            self.stored(size, &note)?;
            self.signed = size;
        }
        let count = self.reader.size()?;
        self.not_cut_off(count)?;
        self.reach()?;
        let reader = self.reader;
        let all = if strict { 0 } else { self.signed };
        let read = reader.each(0..count, |record| self.record(record, all));
        match read {
            Err(Failure::Unreadable(why)) => {
                return Err(Failure::wrong(Some(self.walk.next), format!("can't be read: {why}")));
            }
            other => other?,
        }
        if self.walk.next < count {
            return Err(Failure::wrong(Some(self.walk.next), "is missing"));
        }
        if !self.complete {
            return Err(Failure::wrong(Some(count - 1), "is the last one but not the end of its batch"));
        }
        if let Some(seq) = self.walk.lag.overdue.filter(|_| strict) {
            return Err(Failure::wrong(Some(self.first_unsigned()), unsigned_too_long(seq)));
        }
        let (checkpoint, note) = self.newest.unzip();
        Ok(Report {
            origin: self.trust.origin(),
            records: 0..count,
            times_ms: self.walk.times,
            checkpoint,
            note,
            checkpoints: self.checkpoints,
            kept: self.trust.kept.len() as u64,
            keys: self.trust.names(),
            independent: self.trust.independent,
            strict,
            overdue: self.walk.lag.overdue,
        })
    }

    fn first_unsigned(&self) -> u64 {
        self.newest.as_ref().map_or(0, |(checkpoint, _)| checkpoint.size)
    }

    fn not_cut_off(&self, count: u64) -> Result<(), Failure> {
        let kept = self.trust.kept.last().map_or(0, |checkpoint| checkpoint.size);
        let (size, whose) =
            if kept > self.signed { (kept, "that you kept") } else { (self.signed, "beside it") };
        if size <= count {
            return Ok(());
        }
        let what = format!(
            "is missing, though the checkpoint of size {size} {whose} covers it: the end was cut off"
        );
        Err(Failure::wrong(Some(count), what))
    }

    fn stored(&self, size: u64, note: &str) -> Result<Checkpoint, Failure> {
        match self.trust.checkpoint(note) {
            Ok(checkpoint) if checkpoint.size == size => Ok(checkpoint),
            Ok(checkpoint) => Err(Failure::wrong(
                None,
                format!("the checkpoint stored for size {size} is of size {}", checkpoint.size),
            )),
            Err(why) => Err(Failure::wrong(None, format!("the checkpoint of size {size} {why}"))),
        }
    }

    /// One record; the roots of batches are compared from the size `roots_from` on, below which signed
    /// checkpoints say the same.
    fn record(&mut self, record: RecordRef<'_>, roots_from: u64) -> Result<(), Failure> {
        let leaf = self
            .walk
            .record(record.seq, Some((record.at_ms, record.kind)), record.bytes)
            // A changed epoch or counter is noticed at the record that follows; blame the one that was changed.
            .map_err(|finding| self.narrow().unwrap_or(Failure::Wrong(finding)))?;
        self.tree.push(leaf);
        self.complete = record.root.is_some();
        if let Some(root) = record.root
            && self.tree.size() > roots_from
        {
            if *root != self.tree.root() {
                return Err(self.locate("the roots stored with them"));
            }
            self.anchor.clone_from(&self.tree);
        }
        self.reach()
    }

    /// Compares the root with every checkpoint of this size, stored or kept.
    fn reach(&mut self) -> Result<(), Failure> {
        let size = self.tree.size();
        while let Some(kept) = self.trust.kept.get(self.kept)
            && kept.size == size
        {
            if kept.root != self.tree.root() {
                return Err(self.locate(&format!("the checkpoint of size {size} that you kept")));
            }
            self.kept += 1;
            self.anchor.clone_from(&self.tree);
        }
        if self.ahead.is_empty() && size < self.signed {
            self.ahead = self.reader.checkpoints_from(size, false)?.into();
        }
        if self.ahead.front().is_some_and(|(ahead, _)| *ahead == size)
            && let Some((_, note)) = self.ahead.pop_front()
        {
            let checkpoint = self.stored(size, &note)?;
            if checkpoint.root != self.tree.root() {
                return Err(self.locate(&format!("the signed checkpoint of size {size}")));
            }
            self.walk.lag.signed();
            self.checkpoints += 1;
            self.newest = Some((checkpoint, note));
            self.anchor.clone_from(&self.tree);
        }
        Ok(())
    }

    /// The root does not fit `against`, so something is wrong between the last right one and here.
    fn locate(&self, against: &str) -> Failure {
        let made_anew = ", and the roots stored with them were made anew";
        self.narrow()
            .unwrap_or_else(|| self.one_of(self.anchor.size(), self.tree.size() - 1, against, made_anew))
    }

    /// The first record since the last right root that does not fit its hash tile, or the first batch that does
    /// not fit its root; `None` where tiles or roots say nothing against any.
    fn narrow(&self) -> Option<Failure> {
        let mut tiles = Tiles::new(self.dir, self.reader);
        let mut tree = self.anchor.clone();
        let mut batch = tree.size();
        let result = self.reader.each(batch..self.tree.size(), |record| {
            let leaf = leaf_hash(record.bytes);
            let tile = tiles.tile(0, record.seq / 256).map(|hashes| hashes[(record.seq % 256) as usize]);
            if tile.is_some_and(|hash| hash != leaf) {
                return Err(Failure::wrong(Some(record.seq), "its bytes are not those that were appended"));
            }
            tree.push(leaf);
            if let Some(root) = record.root {
                if *root != tree.root() {
                    return Err(self.one_of(batch, record.seq, "the root stored with it", ""));
                }
                batch = record.seq + 1;
            }
            Ok(())
        });
        result.err()
    }

    fn one_of(&self, first: u64, last: u64, against: &str, more: &str) -> Failure {
        if first == last {
            return Failure::wrong(Some(first), format!("its bytes do not fit {against}"));
        }
        let what = format!(
            "from here to record {last} at least one is not what was appended: they do not fit {against}{more}"
        );
        Failure::wrong(Some(first), what)
    }
}
