//! The thread that takes orders, has their commands run, and answers.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use provost_model::effect::{Approach, EffectResult};
use provost_model::time::Timestamp;
use provost_wire::{Order, OrderFacts, OrderResult};

use super::command::{self, Ended, Exit};
use super::job::{Finished, Job, Probed};
use super::log::Known;
use super::{MAX_WAITING, OrderLog, OrderLogError, Orders, Work};
use crate::clock;
use crate::config::ActionConfig;
use crate::log;
use crate::outbox::Outbox;
use crate::wait::{Interest, Shutdown, wait};

/// For a thread that starts a command and reads what it writes.
const STACK: usize = 128 * 1024;
/// At the end of the agent, commands that were killed have this long to be gone.
const END: Duration = Duration::from_millis(500);

/// What the thread works with.
pub(crate) struct Worker {
    pub(crate) node: String,
    pub(crate) actions: Arc<[ActionConfig]>,
    /// None where it can't be used: then nothing is carried out.
    pub(crate) log: Option<OrderLog>,
    pub(crate) orders: Arc<Orders>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) shutdown: Shutdown,
    /// By intent.
    pub(crate) running: BTreeMap<u64, Running>,
    /// Orders whose action is running, oldest first.
    pub(crate) held_back: VecDeque<Order>,
}

/// An order whose commands run.
#[derive(Debug)]
pub(crate) struct Running {
    order: Order,
    facts: OrderFacts,
    /// How it is answered where nothing is found out.
    otherwise: Otherwise,
    /// When its thread hangs.
    deadline: Instant,
    /// It hangs and was answered; only its end is waited for.
    is_given_up: bool,
}

#[derive(Debug)]
enum Otherwise {
    /// By what became of the command.
    Judged,
    /// As before.
    Unknown(String),
}

/// An answer and what the order log says.
pub(super) type Answer = (EffectResult, OrderFacts);

impl Worker {
    /// Carries orders out until the end.
    pub(crate) fn run(mut self) {
        loop {
            self.orders.wake.clear();
            while let Some(work) = self.orders.pop() {
                self.take(work);
                if self.shutdown.is_triggered() {
                    return self.end();
                }
            }
            self.give_up(Instant::now());
            let next = self.running.values().filter(|running| !running.is_given_up);
            let next = next.map(|running| running.deadline).min();
            let timeout = next.map(|at| at.saturating_duration_since(Instant::now()));
            let on = [(self.shutdown.as_fd(), Interest::Read), (self.orders.wake.as_fd(), Interest::Read)];
            if wait(on, timeout)[0] {
                return self.end();
            }
        }
    }

    fn take(&mut self, work: Work) {
        match work {
            Work::Epoch(epoch) => self.hear_of(epoch),
            Work::Order(order) => self.take_order(order),
            Work::Finished(finished) => {
                let action = self.running.get(&finished.intent).map(|running| running.order.action.clone());
                if let Some((intent, epoch, answer)) = self.finish(finished) {
                    self.tell(intent, epoch, answer);
                }
                if let Some(action) = action {
                    self.go_on_with(&action);
                }
            }
        }
    }

    /// Takes orders that an action's end was waited for, until it runs again.
    fn go_on_with(&mut self, action: &str) {
        while self.running.values().all(|running| running.order.action != action)
            && let Some(at) = self.held_back.iter().position(|order| order.action == action)
            && let Some(order) = self.held_back.remove(at)
        {
            self.take_order(order);
        }
    }

    pub(super) fn take_order(&mut self, order: Order) {
        if let Some(running) = self.running.get_mut(&order.intent).filter(|running| !running.is_given_up) {
            // Its result answers this one too.
            running.order.epoch = running.order.epoch.max(order.epoch);
            return;
        }
        let same = self.running.values().find(|running| running.order.action == order.action);
        let (intent, epoch) = (order.intent, order.epoch);
        let answer = match same {
            None => self.begin(order),
            Some(same) if same.is_given_up => Some(self.answer_beside_hung(&order)),
            Some(_) if self.held_back.len() < MAX_WAITING => {
                self.held_back.push_back(order);
                None
            }
            Some(_) => Some((unknown("busy"), OrderFacts::default())),
        };
        if let Some(answer) = answer {
            self.tell(intent, epoch, answer);
        }
    }

