//! The loop: one thread takes messages, makes records of them, commits a batch, and only then shows it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use provost_engine::detect::Merger;
use provost_engine::{Outstanding, State, Turn, next_deadline, turn};
use provost_journal::{Emergency, Journal, Sealer, Snapshots};
use provost_model::body::Body;
use provost_model::effect::Approach;
use provost_model::input::{Input, Reply};
use provost_model::record::{Record, Sealed, Sensitive};
use provost_model::response::AlertState;
use provost_model::signal::Signal;
use provost_model::time::Timestamp;

use crate::emergency::Outage;
use crate::handle::{Counters, Handle, Health};
use crate::message::{Ack, Committed, Message, TakeAnswer};
use crate::start::{Error, Progress, rebuild};
use crate::writer::{Woken, Writer};

/// Messages that wait at most.
const INBOX: usize = 16_384;
/// A batch is committed at this many inputs, so that in a storm there is a next one to work on meanwhile…
const MAX_INPUTS_PER_COMMIT: usize = 1_024;
/// …or this long after its first, whatever comes first (ruling 23).
const MAX_BATCH: Duration = Duration::from_millis(2);
/// The loop looks at the clock at least this often: a jump of the clock cannot stop it, and checkpoints are
/// signed in time.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Gives the time. The loop asks it once a message.
pub trait Clock: Send {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// Carries effects out. Results come back through the inbox, after the call has returned.
pub trait Neighbours: Send {
    /// Starts to act on, or to probe, an intent that is durable. Does not wait.
    fn start(&mut self, work: Outstanding);
}

/// Gets records once they are durable, in order.
pub type OnCommit = Box<dyn FnMut(&[Committed]) + Send>;

/// What a controller is made of.
pub struct Options {
    /// Site; the journal's, where it exists.
    pub site: String,
    /// The journal.
    pub journal: Journal,
    /// Takes records for the safe direction while the journal can't be written.
    pub emergency: Emergency,
    /// Seals personal data.
    pub sealer: Sealer,
    /// Time.
    pub clock: Box<dyn Clock>,
    /// The outside.
    pub neighbours: Box<dyn Neighbours>,
    /// Gets every record once it is durable, in order.
    pub on_commit: OnCommit,
}

/// Owner of State and journal.
pub struct Controller {
    pub(crate) state: State,
    pub(crate) published: Arc<RwLock<State>>,
    /// Shared with the [`crate::writer::Writer`] of [`Controller::run`].
    pub(crate) journal: Arc<Mutex<Journal>>,
    pub(crate) snapshots: Snapshots,
    pub(crate) emergency: Emergency,
    pub(crate) sealer: Sealer,
    pub(crate) merger: Merger,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) neighbours: Box<dyn Neighbours>,
    pub(crate) on_commit: OnCommit,
    pub(crate) health: Arc<Health>,
    pub(crate) counters: Arc<Counters>,
    /// Present while the journal can't be written.
    pub(crate) outage: Option<Outage>,
    /// Intents that the neighbours have, with how they were told to treat them.
    started: BTreeMap<u64, (Approach, u32)>,
    pub(crate) snapshot_at: u64,
    inbox: Option<Receiver<Message>>,
    handle: Handle,
}

/// Records and answers of one batch, not durable yet.
#[derive(Default)]
pub(crate) struct Batch {
    /// When the last of it was worked on.
    pub(crate) at: Timestamp,
    pub(crate) records: Vec<Record>,
    pub(crate) answers: Vec<(TakeAnswer, Reply)>,
    pub(crate) acks: Vec<Ack>,
    /// Signals that the engine saw.
    pub(crate) signals: Vec<Signal>,
    /// Signals that were only counted.
    pub(crate) repeats: usize,
    /// Why the batch must not become durable.
    pub(crate) failed: Option<provost_journal::Error>,
}

impl Batch {
    /// Takes over what was worked on after this batch; its records are not needed any more.
    fn absorb(&mut self, after: Batch) {
        self.at = after.at;
        self.answers.extend(after.answers);
        self.acks.extend(after.acks);
        self.signals.extend(after.signals);
        self.repeats += after.repeats;
    }
}

