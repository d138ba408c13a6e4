//! A node's agent: keeps signals until they are acknowledged, and carries an order out at most once.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use provost_model::effect::{Approach, EffectResult};
use provost_model::signal::Signal;
use provost_model::time::Timestamp;
use provost_wire::Order;

use super::adapter::{not_done, unknown};

/// What agents of the site allow.
pub const ACTIONS: [&str; 5] = ["evidence", "no_steps", "validate", "gpu_reset", "fabric_reset"];

/// What an agent makes of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It answers at once.
    Answer(EffectResult),
    /// It starts the action; [`Agent::ended`] follows.
    Starts,
    /// It is busy with this very order and will answer when that has ended.
    Busy,
}

#[derive(Clone, Debug)]
enum Entry {
    Started { running: bool },
    Ended(EffectResult),
}

/// An agent.
#[derive(Debug, Default)]
pub struct Agent {
    /// Its process runs and reaches the controller.
    pub connected: bool,
    /// Boot that it runs in, where the node was started anew.
    pub boot_id: Option<String>,
    /// Its clock is ahead by so many milliseconds.
    pub skew_ms: i64,
    /// Signals that are not acknowledged, in batches.
    pub spool: VecDeque<Vec<Signal>>,
    /// Epoch of the newest controller that it heard of.
    epoch: u64,
    log: BTreeMap<u64, Entry>,
    /// How often each intent was begun, for the checker.
    pub begun: BTreeMap<u64, u32>,
}

impl Agent {
    /// An agent that is connected and has nothing to say.
    pub fn new() -> Agent {
        Agent { connected: true, ..Agent::default() }
    }

    /// A controller has greeted it: orders of older ones are refused from now on.
    pub fn hear_of(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// Its process was started again: what it was doing is not known any more.
    pub fn restart(&mut self) {
        for entry in self.log.values_mut() {
            if let Entry::Started { running } = entry {
                *running = false;
            }
        }
    }

    /// Takes an order, as the real agent does: from its log where it knows it, else after its checks.
    pub fn take(&mut self, order: &Order, now: Timestamp) -> Taken {
        match self.log.get(&order.intent) {
            Some(Entry::Ended(result)) => return Taken::Answer(result.clone()),
            Some(Entry::Started { running: true }) => return Taken::Busy,
            Some(Entry::Started { running: false }) => return Taken::Answer(unknown("restarted")),
            None => {}
        }
        let refusal = match () {
            () if order.epoch < self.epoch => Some(not_done("older_epoch", false)),
            () if order.approach == Approach::Probe => Some(not_done("never_started", true)),
            () if now > order.expires_at => Some(not_done("expired", true)),
            () if !ACTIONS.contains(&order.action.as_str()) => Some(not_done("not_configured", false)),
            () => None,
        };
        if let Some(result) = refusal {
            self.log.insert(order.intent, Entry::Ended(result.clone()));
            return Taken::Answer(result);
        }
        self.hear_of(order.epoch);
        self.log.insert(order.intent, Entry::Started { running: true });
        *self.begun.entry(order.intent).or_default() += 1;
        Taken::Starts
    }

    /// Notes what became of an order that it has started.
    pub fn ended(&mut self, intent: u64, result: &EffectResult) {
        self.log.insert(intent, Entry::Ended(result.clone()));
    }

    /// It is still at work on this order: its process was not started again in between.
    pub fn is_running(&self, intent: u64) -> bool {
        matches!(self.log.get(&intent), Some(Entry::Started { running: true }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::layout::BEGIN;

    fn order(intent: u64, epoch: u64, approach: Approach) -> Order {
        Order {
            intent,
            epoch,
            approach,
            action: "validate".to_owned(),
            node: "gpu001".to_owned(),
            pci: None,
            expires_at: BEGIN,
        }
    }

    #[test]
    fn an_order_is_carried_out_at_most_once() {
        let mut agent = Agent::default();
        let take =
            |agent: &mut Agent, intent, epoch, approach| agent.take(&order(intent, epoch, approach), BEGIN);
        assert_eq!(take(&mut agent, 1, 1, Approach::Act), Taken::Starts);
        assert_eq!(take(&mut agent, 1, 1, Approach::Act), Taken::Busy);
        agent.restart();
        assert_eq!(take(&mut agent, 1, 1, Approach::Probe), Taken::Answer(unknown("restarted")));
        agent.ended(1, &not_done("failed", false));
        assert_eq!(take(&mut agent, 1, 2, Approach::Act), Taken::Answer(not_done("failed", false)));
        // A probe makes sure that what was on its way is never begun.
        assert_eq!(take(&mut agent, 2, 2, Approach::Probe), Taken::Answer(not_done("never_started", true)));
        assert_eq!(take(&mut agent, 2, 2, Approach::Act), Taken::Answer(not_done("never_started", true)));
        agent.hear_of(3);
        assert_eq!(take(&mut agent, 3, 2, Approach::Act), Taken::Answer(not_done("older_epoch", false)));
        assert_eq!(agent.begun.values().copied().max(), Some(1));
    }
}
