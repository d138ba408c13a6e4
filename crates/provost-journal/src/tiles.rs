//! Hash tiles after C2SP `tlog-tiles`: the tree's hashes in immutable files of 256, so that a proof over
//! millions of records reads a few files instead of hashing the whole journal.
//!
//! Only full tiles are written, and only after the records are durable; they are derived data. What no tile
//! covers yet is hashed from the records.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::files;
use crate::merkle::{Hash, Hashes, Tree, leaf_hash, node_hash};
use crate::reader::Reader;

/// Hashes in a full tile; each tile is eight levels of the tree.
const WIDTH: u64 = 256;
const HEIGHT: u32 = 8;

/// The path of a full tile below a log's prefix: `tile/0/x001/234` for tile 1234 of level 0.
fn tile_path(level: u32, index: u64) -> String {
    let mut number = format!("{:03}", index % 1_000);
    let mut rest = index / 1_000;
    while rest > 0 {
        number = format!("x{:03}/{number}", rest % 1_000);
        rest /= 1_000;
    }
    format!("tile/{level}/{number}")
}

/// Number of tiles at a level; they are written in order, so that the first missing one is found by halving.
fn count(prefix: &Path, level: u32) -> u64 {
    let exists = |index| prefix.join(tile_path(level, index)).exists();
    let mut above = 1;
    while exists(above - 1) {
        above *= 2;
    }
    let (mut low, mut high) = (above / 2, above - 1);
    while low < high {
        let middle = low.midpoint(high);
        if exists(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// How many records the tiles in `dir` cover.
pub(crate) fn covered(dir: &Path) -> u64 {
    count(&dir.join("tiles"), 0) * WIDTH
}

/// The tiles of a data directory and the records that no tile covers yet; the source of proofs.
pub struct Tiles<'a> {
    prefix: PathBuf,
    reader: &'a Reader,
    /// The tile read last; the hashes of a proof lie together.
    cached: Option<(u32, u64, Vec<Hash>)>,
}

impl<'a> Tiles<'a> {
    /// The tiles in `dir`, completed from its records.
    pub fn new(dir: &Path, reader: &'a Reader) -> Tiles<'a> {
        Tiles { prefix: dir.join("tiles"), reader, cached: None }
    }

    /// The hashes of a full tile; `None` where it is not written, or is damaged: then they are computed.
    pub(crate) fn tile(&mut self, level: u32, index: u64) -> Option<&[Hash]> {
        let hit = self.cached.as_ref().is_some_and(|(l, i, _)| (*l, *i) == (level, index));
        if !hit {
            let bytes = fs::read(self.prefix.join(tile_path(level, index))).ok()?;
            let (hashes, rest) = bytes.as_chunks::<32>();
            if hashes.len() as u64 != WIDTH || !rest.is_empty() {
                return None;
            }
            self.cached = Some((level, index, hashes.to_vec()));
        }
        self.cached.as_ref().map(|(_, _, hashes)| hashes.as_slice())
    }

    /// Writes up to `at_most` full tiles that are missing; gives how many it wrote.
    ///
    /// # Errors
    /// Where the records can't be read or the files can't be written.
    pub fn write_full(&mut self, at_most: u64) -> Result<u64, Error> {
        let mut written = 0;
        let mut below = self.reader.size()?;
        for level in 0..u64::BITS / HEIGHT {
            let full = below / WIDTH;
            let mut have = count(&self.prefix, level);
            while have < full && written < at_most {
                let hashes = self.hashes_of(level, have)?;
                let path = self.prefix.join(tile_path(level, have));
                if let Some(parent) = path.parent() {
                    files::create_dir(parent)?;
                }
                files::write_atomically(&path, &hashes.concat(), 0o600)?;
                have += 1;
                written += 1;
            }
            below = have;
        }
        Ok(written)
    }

    /// The hashes that tile `index` of `level` consists of.
    fn hashes_of(&mut self, level: u32, index: u64) -> Result<Vec<Hash>, Error> {
        if level > 0 {
            return (index * WIDTH..(index + 1) * WIDTH).map(|i| self.node(level * HEIGHT, i)).collect();
        }
        let mut hashes = Vec::with_capacity(WIDTH as usize);
        self.reader.each(index * WIDTH..(index + 1) * WIDTH, |record| {
            hashes.push(leaf_hash(record.bytes));
            Ok::<(), Error>(())
        })?;
        if hashes.len() as u64 == WIDTH {
            return Ok(hashes);
        }
        Err(Error::Inconsistent {
            seq: index * WIDTH,
            what: "a record of the 256 from here on is missing".to_owned(),
        })
    }
}

impl Hashes for Tiles<'_> {
    type Error = Error;

    fn node(&mut self, level: u32, index: u64) -> Result<Hash, Error> {
        // The node is a fold of 2^inside hashes of one row; a row is one tile or a part of it.
        let (row, inside) = (level / HEIGHT, level % HEIGHT);
        let first = (index << inside) % WIDTH;
        let tile = (index << inside) / WIDTH;
        if let Some(hashes) = self.tile(row, tile) {
            let mut tree = Tree::new();
            hashes[first as usize..][..1 << inside].iter().for_each(|hash| tree.push(*hash));
            return Ok(tree.root());
        }
        if level > HEIGHT {
            let left = self.node(level - 1, index * 2)?;
            return Ok(node_hash(&left, &self.node(level - 1, index * 2 + 1)?));
        }
        if level == HEIGHT
            && let Some(hashes) = self.tile(0, index)
        {
            let mut tree = Tree::new();
            hashes.iter().for_each(|hash| tree.push(*hash));
            return Ok(tree.root());
        }
        let mut tree = Tree::new();
        self.reader.each(index << level..(index + 1) << level, |record| {
            tree.push(leaf_hash(record.bytes));
            Ok::<(), Error>(())
        })?;
        if tree.size() == 1 << level {
            return Ok(tree.root());
        }
        Err(Error::Inconsistent { seq: index << level, what: "a record from here on is missing".to_owned() })
    }
}