/// Lets the engine's turn seal values without owning the key. A value that could not be sealed is not written
/// at all, and its batch must not become durable.
pub(crate) struct Sealing<'a> {
    sealer: &'a Sealer,
    pub(crate) failed: Option<provost_journal::Error>,
}

impl<'a> Sealing<'a> {
    pub(crate) fn new(sealer: &'a Sealer) -> Sealing<'a> {
        Sealing { sealer, failed: None }
    }
}

impl Turn for Sealing<'_> {
    fn seal(&mut self, values: &[Sensitive]) -> Vec<Sealed> {
        self.sealer.seal(values).unwrap_or_else(|error| {
            self.failed = Some(error);
            Vec::new()
        })
    }
}

impl Controller {
    /// Rebuilds State from the journal. Nothing is written until [`Controller::process`] or
    /// [`Controller::run`].
    ///
    /// # Errors
    /// Where the journal can't be read or belongs to another site or version.
    pub fn open(options: Options, report: &mut dyn FnMut(Progress)) -> Result<Controller, Error> {
        let state = rebuild(&options.journal, &options.site, report)?;
        let published = Arc::new(RwLock::new(state.clone()));
        let (sender, receiver) = bounded(INBOX);
        let health = Arc::new(Health::default());
        let counters = Arc::new(Counters::default());
        let handle = Handle {
            inbox: sender,
            published: Arc::clone(&published),
            health: Arc::clone(&health),
            counters: Arc::clone(&counters),
        };
        Ok(Controller {
            merger: Merger::new(state.config.timers.merge.0),
            snapshot_at: state.seq,
            state,
            published,
            snapshots: Snapshots::new(options.journal.dir()),
            journal: Arc::new(Mutex::new(options.journal)),
            emergency: options.emergency,
            sealer: options.sealer,
            clock: options.clock,
            neighbours: options.neighbours,
            on_commit: options.on_commit,
            health,
            counters,
            outage: None,
            started: BTreeMap::new(),
            inbox: Some(receiver),
            handle,
        })
    }

    /// A handle on this controller.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// The State as it is being worked on; for drivers that own the controller (demo, simulator).
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What handles have put into the inbox; for drivers that own the controller and pass it to
    /// [`Controller::process`].
    pub fn waiting(&self) -> Vec<Message> {
        self.inbox.iter().flat_map(|inbox| inbox.try_iter().take(MAX_INPUTS_PER_COMMIT)).collect()
    }

