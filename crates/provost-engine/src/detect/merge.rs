//! Equal signals become one episode: the first goes on at once, the others are counted.
//!
//! The merger stands before the engine and is no part of State: a storm of equal lines must not cost a record
//! each, and after a restart a storm may well begin a new episode. Facts: one GPU made 99 % of 38,905 events in
//! a field study, and equal events inside 5 s are one occurrence there (arXiv:2503.11901).

use std::collections::BTreeMap;
use std::time::Duration;

use provost_model::body::EpisodeKey;
use provost_model::input::Input;
use provost_model::signal::{Impact, Signal};
use provost_model::time::Timestamp;

/// Conditions that are followed at once; above it the quietest makes room.
const MAX_KEYS: usize = 65_536;
/// First wait until repeats are recorded; doubles up to [`LAST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(60);
/// Different words of one condition that are let through inside one episode.
const MAX_VERDICTS: usize = 8;

/// Merges equal signals. Times are the controller's; none may go back.
#[derive(Debug)]
pub struct Merger {
    window: Duration,
    open: BTreeMap<EpisodeKey, Open>,
    /// One wake-up a key; the number tells those of one time apart, and is compared sooner than a key.
    wakes: BTreeMap<(Timestamp, u64), EpisodeKey>,
    next: u64,
    /// Repeats of keys that had to make room, or whose episode ended before [`Merger::due`] was asked.
    late: Vec<Input>,
}

#[derive(Debug)]
struct Open {
    last_at: Timestamp,
    /// Repeats that are not recorded yet.
    pending: u64,
    flush_at: Timestamp,
    wait: Duration,
    /// Its place in [`Merger::wakes`].
    wake: (Timestamp, u64),
    /// What the lines said so far: a line that says something else is news although its key is known.
    verdicts: Vec<Verdict>,
    /// The last line that said something else when no more were let through; told with the counts.
    untold: Option<Box<Signal>>,
}

/// The part of a line that changes what is to be done.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    impact: Impact,
    clears: bool,
    fatal: Option<bool>,
    advice: Option<u32>,
    /// Xid 13: where on the GPU. A defect stays in one place, so every place counts.
    cluster: (Option<u32>, Option<u32>),
    historic: bool,
}

impl Verdict {
    fn of(signal: &Signal) -> Verdict {
        Verdict {
            impact: signal.impact,
            clears: signal.fields.clears,
            fatal: signal.fields.fatal,
            advice: signal.fields.recovery_to,
            cluster: (signal.fields.gpc, signal.fields.tpc),
            historic: signal.historic,
        }
    }
}

impl Merger {
    /// A merger with the window of `timers.merge`: an episode ends when nothing came for that long.
    pub fn new(window: Duration) -> Merger {
        Merger { window, open: BTreeMap::new(), wakes: BTreeMap::new(), next: 0, late: Vec::new() }
    }

    /// Takes a signal. The answer is for the engine; none where it was only counted.
    pub fn offer(&mut self, signal: Signal, now: Timestamp) -> Option<Input> {
        let key = super::key_of(&signal);
        let verdict = Verdict::of(&signal);
        if let Some(open) = self.open.get_mut(&key) {
            if now.since(open.last_at) < self.window {
                open.last_at = now;
                return open.offer(signal, verdict);
            }
            self.close(&key);
        }
        if self.open.len() >= MAX_KEYS {
            self.make_room();
        }
        let flush_at = now + FIRST_WAIT;
        let wake = (flush_at.min(now + self.window), self.next);
        self.next += 1;
        self.wakes.insert(wake, key.clone());
        let verdicts = vec![verdict];
        let (last_at, wait) = (now, FIRST_WAIT);
        self.open.insert(key, Open { last_at, pending: 0, flush_at, wait, wake, verdicts, untold: None });
        Some(Input::Signal(Box::new(signal)))
    }

