//! The node's clocks: what time it is, and what time it was when the kernel stamped a record.

use std::time::{SystemTime, UNIX_EPOCH};

use provost_model::time::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// The time of day, as far as the node knows it.
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// The time of day at which the kernel wrote a record that it stamped with `stamp_us` microseconds since boot.
pub(crate) fn of_kernel_stamp(stamp_us: u64) -> Timestamp {
    let now = now();
    let since_boot = clock_gettime(ClockId::Monotonic);
    let since_boot_ms =
        since_boot.tv_sec.saturating_mul(1_000).saturating_add(since_boot.tv_nsec / 1_000_000);
    let stamp_ms = i64::try_from(stamp_us / 1_000).unwrap_or(i64::MAX);
    let age_ms = since_boot_ms.saturating_sub(stamp_ms).max(0);
    Timestamp::from_millis(now.as_millis().saturating_sub(age_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_stamp_is_a_time_of_this_boot() {
        let boot = of_kernel_stamp(0);
        let later = of_kernel_stamp(1_000_000);
        assert!((900..=1_100).contains(&later.since(boot).as_millis()), "{boot} {later}");
        // A stamp of the future can't be true: the record was read already.
        assert!(of_kernel_stamp(u64::MAX) <= now());
    }
}
