//! What a journal needs now and then and must not pay for while it appends: a thread of its own calls
//! [`Maintenance::run`] every second or so.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::error::Error;
use crate::format;
use crate::reader::Reader;
use crate::store::copy_back;
use crate::tiles::Tiles;

/// Tiles a run writes at most: each is a file that is synced, on the disk that the journal needs.
const TILES_PER_RUN: u64 = 64;

/// Keeps the write-ahead log short and writes hash tiles, beside the running writer.
#[derive(Debug)]
pub struct Maintenance {
    dir: PathBuf,
    connection: Connection,
    reader: Reader,
}

impl Maintenance {
    /// For the journal in `dir`, which a [`Journal`](crate::Journal) of the same process has made.
    ///
    /// # Errors
    /// Where it can't be opened.
    pub fn open(dir: &Path) -> Result<Maintenance, Error> {
        let connection = format::open_writer(&format::database(dir))?;
        Ok(Maintenance { dir: dir.to_owned(), connection, reader: Reader::open(dir)? })
    }

    /// One round: copies the write-ahead log back, never blocking the writer, and writes missing tiles. Gives
    /// the number of tiles written.
    ///
    /// # Errors
    /// Where the disk takes nothing; the next round tries again.
    pub fn run(&mut self) -> Result<u64, Error> {
        copy_back(&self.connection).map_err(|source| Error::Unavailable { source })?;
        Tiles::new(&self.dir, &self.reader).write_full(TILES_PER_RUN)
    }
}
