//! The emergency journal: a small file whose blocks are there before they are needed, for the records of
//! containment while the journal itself can't be written (ruling 12: the safe direction only).
//!
//! Entries are overwritten in place and synced, so that a full disk does not matter; best on a device of its
//! own. Each begins at a multiple of 512 bytes and carries its checksum, so that a torn write is noticed and
//! costs only itself. Clearing raises the generation in the header, one sector, written alternately to two
//! places: entries of an older generation are gone. On a file system that never overwrites in place
//! (btrfs, ZFS) no promise can be made for a full disk.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};

use crate::error::Error;

/// Size of the file.
const FILE_BYTES: u64 = 1 << 20;
/// Two headers of one page each come first.
const HEADER_BYTES: u64 = 4_096;
const FIRST_ENTRY: u64 = 2 * HEADER_BYTES;
const ALIGN: u64 = 512;
const FILE_MAGIC: &[u8; 8] = b"PVEMERG1";
const ENTRY_MAGIC: &[u8; 4] = b"PVEN";
const SUM_BYTES: usize = 16;
/// Magic, generation, index, length, checksum.
const ENTRY_HEADER: usize = 4 + 8 + 4 + 4 + SUM_BYTES;

/// The emergency journal of a controller.
#[derive(Debug)]
pub struct Emergency {
    path: PathBuf,
    file: File,
    generation: u64,
    entries: Vec<Vec<u8>>,
    /// Where the next entry begins.
    next: u64,
    damaged: u32,
}

impl Emergency {
    /// Where the file is unless configured otherwise.
    pub fn default_path(dir: &Path) -> PathBuf {
        dir.join("emergency.journal")
    }

    /// Opens the file and reads what is in it; makes it with all its blocks where there is none.
    ///
    /// # Errors
    /// Where it can't be made or read, or is something else.
    pub fn open(path: &Path) -> Result<Emergency, Error> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(Error::file(path, "opened"))?;
        let mut content = Vec::new();
        (&file).take(FILE_BYTES).read_to_end(&mut content).map_err(Error::file(path, "read"))?;
        let fresh = content.iter().all(|byte| *byte == 0);
        let headers = [0, HEADER_BYTES as usize].map(|at| content.get(at..).and_then(parse_header));
        let generation = match headers.iter().flatten().max() {
            Some(generation) => *generation,
            None if fresh => 0,
            None => {
                let source =
                    io::Error::new(ErrorKind::InvalidData, "it is no emergency journal; give another path");
                return Err(Error::File { path: path.to_owned(), what: "used", source });
            }
        };
        allocate(&file, content.len() as u64).map_err(Error::file(path, "written"))?;
        content.resize(FILE_BYTES as usize, 0);
        let mut emergency = Emergency {
            path: path.to_owned(),
            file,
            generation,
            entries: Vec::new(),
            next: FIRST_ENTRY,
            damaged: 0,
        };
        if fresh {
            emergency.write_header(1).map_err(Error::file(path, "written"))?;
        } else {
            emergency.find_entries(&content);
        }
        Ok(emergency)
    }

    /// Every aligned place is looked at, so that a torn entry does not hide those behind it.
    fn find_entries(&mut self, content: &[u8]) {
        let mut at = FIRST_ENTRY;
        while at < FILE_BYTES {
            match parse_entry(&content[at as usize..], self.generation) {
                Some((index, bytes)) => {
                    self.damaged += index.saturating_sub(self.entries.len() as u32 + self.damaged);
                    at += aligned(bytes.len());
                    self.entries.push(bytes);
                    self.next = at;
                }
                None => at += ALIGN,
            }
        }
    }

    /// Makes `bytes` durable in place.
    ///
    /// # Errors
    /// Where the file is full, or its device fails.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.next + aligned(bytes.len()) > FILE_BYTES {
            return Err(Error::EmergencyFull { path: self.path.clone(), bytes: bytes.len() });
        }
        let index = self.entries.len() as u32 + self.damaged;
        let entry = entry(self.generation, index, bytes);
        self.file
            .write_all_at(&entry, self.next)
            .and_then(|()| self.file.sync_data())
            .map_err(Error::file(&self.path, "written"))?;
        self.next += aligned(bytes.len());
        self.entries.push(bytes.to_vec());
        Ok(())
    }

    /// What is in it and not cleared, in order.
    pub fn entries(&self) -> &[Vec<u8>] {
        &self.entries
    }

    /// Entries that were found torn or damaged before a whole one. (A torn last one was never confirmed to
    /// anybody and is not counted.)
    pub fn damaged(&self) -> u32 {
        self.damaged
    }

    /// Forgets all entries; after they are merged into the journal and durable there.
    ///
    /// # Errors
    /// Where the file can't be written; the entries are then still there.
    pub fn clear(&mut self) -> Result<(), Error> {
        if self.entries.is_empty() && self.damaged == 0 {
            return Ok(());
        }
        self.write_header(self.generation + 1).map_err(Error::file(&self.path, "written"))?;
        (self.next, self.damaged) = (FIRST_ENTRY, 0);
        self.entries.clear();
        Ok(())
    }

    fn write_header(&mut self, generation: u64) -> io::Result<()> {
        let mut header = FILE_MAGIC.to_vec();
        header.extend_from_slice(&generation.to_le_bytes());
        header.extend_from_slice(&sum(&header));
        self.file.write_all_at(&header, (generation % 2) * HEADER_BYTES)?;
        self.file.sync_data()?;
        self.generation = generation;
        Ok(())
    }
}

