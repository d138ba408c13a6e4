//! The verifier against everything that somebody could do to the files.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Shape, TempDir, append, journal, open};
use proptest::prelude::*;
use provost_journal::export::{Exported, export};
use provost_journal::merkle::{Tree, leaf_hash};
use provost_journal::verify::{Failure, Report, VerifyOptions, verify};
use provost_journal::{Maintenance, Reader, database};
use rusqlite::{Connection, params};

const STRICT: VerifyOptions = VerifyOptions { keys: None, strict: true };

fn plain() -> VerifyOptions {
    VerifyOptions::default()
}

fn with_keys(file: &Path) -> VerifyOptions {
    VerifyOptions { keys: Some(file.to_owned()), strict: false }
}

fn finding(result: Result<Report, Failure>) -> (Option<u64>, String) {
    match result {
        Err(Failure::Wrong(finding)) => (finding.seq, finding.to_string()),
        other => panic!("nothing was found: {other:?}"),
    }
}

fn database_of(dir: &Path) -> Connection {
    Connection::open(database(dir)).unwrap()
}

/// 40 records signed in two checkpoints of 20, 10 more that are not.
fn fifty(batch: u64) -> TempDir {
    let dir = TempDir::new();
    drop(journal(&dir, 40, 10, batch));
    dir
}

#[test]
fn a_right_journal_is_proved_running_and_closed() {
    let dir = TempDir::new();
    let running = journal(&dir, 40, 10, 3);
    for options in [plain(), STRICT] {
        let report = verify(&dir, &options).unwrap();
        assert_eq!((report.records.clone(), report.checkpoints, report.independent), (0..50, 2, false));
        let text = report.to_string();
        for expected in ["provost.hel-1/log1", "below 40 are exactly", "10 newer than", "not independent"] {
            assert!(text.contains(expected), "{text} / {expected}");
        }
    }
    drop(running);
    let files = |dir: &Path| -> Vec<PathBuf> {
        let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    };
    let before = files(&dir);
    assert_eq!(verify(&dir, &plain()).unwrap().records, 0..50);
    assert_eq!(verify(&database(&dir), &STRICT).unwrap().records, 0..50);
    assert_eq!(files(&dir), before, "nothing is written beside the evidence");
    let report = verify(&dir, &with_keys(&dir.join("keys/journal.vkey"))).unwrap();
    assert!(report.independent && report.to_string().contains("The keys are yours"));
    let empty = TempDir::new();
    drop(open(&empty));
    assert!(verify(&empty, &STRICT).unwrap().to_string().contains("Nothing is signed yet"));
}

#[test]
fn what_can_not_be_read_is_no_finding() {
    let dir = TempDir::new();
    let check = |path: &Path, options: &VerifyOptions, expected: &str| match verify(path, options) {
        Err(Failure::Unreadable(why)) => assert!(why.contains(expected), "{why} / {expected}"),
        other => panic!("{other:?}"),
    };
    check(&dir.join("none"), &plain(), "none can't be read");
    check(&dir, &plain(), "there is no journal at ");
    check(&dir, &plain(), "give the data directory of a controller");
    for (name, content) in [("noise", &[7u8; 5_000][..]), ("short", b"hi"), ("empty", b"")] {
        let folder = dir.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(database(&folder), content).unwrap();
        check(&folder, &plain(), "is not a Provost journal; give the data directory");
    }
    std::fs::create_dir_all(database(&dir.join("folder"))).unwrap();
    check(&dir.join("folder"), &plain(), "is not a Provost journal");
    let text = dir.join("text");
    std::fs::write(&text, "hello\n").unwrap();
    check(&text, &plain(), "neither a journal nor an export");
    std::fs::write(&text, "").unwrap();
    check(&text, &plain(), "neither a journal nor an export");
    let good = fifty(1);
    check(&good, &with_keys(&text), "holds no verifier key");
    check(&good, &with_keys(&dir.join("none")), "none can't be read");
    database_of(&good).execute_batch("PRAGMA user_version = 9").unwrap();
    check(&good, &plain(), "start the newer provost");
}

