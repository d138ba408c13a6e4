//! The thread that carries orders out.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use provost_model::effect::{Approach, EffectResult};
use provost_model::time::Timestamp;
use provost_wire::{Order, OrderFacts, OrderResult};

use super::command::{self, Exit};
use super::log::Known;
use super::{OrderLog, OrderLogError, Orders, Work};
use crate::clock;
use crate::config::ActionConfig;
use crate::log;
use crate::outbox::Outbox;
use crate::wait::{Interest, Shutdown, wait};

/// What the thread works with.
pub(crate) struct Worker {
    pub(crate) node: String,
    pub(crate) actions: Arc<[ActionConfig]>,
    /// None where it can't be used: then nothing is carried out.
    pub(crate) log: Option<OrderLog>,
    pub(crate) orders: Arc<Orders>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) shutdown: Shutdown,
}

/// An answer and what the order log says.
pub(super) type Answer = (EffectResult, OrderFacts);

/// What a probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probed {
    Done,
    NotDone,
    Unclear,
    /// There is no probe.
    Absent,
}

impl Worker {
    /// Carries orders out until the end.
    pub(crate) fn run(mut self) {
        loop {
            self.orders.wake.clear();
            while let Some(work) = self.orders.pop() {
                match work {
                    Work::Epoch(epoch) => self.hear_of(epoch),
                    Work::Order(order) => {
                        let (result, facts) = self.answer(&order);
                        let (intent, epoch) = (order.intent, order.epoch);
                        self.outbox.add_result(OrderResult { intent, epoch, result, facts });
                    }
                }
                if self.shutdown.is_triggered() {
                    return;
                }
            }
            let on = [(self.shutdown.as_fd(), Interest::Read), (self.orders.wake.as_fd(), Interest::Read)];
            if wait(on, None)[0] {
                return;
            }
        }
    }

    fn hear_of(&mut self, epoch: u64) {
        if let Some(Err(error)) = self.log.as_mut().map(|log| log.hear_of(epoch)) {
            log::warn(&self.node, log::chain(&error));
        }
    }

    /// Carries an order out, or answers from the log.
    pub(super) fn answer(&mut self, order: &Order) -> Answer {
        if order.node != self.node {
            return (not_done("refused", false), OrderFacts::default());
        }
        let Some(log) = &self.log else { return (unknown("order_log_unusable"), OrderFacts::default()) };
        match log.find(order.intent) {
            Known::Ended(EffectResult::Unknown { code }, facts) => self.ask(order, &code, facts),
            Known::Ended(result, facts) => (result, facts),
            Known::Forgotten => (unknown("forgotten"), OrderFacts::default()),
            Known::Started { at } => {
                self.ask(order, "restarted", OrderFacts { started_at: Some(at), ..OrderFacts::default() })
            }
            Known::Never => match self.refusal(order, log.epoch(), clock::now()) {
                Some(refusal) => self.refuse(order, refusal),
                None => self.act(order),
            },
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
        match self.note_end(order, &refusal, &OrderFacts::default()) {
            Ok(()) => (refusal, OrderFacts::default()),
            // Without a note it could be done later.
            Err(_) => (unknown("order_log_unwritable"), OrderFacts::default()),
        }
    }

    fn act(&mut self, order: &Order) -> Answer {
        let Some(action) = self.action(order).cloned() else {
            return (not_done("not_configured", false), OrderFacts::default());
        };
        let Some(argv) = self.argv(&action.argv, order) else {
            return (not_done("no_device", false), OrderFacts::default());
        };
        let started_at = clock::now();
        if let Some(Err(error)) = self.log.as_mut().map(|log| log.start(order, started_at)) {
            log::warn(&self.node, log::chain(&error));
            return (not_done("order_log_unwritable", true), OrderFacts::default());
        }
        log::info(&self.node, format_args!("order {}: {} starts", order.intent, action.name));
        let ended = command::run(&argv, action.timeout, &self.shutdown);
        let facts = OrderFacts {
            started_at: Some(started_at),
            ended_at: Some(clock::now()),
            exit_code: if let Exit::Code(code) = ended.exit { Some(code) } else { None },
            output_bytes: ended.output_bytes,
        };
        if ended.exit == Exit::Stopped {
            // No end is noted: the next start finds it started, and asks.
            return (unknown("restarted"), facts);
        }
        let probed = if ended.exit == Exit::NotStarted { Probed::Absent } else { self.probe(order) };
        let result = judge(ended.exit, probed);
        log::info(&self.node, format_args!("order {}: {}", order.intent, describe(&result)));
        // A result that is not on disk is still true; after a restart the order would be unknown.
        self.note_end(order, &result, &facts).ok();
        (result, facts)
    }

    /// For an order whose end is not known: the probe may tell. Nothing is done.
    fn ask(&mut self, order: &Order, code: &str, facts: OrderFacts) -> Answer {
        let result = match self.probe(order) {
            Probed::Done => done("probe"),
            Probed::NotDone => not_done("failed", true),
            Probed::Unclear | Probed::Absent => return (unknown(code), facts),
        };
        match self.note_end(order, &result, &facts) {
            Ok(()) => (result, facts),
            Err(_) => (unknown(code), facts),
        }
    }

    fn probe(&self, order: &Order) -> Probed {
        let action = self.action(order);
        let Some((action, probe)) = action.and_then(|action| Some((action, action.probe.as_ref()?))) else {
            return Probed::Absent;
        };
        let Some(argv) = self.argv(probe, order) else { return Probed::Absent };
        match command::run(&argv, action.timeout, &self.shutdown).exit {
            Exit::Code(0) => Probed::Done,
            Exit::Code(1) => Probed::NotDone,
            Exit::Code(_) | Exit::Signal | Exit::TimedOut | Exit::Stopped | Exit::NotStarted => {
                Probed::Unclear
            }
        }
    }

    fn note_end(
        &mut self,
        order: &Order,
        result: &EffectResult,
        facts: &OrderFacts,
    ) -> Result<(), OrderLogError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        log.end(order.intent, result.clone(), facts.clone())
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
fn judge(exit: Exit, probed: Probed) -> EffectResult {
    match (probed, exit) {
        (Probed::Done, _) => done("probe"),
        (Probed::NotDone, _) => not_done("failed", true),
        (Probed::Unclear | Probed::Absent, Exit::TimedOut) => unknown("timeout"),
        (Probed::Unclear | Probed::Absent, Exit::Signal) => unknown("killed"),
        (Probed::Unclear | Probed::Absent, Exit::Stopped) => unknown("restarted"),
        (Probed::Unclear, Exit::Code(_)) => unknown("probe_unclear"),
        (Probed::Absent, Exit::Code(0)) => done("exit 0"),
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