    fn tell(&self, intent: u64, epoch: u64, (result, facts): Answer) {
        self.outbox.add_result(OrderResult { intent, epoch, result, facts });
    }

    fn hear_of(&mut self, epoch: u64) {
        if let Some(Err(error)) = self.log.as_mut().map(|log| log.hear_of(epoch)) {
            log::warn(&self.node, log::chain(&error));
        }
    }

    /// Answers an order from the log or by a refusal, or begins it: then there is no answer yet.
    pub(super) fn begin(&mut self, order: Order) -> Option<Answer> {
        if order.node != self.node {
            return Some((not_done("refused", false), OrderFacts::default()));
        }
        let Some(log) = &self.log else {
            return Some((unknown("order_log_unusable"), OrderFacts::default()));
        };
        match log.find(order.intent) {
            Known::Ended(EffectResult::Unknown { code }, facts) => self.ask(order, code, facts),
            Known::Ended(result, facts) => Some((result, facts)),
            Known::Forgotten => Some((unknown("forgotten"), OrderFacts::default())),
            Known::Started { at } => {
                let facts = OrderFacts { started_at: Some(at), ..OrderFacts::default() };
                self.ask(order, "restarted".to_owned(), facts)
            }
            Known::Never => match self.refusal(&order, log.epoch(), clock::now()) {
                Some(refusal) => Some(self.refuse(&order, refusal)),
                None => self.act(order),
            },
        }
    }

    /// The action hangs where nothing ends it. What is known is answered, and nothing new is begun.
    fn answer_beside_hung(&mut self, order: &Order) -> Answer {
        let nothing = OrderFacts::default;
        match self.log.as_ref().map(|log| log.find(order.intent)) {
            Some(Known::Ended(result, facts)) => (result, facts),
            Some(Known::Never) if order.node == self.node => self.refuse(order, not_done("hung", true)),
            Some(Known::Never) => (not_done("refused", false), nothing()),
            Some(Known::Started { .. } | Known::Forgotten) | None => (unknown("hung"), nothing()),
        }
    }

    /// Why an order that never came before is not carried out.
    fn refusal(&self, order: &Order, epoch: u64, now: Timestamp) -> Option<EffectResult> {
        let action = self.action(order);
        let has_argv = |action: &ActionConfig| self.argv(&action.argv, order).is_some();
        match () {
            () if order.epoch < epoch => Some(not_done("older_epoch", false)),
            () if order.approach == Approach::Probe => Some(not_done("never_started", true)),
            () if now > order.expires_at => Some(not_done("expired", true)),
            () if action.is_none() => Some(not_done("not_configured", false)),
            () if !action.is_some_and(has_argv) => Some(not_done("no_device", false)),
            () => None,
        }
    }

    /// Answers that it is not done, and makes sure that it never will be.
    fn refuse(&mut self, order: &Order, refusal: EffectResult) -> Answer {
        match self.note_end(order.intent, &refusal, &OrderFacts::default()) {
            Ok(()) => (refusal, OrderFacts::default()),
            // Without a note it could be done later.
            Err(_) => (unknown("order_log_unwritable"), OrderFacts::default()),
        }
    }

