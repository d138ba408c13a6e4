//! The writer, its readers and its tiles, through the public interface.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{Shape, TempDir, append, journal, open};
use proptest::prelude::*;
use provost_journal::merkle::{Hash, Tree, inclusion_proof, leaf_hash, root_from_inclusion};
use provost_journal::tiles::Tiles;
use provost_journal::{Error, Filter, Journal, Maintenance, Options, Reader, Snapshots, database};
use rusqlite::Connection;

fn root_of(count: u64) -> Hash {
    let mut tree = Tree::new();
    (0..count).for_each(|seq| tree.push(leaf_hash(&Shape::new(seq).bytes())));
    tree.root()
}

fn open_error(dir: &Path) -> String {
    Journal::open(dir, Options::new("hel-1")).unwrap_err().to_string()
}

fn sql(dir: &Path, text: &str) {
    Connection::open(database(dir)).unwrap().execute_batch(text).unwrap();
}

#[test]
fn what_is_appended_is_there_after_a_restart() {
    let dir = TempDir::new();
    let mut journal = open(&dir);
    assert_eq!((journal.size(), journal.root()), (0, root_of(0)));
    for (count, batch) in [(1, 1), (6, 3), (10, 7)] {
        append(&mut journal, count, batch);
        assert_eq!(journal.root(), root_of(journal.size()));
    }
    assert_eq!(journal.append(&[]).unwrap().size, 17);
    drop(journal);
    let mut journal = open(&dir);
    assert_eq!((journal.size(), journal.root()), (17, root_of(17)));
    journal.checkpoint(0).unwrap();
    append(&mut journal, 3, 2);
    drop(journal);
    let journal = open(&dir);
    assert_eq!((journal.size(), journal.root()), (20, root_of(20)), "from the checkpoint on");
    let reader = Reader::open(&dir).unwrap();
    let records = reader.read(18, 10).unwrap();
    assert_eq!(records.iter().map(|record| record.seq).collect::<Vec<_>>(), [18, 19]);
    assert_eq!(records[1].bytes, Shape::new(19).bytes());
    assert_eq!(reader.record(20).unwrap(), None);
    assert_eq!(reader.record(7).unwrap().unwrap().kind, common::KIND);
}

#[test]
fn records_that_do_not_follow_are_refused_whole() {
    let dir = TempDir::new();
    let mut journal = journal(&dir, 4, 1, 1);
    for sequences in [vec![4], vec![6], vec![5, 7], vec![5, 5], vec![u64::MAX]] {
        let entries: Vec<_> =
            sequences.iter().map(|seq| Shape { seq: *seq, ..Shape::new(0) }.entry()).collect();
        let mut entries = entries;
        entries.iter_mut().zip(&sequences).for_each(|(entry, seq)| entry.seq = *seq);
        assert!(matches!(journal.append(&entries), Err(Error::Sequence { .. })), "{sequences:?}");
        assert_eq!((journal.size(), journal.root()), (5, root_of(5)));
    }
    append(&mut journal, 1, 1);
    assert_eq!(journal.root(), root_of(6));
}

#[test]
fn a_database_that_was_lost_or_rolled_back_is_not_gone_on_with() {
    // What is left of 600 records in the database, how many a snapshot was made of, whether there are tiles.
    let check = |left: u64, snapshot: Option<u64>, tiles: bool, lost: bool| {
        let (dir, older) = (TempDir::new(), TempDir::new());
        drop(journal(&dir, 600, 0, 100));
        drop(journal(&older, left, 0, 100));
        if let Some(seq) = snapshot {
            Snapshots::new(&dir).save(seq, "v", b"state").unwrap();
        }
        if tiles {
            Tiles::new(&dir, &Reader::open(&dir).unwrap()).write_full(u64::MAX).unwrap();
        }
        for end in ["", "-wal", "-shm"] {
            drop(std::fs::remove_file(dir.join(format!("journal.db{end}"))));
        }
        sql(&older, "PRAGMA wal_checkpoint(TRUNCATE)");
        std::fs::copy(database(&older), database(&dir)).unwrap();
        std::fs::copy(older.join("keys/journal.ed25519"), dir.join("keys/journal.ed25519")).unwrap();
        let opened = Journal::open(&dir, Options::new("hel-1")).map(|journal| journal.size());
        let case = format!("{left} {snapshot:?} {tiles}");
        match opened {
            Ok(size) => assert!(size == left && !lost, "{case}"),
            Err(error) => {
                assert!(lost, "{case}: {error}");
                assert!(error.to_string().contains("restore the newest journal.db"), "{case}: {error}");
            }
        }
    };
    check(600, Some(600), true, false);
    check(600, None, false, false);
    check(512, None, true, false);
    check(510, None, true, true);
    check(500, Some(600), false, true);
    check(500, Some(500), false, false);
    check(0, Some(4), false, true);
    check(0, None, true, true);
}

