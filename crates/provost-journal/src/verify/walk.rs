//! What every source of records must satisfy, record by record: no gap, fields as stored beside them, each
//! producer's counter without gaps, epochs that never fall.

use std::collections::BTreeMap;

use provost_model::canonical;

use super::Finding;
use super::head::Head;
use super::lag::Lag;
use crate::merkle::{Hash, leaf_hash};

/// The state of a walk over consecutive records.
pub(super) struct Walk {
    strict: bool,
    /// Sequence that comes next.
    pub(super) next: u64,
    /// Counter and epoch of each producer's last record.
    producers: BTreeMap<Vec<u8>, (u64, u64)>,
    /// When the first and the last record were decided, milliseconds since 1970.
    pub(super) times: Option<(i64, i64)>,
    /// How far the records run ahead of the checkpoints.
    pub(super) lag: Lag,
}

impl Walk {
    pub(super) fn new(first: u64, strict: bool) -> Walk {
        Walk { strict, next: first, producers: BTreeMap::new(), times: None, lag: Lag::default() }
    }

    /// Checks one record; gives its leaf hash, which the caller puts where it belongs.
    pub(super) fn record(
        &mut self,
        seq: u64,
        stored: Option<(i64, &[u8])>,
        bytes: &[u8],
    ) -> Result<Hash, Finding> {
        let wrong = |what: String| Err(Finding { seq: Some(self.next), what });
        if seq != self.next {
            return wrong(format!("is missing; record {seq} stands in its place"));
        }
        let Some(head) = Head::parse(bytes) else {
            return wrong("its bytes are not a record".to_owned());
        };
        if head.seq != seq {
            return wrong(format!("its bytes are those of record {}", head.seq));
        }
        if let Some((at_ms, kind)) = stored
            && (at_ms, kind) != (head.at_ms, head.kind)
        {
            return wrong("time or type stored for searches differ from those in its bytes".to_owned());
        }
        if self.strict && !canonical(bytes) {
            return wrong("its bytes are not in canonical form".to_owned());
        }
        self.producer(&head)?;
        self.times = Some((self.times.map_or(head.at_ms, |(first, _)| first), head.at_ms));
        self.lag.record(seq, head.epoch, head.at_ms);
        self.next += 1;
        Ok(leaf_hash(bytes))
    }

    /// A producer starts counting anew only with a new epoch.
    fn producer(&mut self, head: &Head<'_>) -> Result<(), Finding> {
        let wrong = |what: String| Err(Finding { seq: Some(head.seq), what });
        let name = String::from_utf8_lossy(head.producer);
        if let Some((counter, epoch)) = self.producers.get_mut(head.producer) {
            if head.epoch < *epoch {
                return wrong(format!("the epoch of {name} falls from {epoch} to {}", head.epoch));
            }
            let follows = head.producer_seq == *counter + 1;
            let anew = head.epoch > *epoch && head.producer_seq <= 1;
            if !follows && !anew {
                return wrong(format!("the counter of {name} goes from {counter} to {}", head.producer_seq));
            }
            (*counter, *epoch) = (head.producer_seq, head.epoch);
        } else {
            self.producers.insert(head.producer.to_vec(), (head.producer_seq, head.epoch));
        }
        Ok(())
    }
}

fn canonical(bytes: &[u8]) -> bool {
    let mut again = Vec::with_capacity(bytes.len());
    serde_json::from_slice(bytes)
        .is_ok_and(|value: serde_json::Value| canonical::write(&value, &mut again).is_ok())
        && again == bytes
}
