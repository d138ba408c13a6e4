//! What one order has run, on a thread of its own: its command, then its probe.
//!
//! A command may hang where no signal reaches it: in the kernel, or already while its program is loaded from a file
//! system that is gone. So nobody waits for such a thread; it reports when it ends.

use std::time::Duration;

use provost_model::time::Timestamp;

use super::command::{self, AFTER_KILL, Ended, Exit};
use crate::clock;
use crate::wait::Shutdown;

/// What a thread may take beyond its commands' own limits before it is taken for hung.
const GRACE: Duration = Duration::from_secs(2);

/// What is to be run for an order.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) intent: u64,
    /// None where only the probe is asked.
    pub(super) argv: Option<Vec<String>>,
    pub(super) probe: Option<Vec<String>>,
    /// Of each of both.
    pub(super) timeout: Duration,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finished {
    pub(super) intent: u64,
    /// None where no command was to be run.
    pub(super) ended: Option<Ended>,
    pub(super) ended_at: Timestamp,
    pub(super) probed: Probed,
}

/// What a probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probed {
    Done,
    NotDone,
    Unclear,
    /// There is no probe.
    Absent,
}

impl Job {
    /// After this the thread hangs.
    pub(super) fn limit(&self) -> Duration {
        let commands = u32::from(self.argv.is_some()) + u32::from(self.probe.is_some());
        (self.timeout + AFTER_KILL) * commands + GRACE
    }

    /// Runs to the end, or until `shutdown`.
    pub(super) fn run(self, shutdown: &Shutdown) -> Finished {
        let ended = self.argv.as_ref().map(|argv| command::run(argv, self.timeout, shutdown));
        let ended_at = clock::now();
        let is_over =
            ended.as_ref().is_some_and(|ended| matches!(ended.exit, Exit::NotStarted | Exit::Stopped));
        let probe = self.probe.filter(|_| !is_over);
        let probed =
            probe.map_or(Probed::Absent, |probe| match command::run(&probe, self.timeout, shutdown).exit {
                Exit::Code(0) => Probed::Done,
                Exit::Code(1) => Probed::NotDone,
                Exit::Code(_) | Exit::Signal | Exit::TimedOut | Exit::Stopped | Exit::NotStarted => {
                    Probed::Unclear
                }
            });
        Finished { intent: self.intent, ended, ended_at, probed }
    }
}
