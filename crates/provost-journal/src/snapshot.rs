//! Snapshots: the folded state at one sequence, so that a start does not read the whole journal. They are a
//! cache. One that is damaged or of another program version is passed over, and all of them may be deleted at any
//! time; one that is ahead of the journal shows that records were lost, and nothing starts until somebody has looked.

use std::fs;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};

use crate::error::Error;
use crate::files;

const MAGIC: &[u8; 8] = b"PVSNAP\0\x02";
/// How many are kept: the newest and one in case it is damaged.
const KEPT: usize = 2;
/// The largest state that is read back; a damaged header must not ask for all of the memory.
const MAX_STATE_BYTES: u64 = 4 << 30;

/// The snapshots of a data directory.
#[derive(Clone, Debug)]
pub struct Snapshots {
    dir: PathBuf,
}

/// A snapshot that was read back whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Number of records that are folded in; the next one to apply.
    pub seq: u64,
    /// What was saved.
    pub state: Vec<u8>,
}

impl Snapshots {
    /// The snapshots in `dir/snapshots`; nothing is read or made yet.
    pub fn new(dir: &Path) -> Snapshots {
        Snapshots { dir: dir.join("snapshots") }
    }

    fn path(&self, seq: u64) -> PathBuf {
        self.dir.join(format!("{seq:020}.snap"))
    }

    /// Sequences for which there is a file, newest first.
    fn found(&self) -> Vec<u64> {
        // A directory that can't be listed is an empty cache.
        let Ok(entries) = fs::read_dir(&self.dir) else { return Vec::new() };
        let mut found: Vec<u64> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".snap")?.parse().ok())
            .collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        found
    }

    /// The sequence of the newest one, whole or not: so many records were there once.
    pub(crate) fn newest(&self) -> u64 {
        self.found().first().copied().unwrap_or(0)
    }

    /// Saves the state that has `seq` records folded in, and removes all but the newest two.
    ///
    /// # Errors
    /// Where the file can't be written; older snapshots stay as they are.
    pub fn save(&self, seq: u64, app_version: &str, state: &[u8]) -> Result<(), Error> {
        files::create_dir(&self.dir)?;
        let path = self.path(seq);
        let body = lz4_flex::block::compress(state);
        let mut file = Vec::with_capacity(body.len() + 128);
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&seq.to_le_bytes());
        file.extend_from_slice(&(app_version.len() as u32).to_le_bytes());
        file.extend_from_slice(app_version.as_bytes());
        file.extend_from_slice(&(state.len() as u64).to_le_bytes());
        file.extend_from_slice(&body);
        let hash = digest(&SHA256, &file);
        file.extend_from_slice(hash.as_ref());
        files::write_atomically(&path, &file, 0o600)?;
        for old in self.found().into_iter().skip(KEPT) {
            let path = self.path(old);
            fs::remove_file(&path).map_err(Error::file(&path, "removed"))?;
        }
        Ok(())
    }

    /// The newest whole snapshot that `app_version` wrote and that is not ahead of `max_seq`.
    pub fn latest(&self, max_seq: u64, app_version: &str) -> Option<Snapshot> {
        self.found()
            .into_iter()
            .filter(|seq| *seq <= max_seq)
            .find_map(|seq| parse(&fs::read(self.path(seq)).ok()?, seq, app_version))
    }
}

fn parse(file: &[u8], seq: u64, app_version: &str) -> Option<Snapshot> {
    let (content, hash) = file.split_at_checked(file.len().checked_sub(32)?)?;
    if digest(&SHA256, content).as_ref() != hash {
        return None;
    }
    let mut rest = content.strip_prefix(MAGIC)?;
    let number = u64::from_le_bytes(take(&mut rest)?);
    let version_bytes = u32::from_le_bytes(take(&mut rest)?) as usize;
    let (version, mut rest) = rest.split_at_checked(version_bytes)?;
    let state_bytes = u64::from_le_bytes(take(&mut rest)?);
    if number != seq || version != app_version.as_bytes() || state_bytes > MAX_STATE_BYTES {
        return None;
    }
    let state = lz4_flex::block::decompress(rest, usize::try_from(state_bytes).ok()?).ok()?;
    (state.len() as u64 == state_bytes).then_some(Snapshot { seq, state })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::files::testing::TempDir;

    #[test]
    fn the_newest_fitting_one_is_read_and_two_are_kept() {
        let dir = TempDir::new();
        let snapshots = Snapshots::new(&dir);
        assert_eq!(snapshots.latest(u64::MAX, "1.0"), None);
        for seq in [5, 10, 20] {
            snapshots.save(seq, "1.0", format!("state {seq}").repeat(100).as_bytes()).unwrap();
        }
        assert_eq!(snapshots.found(), [20, 10]);
        let check = |max, version: &str, expected: Option<u64>| {
            assert_eq!(
                snapshots.latest(max, version).map(|snapshot| snapshot.seq),
                expected,
                "{max} {version}"
            );
        };
        check(u64::MAX, "1.0", Some(20));
        check(19, "1.0", Some(10));
        check(9, "1.0", None);
        check(u64::MAX, "1.1", None);
        assert_eq!(snapshots.latest(20, "1.0").unwrap().state, "state 20".repeat(100).as_bytes());
        // A snapshot under the name of another sequence would be folded onto the wrong records.
        fs::rename(snapshots.path(20), snapshots.path(15)).unwrap();
        check(u64::MAX, "1.0", Some(10));
    }

    proptest! {
        #[test]
        fn a_damaged_one_is_passed_over(state in prop::collection::vec(any::<u8>(), 0..300), at in any::<usize>(), cut in any::<bool>()) {
            let dir = TempDir::new();
            let snapshots = Snapshots::new(&dir);
            snapshots.save(1, "v", b"older").unwrap();
            snapshots.save(2, "v", &state).unwrap();
            prop_assert_eq!(snapshots.latest(9, "v"), Some(Snapshot { seq: 2, state }));
            let path = snapshots.path(2);
            let mut file = fs::read(&path).unwrap();
            let at = at % file.len();
            if cut { file.truncate(at) } else { file[at] ^= 0x10 }
            fs::write(&path, file).unwrap();
            prop_assert_eq!(snapshots.latest(9, "v").map(|snapshot| snapshot.seq), Some(1));
        }
    }
}
