//! One batch becomes durable, and only then visible.

use std::sync::{Arc, PoisonError};

use provost_engine::apply;
use provost_engine::detect::Merger;
use provost_journal::Entry;
use provost_model::record::Record;
use provost_model::time::Timestamp;

use crate::controller::{Batch, Controller};
use crate::emergency::Outage;
use crate::handle::Counters;
use crate::message::{Committed, Unavailable};
use crate::start::{Error, encode};

/// A snapshot is due this many records after the last one, so that a start folds at most that many.
const SNAPSHOT_EVERY: u64 = 100_000;

impl Controller {
    /// Appends the batch in one transaction; then publishes, answers, and starts effects. On failure State goes
    /// back to what is durable and the loop goes into an [`Outage`].
    pub(crate) fn commit(&mut self, now: Timestamp, batch: Batch) {
        let mut batch = batch;
        let appended = match batch.failed.take() {
            Some(error) => Err(Error::from(error)),
            None => self.append(std::mem::take(&mut batch.records)),
        };
        match appended {
            Ok(committed) => {
                self.publish(&committed);
                for ack in batch.acks {
                    ack();
                }
                for (answer, reply) in batch.answers {
                    answer(Ok(reply));
                }
                self.start_outstanding();
                self.maintain(now);
            }
            Err(error) => {
                tracing::error!(error = %error, "the journal cannot be written; changes are refused until it can");
                self.fail(now, batch);
            }
        }
    }

    /// Makes `records` durable.
    pub(crate) fn append(&mut self, records: Vec<Record>) -> Result<Vec<Committed>, Error> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let mut entries = Vec::with_capacity(records.len());
        for record in &records {
            let bytes = record.canonical().map_err(|source| Error::Record { seq: record.seq, source })?;
            entries.push(Entry { seq: record.seq, at_ms: record.at.as_millis(), kind: record.kind(), bytes });
        }
        self.journal.append(&entries)?;
        Counters::add(&self.counters.records, records.len());
        Counters::add(&self.counters.commits, 1);
        let durable = records.into_iter().zip(entries);
        Ok(durable
            .map(|(record, entry)| Committed { record: Arc::new(record), bytes: entry.bytes.into() })
            .collect())
    }

    /// Lets readers see durable records: the published State first, then the live stream.
    pub(crate) fn publish(&mut self, committed: &[Committed]) {
        if committed.is_empty() {
            return;
        }
        {
            let mut published = self.published.write().unwrap_or_else(PoisonError::into_inner);
            for one in committed {
                apply(&mut published, &one.record);
            }
            published.dirty.clear();
        }
        (self.on_commit)(committed);
    }

    /// Checkpoints and snapshots; a failure here loses nothing and is tried again.
    fn maintain(&mut self, now: Timestamp) {
        if self.journal.checkpoint_due(now.as_millis())
            && let Err(error) = self.journal.checkpoint(now.as_millis())
        {
            tracing::warn!(error = %error, "the checkpoint was not written; it is tried again");
        }
        if self.state.seq >= self.snapshot_at + SNAPSHOT_EVERY {
            self.snapshot();
        }
    }

    /// Signs and saves what there is, so that the next start is quick and everything can be proved meanwhile.
    pub(crate) fn finish(&mut self) {
        if let Err(error) = self.journal.checkpoint(self.clock.now().as_millis()) {
            tracing::warn!(error = %error, "the last checkpoint was not written");
        }
        if self.outage.is_none() {
            self.snapshot();
        }
    }

    /// Writes a snapshot of the durable State.
    pub(crate) fn snapshot(&mut self) {
        self.snapshot_at = self.state.seq;
        let Some(bytes) = encode(&self.state) else {
            tracing::warn!("the state could not be encoded as a snapshot");
            return;
        };
        if let Err(error) = self.snapshots.save(self.state.seq, env!("CARGO_PKG_VERSION"), &bytes) {
            tracing::warn!(error = %error, "the snapshot was not written; the next start takes longer");
        }
    }

    /// Refuses what the failed batch asked for and goes back to what is durable.
    fn fail(&mut self, now: Timestamp, batch: Batch) {
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
