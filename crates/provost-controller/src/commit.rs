//! One batch becomes durable, and only then visible.

use std::sync::{MutexGuard, PoisonError};

use provost_engine::apply;
use provost_engine::detect::Merger;
use provost_journal::Journal;

use crate::controller::{Batch, Controller};
use crate::emergency::Outage;
use crate::handle::Counters;
use crate::message::{Committed, Unavailable};
use crate::start::{Error, encode};
use crate::writer;

/// A snapshot is due this many records after the last one, so that a start folds at most that many.
const SNAPSHOT_EVERY: u64 = 100_000;

impl Controller {
    /// Appends the batch in one transaction and lets out what depended on it.
    pub(crate) fn commit(&mut self, mut batch: Batch) {
        let appended = match batch.failed.take() {
            Some(error) => Err(Error::from(error)),
            None => writer::append(&self.journal, std::mem::take(&mut batch.records)),
        };
        match appended {
            Ok(committed) => {
                let at = batch.at;
                self.durable(batch, &committed);
                writer::checkpoint_if_due(&self.journal, at);
            }
            Err(error) => self.fail(&error, batch),
        }
    }

    /// The batch is durable: publishes, answers, and starts effects. The writer may have the next one meanwhile.
    pub(crate) fn durable(&mut self, batch: Batch, committed: &[Committed]) {
        self.publish(committed);
        for ack in batch.acks {
            ack();
        }
        for (answer, reply) in batch.answers {
            answer(Ok(reply));
        }
        self.start_outstanding();
        if self.state.seq >= self.snapshot_at + SNAPSHOT_EVERY {
            self.snapshot();
        }
    }

    /// Lets readers see durable records: the published State first, then the live stream.
    pub(crate) fn publish(&mut self, committed: &[Committed]) {
        if committed.is_empty() {
            return;
        }
        Counters::add(&self.counters.records, committed.len());
        Counters::add(&self.counters.commits, 1);
        {
            let mut published = self.published.write().unwrap_or_else(PoisonError::into_inner);
            for one in committed {
                apply(&mut published, &one.record);
                // Nobody asks the published State what was touched.
                published.dirty.clear();
            }
        }
        (self.on_commit)(committed);
    }

    /// Signs and saves what there is, so that the next start is quick and everything can be proved meanwhile.
    /// [`Controller::run`] ends with it; whoever calls [`Controller::process`] himself ends with it too.
    pub fn finish(&mut self) {
        let now = self.clock.now().as_millis();
        if let Err(error) = self.journal().checkpoint(now) {
            tracing::warn!(error = %error, "the last checkpoint was not written");
        }
        if self.outage.is_none() {
            self.snapshot();
        }
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a snapshot of the durable State.
    pub(crate) fn snapshot(&mut self) {
        let published = self.published.read().unwrap_or_else(PoisonError::into_inner);
        let (seq, bytes) = (published.seq, encode(&published));
        drop(published);
        self.snapshot_at = seq;
        let Some(bytes) = bytes else {
            tracing::warn!("the state could not be encoded as a snapshot");
            return;
        };
        if let Err(error) = self.snapshots.save(seq, env!("CARGO_PKG_VERSION"), &bytes) {
            tracing::warn!(error = %error, "the snapshot was not written; the next start takes longer");
        }
    }

    /// Refuses what the failed batch asked for, goes back to what is durable, and into an [`Outage`].
    pub(crate) fn fail(&mut self, error: &Error, batch: Batch) {
        tracing::error!(error = %error, "the journal cannot be written; changes are refused until it can");
        let now = batch.at;
        Counters::add(&self.counters.append_failures, 1);
        self.health.set_available(false);
        self.state = self.published.read().unwrap_or_else(PoisonError::into_inner).clone();
        // The agents send the same signals again: they must count as new then.
        self.merger = Merger::new(self.state.config.timers.merge.0);
        for (answer, _) in batch.answers {
            answer(Err(Unavailable));
        }
        self.outage = Some(Outage::new(now, &self.state));
        self.lose_signals(batch.repeats);
        self.contain_in_outage(now, batch.signals);
    }
}
