//! Logs that grow, are cut off and are rotated away, with and without somebody looking.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use super::*;
use crate::testing::{DEADLINE, Folder};
use crate::wait::{Interest, wait};

/// What a log has given so far.
#[derive(Default)]
struct Seen {
    lines: Vec<String>,
    cut: usize,
    restarts: usize,
    end: Option<Position>,
}

impl Sink for Seen {
    fn line(&mut self, line: &Line<'_>) {
        self.lines.push(String::from_utf8_lossy(line.bytes).into_owned());
        self.cut += usize::from(line.cut);
        self.end = line.end;
    }

    fn overrun(&mut self) {}

    fn restarted(&mut self, position: Option<Position>) {
        self.restarts += 1;
        self.end = position;
    }

    fn idle(&mut self) {}
}

struct Following {
    folder: Folder,
    log: Log,
    seen: Seen,
}

impl Following {
    fn new(content: &str) -> Following {
        let folder = Folder::new();
        fs::write(folder.path().join("log"), content).unwrap();
        let log = Log::open(&folder.path().join("log"), None).unwrap();
        Following { folder, log, seen: Seen::default() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn append(&self, text: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.path()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Reads all there is, and checks which lines that were.
    fn check(&mut self, expected: &[&str]) {
        self.seen.lines.clear();
        while self.log.read(&mut self.seen).unwrap() {}
        assert_eq!(self.seen.lines, expected);
    }

    /// As the agent does when it starts again.
    fn reopen(&mut self) {
        let restart = Restart { boot_id: None, position: self.seen.end, historic_until: None };
        self.log = Log::open(&self.path(), Some(&restart)).unwrap();
    }

    fn wait(&self) {
        assert_eq!(wait([(self.log.fd().unwrap(), Interest::Read)], Some(DEADLINE)), [true]);
    }
}

#[test]
fn a_file_that_grows() {
    let mut following = Following::new("a\nb\n");
    following.check(&["a", "b"]);
    following.append("c\nd");
    following.wait();
    following.check(&["c"]);
    following.append("e\n");
    following.check(&["de"]);
    following.check(&[]);
}

#[test]
fn a_last_line_without_an_end_is_taken_after_a_while() {
    let mut following = Following::new("a\nb");
    following.check(&["a"]);
    assert!(following.log.deadline().is_some());
    following.log.open_since = Some(Instant::now().checked_sub(LINE_WAIT).unwrap());
    following.check(&["b"]);
    assert_eq!(following.log.deadline(), None);
    following.append("c\n");
    following.check(&["c"]);
    following.reopen();
    following.check(&[]);
}

#[test]
fn a_restart_neither_repeats_nor_misses() {
    let mut following = Following::new("a\nb\n");
    following.check(&["a", "b"]);
    following.reopen();
    following.check(&[]);
    following.append("c\nd");
    following.check(&["c"]);
    following.append("e\nf\n");
    following.reopen();
    following.check(&["de", "f"]);
}

#[test]
fn a_file_that_is_cut_off() {
    let mut following = Following::new("first\nsecond\n");
    following.check(&["first", "second"]);
    fs::write(following.path(), "third\n").unwrap();
    following.check(&["third"]);
    assert_eq!(following.seen.restarts, 1);
    // And while nobody looked.
    fs::write(following.path(), "4\n").unwrap();
    following.reopen();
    following.check(&["4"]);
}

#[test]
fn a_file_that_is_rotated_away() {
    let mut following = Following::new("a\n");
    following.check(&["a"]);
    let rotated = following.folder.path().join("log.1");
    fs::rename(following.path(), &rotated).unwrap();
    following.check(&[]);
    // Its writer has not opened the new one yet.
    OpenOptions::new().append(true).open(&rotated).unwrap().write_all(b"b\nc").unwrap();
    fs::write(following.path(), "d\n").unwrap();
    following.wait();
    following.check(&["b", "c", "d"]);
    following.append("e\n");
    following.wait();
    following.check(&["e"]);
}

#[test]
fn a_file_that_was_rotated_away_meanwhile() {
    let mut following = Following::new("a\n");
    following.check(&["a"]);
    following.append("b\n");
    fs::rename(following.path(), following.folder.path().join("log.1")).unwrap();
    fs::write(following.path(), "c\n").unwrap();
    following.reopen();
    following.check(&["b", "c"]);
    // Rotated and gone: only the new one is left.
    fs::remove_file(following.folder.path().join("log.1")).unwrap();
    fs::rename(following.path(), following.folder.path().join("log.1")).unwrap();
    fs::write(following.path(), "d\n").unwrap();
    fs::remove_file(following.folder.path().join("log.1")).unwrap();
    following.reopen();
    following.check(&["d"]);
}

#[test]
fn of_a_huge_unknown_file_only_the_end_is_read() {
    let folder = Folder::new();
    let path = folder.path().join("log");
    let file = fs::File::create(&path).unwrap();
    file.set_len(MAX_HISTORY + 10).unwrap();
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"\nlast\n").unwrap();
    let mut following = Following { log: Log::open(&path, None).unwrap(), folder, seen: Seen::default() };
    following.check(&["last"]);
}

#[test]
fn a_line_of_10_mib_and_bytes_that_are_no_text() {
    let mut following = Following::new("");
    let mut bytes = vec![b'x'; 10 << 20];
    bytes.extend_from_slice(b"\n\xff\xfe\0\nz\n");
    fs::write(following.path(), bytes).unwrap();
    while following.log.read(&mut following.seen).unwrap() {}
    let lengths: Vec<usize> = following.seen.lines.iter().map(String::len).collect();
    assert_eq!((lengths[0], lengths.len(), following.seen.cut), (8 * 1024, 3, 1));
    assert_eq!(following.seen.lines[2], "z");
}

#[test]
fn a_fifo_survives_its_writers() {
    let folder = Folder::new();
    let path = folder.path().join("log");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let mut following = Following { log: Log::open(&path, None).unwrap(), folder, seen: Seen::default() };
    for text in ["a\n", "b\n"] {
        OpenOptions::new().write(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
        following.wait();
        following.check(&[text.trim()]);
        assert_eq!(following.log.position(), None);
    }
}

#[test]
fn what_can_not_be_followed() {
    let folder = Folder::new();
    assert!(Log::open(&folder.path().join("absent"), None).is_err());
    assert!(Log::open(folder.path(), None).is_err());
}
