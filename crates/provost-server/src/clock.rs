//! The system's clock, read in one place.

use std::time::{SystemTime, UNIX_EPOCH};

use provost_controller::Clock;
use provost_model::time::Timestamp;

/// Now.
pub fn now() -> Timestamp {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}

/// The controller's clock.
#[derive(Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        now()
    }
}