    fn act(&mut self, order: Order) -> Option<Answer> {
        let Some(action) = self.action(&order).cloned() else {
            return Some((not_done("not_configured", false), OrderFacts::default()));
        };
        let Some(argv) = self.argv(&action.argv, &order) else {
            return Some((not_done("no_device", false), OrderFacts::default()));
        };
        let probe = action.probe.as_ref().and_then(|probe| self.argv(probe, &order));
        let started_at = clock::now();
        if let Some(Err(error)) = self.log.as_mut().map(|log| log.start(&order, started_at)) {
            log::warn(&self.node, log::chain(&error));
            return Some((not_done("order_log_unwritable", true), OrderFacts::default()));
        }
        log::info(&self.node, format_args!("order {}: {} starts", order.intent, action.name));
        let facts = OrderFacts { started_at: Some(started_at), ..OrderFacts::default() };
        let job = Job { intent: order.intent, argv: Some(argv), probe, timeout: action.timeout };
        self.start(order, job, facts, Otherwise::Judged)
    }

    /// For an order whose end is not known: the probe may tell. Nothing is done.
    fn ask(&mut self, order: Order, code: String, facts: OrderFacts) -> Option<Answer> {
        let asked = self.action(&order).and_then(|action| {
            let probe = self.argv(action.probe.as_ref()?, &order)?;
            Some(Job { intent: order.intent, argv: None, probe: Some(probe), timeout: action.timeout })
        });
        match asked {
            Some(job) => self.start(order, job, facts, Otherwise::Unknown(code)),
            None => Some((unknown(&code), facts)),
        }
    }

    fn start(&mut self, order: Order, job: Job, facts: OrderFacts, otherwise: Otherwise) -> Option<Answer> {
        let (intent, deadline) = (order.intent, Instant::now() + job.limit());
        let has_command = job.argv.is_some();
        let running = Running { order, facts, otherwise, deadline, is_given_up: false };
        self.running.insert(intent, running);
        if self.spawn(job).is_ok() {
            return None;
        }
        let ended = Ended { exit: Exit::NotStarted, output_bytes: 0, digest: None };
        let ended = has_command.then_some(ended);
        let finished = Finished { intent, ended, ended_at: clock::now(), probed: Probed::Absent };
        self.finish(finished).map(|(_, _, answer)| answer)
    }

    fn spawn(&self, job: Job) -> io::Result<()> {
        let (orders, shutdown) = (Arc::clone(&self.orders), self.shutdown.clone());
        let run = move || orders.finish(job.run(&shutdown));
        Builder::new().name("command".into()).stack_size(STACK).spawn(run).map(drop)
    }

    /// What became of an order: its intent, the epoch that asks, and the answer. None where it was answered.
    pub(super) fn finish(&mut self, finished: Finished) -> Option<(u64, u64, Answer)> {
        let Running { order, mut facts, otherwise, is_given_up, .. } =
            self.running.remove(&finished.intent)?;
        if is_given_up {
            log::info(&self.node, format_args!("order {}: what hung has ended", order.intent));
            return None;
        }
        if let Some(ended) = &finished.ended {
            facts.ended_at = Some(finished.ended_at);
            facts.exit_code = if let Exit::Code(code) = ended.exit { Some(code) } else { None };
            facts.output_bytes = ended.output_bytes;
        }
        let answer = match (otherwise, finished.probed) {
            (Otherwise::Judged, probed) => {
                let exit = finished.ended.as_ref().map_or(Exit::NotStarted, |ended| ended.exit);
                let digest = finished.ended.and_then(|ended| ended.digest);
                self.conclude(&order, judge(exit, probed, digest), facts)
            }
            (Otherwise::Unknown(code), probed) => {
                let result = match probed {
                    Probed::Done => Some(done("probe")),
                    Probed::NotDone => Some(not_done("failed", true)),
                    Probed::Unclear | Probed::Absent => None,
                };
                let noted = result.filter(|result| self.note_end(order.intent, result, &facts).is_ok());
                (noted.unwrap_or_else(|| unknown(&code)), facts)
            }
        };
        Some((order.intent, order.epoch, answer))
    }