#[test]
fn the_first_wrong_record_is_named() {
    let check = |change: &str, options: &VerifyOptions, seq: Option<u64>, expected: &str| {
        let dir = fifty(1);
        database_of(&dir).execute_batch(change).unwrap();
        let (found, text) = finding(verify(&dir, options));
        assert_eq!(found, seq, "{change}: {text}");
        assert!(text.contains(expected), "{change}: {text} / {expected}");
    };
    let swap = "CREATE TEMP TABLE t AS SELECT * FROM record WHERE seq IN (12, 13);
        UPDATE record SET bytes = (SELECT bytes FROM t WHERE t.seq = 25 - record.seq) WHERE seq IN (12, 13);";
    let replace =
        "UPDATE record SET bytes = CAST(replace(CAST(bytes AS TEXT), '\"x\"', '\"y\"') AS BLOB) WHERE seq = ";
    let replace = |seq: u64| format!("{replace}{seq}");
    check(&replace(7), &plain(), Some(7), "do not fit the root stored with it");
    check(&replace(30), &STRICT, Some(30), "do not fit");
    check(&replace(45), &plain(), Some(45), "do not fit");
    let epoch = "UPDATE record SET bytes = CAST(replace(CAST(bytes AS TEXT), '\"epoch\":1', '\"epoch\":3') AS BLOB) WHERE seq = 5";
    check(epoch, &plain(), Some(5), "do not fit");
    check("UPDATE record SET bytes = x'7b7d' WHERE seq = 3", &plain(), Some(3), "not a record");
    check("UPDATE record SET bytes = 7 WHERE seq = 3", &plain(), Some(3), "can't be read");
    check("UPDATE record SET root = x'00' WHERE seq = 45", &plain(), Some(45), "do not fit");
    check("UPDATE record SET root = randomblob(32) WHERE seq = 5", &STRICT, Some(5), "do not fit");
    check("UPDATE record SET root = NULL WHERE seq = 49", &plain(), Some(49), "not the end of its batch");
    check(swap, &plain(), Some(12), "its bytes are those of record 13");
    check("DELETE FROM record WHERE seq = 9", &plain(), Some(9), "is missing; record 10 stands");
    check("DELETE FROM record WHERE seq = 0", &plain(), Some(0), "is missing");
    check("DELETE FROM record WHERE seq >= 39", &plain(), Some(39), "the end was cut off");
    check("DELETE FROM record", &plain(), Some(0), "the end was cut off");
    check("UPDATE record SET at = at + 1 WHERE seq = 8", &plain(), Some(8), "stored for searches");
    check("UPDATE record SET kind = 'note' WHERE seq = 8", &plain(), Some(8), "stored for searches");
    check("UPDATE record SET seq = 51 WHERE seq = 49", &plain(), Some(49), "is missing; record 51");
    check(
        "UPDATE checkpoint SET note = replace(note, char(10) || '20', char(10) || '21')",
        &plain(),
        None,
        "of size 20 carries a signature that",
    );
    check(
        "UPDATE checkpoint SET size = 19 WHERE size = 20",
        &plain(),
        None,
        "stored for size 19 is of size 20",
    );
    check("UPDATE checkpoint SET note = 'gone'", &plain(), None, "has no signature block");
    check(
        "UPDATE meta SET value = 'x' WHERE name = 'key'",
        &plain(),
        None,
        "the key beside the records is none",
    );
}

#[test]
fn a_batch_is_narrowed_to_its_record_by_the_tiles() {
    let dir = TempDir::new();
    let mut journal = open(&dir);
    append(&mut journal, 600, 100);
    journal.checkpoint(0).unwrap();
    drop(journal);
    let tamper = "UPDATE record SET bytes = CAST(replace(CAST(bytes AS TEXT), '\"x\"', '\"y\"') AS BLOB) WHERE seq = 342";
    database_of(&dir).execute_batch(tamper).unwrap();
    let (seq, text) = finding(verify(&dir, &plain()));
    assert_eq!(seq, Some(300), "{text}");
    assert!(text.contains("from here to record 399"), "{text}");

    let dir = TempDir::new();
    let mut journal = open(&dir);
    append(&mut journal, 600, 100);
    journal.checkpoint(0).unwrap();
    Maintenance::open(&dir).unwrap().run().unwrap();
    drop(journal);
    database_of(&dir).execute_batch(tamper).unwrap();
    let (seq, text) = finding(verify(&dir, &plain()));
    assert_eq!(seq, Some(342), "{text}");
}

