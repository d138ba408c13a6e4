//! How far the records run ahead of what is signed. A running controller signs every minute, or every thousand
//! records; a journal that lacks its checkpoints can't be told from one that was written by somebody else.

/// A minute between two checkpoints, and as much again for a controller that had too much to do.
const MAX_SPAN_MS: i64 = 120_000;
/// Records after which a checkpoint is due…
const MAX_RECORDS: u64 = 1_000;
/// …and how long it may still take then: two are a second apart at least.
const MAX_DELAY_MS: i64 = 10_000;

/// The records since the last checkpoint. Time in which no controller ran counts for nothing: who died signed
/// nothing more, and the next one has an epoch of its own.
#[derive(Debug, Default)]
pub(super) struct Lag {
    count: u64,
    /// Epoch and time of its first record that is not signed.
    begun: Option<(u64, i64)>,
    /// When a checkpoint was due by the number of records, in this epoch.
    full_at: Option<i64>,
    /// The first record that was written although an earlier one should have been signed long before.
    pub(super) overdue: Option<u64>,
}

impl Lag {
    /// Everything up to here is signed.
    pub(super) fn signed(&mut self) {
        *self = Lag::default();
    }

    /// One more record.
    pub(super) fn record(&mut self, seq: u64, epoch: u64, at_ms: i64) {
        self.count += 1;
        if self.begun.is_none_or(|(begun, _)| begun != epoch) {
            self.begun = Some((epoch, at_ms));
            self.full_at = None;
        }
        if self.count >= MAX_RECORDS && self.full_at.is_none() {
            self.full_at = Some(at_ms);
        }
        let since = |at: i64| at_ms.saturating_sub(at);
        let long = self.begun.is_some_and(|(_, at)| since(at) > MAX_SPAN_MS)
            || self.full_at.is_some_and(|at| since(at) > MAX_DELAY_MS);
        if long && self.overdue.is_none() {
            self.overdue = Some(seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of `(epoch, seconds)` at each time, `each` of them; gives the record that is too much.
    fn check(each: u64, times: &[(u64, i64)], expected: Option<u64>) {
        let mut lag = Lag::default();
        let mut seq = 0;
        for (epoch, seconds) in times {
            for _ in 0..each {
                lag.record(seq, *epoch, seconds.saturating_mul(1_000));
                seq += 1;
            }
        }
        assert_eq!(lag.overdue, expected, "{each} {times:?}");
    }

    #[test]
    fn a_checkpoint_may_be_late_but_not_missing() {
        check(1, &[], None);
        check(1, &[(1, 0), (1, 120)], None);
        check(1, &[(1, 0), (1, 121)], Some(1));
        check(1, &[(1, 0), (1, 121), (1, 122)], Some(1));
        // Another controller goes on an hour later.
        check(1, &[(1, 0), (2, 3_600), (2, 3_660)], None);
        check(1, &[(1, 0), (2, 3_600), (2, 3_721)], Some(2));
        // A clock that is set back shows nothing.
        check(1, &[(1, 3_600), (1, 0)], None);
        check(1_000, &[(1, 0), (1, 10)], None);
        check(1_000, &[(1, 0), (1, 11)], Some(1_000));
        check(500, &[(1, 0), (1, 1), (1, 12)], Some(1_000));
        check(20_000, &[(1, 0), (1, 1), (1, 2)], None);
        check(1, &[(1, i64::MIN), (1, i64::MAX)], Some(1));
    }

    #[test]
    fn a_checkpoint_ends_it() {
        let mut lag = Lag::default();
        lag.record(0, 1, 0);
        lag.record(1, 1, 200_000);
        assert_eq!(lag.overdue, Some(1));
        lag.signed();
        lag.record(2, 1, 300_000);
        assert_eq!(lag.overdue, None);
    }
}