    /// Repeats whose time has come.
    pub fn due(&mut self, now: Timestamp) -> Vec<Input> {
        let mut inputs = std::mem::take(&mut self.late);
        while let Some(first) = self.wakes.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, number), key) = first.remove_entry();
            let Some(open) = self.open.get_mut(&key) else { continue };
            let over = now.since(open.last_at) >= self.window;
            if over || now >= open.flush_at {
                inputs.extend(open.take(&key));
            }
            if over {
                self.open.remove(&key);
                continue;
            }
            if now >= open.flush_at {
                open.wait = (open.wait * 2).min(LAST_WAIT);
                open.flush_at = now + open.wait;
            }
            // Never in the past: the window since the last signal is not over.
            open.wake = (open.flush_at.min(open.last_at + self.window), number);
            self.wakes.insert(open.wake, key);
        }
        inputs
    }

    /// When [`Merger::due`] has something to do.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if self.late.is_empty() {
            self.wakes.first_key_value().map(|((at, _), _)| *at)
        } else {
            Some(Timestamp::default())
        }
    }

    /// The faults of this node were judged to be over: what comes next is news and waits for nothing (B23).
    pub fn renew(&mut self, node: &str) {
        let keys: Vec<EpisodeKey> = self.open.keys().filter(|key| key.node == node).cloned().collect();
        for key in keys {
            self.close(&key);
        }
    }

    fn close(&mut self, key: &EpisodeKey) {
        if let Some(mut open) = self.open.remove(key) {
            self.late.extend(open.take(key));
            self.wakes.remove(&open.wake);
        }
    }

    /// The key that is looked at next is as good as any: its repeats are recorded and its next signal begins a
    /// new episode.
    fn make_room(&mut self) {
        if let Some(key) = self.wakes.values().next().cloned() {
            self.close(&key);
        }
    }
}

impl Open {
    /// The verdict is no news. Of advice the last word counts, so an older one that comes back is news.
    fn knows(&self, verdict: &Verdict) -> bool {
        match verdict.advice {
            Some(_) => self.verdicts.last() == Some(verdict),
            None => self.verdicts.contains(verdict),
        }
    }

    /// What goes on at once; the rest is counted.
    fn offer(&mut self, signal: Signal, verdict: Verdict) -> Option<Input> {
        if self.knows(&verdict) {
            // Said again after others that were not told: it is the last word once more, and they are counted.
            let back = verdict.advice.is_some() && self.untold.take().is_some();
            self.pending += 1 + u64::from(back);
            return None;
        }
        let signal = Box::new(signal);
        if self.verdicts.len() >= MAX_VERDICTS {
            self.pending += u64::from(self.untold.replace(signal).is_some());
            return None;
        }
        self.verdicts.push(verdict);
        Some(Input::Signal(signal))
    }