/// Rewrites record `seq` and every root from there on, as somebody without the private key would.
fn rewrite(dir: &Path, seq: u64, shape: &Shape) {
    let database = database_of(dir);
    database.execute("UPDATE record SET bytes = ?1 WHERE seq = ?2", params![shape.bytes(), seq]).unwrap();
    let mut tree = Tree::new();
    let rows: Vec<(u64, Vec<u8>)> = database
        .prepare("SELECT seq, bytes FROM record ORDER BY seq")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for (at, bytes) in rows {
        tree.push(leaf_hash(&bytes));
        let sql = "UPDATE record SET root = ?1 WHERE seq = ?2 AND root IS NOT NULL";
        database.execute(sql, params![tree.root(), at]).unwrap();
    }
}

#[test]
fn roots_made_anew_do_not_help_below_a_checkpoint() {
    let dir = fifty(1);
    rewrite(&dir, 33, &Shape { text: "nothing happened".into(), ..Shape::new(33) });
    let (seq, text) = finding(verify(&dir, &plain()));
    assert_eq!(seq, Some(20), "after the last size that still fits: {text}");
    assert!(
        text.contains("to record 39") && text.contains("size 40") && text.contains("made anew"),
        "{text}"
    );
    // Beyond the last checkpoint nobody has signed: the report says so instead of claiming more.
    let dir = fifty(1);
    rewrite(&dir, 45, &Shape { text: "nothing happened".into(), ..Shape::new(45) });
    assert!(verify(&dir, &plain()).unwrap().to_string().contains("nobody has signed yet"));
}

#[test]
fn a_journal_rolled_back_or_made_anew_is_noticed_with_what_was_kept() {
    let dir = fifty(1);
    let kept = TempDir::new();
    let note = verify(&dir, &plain()).unwrap().note.unwrap();
    let key = std::fs::read_to_string(dir.join("keys/journal.vkey")).unwrap();
    let file = kept.join("trusted");
    std::fs::write(&file, format!("# hel-1, printed on Monday\n{key}\n{note}\n")).unwrap();
    let report = verify(&dir, &with_keys(&file)).unwrap();
    assert_eq!(report.kept, 1);
    assert!(report.to_string().contains("rolled back"));

    // Cut back to the first checkpoint, with its later ones: right in itself.
    let cut = "DELETE FROM record WHERE seq >= 20; DELETE FROM checkpoint WHERE size > 20";
    database_of(&dir).execute_batch(cut).unwrap();
    assert_eq!(verify(&dir, &STRICT).unwrap().records, 0..20);
    let (seq, text) = finding(verify(&dir, &with_keys(&file)));
    assert_eq!(seq, Some(20));
    assert!(text.contains("size 40 that you kept"), "{text}");

    // Written again with the same private key.
    let mut again = open(&dir);
    let shapes =
        (20..45).map(|seq| Shape { text: "other".into(), ..Shape::new(seq) }.entry()).collect::<Vec<_>>();
    again.append(&shapes).unwrap();
    again.checkpoint(999_000).unwrap();
    drop(again);
    verify(&dir, &STRICT).unwrap();
    let (seq, text) = finding(verify(&dir, &with_keys(&file)));
    assert_eq!(seq, Some(20), "{text}");
    assert!(text.contains("that you kept"), "{text}");

    // Made anew with another key.
    let other = fifty(1);
    verify(&other, &plain()).unwrap();
    let (_, text) = finding(verify(&other, &with_keys(&file)));
    assert!(text.contains("no signature of the key"), "{text}");
    std::fs::write(&file, format!("{key}{}", note.replace("\n40\n", "\n41\n"))).unwrap();
    assert!(
        matches!(verify(&dir, &with_keys(&file)), Err(Failure::Unreadable(why)) if why.contains("did not make"))
    );
}

/// Records of one hour, signed every minute.
fn an_hour() -> TempDir {
    let dir = TempDir::new();
    let mut journal = open(&dir);
    for minute in 1..=60 {
        append(&mut journal, 60, 7);
        journal.checkpoint(minute * 60_000).unwrap();
    }
    dir
}

