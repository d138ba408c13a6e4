//! Waiting for what must become true. Tests never sleep for a while and hope.

use std::time::{Duration, Instant};

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(20);

/// Looks until there is a value; gives it. `look` says otherwise what it saw, and the last such word is what a
/// failure shows.
///
/// # Panics
/// Where there is none after `limit`.
#[track_caller]
pub fn wait_until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        let seen = match look() {
            Ok(value) => return value,
            Err(seen) => seen,
        };
        assert!(begun.elapsed() < limit, "waited {limit:?} for: {what}\nlast seen: {seen}");
        std::thread::sleep(EVERY);
    }
}

/// Time since something happened.
#[derive(Clone, Copy, Debug)]
pub struct Lapse(Instant);

impl Lapse {
    /// From now on.
    #[expect(clippy::new_without_default, reason = "a point in time is no default")]
    pub fn new() -> Lapse {
        Lapse(Instant::now())
    }

    /// How long ago it began.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// How long ago it began, in milliseconds.
    pub fn millis(self) -> u128 {
        self.0.elapsed().as_millis()
    }
}