/// Writes zeros to the end: `fallocate` alone would leave extents whose first real write may still need space.
fn allocate(file: &File, present: u64) -> io::Result<()> {
    if present < FILE_BYTES {
        file.write_all_at(&vec![0u8; (FILE_BYTES - present) as usize], present)?;
        file.sync_all()?;
    }
    Ok(())
}

fn aligned(bytes: usize) -> u64 {
    ((ENTRY_HEADER + bytes) as u64).next_multiple_of(ALIGN)
}

fn sum(bytes: &[u8]) -> [u8; SUM_BYTES] {
    digest(&SHA256, bytes).as_ref()[..SUM_BYTES].try_into().expect("SHA-256 has more than 16 bytes")
}

fn parse_header(page: &[u8]) -> Option<u64> {
    let (content, stored) = page.get(..16 + SUM_BYTES)?.split_at(16);
    let generation = content.strip_prefix(FILE_MAGIC)?;
    (sum(content) == stored).then_some(u64::from_le_bytes(generation.try_into().ok()?))
}

/// The checksum covers all that comes before it and the bytes.
fn entry(generation: u64, index: u32, bytes: &[u8]) -> Vec<u8> {
    let mut covered = ENTRY_MAGIC.to_vec();
    covered.extend_from_slice(&generation.to_le_bytes());
    covered.extend_from_slice(&index.to_le_bytes());
    covered.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    let fixed = covered.len();
    covered.extend_from_slice(bytes);
    let sum = sum(&covered);
    covered.splice(fixed..fixed, sum);
    covered
}

