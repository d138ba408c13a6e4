//! Lines become signals: which, with what said about them, and where a restart goes on.

use std::fs;
use std::path::Path;

use super::*;
use crate::testing::Folder;

const XID: &str = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.";

fn config(path: &Path, format: LogFormat) -> NodeConfig {
    NodeConfig { name: "gpu001".into(), kernel_log: path.to_owned(), format }
}

/// Reads all there is as the thread does, and gives back what it found and where it would go on.
fn look(path: &Path, format: LogFormat, restart: Option<Restart>) -> Findings {
    let config = config(path, format);
    let mut log = Log::open(path, restart.as_ref()).unwrap();
    let catalogue = Arc::new(Catalogue::embedded());
    let mut interpreter = Interpreter::new(&config, &log, Some("boot".into()), restart, &catalogue);
    while log.read(&mut interpreter).unwrap() {
        interpreter.note_position();
    }
    interpreter.note_position();
    interpreter.findings
}

fn log_of(text: &str) -> (Folder, std::path::PathBuf) {
    let folder = Folder::new();
    let path = folder.path().join("log");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn append(path: &Path, text: &str) {
    let old = fs::read_to_string(path).unwrap();
    // In place, so that it stays the same file.
    fs::write(path, old + text).unwrap();
}

fn codes(findings: &Findings) -> Vec<(Option<u32>, bool)> {
    findings.found.iter().map(|found| (found.signal.code, found.signal.historic)).collect()
}

#[test]
fn kmsg_lines() {
    let check = |text: &str, expected: &[Option<u32>], unparsed: u64| {
        let (_folder, path) = log_of(text);
        let findings = look(&path, LogFormat::Kmsg, None);
        let codes: Vec<_> = findings.found.iter().map(|found| found.signal.code).collect();
        assert_eq!((codes.as_slice(), findings.unparsed), (expected, unparsed), "{text}");
    };
    check(&format!("4,7,9,-;{XID}\n"), &[Some(79)], 0);
    check(&format!("4,7,9,-;{XID}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n"), &[Some(79)], 0);
    check("6,7,9,-;usb 1-1: new device\n", &[], 0);
    // Facility 1 is user space, whatever it writes.
    check(&format!("12,7,9,-;{XID}\n"), &[], 0);
    check(&format!("{XID}\n"), &[], 1);
    check("4,7,9,-;NVRM: Xid (PCI:0000:3b:00): 99999999999999999999, x\n", &[], 1);
    check(&format!("4,7,9,-;{}{XID}\n4,8,9,-;{XID}\n", "x".repeat(10 << 20)), &[Some(79)], 1);
}

#[test]
fn signals_say_where_they_come_from() {
    let (_folder, path) = log_of(&format!("4,7,9,-;{XID}\n"));
    let signal = look(&path, LogFormat::Kmsg, None).found.remove(0).signal;
    assert_eq!((signal.node.as_str(), signal.sequence, signal.trust), ("gpu001", Some(7), Trust::Text));
    assert_eq!((signal.boot_id, signal.line.as_str()), (None, XID));
    let (_folder, path) = log_of(&format!("[ 12.000000] {XID}\n"));
    let signal = look(&path, LogFormat::Text, None).found.remove(0).signal;
    assert_eq!((signal.sequence, signal.trust), (None, Trust::Text));
}

/// Case B02: what was there before the first start is history; what came while nobody looked is news.
#[test]
fn b02_the_first_start_finds_history_and_a_restart_news() {
    let (_folder, path) = log_of(&format!("{XID}\n"));
    let first = look(&path, LogFormat::Text, None);
    assert_eq!(codes(&first), [(Some(79), true)]);
    append(
        &path,
        "NVRM: Xid (PCI:0001:00:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)\n",
    );
    let second = look(&path, LogFormat::Text, first.read_to);
    assert_eq!(codes(&second), [(Some(154), false)]);
    assert_eq!(codes(&look(&path, LogFormat::Text, second.read_to)), []);
}

#[test]
fn history_stays_history_where_it_was_not_acknowledged() {
    let (_folder, path) = log_of(&format!("{XID}\n"));
    let first = look(&path, LogFormat::Text, None);
    let mut restart = first.read_to.clone().unwrap();
    restart.position = first.found[0].start;
    append(&path, &format!("{XID}\n"));
    assert_eq!(
        codes(&look(&path, LogFormat::Text, Some(restart.clone()))),
        [(Some(79), true), (Some(79), false)]
    );
    // Cut off and written anew: all of it is new.
    fs::write(&path, "NVRM: Xid (PCI:0000:3b:00): 79, x\n").unwrap();
    assert_eq!(codes(&look(&path, LogFormat::Text, first.read_to)), [(Some(79), false)]);
}

#[test]
fn a_file_that_appears_later_holds_news() {
    let (_folder, path) = log_of(&format!("{XID}\n"));
    let absent = Restart { boot_id: Some("boot".into()), position: None, historic_until: None };
    assert_eq!(codes(&look(&path, LogFormat::Text, Some(absent))), [(Some(79), false)]);
}

#[test]
fn a_restart_inside_a_report_of_several_lines_reads_all_of_it() {
    let lines = [
        "NVRM: The NVIDIA GPU 0000:b3:00.0",
        "NVRM: (PCI ID: 10de:26b5) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    ];
    let (_folder, path) = log_of("");
    let mut restart = look(&path, LogFormat::Text, None).read_to;
    for line in &lines[..2] {
        append(&path, &format!("{line}\n"));
        let findings = look(&path, LogFormat::Text, restart);
        assert_eq!(codes(&findings), []);
        restart = findings.read_to;
    }
    append(&path, &format!("{}\n", lines[2]));
    let findings = look(&path, LogFormat::Text, restart);
    assert_eq!(codes(&findings), [(Some(79), false)]);
    // The signal's place is its first line.
    assert_eq!(findings.found[0].start, Log::open(&path, Some(&zero(&path))).unwrap().position());
    assert_eq!(codes(&look(&path, LogFormat::Text, findings.read_to)), []);
}

fn zero(path: &Path) -> Restart {
    let file = crate::follow::FileId::of(&fs::metadata(path).unwrap());
    let position = Some(Position::File { file, offset: 0 });
    Restart { boot_id: None, position, historic_until: None }
}

/// The device in short: an interpreter that believes it reads one.
fn device(restart: Option<Restart>) -> Interpreter {
    let catalogue = Arc::new(Catalogue::embedded());
    let config = config(Path::new("/dev/kmsg"), LogFormat::Kmsg);
    let at = Some(Position::Device { next: 0 });
    Interpreter::with(&config, true, at, Some("boot".into()), restart, &catalogue)
}

fn records(interpreter: &mut Interpreter, sequences: std::ops::Range<u64>) {
    for sequence in sequences {
        let text = format!("4,{sequence},{sequence},-;{XID}");
        interpreter.line(&Line::of(text.as_bytes()));
        interpreter.line(&Line::of(b" SUBSYSTEM=pci"));
    }
    interpreter.note_position();
}

fn in_ring(boot_id: &str, next: u64) -> Restart {
    let at = Some(Position::Device { next });
    Restart { boot_id: Some(boot_id.into()), position: at, historic_until: None }
}

#[test]
fn the_ring_goes_on_after_the_last_record() {
    let mut first = device(None);
    records(&mut first, 3..5);
    assert!(
        first.findings.read_to.is_none() && first.findings.found.iter().all(|found| found.signal.historic)
    );
    assert_eq!((first.findings.found.len(), first.findings.lost), (2, 0));
    first.idle();
    records(&mut first, 5..6);
    assert!(!first.findings.found[2].signal.historic);
    assert_eq!(first.findings.found[2].signal.trust, Trust::Kernel);
    let restart = first.findings.read_to.clone().unwrap();
    assert_eq!(restart.position, Some(Position::Device { next: 6 }));

    // The same boot: what was read is passed over, and a hole is counted.
    let mut second = device(Some(restart));
    second.note_position();
    assert_eq!(second.findings.read_to.clone().unwrap().position, Some(Position::Device { next: 6 }));
    records(&mut second, 4..7);
    records(&mut second, 9..10);
    let sequences: Vec<_> = second.findings.found.iter().filter_map(|found| found.signal.sequence).collect();
    assert_eq!((sequences, second.findings.lost), (vec![6, 9], 2));
}

#[test]
fn b02_another_boot_is_read_from_its_start_as_news() {
    let mut interpreter = device(Some(in_ring("boot before", 5_000)));
    records(&mut interpreter, 0..2);
    let found = &interpreter.findings.found;
    assert_eq!((found.len(), interpreter.findings.lost), (2, 0));
    assert!(
        found.iter().all(|found| !found.signal.historic && found.signal.boot_id.as_deref() == Some("boot"))
    );
    // Its first records were overwritten before the agent came.
    let mut late = device(Some(in_ring("boot before", 5_000)));
    records(&mut late, 7..8);
    assert_eq!((late.findings.found.len(), late.findings.lost), (1, 7));
}

#[test]
fn driver_versions() {
    let check = |text: &str, expected| assert_eq!(driver_version(text), expected, "{text}");
    check(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Thu Jan 1\nGCC version: gcc 12.2.0",
        Some(570),
    );
    check("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build", Some(580));
    check("GCC version: gcc version 12.2.0", None);
    check("", None);
}
