//! What survives which end.

use std::fs;

use provost_model::signal::{Impact, SignalFields, SignalKind, Trust};
use provost_model::time::Timestamp;

use super::*;
use crate::follow::Position;
use crate::testing::Folder;

fn signal(number: u64) -> Numbered {
    let signal = Signal {
        node: "gpu001".into(),
        kind: SignalKind::Xid,
        code: Some(79),
        pci: None,
        impact: Impact::Critical,
        fields: SignalFields::default(),
        at: Timestamp::from_millis(0),
        boot_id: Some("b".into()),
        sequence: Some(number),
        historic: false,
        trust: Trust::Kernel,
        line: format!("NVRM: Xid \u{0}\"é{number}"),
    };
    Numbered { number, signal }
}

fn restart(next: u64) -> Restart {
    Restart { boot_id: Some("b".into()), position: Some(Position::Device { next }), historic_until: None }
}

/// These wait, and the log is read up to the last of them.
fn waiting(numbers: std::ops::Range<u64>, oldest: u64) -> Waiting {
    let up_to = numbers.end - 1;
    Waiting {
        signals: numbers.map(signal).collect(),
        oldest,
        dropped: 0,
        restart: Some(restart(up_to)),
        up_to,
    }
}

struct Place(Folder);

impl Place {
    fn new() -> Place {
        Place(Folder::new())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join(FILE)
    }

    fn open(&self) -> (Spool, Kept) {
        Spool::open(&self.path()).unwrap()
    }

    /// Numbers that a new start finds, and from where it reads the log.
    fn found(&self) -> (Vec<u64>, Option<Restart>) {
        let (_, kept) = self.open();
        for kept in &kept.signals {
            assert_eq!(*kept, signal(kept.number));
        }
        (kept.signals.iter().map(|kept| kept.number).collect(), kept.restart)
    }
}

#[test]
fn what_waits_is_there_after_a_restart_and_what_is_acknowledged_is_not() {
    let place = Place::new();
    let (mut spool, kept) = place.open();
    assert_eq!(kept, Kept::default());
    spool.keep(waiting(1..4, 1)).unwrap();
    assert_eq!(place.found(), (vec![1, 2, 3], Some(restart(3))));
    spool.keep(waiting(4..6, 3)).unwrap();
    assert_eq!(place.found(), (vec![3, 4, 5], Some(restart(5))));
    // All but the last are acknowledged, and then the last is.
    spool.keep(Waiting { signals: Vec::new(), ..waiting(5..6, 5) }).unwrap();
    assert_eq!(place.found().0, [5]);
    spool.keep(Waiting { signals: Vec::new(), ..waiting(5..6, 6) }).unwrap();
    assert_eq!((place.found(), fs::metadata(place.path()).unwrap().len()), ((vec![], None), 0));
    // The next run goes on with its own numbers.
    spool.keep(waiting(9..10, 9)).unwrap();
    assert_eq!(place.found().0, [9]);
}

#[test]
fn a_healthy_node_writes_nothing() {
    let place = Place::new();
    let (mut spool, _) = place.open();
    for oldest in 1..100 {
        spool.keep(Waiting { signals: Vec::new(), ..waiting(1..2, oldest) }).unwrap();
        assert!(spool.is_empty());
    }
}

#[test]
fn what_was_dropped_is_told_by_the_next_run() {
    let place = Place::new();
    let (mut spool, _) = place.open();
    spool.keep(Waiting { dropped: 7, ..waiting(8..10, 8) }).unwrap();
    assert_eq!(place.open().1.dropped, 7);
    spool.keep(Waiting { dropped: 9, signals: Vec::new(), ..waiting(8..10, 8) }).unwrap();
    assert_eq!(place.open().1.dropped, 9);
}

#[test]
fn a_crash_at_any_byte_leaves_a_spool_that_goes_on() {
    let place = Place::new();
    let (mut spool, _) = place.open();
    let mut ends = vec![0];
    for next in [1..3, 3..4, 4..7] {
        spool.keep(waiting(next, 1)).unwrap();
        ends.push(fs::metadata(place.path()).unwrap().len());
    }
    let whole = fs::read(place.path()).unwrap();
    for cut in 0..=whole.len() {
        fs::write(place.path(), &whole[..cut]).unwrap();
        let writes = ends.iter().filter(|end| **end <= cut as u64).count() - 1;
        let (numbers, read_to) = match writes {
            0 => (0, None),
            1 => (2, Some(restart(2))),
            2 => (3, Some(restart(3))),
            _ => (6, Some(restart(6))),
        };
        assert_eq!(place.found(), ((1..=numbers).collect(), read_to), "cut at {cut}");
        if cut % 64 == 0 {
            // Writing waits for the disk.
            let (mut spool, _) = place.open();
            spool.keep(waiting(10..11, 1)).unwrap();
            assert_eq!(place.found().0.last(), Some(&10), "cut at {cut}");
        }
    }
}

#[test]
fn a_damaged_line_costs_only_itself() {
    let place = Place::new();
    let (mut spool, _) = place.open();
    for number in 1..4 {
        spool.keep(waiting(number..number + 1, 1)).unwrap();
    }
    let text = fs::read_to_string(place.path()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for damage in ["", "{}", "\u{0}\u{0}", &"x".repeat(3 << 20)] {
        fs::write(place.path(), format!("{}\n{damage}\n{}\n", lines[0], lines[2])).unwrap();
        assert_eq!(place.found(), (vec![1, 3], Some(restart(3))));
    }
}

#[test]
fn only_whole_writes_move_the_place_in_the_log() {
    let place = Place::new();
    let (mut spool, _) = place.open();
    spool.keep(waiting(1..2, 1)).unwrap();
    let many = 1 + 3 * MAX_LINE_SIGNALS as u64;
    spool.keep(waiting(2..many, 1)).unwrap();
    assert_eq!(place.found().1, Some(restart(many - 1)));
    let text = fs::read_to_string(place.path()).unwrap();
    assert!(text.lines().count() >= 3);
    fs::write(place.path(), &text[..text.len() - 10]).unwrap();
    let (numbers, read_to) = place.found();
    assert!(numbers.len() > 1 && read_to == Some(restart(1)), "{numbers:?} {read_to:?}");
}

#[test]
fn the_file_stays_small() {
    let place = Place::new();
    let (mut spool, _) = place.open();
    // The controller is slow: of every hundred the older half is acknowledged.
    for number in (1..40_000).step_by(1_000) {
        spool.keep(waiting(number..number + 1_000, number.saturating_sub(500).max(1))).unwrap();
        assert!(fs::metadata(place.path()).unwrap().len() < 2 * SMALL);
    }
    let (numbers, _) = place.found();
    assert_eq!((numbers.first(), numbers.len()), (Some(&38_501), 1_500));
}

#[test]
fn a_full_disk_costs_nothing_that_was_kept() {
    let place = Place::new();
    let (mut spool, _) = place.open();
    spool.keep(waiting(1..3, 1)).unwrap();
    spool.file = File::open(place.path()).unwrap();
    assert!(spool.keep(waiting(3..4, 1)).is_err());
    assert_eq!(place.found().0, [1, 2]);
    // It is offered again, and then there is room.
    spool.file = OpenOptions::new().read(true).write(true).open(place.path()).unwrap();
    spool.keep(waiting(3..4, 1)).unwrap();
    assert_eq!(place.found().0, [1, 2, 3]);
}
