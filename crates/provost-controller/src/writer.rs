//! The thread that makes a batch durable while the loop works on the next one. At most one batch is on its way, so
//! the loop is never further ahead of the disk than that.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use provost_journal::{Entry, Journal};
use provost_model::record::Record;
use provost_model::time::Timestamp;

use crate::controller::Batch;
use crate::message::{Committed, Message};
use crate::start::Error;

/// The writing thread and the batch that it has.
pub(crate) struct Writer {
    work: Option<Sender<Work>>,
    done: Receiver<Result<Vec<Committed>, Error>>,
    batch: Option<Batch>,
    thread: Option<JoinHandle<()>>,
}

/// The records of a batch, and when the last of it was worked on.
type Work = (Vec<Record>, Timestamp);

/// Why the loop goes on.
pub(crate) enum Woken {
    /// The batch on its way is durable, or has failed.
    Written(Batch, Result<Vec<Committed>, Error>),
    /// A message came; none where the time is over.
    Message(Option<Message>),
}

impl Writer {
    pub(crate) fn start(journal: Arc<Mutex<Journal>>) -> io::Result<Writer> {
        let (work, batches) = bounded::<Work>(1);
        let (results, done) = bounded(1);
        let write = move || {
            for (records, at) in batches {
                let result = append(&journal, records);
                let written = result.is_ok();
                if results.send(result).is_err() {
                    return;
                }
                if written {
                    checkpoint_if_due(&journal, at);
                }
            }
        };
        let thread = Builder::new().name("journal".to_owned()).spawn(write)?;
        Ok(Writer { work: Some(work), done, batch: None, thread: Some(thread) })
    }

    /// Gives the records of `batch` to the thread, which must have none.
    pub(crate) fn write(&mut self, mut batch: Batch) {
        let (records, at) = (std::mem::take(&mut batch.records), batch.at);
        self.batch = Some(batch);
        if let Some(work) = &self.work {
            // A thread that is gone is told as a failed batch by whoever waits for it.
            work.send((records, at)).unwrap_or_default();
        }
    }

    /// Waits for the batch on its way, a message, or the end of `timeout`.
    pub(crate) fn wait_or(&mut self, inbox: &Receiver<Message>, timeout: Duration) -> Woken {
        let Some(batch) = self.batch.take() else {
            return Woken::Message(match inbox.recv_timeout(timeout) {
                Err(error) if error.is_disconnected() => Some(Message::Stop),
                received => received.ok(),
            });
        };
        select! {
            recv(self.done) -> result => Woken::Written(batch, result.unwrap_or(Err(Error::Writer))),
            recv(inbox) -> message => {
                self.batch = Some(batch);
                Woken::Message(Some(message.unwrap_or(Message::Stop)))
            }
            default(timeout) => {
                self.batch = Some(batch);
                Woken::Message(None)
            }
        }
    }

    /// Waits for the batch on its way; none where there is none.
    pub(crate) fn wait(&mut self) -> Option<(Batch, Result<Vec<Committed>, Error>)> {
        let batch = self.batch.take()?;
        Some((batch, self.done.recv().unwrap_or(Err(Error::Writer))))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes the journal has panicked");
        }
    }
}

/// Makes `records` durable in one transaction.
pub(crate) fn append(journal: &Mutex<Journal>, records: Vec<Record>) -> Result<Vec<Committed>, Error> {
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let mut entries = Vec::with_capacity(records.len());
    for record in &records {
        let bytes = record.canonical().map_err(|source| Error::Record { seq: record.seq, source })?;
        entries.push(Entry { seq: record.seq, at_ms: record.at.as_millis(), kind: record.kind(), bytes });
    }
    journal.lock().unwrap_or_else(PoisonError::into_inner).append(&entries)?;
    let durable = records.into_iter().zip(entries);
    Ok(durable
        .map(|(record, entry)| Committed { record: Arc::new(record), bytes: Arc::new(entry.bytes) })
        .collect())
}

/// Signs the journal as it stands where that is due; a failure loses nothing and is tried again.
pub(crate) fn checkpoint_if_due(journal: &Mutex<Journal>, now: Timestamp) {
    let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
    if journal.checkpoint_due(now.as_millis())
        && let Err(error) = journal.checkpoint(now.as_millis())
    {
        tracing::warn!(error = %error, "the checkpoint was not written; it is tried again");
    }
}