    /// Runs until [`Message::Stop`], or until every handle is gone. While one batch is made durable, the next is
    /// worked on.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn run(mut self) -> io::Result<()> {
        let Some(inbox) = self.inbox.take() else { return Ok(()) };
        let mut writer = Writer::start(Arc::clone(&self.journal))?;
        loop {
            let first = match writer.wait_or(&inbox, self.sleep()) {
                Woken::Written(batch, result) => {
                    self.written(batch, result);
                    continue;
                }
                Woken::Message(message) => message,
            };
            let (messages, stop) = Controller::collect(first, &inbox);
            if self.outage.is_some() {
                self.process_in_outage(messages);
            } else {
                let batch = self.work(messages);
                self.hand_over(batch, &mut writer);
            }
            if stop {
                if let Some((batch, result)) = writer.wait() {
                    self.written(batch, result);
                }
                self.finish();
                return Ok(());
            }
        }
    }

    /// Gives a batch to the writer as soon as the one before is durable, and lets that one out while this one is
    /// written; where the one before failed, both have.
    fn hand_over(&mut self, batch: Batch, writer: &mut Writer) {
        let before = match writer.wait() {
            Some((mut before, Err(error))) => {
                before.absorb(batch);
                return self.fail(&error, before);
            }
            Some((before, Ok(committed))) => Some((before, committed)),
            None => None,
        };
        let empty = batch.failed.is_some() || batch.records.is_empty();
        let unwritten = if empty {
            Some(batch)
        } else {
            writer.write(batch);
            None
        };
        if let Some((before, committed)) = before {
            self.durable(before, &committed);
        }
        if let Some(batch) = unwritten {
            self.commit(batch);
        }
    }

    /// Lets out what depended on a batch, after which nothing was handed over.
    fn written(&mut self, batch: Batch, result: Result<Vec<Committed>, Error>) {
        match result {
            Ok(committed) => self.durable(batch, &committed),
            Err(error) => self.fail(&error, batch),
        }
    }

    /// Takes what else is there for at most 2 ms.
    fn collect(first: Option<Message>, inbox: &Receiver<Message>) -> (Vec<Message>, bool) {
        let (mut messages, mut inputs, mut next) = (Vec::new(), 0, first);
        let begun = Instant::now();
        while let Some(message) = next {
            if matches!(message, Message::Stop) {
                return (messages, true);
            }
            inputs += message.inputs();
            messages.push(message);
            if inputs >= MAX_INPUTS_PER_COMMIT || begun.elapsed() >= MAX_BATCH {
                break;
            }
            next = inbox.try_recv().ok();
        }
        (messages, false)
    }

    /// How long nothing needs to be done.
    fn sleep(&self) -> Duration {
        let now = self.clock.now();
        self.next_wake().map_or(MAX_SLEEP, |at| at.since(now).min(MAX_SLEEP))
    }

    /// The earliest time at which something is due although no message comes.
    pub fn next_wake(&self) -> Option<Timestamp> {
        if let Some(outage) = &self.outage {
            return Some(outage.retry_at);
        }
        [next_deadline(&self.state), self.merger.next_deadline()].into_iter().flatten().min()
    }

    /// Takes a batch through engine and journal, then lets everything out that depended on it.
    pub fn process(&mut self, messages: Vec<Message>) {
        if self.outage.is_some() {
            self.process_in_outage(messages);
            return;
        }
        let batch = self.work(messages);
        self.commit(batch);
    }

    /// Takes messages through the engine.
    fn work(&mut self, messages: Vec<Message>) -> Batch {
        let mut batch = Batch::default();
        for message in messages {
            self.take(message, &mut batch);
        }
        let now = self.clock.now();
        for input in self.merger.due(now) {
            self.turn(now, &input, &mut batch);
        }
        if next_deadline(&self.state).is_some_and(|at| at <= now) {
            self.turn(now, &Input::Tick, &mut batch);
        }
        batch.at = now;
        batch
    }

    fn take(&mut self, message: Message, batch: &mut Batch) {
        let now = self.clock.now();
        match message {
            Message::Signals { signals, ack } => {
                Counters::add(&self.counters.signals, signals.len());
                for signal in signals {
                    let Some(input) = self.merger.offer(signal, now) else {
                        batch.repeats += 1;
                        continue;
                    };
                    self.turn(now, &input, batch);
                    if let Input::Signal(signal) = input {
                        batch.signals.push(*signal);
                    }
                }
                batch.acks.push(ack);
            }
            Message::Input(input) => drop(self.turn(now, &input, batch)),
            Message::Ask { input, answer } => {
                let reply = self.turn(now, &input, batch).unwrap_or(Reply::Already);
                batch.answers.push((answer, reply));
            }
            Message::Stop => {}
        }
    }

    fn turn(&mut self, now: Timestamp, input: &Input, batch: &mut Batch) -> Option<Reply> {
        Counters::add(&self.counters.inputs, 1);
        let mut sealing = Sealing::new(&self.sealer);
        let outcome = turn(&mut self.state, now, input, &mut sealing);
        batch.failed = batch.failed.take().or(sealing.failed);
        for node in outcome.records.iter().filter_map(recovered) {
            self.merger.renew(node);
        }
        batch.records.extend(outcome.records);
        if matches!(input, Input::Started { .. }) {
            self.merger = Merger::new(self.state.config.timers.merge.0);
        }
        outcome.reply
    }

    /// Gives the neighbours what the durable State wants done and they do not have yet.
    pub(crate) fn start_outstanding(&mut self) {
        let mut wanted = BTreeMap::new();
        let durable = self.published.read().unwrap_or_else(PoisonError::into_inner);
        for work in provost_engine::outstanding(&durable) {
            let how = (work.approach, work.probes);
            wanted.insert(work.intent, how);
            if self.started.get(&work.intent) != Some(&how) {
                self.neighbours.start(work);
            }
        }
        drop(durable);
        self.started = wanted;
    }
}

/// The node whose alert a record ends.
fn recovered(record: &Record) -> Option<&str> {
    match &record.body {
        Body::AlertChanged(data) if data.state == AlertState::Resolved => {
            record.subject.as_ref()?.node.as_deref()
        }
        _ => None,
    }
}