#[test]
fn records_that_nobody_signed_are_told_and_no_proof_for_the_strict() {
    let check = |change: &str, expected: Option<(u64, u64)>| {
        let dir = an_hour();
        database_of(&dir).execute_batch(change).unwrap();
        let report = verify(&dir, &plain()).unwrap();
        assert_eq!(report.overdue, expected.map(|(_, seq)| seq), "{change}");
        let warned = report.to_string().contains("WARNING: ");
        assert_eq!(warned, expected.is_some(), "{change}: {report}");
        match expected {
            None => drop(verify(&dir, &STRICT).unwrap()),
            Some((first, _)) => {
                let (seq, text) = finding(verify(&dir, &STRICT));
                assert_eq!(seq, Some(first), "{change}: {text}");
                assert!(text.contains("no signed checkpoint"), "{text}");
            }
        }
    };
    check("", None);
    check("DELETE FROM checkpoint", Some((0, 121)));
    check("DELETE FROM checkpoint WHERE size > 600", Some((600, 721)));
    // A minute or two are those of a controller that was killed.
    check("DELETE FROM checkpoint WHERE size > 3500", None);
    // Below a later checkpoint nothing is missing that could be proved.
    check("DELETE FROM checkpoint WHERE size < 3000", None);
}

#[test]
fn counters_without_gaps_and_epochs_that_never_fall() {
    let check = |shapes: &[(u64, &'static str, u64)], expected: Option<&str>| {
        let dir = TempDir::new();
        let mut journal = open(&dir);
        for (seq, (epoch, producer, producer_seq)) in (0..).zip(shapes) {
            let shape = Shape { epoch: *epoch, producer, producer_seq: *producer_seq, ..Shape::new(seq) };
            journal.append(&[shape.entry()]).unwrap();
        }
        drop(journal);
        match expected {
            None => assert_eq!(verify(&dir, &STRICT).unwrap().records.end, shapes.len() as u64),
            Some(expected) => {
                let (seq, text) = finding(verify(&dir, &plain()));
                assert_eq!(seq, Some(shapes.len() as u64 - 1), "{text}");
                assert!(text.contains(expected), "{text} / {expected}");
            }
        }
    };
    check(&[(1, "controller", 0), (1, "controller", 1), (2, "controller", 2)], None);
    check(&[(1, "controller", 5), (2, "controller", 0), (2, "controller", 1)], None);
    check(&[(1, "controller", 0), (1, "emergency", 0), (1, "controller", 1), (1, "emergency", 1)], None);
    check(&[(1, "controller", 0), (1, "controller", 2)], Some("goes from 0 to 2"));
    check(&[(1, "controller", 4), (1, "controller", 4)], Some("goes from 4 to 4"));
    check(&[(1, "controller", 4), (1, "controller", 0)], Some("goes from 4 to 0"));
    check(&[(2, "controller", 0), (1, "controller", 1)], Some("falls from 2 to 1"));
}

#[test]
fn strict_also_asks_for_the_canonical_form() {
    let dir = TempDir::new();
    let mut journal = open(&dir);
    let mut entry = Shape { text: "\\u0041".into(), ..Shape::new(0) }.entry();
    journal.append(std::slice::from_ref(&entry)).unwrap();
    entry = Shape::new(1).entry();
    journal.append(&[entry]).unwrap();
    drop(journal);
    verify(&dir, &plain()).unwrap();
    let (seq, text) = finding(verify(&dir, &STRICT));
    assert!(seq == Some(0) && text.contains("canonical"), "{text}");
}

fn exported(dir: &Path, range: Range<u64>) -> (PathBuf, Exported) {
    let path = dir.join(format!("export-{}-{}.jsonl", range.start, range.end));
    let mut out = std::fs::File::create(&path).unwrap();
    let exported = export(dir, range, &mut out).unwrap();
    (path, exported)
}

#[test]
fn an_export_proves_itself_whole_and_in_part() {
    let dir = fifty(7);
    let check = |asked: Range<u64>, records: Range<u64>, unsigned, proofs| {
        let (path, exported) = exported(&dir, asked);
        assert_eq!(exported, Exported { records: records.clone(), unsigned, proofs });
        for options in [plain(), STRICT, with_keys(&dir.join("keys/journal.vkey"))] {
            assert_eq!(verify(&path, &options).unwrap().records, records);
        }
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().count() as u64, records.end - records.start + 2);
        for line in text.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    };
    check(0..u64::MAX, 0..40, 10, false);
    check(0..40, 0..40, 0, false);
    check(0..1, 0..1, 0, true);
    check(17..23, 17..23, 0, true);
    check(39..45, 39..40, 5, true);
    let error = export(&dir, 40..50, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("signed yet"), "{error}");
}

