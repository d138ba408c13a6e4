//! While the journal can't be written: changes are refused, signals are counted, and a hard fault still
//! contains its node on the strength of the emergency journal (ruling 12).

use std::time::Duration;

use provost_engine::{State, outstanding, turn};
use provost_model::effect::Effect;
use provost_model::input::{EmergencyHold, Input};
use provost_model::signal::Signal;
use provost_model::time::Timestamp;

use crate::controller::{Controller, Sealing};
use crate::handle::Counters;
use crate::message::{Message, Unavailable};
use crate::writer;

/// How often the journal is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Holds that an outage may place; beyond it only detection goes on.
const MAX_HOLDS: usize = 256;

/// Intents of an outage have no record, so their keys must never be a sequence: they start here.
const OUTAGE_INTENTS: u64 = 1 << 62;

/// The time in which nothing can be recorded.
#[derive(Debug)]
pub(crate) struct Outage {
    /// When it began.
    pub(crate) since: Timestamp,
    /// When the journal is tried again.
    pub(crate) retry_at: Timestamp,
    /// What State would be; never published, thrown away when the journal is back.
    shadow: State,
    /// Holds that went outside.
    holds: Vec<EmergencyHold>,
    /// Signals that came.
    signals_lost: u64,
}

impl Outage {
    pub(crate) fn new(now: Timestamp, durable: &State) -> Outage {
        Outage {
            since: now,
            retry_at: now + RETRY,
            shadow: durable.clone(),
            holds: Vec::new(),
            signals_lost: 0,
        }
    }
}

impl Controller {
    /// Refuses, contains, and tries to come back.
    pub(crate) fn process_in_outage(&mut self, messages: Vec<Message>) {
        let now = self.clock.now();
        for message in messages {
            match message {
                // The agent is not told, so it keeps them and sends them again.
                Message::Signals { signals, .. } => self.contain_in_outage(now, signals),
                Message::Ask { answer, .. } => answer(Err(Unavailable)),
                // Polls and reports come again; results of effects are probed for after the outage.
                Message::Input(_) | Message::Stop => {}
            }
        }
        if self.outage.as_ref().is_some_and(|outage| outage.retry_at <= now) {
            self.try_recover(now);
        }
    }

    /// Counts signals that are not recorded and need no look: the same was seen before.
    pub(crate) fn lose_signals(&mut self, count: usize) {
        let Some(outage) = &mut self.outage else { return };
        Counters::add(&self.counters.signals_not_recorded, count);
        outage.signals_lost += count as u64;
    }

    /// Takes signals through a shadow of State and carries out the holds that follow, each one written to the
    /// emergency journal first.
    pub(crate) fn contain_in_outage(&mut self, now: Timestamp, signals: Vec<Signal>) {
        let Some(outage) = &mut self.outage else { return };
        Counters::add(&self.counters.signals_not_recorded, signals.len());
        outage.signals_lost += signals.len() as u64;
        for signal in signals {
            if outage.holds.len() >= MAX_HOLDS {
                return;
            }
            let before: Vec<u64> = outstanding(&outage.shadow).map(|work| work.intent).collect();
            let input = Input::Signal(Box::new(signal.clone()));
            turn(&mut outage.shadow, now, &input, &mut Sealing::new(&self.sealer));
            let holds: Vec<_> = outstanding(&outage.shadow)
                .filter(|work| !before.contains(&work.intent))
                .filter(|work| matches!(work.effect, Effect::SchedulerHold { .. }))
                .collect();
            for mut work in holds {
                work.intent |= OUTAGE_INTENTS;
                let hold = EmergencyHold {
                    node: signal.node.clone(),
                    condition: format!("{}.{}", signal.kind.name(), signal.code.unwrap_or(0)),
                    at: now,
                    signal: signal.clone(),
                };
                // The line may name people's programs, and this file is not sealed.
                let mut written = hold.clone();
                written.signal.line.clear();
                match serde_json::to_vec(&written)
                    .map_err(|e| e.to_string())
                    .and_then(|bytes| self.emergency.append(&bytes).map_err(|e| e.to_string()))
                {
                    Ok(()) => {
                        tracing::warn!(node = %hold.node, "contained on the strength of the emergency journal");
                        self.neighbours.start(work);
                        outage.holds.push(hold);
                    }
                    Err(error) => {
                        tracing::error!(error, "the emergency journal failed too; nothing was done")
                    }
                }
            }
        }
    }

    /// Tries to record what happened; State is rebuilt from what is durable.
    fn try_recover(&mut self, now: Timestamp) {
        let Some(outage) = self.outage.take() else { return };
        let input = Input::EmergencyMerge {
            since: outage.since,
            holds: outage.holds.clone(),
            signals_lost: outage.signals_lost,
        };
        let merged = turn(&mut self.state, now, &input, &mut Sealing::new(&self.sealer));
        match writer::append(&self.journal, merged.records) {
            Ok(committed) => {
                self.health.set_available(true);
                tracing::info!(holds = outage.holds.len(), "the journal can be written again");
                if let Err(error) = self.emergency.clear() {
                    tracing::warn!(error = %error, "the emergency journal was not cleared");
                }
                self.publish(&committed);
                self.start_outstanding();
            }
            Err(error) => {
                tracing::debug!(error = %error, "the journal still cannot be written");
                self.state = self.published.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
                self.outage = Some(Outage { retry_at: now + RETRY, ..outage });
            }
        }
    }

    /// Takes over what an earlier process wrote to the emergency journal before it ended.
    pub fn merge_emergency(&mut self) {
        let entries = self.emergency.entries();
        if entries.is_empty() {
            return;
        }
        let holds: Vec<EmergencyHold> =
            entries.iter().filter_map(|bytes| serde_json::from_slice(bytes).ok()).collect();
        let now = self.clock.now();
        let since = holds.first().map_or(now, |hold| hold.at);
        self.outage = Some(Outage { holds, ..Outage::new(since, &self.state) });
        self.try_recover(now);
    }
}
