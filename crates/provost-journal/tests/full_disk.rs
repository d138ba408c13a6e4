//! A full disk under the journal: nothing half-written, the emergency journal still takes records, and all is
//! well again once there is space. Runs on a small tmpfs in a mount namespace of its own.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Shape, TempDir, append, open};
use provost_journal::merkle::leaf_hash;
use provost_journal::verify::{VerifyOptions, verify};
use provost_journal::{Emergency, Error, Reader, Snapshots};

const DIR: &str = "PROVOST_TEST_SMALL_DISK";

#[test]
fn a_full_disk_refuses_and_recovers() {
    if let Some(dir) = std::env::var_os(DIR) {
        return on_the_small_disk(&PathBuf::from(dir));
    }
    let dir = TempDir::new();
    let script = r#"mount -t tmpfs -o size=4m none "$PROVOST_TEST_SMALL_DISK" || exit 77
exec "$0" --exact a_full_disk_refuses_and_recovers --nocapture"#;
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(DIR, dir.as_os_str())
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) if status.code() == Some(101) => panic!("the test on the small disk failed"),
        other => {
            // Where user namespaces are forbidden there is no small disk; in CI that is a failure of CI.
            println!("skipped: no mount namespace here ({other:?})");
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI must allow user namespaces");
        }
    }
}

/// Takes all the space but 64 KiB.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    let mut length = 0;
    while let Ok(written @ 1..) = file.write(&[1u8; 4_096]) {
        length += written as u64;
    }
    file.set_len(length - 65_536).unwrap();
}

fn on_the_small_disk(dir: &Path) {
    let data = dir.join("data");
    let mut journal = open(&data);
    let mut emergency = Emergency::open(&Emergency::default_path(&data)).unwrap();
    append(&mut journal, 50, 1);
    journal.checkpoint(0).unwrap();
    fill(&dir.join("ballast"));

    let refused = (0..10_000).find_map(|_| {
        let entry = Shape { text: "t".repeat(600), ..Shape::new(journal.size()) }.entry();
        let before = (journal.size(), journal.root());
        journal.append(&[entry]).err().map(|error| (before, error))
    });
    let ((size, root), error) = refused.expect("the disk is full");
    assert!(size > 50, "some still fitted");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("free some space"), "{error}");
    assert_eq!((journal.size(), journal.root()), (size, root));
    assert_eq!(Reader::open(&data).unwrap().size().unwrap(), size, "readers see nothing of it");
    let many: Vec<_> =
        (size..size + 200).map(|seq| Shape { text: "t".repeat(600), ..Shape::new(seq) }.entry()).collect();
    assert!(matches!(journal.append(&many), Err(Error::Unavailable { .. })), "a batch is refused whole");
    assert_eq!(Reader::open(&data).unwrap().size().unwrap(), size);
    assert!(matches!(journal.checkpoint(1_000), Err(Error::Unavailable { .. })));
    let state: Vec<u8> = (0..4_096u32).flat_map(|i| leaf_hash(&i.to_le_bytes())).collect();
    let snapshots = Snapshots::new(&data);
    assert!(snapshots.save(size, "v", &state).is_err());
    assert_eq!(
        fs::read_dir(data.join("snapshots")).unwrap().count(),
        0,
        "no half-written file fills the disk"
    );

    // What contains a fault can still be written down.
    emergency.append(b"hold gpu-003").unwrap();
    assert_eq!(
        Emergency::open(&Emergency::default_path(&data)).unwrap().entries(),
        [b"hold gpu-003".to_vec()]
    );

    // As if the machine went down now: the same files elsewhere open at the same size.
    let copy = TempDir::new();
    let status = Command::new("cp").arg("-r").arg(&data).arg(copy.join("data")).status().unwrap();
    assert!(status.success());
    let crashed = open(&copy.join("data"));
    assert_eq!((crashed.size(), crashed.root()), (size, root));
    drop(crashed);

    // With space again, by itself.
    fs::remove_file(dir.join("ballast")).unwrap();
    journal.append(&many).unwrap();
    journal.checkpoint(120_000).unwrap();
    journal.maintain().unwrap();
    emergency.clear().unwrap();
    let size = journal.size();
    drop(journal);
    let report = verify(&data, &VerifyOptions { strict: true, keys: None }).unwrap();
    assert_eq!(report.records, 0..size);
    assert_eq!(open(&data).size(), size);
}