#[test]
fn a_second_controller_gets_one_sentence() {
    let dir = TempDir::new();
    let first = open(&dir);
    let error = open_error(&dir);
    assert!(
        error.starts_with("another controller is using") && error.contains("data directory of its own"),
        "{error}"
    );
    drop(first);
    open(&dir);
}

#[test]
fn a_journal_that_is_not_for_us_is_left_alone() {
    let check = |change: &dyn Fn(&Path), expected: &str| {
        let dir = TempDir::new();
        drop(journal(&dir, 4, 0, 1));
        change(&dir);
        let before = std::fs::read(database(&dir)).unwrap();
        let error = open_error(&dir);
        assert!(error.contains(expected), "{error} / {expected}");
        assert_eq!(std::fs::read(database(&dir)).unwrap(), before, "{expected}: the file is as it was");
    };
    let key = |dir: &Path| dir.join("keys/journal.ed25519");
    check(
        &|dir| sql(dir, "PRAGMA user_version = 2"),
        "has format 2 and this program reads up to 1; start the newer",
    );
    check(&|dir| std::fs::write(database(dir), "diary ".repeat(1_000)).unwrap(), "is not a Provost journal");
    check(&|dir| sql(dir, "PRAGMA application_id = 7"), "is not a Provost journal");
    check(
        &|dir| sql(dir, "UPDATE meta SET value = 'provost.osl-1/log1' WHERE name = 'origin'"),
        "check [site] name",
    );
    check(&|dir| std::fs::remove_file(key(dir)).unwrap(), "missing and the journal has records; restore it");
    check(&|dir| std::fs::write(key(dir), "what").unwrap(), "holds no Ed25519 key");
    let open_to_others = std::fs::Permissions::from_mode(0o644);
    check(&|dir| std::fs::set_permissions(key(dir), open_to_others.clone()).unwrap(), "chmod 600");
    check(
        &|dir| {
            let other = TempDir::new();
            drop(open(&other));
            std::fs::copy(key(&other), key(dir)).unwrap();
        },
        "restore that key from the backup",
    );
}

#[test]
fn a_journal_that_was_tampered_with_does_not_open() {
    let check = |change: &str, expected: &str| {
        let dir = TempDir::new();
        drop(journal(&dir, 6, 3, 1));
        sql(&dir, change);
        let error = open_error(&dir);
        assert!(error.contains(expected) && error.contains("provost verify"), "{error} / {expected}");
    };
    check("DELETE FROM record WHERE seq >= 5", "record 5: the record is missing although a checkpoint");
    check("DELETE FROM record WHERE seq >= 3", "record 5: the record is missing although a checkpoint");
    check("DELETE FROM record WHERE seq = 7", "record 7: the record is missing");
    check("UPDATE record SET bytes = x'00' WHERE seq = 7", "record 7: the stored root");
    check("UPDATE record SET root = NULL WHERE seq = 8", "record 8: the last batch has no root");
    check("UPDATE checkpoint SET frontier = x'00'", "does not fit the hashes");
    check("UPDATE checkpoint SET note = replace(note, char(10) || '6', char(10) || '7')", "did not make");
}