    fn conclude(&mut self, order: &Order, result: EffectResult, facts: OrderFacts) -> Answer {
        if result == unknown("restarted") {
            // No end is noted: the next start finds it started, and asks.
            return (result, facts);
        }
        log::info(&self.node, format_args!("order {}: {}", order.intent, describe(&result)));
        // A result that is not on disk is still true; after a restart the order would be unknown.
        self.note_end(order.intent, &result, &facts).ok();
        (result, facts)
    }

    /// Answers orders whose threads hang: nobody can say what became of them.
    pub(super) fn give_up(&mut self, now: Instant) {
        let is_due = |running: &&mut Running| !running.is_given_up && running.deadline <= now;
        let mut hung = Vec::new();
        for running in self.running.values_mut().filter(is_due) {
            running.is_given_up = true;
            hung.push((running.order.clone(), running.facts.clone()));
        }
        for (order, facts) in hung {
            let (intent, action) = (order.intent, &order.action);
            log::warn(&self.node, format_args!("order {intent}: {action} hangs and can't be ended"));
            let answer = self.conclude(&order, unknown("timeout"), facts);
            self.tell(order.intent, order.epoch, answer);
            let held_back = std::mem::take(&mut self.held_back);
            for order in held_back {
                self.take_order(order);
            }
        }
    }

    /// What runs is killed by its own thread; its order stays started.
    fn end(mut self) {
        let deadline = Instant::now() + END;
        while self.running.values().any(|running| !running.is_given_up) {
            self.orders.wake.clear();
            while let Some(work) = self.orders.pop() {
                if let Work::Finished(finished) = work {
                    self.finish(finished);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            if self.running.values().any(|running| !running.is_given_up) {
                wait([(self.orders.wake.as_fd(), Interest::Read)], Some(left));
            }
        }
    }

    fn note_end(
        &mut self,
        intent: u64,
        result: &EffectResult,
        facts: &OrderFacts,
    ) -> Result<(), OrderLogError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        log.end(intent, result.clone(), facts.clone())
            .inspect_err(|error| log::warn(&self.node, log::chain(error)))
    }

    fn action(&self, order: &Order) -> Option<&ActionConfig> {
        self.actions.iter().find(|action| action.name == order.action)
    }

    fn argv(&self, words: &[crate::config::Word], order: &Order) -> Option<Vec<String>> {
        let pci = order.pci.map(|pci| pci.to_string());
        command::fill(words, &self.node, pci.as_deref())
    }
}

/// What became of a command: the probe's word counts before its own.
fn judge(exit: Exit, probed: Probed, digest: Option<String>) -> EffectResult {
    match (probed, exit) {
        (_, Exit::Stopped) => unknown("restarted"),
        (Probed::Done, _) => done("probe"),
        (Probed::NotDone, _) => not_done("failed", true),
        (Probed::Unclear | Probed::Absent, Exit::TimedOut) => unknown("timeout"),
        (Probed::Unclear | Probed::Absent, Exit::Signal) => unknown("killed"),
        (Probed::Unclear, Exit::Code(_)) => unknown("probe_unclear"),
        (Probed::Absent, Exit::Code(0)) => done(&digest.unwrap_or_else(|| "exit 0".to_owned())),
        // Without a probe, the command's own word is all there is; what it left half done is not known.
        (Probed::Absent, Exit::Code(_)) => not_done("failed", false),
        (Probed::Unclear | Probed::Absent, Exit::NotStarted) => not_done("not_startable", false),
    }
}

fn describe(result: &EffectResult) -> String {
    match result {
        EffectResult::Done { observed, .. } => format!("done ({observed})"),
        EffectResult::NotDone { code, .. } => format!("not done ({code})"),
        EffectResult::Unknown { code } => format!("unknown ({code})"),
    }
}

fn done(observed: &str) -> EffectResult {
    EffectResult::Done { observed: observed.to_owned(), notes: Vec::new() }
}

fn not_done(code: &str, retry: bool) -> EffectResult {
    EffectResult::NotDone { code: code.to_owned(), retry }
}

fn unknown(code: &str) -> EffectResult {
    EffectResult::Unknown { code: code.to_owned() }
}
