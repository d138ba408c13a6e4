//! The script that keeps evidence, against programs that behave as those of a broken node do.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use support::{DEADLINE, Folder};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/agent/evidence");

/// A node whose programs are scripts.
struct Node(Folder);

impl Node {
    fn new(programs: &[(&str, &str)]) -> Node {
        let node = Node(Folder::new());
        fs::create_dir(node.path("bin")).unwrap();
        for (name, text) in programs {
            let path = node.path("bin").join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn collect(&self) -> Output {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(SCRIPT);
        command.arg(self.path("kept")).args(["gpu001", "0000:3b:00.0"]).env_clear().env("PATH", path);
        command.env("EVIDENCE_SECONDS", "1").env("EVIDENCE_REPORT_SECONDS", "1").env("EVIDENCE_KEEP", "2");
        command.env("EVIDENCE_BYTES", "100000").output().unwrap()
    }

    fn kept(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path("kept"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// What a bundle holds: names and texts.
fn unpacked(bundle: &Path) -> Vec<(String, String)> {
    let folder = Folder::new();
    let tar = Command::new("tar").arg("-xf").arg(bundle).arg("-C").arg(folder.path()).status();
    assert!(tar.unwrap().success());
    let inside = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    fs::read_dir(inside)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), text)
        })
        .collect()
}

#[test]
fn a_bundle_is_made_whatever_hangs_and_its_digest_is_told() {
    let node = Node::new(&[
        ("dmesg", "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo 'NVRM: Xid (PCI:0000:3b:00): 79, x'"),
        // It takes no signal but the last, and what it started holds its output.
        ("nvidia-smi", "trap '' TERM INT; echo started; sleep 30 & sleep 30"),
        ("nvidia-bug-report.sh", "exit 1"),
        ("lspci", "echo \"$@\""),
    ]);
    let started = Instant::now();
    let output = node.collect();
    assert!(started.elapsed() < DEADLINE, "{:?}", started.elapsed());
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(node.kept(), [lines[0]]);
    let bundle = node.path("kept").join(lines[0]);
    let sum = Command::new("sha256sum").arg(&bundle).output().unwrap().stdout;
    assert_eq!(lines[1], format!("sha256:{}", String::from_utf8(sum).unwrap().split_once(' ').unwrap().0));
    assert_eq!(fs::metadata(&bundle).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::metadata(&bundle).unwrap().len() < 1_000_000);
    let files = unpacked(&bundle);
    let file =
        |name: &str| &files.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("{name}")).1;
    assert_eq!(file("kernel_lines").len(), 100_000);
    assert_eq!(file("lspci"), "-vvv -s 0000:3b:00.0\n");
    assert_eq!(file("subject"), "node gpu001 device 0000:3b:00.0\n");
    assert!(file("facts").contains("== /proc/meminfo"));
    assert_eq!(file("missing"), "nvidia_smi: no answer in time\n");
}

#[test]
fn a_node_without_the_vendors_programs_still_has_evidence_and_old_bundles_go() {
    let node = Node::new(&[("dmesg", "echo x"), ("lspci", "echo x")]);
    fs::create_dir(node.path("kept")).unwrap();
    let others =
        ["gpu001.20200101T000000Z.1.tar", "gpu001.20210101T000000Z.1.tar", "gpu0011.20200101T000000Z.1.tar"];
    for name in others.into_iter().chain(["notes.txt"]) {
        fs::write(node.path("kept").join(name), "x").unwrap();
    }
    let output = node.collect();
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    let newest = told.lines().next().unwrap();
    assert_eq!(node.kept(), [others[1], newest, others[2], "notes.txt"]);
    let files = unpacked(&node.path("kept").join(newest));
    let (_, missing) = files.iter().find(|(name, _)| name == "missing").unwrap();
    assert!(missing.contains("nvidia_smi: no nvidia-smi on this node"), "{missing}");
    // What can't be kept is told as a failure.
    fs::remove_dir_all(node.path("kept")).unwrap();
    fs::write(node.path("kept"), "in the way").unwrap();
    assert!(!node.collect().status.success());
}