#[test]
fn checkpoints_are_due_by_time_or_number_and_never_within_a_second() {
    let dir = TempDir::new();
    let mut journal = open(&dir);
    assert!(!journal.checkpoint_due(0), "nothing to sign");
    assert_eq!(journal.checkpoint(0).unwrap(), None);
    append(&mut journal, 1, 1);
    assert!(journal.checkpoint_due(0), "the first record is signed at once");
    let note = journal.checkpoint(100_000).unwrap().unwrap();
    assert_eq!(journal.last_checkpoint(), Some(note.as_str()));
    assert_eq!(journal.checkpoint(200_000).unwrap(), None, "nothing new");
    let checkpoint = journal.verifier().checkpoint(&note).unwrap();
    assert_eq!((checkpoint.size, checkpoint.root), (1, root_of(1)));
    assert!(!journal.checkpoint_due(500_000), "nothing new");
    let check =
        |journal: &Journal, now, expected| assert_eq!(journal.checkpoint_due(now), expected, "at {now}");
    append(&mut journal, 999, 333);
    check(&journal, 159_999, false);
    check(&journal, 160_000, true);
    append(&mut journal, 1, 1);
    check(&journal, 100_999, false);
    check(&journal, 101_000, true);
    check(&journal, 10_000, true);
    drop(journal);
    assert_eq!(open(&dir).last_checkpoint(), Some(note.as_str()), "known after a restart");
}

#[test]
fn readers_see_what_is_committed_while_the_writer_writes() {
    let dir = TempDir::new();
    let mut journal = open(&dir);
    let reader = Reader::open(&dir).unwrap();
    let thread = std::thread::spawn(move || {
        let mut seen = 0;
        while seen < 600 {
            let size = reader.size().unwrap();
            assert!(size >= seen && size.is_multiple_of(3), "whole batches only, never fewer: {seen} {size}");
            reader
                .each(seen..size, |record| {
                    assert_eq!(record.bytes, Shape::new(record.seq).bytes());
                    seen = record.seq + 1;
                    Ok::<(), Error>(())
                })
                .unwrap();
            assert_eq!(seen, size);
        }
    });
    append(&mut journal, 600, 3);
    thread.join().unwrap();
}

#[test]
fn searches_find_what_is_asked_for() {
    let dir = TempDir::new();
    let mut journal = open(&dir);
    for seq in 0..20 {
        let mut entry = Shape { text: format!("INC-{:02}", seq % 5), ..Shape::new(seq) }.entry();
        entry.kind = if seq % 2 == 0 { "incident.opened" } else { "hold.placed" };
        journal.append(&[entry]).unwrap();
        journal.checkpoint(Shape::new(seq).at_ms()).unwrap();
    }
    let reader = Reader::open(&dir).unwrap();
    let check = |filter: Filter, limit, expected: &[u64]| {
        let found: Vec<u64> = reader.scan(&filter, limit).unwrap().iter().map(|record| record.seq).collect();
        assert_eq!(found, expected, "{filter:?}");
    };
    let at = |seq| Some(Shape::new(seq).at_ms());
    let kinds = |kinds: &[&str]| kinds.iter().map(|&kind| kind.to_owned()).collect::<Vec<_>>();
    let all = Filter::default;
    check(all(), 3, &[0, 1, 2]);
    check(Filter { newest_first: true, ..all() }, 3, &[19, 18, 17]);
    check(Filter { newest_first: true, after: Some(17), ..all() }, 2, &[16, 15]);
    check(Filter { after: Some(17), ..all() }, 9, &[18, 19]);
    check(Filter { from_ms: at(5), to_ms: at(8), ..all() }, 9, &[5, 6, 7]);
    check(Filter { kinds: kinds(&["incident."]), from_ms: at(15), ..all() }, 9, &[16, 18]);
    check(Filter { kinds: kinds(&["incident.opened", "hold"]), to_ms: at(3), ..all() }, 9, &[0, 1, 2]);
    check(Filter { kinds: kinds(&["%"]), ..all() }, 9, &[]);
    check(Filter { holds: vec!["INC-03".into()], ..all() }, 9, &[3, 8, 13, 18]);
    check(Filter { holds: vec!["INC-03".into(), "\"seq\":13".into()], ..all() }, 9, &[13]);
    check(all(), 0, &[]);
}

