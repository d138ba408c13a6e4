//! What waits to be told to the controller: signals until they are acknowledged, results of orders, counts.
//!
//! It is bounded in number and in bytes. Where there is no room, the oldest signal that was not sent yet goes,
//! and the controller is told how many went. It also knows from which position a restarted agent must read the
//! kernel log again: the first line whose signal is not acknowledged.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use provost_model::body::SourceState;
use provost_model::signal::Signal;
use provost_wire::{OrderResult, Signals, ToServer, Unparsed, encode};

use crate::follow::{Position, Restart};
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
    waiting: VecDeque<Found>,
    waiting_bytes: usize,
    dropped: u64,
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

/// Signals that belong together for good, so that a repetition can be told from news.
#[derive(Debug)]
struct Batch {
    number: u64,
    count: usize,
    frame: Vec<u8>,
    start: Option<Position>,
}

impl Outbox {
    pub(crate) fn new() -> io::Result<Outbox> {
        let state = State {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            dropped: 0,
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
        let in_batches: usize = state.batches.iter().map(|batch| batch.count).sum();
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
        let oldest = match state.batches.front() {
            Some(batch) => Some(batch.start),
            None => state.waiting.front().map(|found| found.start),
        };
        let read_to = state.read_to.clone()?;
        Some(Restart { position: oldest.unwrap_or(read_to.position), ..read_to })
    }
}

impl State {
    fn push(&mut self, found: Found) {
        self.waiting_bytes += memory(&found.signal);
        self.waiting.push_back(found);
        while self.waiting.len() > MAX_SIGNALS || self.waiting_bytes > MAX_BYTES {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.waiting_bytes -= memory(&oldest.signal);
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// Makes a batch of the oldest signals that wait.
    fn fill_batch(&mut self) {
        let start = self.waiting.front().and_then(|found| found.start);
        let (mut signals, mut bytes) = (Vec::new(), 0);
        while signals.len() < MAX_BATCH
            && let Some(found) = self.waiting.pop_front()
        {
            self.waiting_bytes -= memory(&found.signal);
            bytes += json(&found.signal);
            signals.push(found.signal);
            if self.waiting.front().is_some_and(|next| bytes + json(&next.signal) > MAX_BATCH_BYTES) {
                break;
            }
        }
        if signals.is_empty() {
            return;
        }
        let (number, count) = (self.next_batch, signals.len());
        let batch = Signals { batch: number, signals, dropped: self.dropped };
        match encode(&ToServer::from(batch)) {
            Ok(frame) => {
                self.next_batch += 1;
                self.dropped = 0;
                self.batches.push_back(Batch { number, count, frame, start });
            }
            // No signal is so long by the limits of the parser; if one were, it is counted and not tried for ever.
            Err(_) => self.dropped = self.dropped.saturating_add(count as u64),
        }
    }
}

/// Bytes that a signal takes while it waits.
fn memory(signal: &Signal) -> usize {
    size_of::<Found>() + texts(signal)
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
