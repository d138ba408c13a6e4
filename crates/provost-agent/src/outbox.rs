//! What waits to be told to the controller: signals until they are acknowledged, results of orders, counts.
//!
//! It is bounded in number and in bytes. Where there is no room, the oldest signal goes that was not sent yet, a
//! benign one before one that is grave, and the controller is told how many went. It also knows from which position
//! a restarted agent must read the kernel log again: the first line whose signal is neither acknowledged nor in the
//! spool.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use provost_model::body::SourceState;
use provost_model::signal::{Impact, Signal};
use provost_wire::{Decoder, OrderResult, Signals, ToServer, Unparsed, encode};

use crate::follow::{Position, Restart};
use crate::spool::{Kept, Numbered, Waiting};
use crate::wait::Wake;

/// Signals that are kept.
const MAX_SIGNALS: usize = 10_000;
/// Bytes that they may take, as estimated.
const MAX_BYTES: usize = 4 << 20;
/// Batches that are sent before the first of them is acknowledged.
const MAX_BATCHES: usize = 64;
/// Signals of a batch.
const MAX_BATCH: usize = 128;
/// Bytes of a batch in JSON, as estimated from above; under [`provost_wire::MAX_BODY`].
const MAX_BATCH_BYTES: usize = 240 * 1024;
/// Results that are kept while there is no connection; the controller asks again for those that are dropped.
const MAX_RESULTS: usize = 1_000;

/// A signal and the place of its first line.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) signal: Signal,
    pub(crate) start: Option<Position>,
}

/// What one look at the kernel log brought.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) found: Vec<Found>,
    pub(crate) unparsed: u64,
    pub(crate) lost: u64,
    /// How far the log was read; none before everything that was there at the first start is read.
    pub(crate) read_to: Option<Restart>,
}

/// See the module. Shared by the threads of one node.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    /// Set when there is something to send.
    pub(crate) wake: Wake,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Waits>,
    waiting_bytes: usize,
    /// How many of the first that wait are known to be grave.
    grave: usize,
    dropped: u64,
    next_number: u64,
    /// Signals below it wait since before the spool was last asked for.
    asked_at: u64,
    /// Signals up to it are in the spool.
    spooled_to: u64,
    batches: VecDeque<Batch>,
    next_batch: u64,
    /// Batches that were sent over the present connection.
    sent: usize,
    results: VecDeque<OrderResult>,
    unparsed: u64,
    lost: u64,
    kernel_log: SourceState,
    read_to: Option<Restart>,
}

/// A signal that waits, by its number. Numbers rise.
#[derive(Debug)]
struct Waits {
    number: u64,
    found: Found,
}

/// Signals that belong together for good, so that a repetition can be told from news.
#[derive(Debug)]
struct Batch {
    number: u64,
    /// The numbers of its signals, and where their lines begin.
    members: Vec<(u64, Option<Position>)>,
    dropped: u64,
    frame: Vec<u8>,
}