#[test]
fn a_changed_export_names_the_record() {
    let dir = fifty(1);
    let check = |range: Range<u64>, change: &dyn Fn(&mut Vec<String>), seq: Option<u64>, expected: &str| {
        let (path, _) = exported(&dir, range);
        let mut lines: Vec<String> =
            std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        change(&mut lines);
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        let (found, text) = finding(verify(&path, &plain()));
        assert_eq!(found, seq, "{text}");
        assert!(text.contains(expected), "{text} / {expected}");
    };
    let edit =
        |line: usize| move |lines: &mut Vec<String>| lines[line] = lines[line].replacen("\"x\"", "\"y\"", 1);
    check(0..40, &edit(4), Some(3), "not the hash that stands beside");
    check(10..20, &edit(4), Some(13), "not the hash that stands beside");
    check(10..20, &|lines| drop(lines.remove(3)), Some(12), "its bytes are those of record 13");
    check(10..20, &|lines| lines.swap(3, 4), Some(12), "its bytes are those of record 13");
    check(10..20, &|lines| lines.truncate(5), Some(14), "the file ends before it");
    check(10..20, &|lines| lines.truncate(11), None, "does not count the records");
    check(10..20, &|lines| lines.push("{}".into()), None, "behind the last line");
    check(10..20, &|lines| lines[2] = "{}".into(), Some(11), "its line is not one of an export");
    // Bytes and hash changed together: the proof, or the whole tree, gives it away.
    let forge = |lines: &mut Vec<String>| {
        use base64::Engine;
        let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(leaf_hash(bytes));
        let shape = Shape::new(12);
        let forged = Shape { text: "z".into(), ..shape.clone() };
        let line = lines.iter_mut().find(|line| line.contains("\"seq\":12,")).unwrap();
        *line = line.replace("\"x\"", "\"z\"").replace(&encode(&shape.bytes()), &encode(&forged.bytes()));
    };
    check(10..20, &forge, Some(12), "does not lead to the signed checkpoint");
    check(0..40, &forge, Some(0), "together they do not give the signed root");
    let key = TempDir::new();
    drop(journal(&key, 4, 0, 1));
    let (path, _) = exported(&dir, 0..40);
    let (_, text) = finding(verify(&path, &with_keys(&key.join("keys/journal.vkey"))));
    assert!(text.contains("no signature of the key"), "{text}");
}

#[test]
fn the_small_binary_says_what_it_found() {
    let dir = fifty(1);
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_provost-verify")).args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), text)
    };
    let path = dir.to_str().unwrap();
    let (code, text) = run(&[path, "--strict"]);
    assert!(code == 0 && text.contains("canonical form") && text.contains("— provost.hel-1/log1 "), "{text}");
    for arguments in [&[][..], &["--what", path], &[path, path], &[path, "--keys"]] {
        let (code, text) = run(arguments);
        assert!(code == 2 && text.contains("usage: provost-verify"), "{text}");
    }
    assert_eq!(run(&["/nonexistent"]).0, 2);
    database_of(&dir).execute_batch("DELETE FROM record WHERE seq = 9").unwrap();
    let (code, text) = run(&[path]);
    assert!(code == 1 && text.contains("record 9: is missing"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_flipped_bit_of_a_record_is_found_there(seq in 0u64..50, at in any::<prop::sample::Index>(), bit in 0u32..8, strict in any::<bool>()) {
        let dir = fifty(1);
        let mut bytes = Reader::open(&dir).unwrap().record(seq).unwrap().unwrap().bytes;
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        database_of(&dir).execute("UPDATE record SET bytes = ?1 WHERE seq = ?2", params![bytes, seq]).unwrap();
        let (found, text) = finding(verify(&dir, &VerifyOptions { keys: None, strict }));
        prop_assert_eq!(found, Some(seq), "{}", text);
    }

    #[test]
    fn an_export_with_any_changed_byte_is_refused_or_proves_the_same(part in any::<bool>(), at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let dir = fifty(10);
        let (path, _) = exported(&dir, if part { 5..12 } else { 0..40 });
        let right = verify(&path, &plain()).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = with;
        std::fs::write(&path, bytes).unwrap();
        if let Ok(report) = verify(&path, &plain()) {
            prop_assert_eq!(report, right);
        }
    }

    #[test]
    fn no_file_makes_the_verifier_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), as_database in any::<bool>()) {
        let dir = TempDir::new();
        let path = dir.join("file");
        let mut content = if as_database { b"SQLite format 3\0".to_vec() } else { Vec::new() };
        content.extend_from_slice(&bytes);
        std::fs::write(&path, content).unwrap();
        prop_assert!(matches!(verify(&path, &plain()), Err(Failure::Unreadable(_))));
    }
}