fn parse_entry(content: &[u8], generation: u64) -> Option<(u32, Vec<u8>)> {
    let header = content.get(..ENTRY_HEADER)?;
    let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if !header.starts_with(ENTRY_MAGIC) || header[4..12] != generation.to_le_bytes() {
        return None;
    }
    let (index, length) = (number(12), number(16) as usize);
    let bytes = content.get(ENTRY_HEADER..)?.get(..length)?;
    content.starts_with(&entry(generation, index, bytes)).then(|| (index, bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::files::testing::TempDir;

    fn open(dir: &Path) -> Emergency {
        Emergency::open(&Emergency::default_path(dir)).unwrap()
    }

    #[test]
    fn entries_come_back_until_they_are_cleared() {
        let dir = TempDir::new();
        let mut emergency = open(&dir);
        assert!(emergency.entries().is_empty());
        emergency.append(b"one").unwrap();
        emergency.append(&[2; 5_000]).unwrap();
        emergency.append(b"").unwrap();
        let expected = [b"one".to_vec(), vec![2; 5_000], vec![]];
        assert_eq!(emergency.entries(), expected);
        let mut again = open(&dir);
        assert_eq!((again.entries(), again.damaged()), (expected.as_slice(), 0));
        again.append(b"four").unwrap();
        again.clear().unwrap();
        assert!(again.entries().is_empty());
        again.append(b"new").unwrap();
        assert_eq!(open(&dir).entries(), [b"new".to_vec()], "what was cleared stays away");
        assert_eq!(std::fs::metadata(Emergency::default_path(&dir)).unwrap().len(), FILE_BYTES);
    }

    #[test]
    fn a_full_one_says_so_and_keeps_what_it_has() {
        let dir = TempDir::new();
        let mut emergency = open(&dir);
        let fits = (FILE_BYTES - FIRST_ENTRY) / aligned(700);
        for _ in 0..fits {
            emergency.append(&[7; 700]).unwrap();
        }
        assert!(matches!(emergency.append(&[7; 700]), Err(Error::EmergencyFull { .. })));
        assert_eq!(open(&dir).entries().len() as u64, fits);
    }

    #[test]
    fn another_file_is_left_alone() {
        let dir = TempDir::new();
        let path = dir.join("notes.txt");
        std::fs::write(&path, "shopping list").unwrap();
        let error = Emergency::open(&path).unwrap_err();
        assert!(format!("{error:?}").contains("no emergency journal"), "{error:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"shopping list");
    }

    proptest! {
        #[test]
        fn a_torn_write_costs_only_itself(
            sizes in prop::collection::vec(0usize..2_000, 1..6), torn in 0usize..6, at in any::<prop::sample::Index>(),
        ) {
            let dir = TempDir::new();
            let mut emergency = open(&dir);
            let torn = torn % sizes.len();
            let mut start = FIRST_ENTRY;
            for (i, size) in sizes.iter().enumerate() {
                if i < torn { start += aligned(*size) }
                emergency.append(&vec![i as u8 + 1; *size]).unwrap();
            }
            let length = ENTRY_HEADER + sizes[torn];
            let byte = start + at.index(length) as u64;
            let mut old = [0u8];
            emergency.file.read_exact_at(&mut old, byte).unwrap();
            emergency.file.write_all_at(&[old[0] ^ 0x40], byte).unwrap();
            let mut again = open(&dir);
            let expected: Vec<Vec<u8>> = sizes.iter().enumerate()
                .filter(|(i, _)| *i != torn).map(|(i, size)| vec![i as u8 + 1; *size]).collect();
            prop_assert_eq!(again.entries(), expected.as_slice());
            prop_assert_eq!(again.damaged(), u32::from(torn + 1 < sizes.len()));
            again.append(b"after").unwrap();
            let last = open(&dir).entries().last().cloned();
            prop_assert_eq!(last, Some(b"after".to_vec()));
        }

        #[test]
        fn a_torn_header_keeps_the_generation_before(clears in 1u64..6, byte in 0u64..32) {
            let dir = TempDir::new();
            let mut emergency = open(&dir);
            for _ in 0..clears {
                emergency.append(b"entry").unwrap();
                emergency.clear().unwrap();
            }
            emergency.append(b"kept").unwrap();
            let newest = (emergency.generation % 2) * HEADER_BYTES;
            // The header that a clear would write next is the other one.
            emergency.file.write_all_at(&[0xee], HEADER_BYTES - newest + byte).unwrap();
            prop_assert_eq!(open(&dir).entries().to_vec(), vec![b"kept".to_vec()]);
        }
    }
}