impl Outbox {
    pub(crate) fn new() -> io::Result<Outbox> {
        let state = State {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            grave: 0,
            dropped: 0,
            next_number: 1,
            asked_at: 1,
            spooled_to: 0,
            batches: VecDeque::new(),
            next_batch: 1,
            sent: 0,
            results: VecDeque::new(),
            unparsed: 0,
            lost: 0,
            // Nothing was read yet, and unknown is not fresh.
            kernel_log: SourceState::Blind,
            read_to: None,
        };
        Ok(Outbox { state: Mutex::new(state), wake: Wake::new()? })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that holds the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what was found, and leaves `findings` empty.
    pub(crate) fn add(&self, findings: &mut Findings) {
        let mut state = self.state();
        state.unparsed = state.unparsed.saturating_add(std::mem::take(&mut findings.unparsed));
        state.lost = state.lost.saturating_add(std::mem::take(&mut findings.lost));
        if let Some(read_to) = findings.read_to.take() {
            state.read_to = Some(read_to);
        }
        let news = !findings.found.is_empty();
        for found in findings.found.drain(..) {
            state.push(found);
        }
        drop(state);
        if news {
            self.wake.set();
        }
    }

    /// Takes in the result of an order.
    pub(crate) fn add_result(&self, result: OrderResult) {
        let mut state = self.state();
        if state.results.len() == MAX_RESULTS {
            state.results.pop_front();
        }
        state.results.push_back(result);
        drop(state);
        self.wake.set();
    }

    /// Says whether the kernel log can be read.
    pub(crate) fn set_kernel_log(&self, kernel_log: SourceState) {
        self.state().kernel_log = kernel_log;
    }

    /// Whether the kernel log can be read.
    pub(crate) fn kernel_log(&self) -> SourceState {
        self.state().kernel_log
    }

    /// Signals that are not acknowledged.
    pub(crate) fn depth(&self) -> u64 {
        let state = self.state();
        let in_batches: usize = state.batches.iter().map(|batch| batch.members.len()).sum();
        (in_batches + state.waiting.len()) as u64
    }

    /// A new connection: what was sent over the one before and not acknowledged is to be sent again.
    pub(crate) fn restart(&self) {
        self.state().sent = 0;
    }

    /// The next frame to send; none where there is nothing, or enough is on its way.
    pub(crate) fn next_frame(&self) -> Option<Vec<u8>> {
        let mut state = self.state();
        if let Some(result) = state.results.pop_front() {
            // A result is a few hundred bytes, far below the limit of a frame.
            return encode(&ToServer::from(result)).ok();
        }
        if state.sent == state.batches.len() && state.batches.len() < MAX_BATCHES {
            state.fill_batch();
        }
        let frame = state.batches.get(state.sent)?.frame.clone();
        state.sent += 1;
        Some(frame)
    }

    /// What could not be read since the last time; none where nothing was.
    pub(crate) fn take_unparsed(&self) -> Option<Unparsed> {
        let mut state = self.state();
        let (count, lost) = (std::mem::take(&mut state.unparsed), std::mem::take(&mut state.lost));
        (count > 0 || lost > 0).then_some(Unparsed { count, lost })
    }

    /// The controller has recorded this batch and those before it.
    pub(crate) fn acknowledge(&self, number: u64) {
        let mut state = self.state();
        while state.sent > 0 && state.batches.front().is_some_and(|batch| batch.number <= number) {
            state.batches.pop_front();
            state.sent -= 1;
        }
        drop(state);
        // There may be room for the next batch.
        self.wake.set();
    }

    /// How far the log was read in this run.
    pub(crate) fn read_to(&self) -> Option<Restart> {
        self.state().read_to.clone()
    }

    /// Where a restarted agent has to begin; none before the first start has read what was there.
    pub(crate) fn restart_point(&self) -> Option<Restart> {
        let state = self.state();
        state.restart_point(state.spooled_to)
    }

    /// Takes in what the spool has kept from an earlier run.
    pub(crate) fn restore(&self, kept: Kept) {
        let mut state = self.state();
        state.dropped = kept.dropped;
        for Numbered { number, signal } in kept.signals {
            state.next_number = number;
            state.spooled_to = number;
            state.push(Found { signal, start: None });
        }
        drop(state);
        self.wake.set();
    }

    /// What the spool should have: what waits since before it was last asked for, or `all`.
    pub(crate) fn for_spool(&self, all: bool) -> Waiting {
        let mut state = self.state();
        let asked_at = state.next_number;
        let below = if all { asked_at } else { state.asked_at };
        state.asked_at = asked_at;
        let up_to = state.spooled_to.max(below.saturating_sub(1));
        let spooled_to = state.spooled_to;
        let is_wanted = |number: u64| number > spooled_to && number <= up_to;
        let mut signals = Vec::new();
        for batch in state.batches.iter().filter(|batch| batch.members.iter().any(|(n, _)| is_wanted(*n))) {
            let members = batch.members.iter().map(|(number, _)| *number);
            let numbered = members.zip(batch.signals()).map(|(number, signal)| Numbered { number, signal });
            signals.extend(numbered.filter(|numbered| is_wanted(numbered.number)));
        }
        for Waits { number, found } in state.waiting.iter().filter(|waits| is_wanted(waits.number)) {
            signals.push(Numbered { number: *number, signal: found.signal.clone() });
        }
        let oldest = state.unacknowledged().next().map_or(state.next_number, |(number, _)| number);
        let dropped =
            state.batches.iter().map(|batch| batch.dropped).fold(state.dropped, u64::saturating_add);
        Waiting { signals, oldest, dropped, restart: state.restart_point(up_to), up_to }
    }

    /// All up to this number are in the spool.
    pub(crate) fn is_spooled(&self, up_to: u64) {
        self.state().spooled_to = up_to;
    }
}

impl Batch {
    /// Its signals, as they were put into the frame.
    fn signals(&self) -> Vec<Signal> {
        let mut decoder = Decoder::new();
        decoder.push(&self.frame);
        match decoder.next_message() {
            Ok(Some(ToServer::Signals(batch))) => batch.signals,
            _ => Vec::new(),
        }
    }
}

impl State {
    fn push(&mut self, found: Found) {
        self.waiting_bytes += memory(&found.signal);
        self.waiting.push_back(Waits { number: self.next_number, found });
        self.next_number += 1;
        while self.waiting.len() > MAX_SIGNALS || self.waiting_bytes > MAX_BYTES {
            while self.waiting.get(self.grave).is_some_and(|waits| is_grave(&waits.found.signal)) {
                self.grave += 1;
            }
            // The first that is benign, and where all are grave the first.
            let goes = if self.grave < self.waiting.len() { self.grave } else { 0 };
            let Some(oldest) = self.waiting.remove(goes) else { break };
            self.grave = self.grave.min(self.waiting.len());
            self.waiting_bytes -= memory(&oldest.found.signal);
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// Numbers of what is not acknowledged, rising, and where the lines begin.
    fn unacknowledged(&self) -> impl Iterator<Item = (u64, Option<Position>)> {
        let in_batches = self.batches.iter().flat_map(|batch| batch.members.iter().copied());
        in_batches.chain(self.waiting.iter().map(|waits| (waits.number, waits.found.start)))
    }

    /// Where a restarted agent has to begin when all signals up to a number are in the spool.
    fn restart_point(&self, spooled_to: u64) -> Option<Restart> {
        let read_to = self.read_to.clone()?;
        let oldest = self.unacknowledged().find(|(number, _)| *number > spooled_to);
        Some(Restart { position: oldest.map_or(read_to.position, |(_, start)| start), ..read_to })
    }

    /// Makes a batch of the oldest signals that wait.
    fn fill_batch(&mut self) {
        let (mut members, mut signals, mut bytes) = (Vec::new(), Vec::new(), 0);
        while signals.len() < MAX_BATCH
            && let Some(Waits { number, found }) = self.waiting.pop_front()
        {
            self.grave = self.grave.saturating_sub(1);
            self.waiting_bytes -= memory(&found.signal);
            bytes += json(&found.signal);
            members.push((number, found.start));
            signals.push(found.signal);
            if self.waiting.front().is_some_and(|next| bytes + json(&next.found.signal) > MAX_BATCH_BYTES) {
                break;
            }
        }
        if signals.is_empty() {
            return;
        }
        let (number, count, dropped) = (self.next_batch, signals.len(), self.dropped);
        let batch = Signals { batch: number, signals, dropped };
        match encode(&ToServer::from(batch)) {
            Ok(frame) => {
                self.next_batch += 1;
                self.dropped = 0;
                self.batches.push_back(Batch { number, members, dropped, frame });
            }
            // No signal is so long by the limits of the parser; if one were, it is counted and not tried for ever.
            Err(_) => self.dropped = self.dropped.saturating_add(count as u64),
        }
    }
}

/// What may hold a node. It is kept longer than the rest, of which a storm is made.
fn is_grave(signal: &Signal) -> bool {
    signal.impact >= Impact::Major
}

/// Bytes that a signal takes while it waits.
fn memory(signal: &Signal) -> usize {
    size_of::<Waits>() + texts(signal)
}

/// Bytes that a signal takes in JSON at most: each byte of a text may become six, and the keys are 500 or so.
fn json(signal: &Signal) -> usize {
    1_024 + 6 * texts(signal)
}

fn texts(signal: &Signal) -> usize {
    let boot_id = signal.boot_id.as_ref().map_or(0, String::len);
    let unit = signal.fields.unit.as_ref().map_or(0, String::len);
    signal.node.len() + signal.line.len() + boot_id + unit
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use provost_model::signal::{Impact, SignalFields, SignalKind, Trust};
    use provost_model::time::Timestamp;
    use provost_wire::Decoder;

    use super::*;

    fn found(next: u64, line: &str) -> Found {
        let signal = Signal {
            node: "gpu001".into(),
            kind: SignalKind::Xid,
            code: Some(31),
            pci: None,
            impact: Impact::Minor,
            fields: SignalFields::default(),
            at: Timestamp::from_millis(0),
            boot_id: None,
            sequence: Some(next),
            historic: false,
            trust: Trust::Kernel,
            line: line.into(),
        };
        Found { signal, start: Some(Position::Device { next }) }
    }

    fn add(outbox: &Outbox, sequences: std::ops::Range<u64>) {
        let read_to = Restart {
            boot_id: None,
            position: Some(Position::Device { next: sequences.end }),
            historic_until: None,
        };
        let found = sequences.map(|next| found(next, "x")).collect();
        outbox.add(&mut Findings { found, read_to: Some(read_to), ..Findings::default() });
    }

    fn read(frame: &[u8]) -> ToServer {
        let mut decoder = Decoder::new();
        decoder.push(frame);
        decoder.next_message().unwrap().unwrap()
    }

    /// The next batch: its number, the sequences of its signals, and what it says was dropped.
    fn next(outbox: &Outbox) -> Option<(u64, Vec<u64>, u64)> {
        let ToServer::Signals(batch) = read(&outbox.next_frame()?) else { panic!("a batch") };
        let sequences = batch.signals.iter().filter_map(|signal| signal.sequence).collect();
        Some((batch.batch, sequences, batch.dropped))
    }

    fn restart_at(outbox: &Outbox) -> Option<u64> {
        match outbox.restart_point()?.position? {
            Position::Device { next } => Some(next),
            Position::File { .. } => None,
        }
    }

    #[test]
    fn a_batch_stays_the_same_until_it_is_acknowledged() {
        let outbox = Outbox::new().unwrap();
        assert_eq!((next(&outbox), restart_at(&outbox)), (None, None));
        add(&outbox, 5..7);
        assert_eq!(next(&outbox), Some((1, vec![5, 6], 0)));
        add(&outbox, 7..8);
        outbox.restart();
        assert_eq!(next(&outbox), Some((1, vec![5, 6], 0)));
        assert_eq!(next(&outbox), Some((2, vec![7], 0)));
        assert_eq!((next(&outbox), outbox.depth(), restart_at(&outbox)), (None, 3, Some(5)));
        outbox.acknowledge(1);
        assert_eq!((outbox.depth(), restart_at(&outbox)), (1, Some(7)));
        outbox.acknowledge(9);
        assert_eq!((outbox.depth(), restart_at(&outbox)), (0, Some(8)));
    }

    #[test]
    fn what_was_not_sent_can_not_be_acknowledged() {
        let outbox = Outbox::new().unwrap();
        add(&outbox, 1..2);
        next(&outbox).unwrap();
        outbox.restart();
        outbox.acknowledge(u64::MAX);
        assert_eq!(next(&outbox), Some((1, vec![1], 0)));
    }

    #[test]
    fn the_oldest_go_and_are_counted() {
        let outbox = Outbox::new().unwrap();
        let extra = 7;
        add(&outbox, 0..MAX_SIGNALS as u64 + extra);
        let (batch, sequences, dropped) = next(&outbox).unwrap();
        assert_eq!((batch, sequences[0], sequences.len(), dropped), (1, extra, MAX_BATCH, extra));
        assert_eq!(next(&outbox).unwrap().2, 0);
        // By bytes too.
        let outbox = Outbox::new().unwrap();
        let line = "x".repeat(1_024);
        let found = (0..5_000).map(|next| found(next, &line)).collect();
        outbox.add(&mut Findings { found, ..Findings::default() });
        assert!(outbox.depth() < 4_000 && outbox.depth() > 2_000, "{}", outbox.depth());
        assert_eq!(next(&outbox).unwrap().2, 5_000 - outbox.depth());
    }

    #[test]
    fn only_so_many_batches_are_on_their_way() {
        let outbox = Outbox::new().unwrap();
        add(&outbox, 0..10_000);
        let mut last = 0;
        while let Some((batch, ..)) = next(&outbox) {
            last = batch;
        }
        assert_eq!(last, MAX_BATCHES as u64);
        outbox.acknowledge(1);
        assert_eq!(next(&outbox).unwrap().0, last + 1);
    }

    #[test]
    fn case_b06_a_flood_is_bounded_and_every_line_of_it_is_sent_or_counted() {
        let (outbox, lines) = (Outbox::new().unwrap(), 80_000);
        let grave = |next: u64| {
            let mut found = found(next, "NVRM: Xid (PCI:0000:3b:00): 95, Uncontained ECC error");
            found.signal.impact = Impact::Critical;
            found
        };
        for chunk in (0..lines).step_by(1_000) {
            let found = (chunk..chunk + 1_000).map(grave).collect();
            outbox.add(&mut Findings { found, ..Findings::default() });
            assert!(outbox.depth() <= MAX_SIGNALS as u64 && outbox.state().waiting_bytes <= MAX_BYTES);
        }
        let (mut sent, mut counted) = (0, 0);
        while let Some((batch, sequences, dropped)) = next(&outbox) {
            sent += sequences.len() as u64;
            counted += dropped;
            outbox.acknowledge(batch);
        }
        assert!(sent > 1_000 && sent + counted == lines, "{sent} {counted}");
    }

    #[test]
    fn benign_ones_go_first() {
        let outbox = Outbox::new().unwrap();
        let with = |next: u64, impact| {
            let mut found = found(next, "x");
            found.signal.impact = impact;
            found
        };
        let most = MAX_SIGNALS as u64;
        // Two grave ones among benign ones, then a storm.
        let impact = |next| if next == 1 || next == 3 { Impact::Critical } else { Impact::Minor };
        let storm = (0..most + 100).map(|next| with(next, impact(next))).collect();
        outbox.add(&mut Findings { found: storm, ..Findings::default() });
        let (_, sequences, dropped) = next(&outbox).unwrap();
        assert_eq!((&sequences[..3], dropped), (&[1, 3, 102][..], 100));
        // Where all are grave the oldest goes, and a benign one that comes goes before them.
        let outbox = Outbox::new().unwrap();
        let grave = (0..most + 2).map(|next| with(next, Impact::Critical)).collect();
        outbox.add(&mut Findings { found: grave, ..Findings::default() });
        outbox.add(&mut Findings { found: vec![with(most + 2, Impact::Info)], ..Findings::default() });
        let (_, sequences, dropped) = next(&outbox).unwrap();
        assert_eq!((sequences[0], dropped), (2, 3));
    }

    /// Numbers for the spool, the oldest that waits, and from where the log would be read again.
    fn for_spool(outbox: &Outbox, all: bool) -> (Vec<u64>, u64, Option<u64>) {
        let waiting = outbox.for_spool(all);
        outbox.is_spooled(waiting.up_to);
        let numbers = waiting.signals.iter().inspect(|kept| {
            // In these tests the sequence is the number less one.
            assert_eq!(kept.signal.sequence, Some(kept.number - 1));
        });
        let restart = match waiting.restart.and_then(|restart| restart.position) {
            Some(Position::Device { next }) => Some(next),
            _ => None,
        };
        (numbers.map(|kept| kept.number).collect(), waiting.oldest, restart)
    }

    #[test]
    fn only_what_waits_for_longer_than_a_moment_is_for_the_spool() {
        let outbox = Outbox::new().unwrap();
        assert_eq!(for_spool(&outbox, false), (vec![], 1, None));
        add(&outbox, 0..2);
        next(&outbox).unwrap();
        add(&outbox, 2..3);
        // They are news.
        assert_eq!(for_spool(&outbox, false), (vec![], 1, Some(0)));
        add(&outbox, 3..4);
        assert_eq!(for_spool(&outbox, false), (vec![1, 2, 3], 1, Some(3)));
        assert_eq!(restart_at(&outbox), Some(3));
        outbox.acknowledge(1);
        // Of one batch only a part is in the spool.
        next(&outbox).unwrap();
        assert_eq!(for_spool(&outbox, false), (vec![4], 3, Some(4)));
        add(&outbox, 4..5);
        assert_eq!(for_spool(&outbox, true), (vec![5], 3, Some(5)));
        outbox.acknowledge(2);
        next(&outbox).unwrap();
        outbox.acknowledge(3);
        assert_eq!(for_spool(&outbox, true), (vec![], 6, Some(5)));
    }

    #[test]
    fn the_next_run_sends_what_was_in_the_spool() {
        let outbox = Outbox::new().unwrap();
        add(&outbox, 0..300);
        next(&outbox).unwrap();
        let waiting = outbox.for_spool(true);
        let outbox = Outbox::new().unwrap();
        outbox.restore(Kept { signals: waiting.signals, dropped: 5, restart: None });
        add(&outbox, 300..301);
        assert_eq!(for_spool(&outbox, true), (vec![301], 1, Some(301)));
        let (batch, sequences, dropped) = next(&outbox).unwrap();
        assert_eq!((batch, sequences, dropped), (1, (0..MAX_BATCH as u64).collect(), 5));
        outbox.acknowledge(1);
        assert_eq!(outbox.for_spool(true).oldest, MAX_BATCH as u64 + 1);
    }

    #[test]
    fn counts_are_told_once() {
        let outbox = Outbox::new().unwrap();
        outbox.add(&mut Findings { unparsed: 2, lost: 3, ..Findings::default() });
        assert_eq!(outbox.take_unparsed(), Some(Unparsed { count: 2, lost: 3 }));
        assert_eq!(outbox.take_unparsed(), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn the_worst_lines_fit_into_a_frame(count in 1_u64..120, control in 0_u8..32) {
            let outbox = Outbox::new().unwrap();
            let line = char::from(control).to_string().repeat(1_024);
            let found = (0..count).map(|next| found(next, &line)).collect();
            outbox.add(&mut Findings { found, ..Findings::default() });
            let mut sent = 0;
            while let Some((batch, sequences, dropped)) = next(&outbox) {
                sent += sequences.len() as u64;
                prop_assert_eq!(dropped, 0);
                outbox.acknowledge(batch);
            }
            prop_assert_eq!(sent, count);
        }
    }
}