#[test]
fn a_search_by_time_starts_near_it_and_misses_nothing() {
    // Two days of one record an hour, each signed; a search for the last hours must not begin at record 0, and
    // one that was merged late, with an old time, is found by its time.
    let dir = TempDir::new();
    let mut journal = open(&dir);
    let hour = 3_600_000;
    for seq in 0..48 {
        let mut entry = Shape::new(seq).entry();
        entry.at_ms = if seq == 40 { 20 * hour } else { seq.cast_signed() * hour };
        journal.append(&[entry]).unwrap();
        journal.checkpoint(seq.cast_signed() * hour).unwrap();
    }
    let reader = Reader::open(&dir).unwrap();
    let find = |from: i64, to: i64| -> Vec<u64> {
        let filter = Filter { from_ms: Some(from * hour), to_ms: Some(to * hour), ..Filter::default() };
        reader.scan(&filter, 99).unwrap().iter().map(|record| record.seq).collect()
    };
    assert_eq!(find(45, 99), [45, 46, 47]);
    assert_eq!(find(19, 22), [19, 20, 21, 40]);
    assert_eq!(find(0, 2), [0, 1]);
    assert_eq!(find(60, 99), [0; 0]);
}

#[test]
fn tiles_and_records_give_the_same_proofs() {
    let dir = TempDir::new();
    let mut journal = open(&dir);
    // Two levels of tiles and a rest: 256² + 300.
    append(&mut journal, 65_536 + 300, 5_000);
    let size = journal.size();
    let reader = Reader::open(&dir).unwrap();
    let proofs = || -> Vec<Vec<Hash>> {
        [0, 255, 256, 40_000, 65_535, 65_536, 65_800, size - 1]
            .map(|index| {
                let proof = inclusion_proof(&mut Tiles::new(&dir, &reader), index, size).unwrap();
                let leaf = leaf_hash(&Shape::new(index).bytes());
                assert_eq!(root_from_inclusion(leaf, index, size, &proof), Some(journal.root()), "{index}");
                proof
            })
            .to_vec()
    };
    let from_records = proofs();
    let mut maintenance = Maintenance::open(&dir).unwrap();
    assert_eq!(maintenance.run().unwrap(), 64);
    assert_eq!(proofs(), from_records, "with some tiles");
    while maintenance.run().unwrap() > 0 {}
    assert_eq!(proofs(), from_records, "with all tiles");
    assert_eq!(std::fs::metadata(dir.join("tiles/tile/0/256")).unwrap().len(), 8_192);
    assert!(dir.join("tiles/tile/1/000").exists());
    assert!(!dir.join("tiles/tile/0/257").exists() && !dir.join("tiles/tile/1/001").exists());
    // A damaged tile is computed again from the records.
    std::fs::write(dir.join("tiles/tile/0/000"), "short").unwrap();
    assert_eq!(proofs(), from_records);
}

#[test]
fn the_log_that_was_copied_back_is_used_again() {
    let dir = TempDir::new();
    let mut journal = open(&dir);
    let bytes = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().len();
    append(&mut journal, 30_000, 500);
    let log = bytes(database(&dir).with_extension("db-wal"));
    assert!(log < 4 << 20, "the log has {log} bytes");
    journal.maintain().unwrap();
    let copied = bytes(database(&dir));
    assert!(copied > 6 << 20, "the database has {copied} bytes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_batches_and_restarts_give_the_same_root(steps in prop::collection::vec((0u64..6, any::<bool>(), any::<bool>()), 1..8)) {
        let dir = TempDir::new();
        let mut journal = open(&dir);
        for (count, sign, restart) in steps {
            append(&mut journal, count, count.max(1));
            if sign {
                journal.checkpoint(0).unwrap();
            }
            if restart {
                drop(journal);
                journal = open(&dir);
            }
            prop_assert_eq!(journal.root(), root_of(journal.size()));
        }
    }
}