    /// What was not told yet: the counts, and the last word beyond those that were let through.
    fn take(&mut self, key: &EpisodeKey) -> Vec<Input> {
        let count = std::mem::take(&mut self.pending);
        let repeats = (count > 0).then(|| Input::Repeats { key: key.clone(), count, last_at: self.last_at });
        let last = self.untold.take();
        if let (Some(signal), Some(place)) = (&last, self.verdicts.last_mut()) {
            *place = Verdict::of(signal);
        }
        repeats.into_iter().chain(last.map(Input::Signal)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{T0, signal};

    fn ms(millis: u64) -> Timestamp {
        T0 + Duration::from_millis(millis)
    }

    /// Offers a lost GPU's line at each of `times`; gives what the engine gets as `s` for a signal and the
    /// number of repeats, with its time.
    fn story(times: &[u64], until: u64) -> Vec<String> {
        let mut merger = Merger::new(Duration::from_secs(5));
        let mut told = Vec::new();
        let mut tell = |inputs: Vec<Input>, at: u64| {
            for input in inputs {
                told.push(match input {
                    Input::Signal(_) => format!("{at} s"),
                    Input::Repeats { count, .. } => format!("{at} {count}"),
                    other => format!("{other:?}"),
                });
            }
        };
        let mut times = times.iter().copied().peekable();
        for at in 0..=until {
            tell(merger.due(ms(at)), at);
            while times.next_if_eq(&at).is_some() {
                tell(merger.offer(signal("gpu001", 79, Some(0)), ms(at)).into_iter().collect(), at);
            }
        }
        assert!(merger.open.is_empty() || until < 5_000 || times.peek().is_some());
        assert_eq!(merger.open.len(), merger.wakes.len());
        told
    }

    #[test]
    fn equal_signals_are_one_episode() {
        let check = |times: &[u64], until, expected: &[&str]| assert_eq!(story(times, until), expected);
        check(&[0], 6_000, &["0 s"]);
        check(&[0, 0, 10], 6_000, &["0 s", "1000 2"]);
        // The window slides: 4 s, 8 s and 12 s belong together, and repeats come at 1, 3, 7, 15 s or at the end.
        check(&[0, 4_000, 8_000, 12_000], 20_000, &["0 s", "7000 1", "15000 2"]);
        check(&[0, 4_999, 9_998], 16_000, &["0 s", "7000 1", "14998 1"]);
        check(&[0, 5_000], 11_000, &["0 s", "5000 s"]);
        check(&[0, 1, 5_001, 5_002], 11_000, &["0 s", "1000 1", "5001 s", "6001 1"]);
    }

    #[test]
    fn another_word_of_the_same_condition_is_let_through_once() {
        let mut merger = Merger::new(Duration::from_secs(5));
        let mut with = |advice| {
            let mut signal = signal("gpu001", 154, Some(0));
            signal.fields.recovery_to = Some(advice);
            merger.offer(signal, T0).is_some()
        };
        assert!(with(4));
        assert!(with(1));
        assert!(!with(1));
        assert!(with(4), "the last word counts, so it must be heard");
        assert!(!with(4));
        assert_eq!((10..40).filter(|advice| with(*advice)).count(), MAX_VERDICTS - 3);
    }

    #[test]
    fn the_last_word_is_heard_however_often_the_driver_changes_its_mind() {
        let told = |words: &[u32]| {
            let mut merger = Merger::new(Duration::from_secs(5));
            let mut inputs = Vec::new();
            for advice in words {
                let mut line = signal("gpu001", 154, Some(0));
                line.fields.recovery_to = Some(*advice);
                inputs.extend(merger.offer(line, T0));
            }
            inputs.extend(merger.due(ms(1_000)));
            let lines: Vec<u32> = inputs
                .iter()
                .filter_map(|input| match input {
                    Input::Signal(line) => line.fields.recovery_to,
                    _ => None,
                })
                .collect();
            let counted: u64 = inputs
                .iter()
                .filter_map(
                    |input| if let Input::Repeats { count, .. } = input { Some(*count) } else { None },
                )
                .sum();
            assert_eq!(lines.len() as u64 + counted, words.len() as u64, "nothing is lost");
            assert!(lines.len() <= MAX_VERDICTS + 1);
            lines.last().copied()
        };
        let changes = |last: u32| [4, 1].repeat(20).into_iter().chain([last]).collect::<Vec<u32>>();
        for last in [0, 1, 2, 4] {
            assert_eq!(told(&changes(last)), Some(last));
        }
    }

    #[test]
    fn after_a_recovery_the_next_signal_goes_on_at_once() {
        let mut merger = Merger::new(Duration::from_secs(5));
        let news =
            |merger: &mut Merger, node: &str, at| merger.offer(signal(node, 79, Some(0)), ms(at)).is_some();
        for (node, at) in [("gpu001", 0), ("gpu002", 0)] {
            assert!(news(&mut merger, node, at));
        }
        assert!(!news(&mut merger, "gpu001", 1));
        merger.renew("gpu001");
        assert!(news(&mut merger, "gpu001", 2));
        assert!(!news(&mut merger, "gpu002", 2), "another node's faults are not over");
        let counted = merger.due(ms(2));
        assert!(matches!(counted[..], [Input::Repeats { count: 1, .. }]), "nothing is lost: {counted:?}");
    }

    #[test]
    fn a_storm_costs_few_records() {
        let mut merger = Merger::new(Duration::from_secs(5));
        let mut inputs = 0;
        for n in 0..800_000_u64 {
            let now = ms(n * 5);
            if merger.next_deadline().is_some_and(|at| at <= now) {
                inputs += merger.due(now).len();
            }
            inputs += usize::from(merger.offer(signal("gpu001", 45, Some(0)), now).is_some());
        }
        assert!(inputs <= 200, "{inputs}");
    }

    #[test]
    fn the_number_of_keys_is_bounded_and_nothing_is_lost() {
        let mut merger = Merger::new(Duration::from_secs(5));
        let mut told = 0;
        for round in 0..2 {
            for n in 0..MAX_KEYS as u32 + 100 {
                let input = merger.offer(signal("gpu001", n, None), T0);
                told += u64::from(input.is_some());
                assert!(round == 1 || input.is_some());
            }
        }
        assert!(merger.open.len() <= MAX_KEYS);
        assert!(merger.next_deadline().is_some());
        for input in merger.due(ms(10_000)) {
            let Input::Repeats { count, .. } = input else { panic!("{input:?}") };
            told += count;
        }
        assert_eq!(told, 2 * (MAX_KEYS as u64 + 100));
        assert!(merger.open.is_empty() && merger.wakes.is_empty());
    }
}
