//! Reads the schedulers, over and over: reconcile, do not react.

use std::sync::Arc;

use provost_connect::slurm::Cluster;
use provost_controller::{Handle, Message};
use provost_model::body::{Source, SourceState};
use provost_model::input::Input;
use provost_model::time::Timestamp;
use tokio::sync::Notify;

use crate::{clock, inbox};

/// One scheduler's reader.
pub struct Poll {
    /// Where observations go.
    pub handle: Handle,
    /// Who is asked.
    pub cluster: Arc<Cluster>,
    /// Wakes the reader early: something was written.
    pub hint: Arc<Notify>,
}

impl Poll {
    /// Reads until the task is dropped. A scheduler that can't be read for `blind_after` is silent; one whose
    /// answers can't be understood is blind. Neither resolves anything.
    pub async fn run(self) {
        let source = Source::Scheduler(self.cluster.config().name.clone());
        // It may have been silent when the controller ended.
        let known = self.handle.state().sources.get(&source).map(|health| health.state);
        let mut told = known.unwrap_or(SourceState::Fresh);
        let mut last_good = clock::now();
        loop {
            let timers = self.handle.state().config.timers;
            let seen = match self.cluster.observe().await {
                Ok(observation) => {
                    let unparsed = observation.unparsed;
                    last_good = clock::now();
                    inbox::put_waiting(&self.handle, Message::Input(Input::Observed(Box::new(observation))))
                        .await;
                    if unparsed > 0 { SourceState::Blind } else { SourceState::Fresh }
                }
                Err(error) => {
                    tracing::warn!(cluster = %self.cluster.config().name, error = %error, "the scheduler was not read");
                    silent_or(told, last_good, timers.blind_after.0)
                }
            };
            if seen != told {
                told = seen;
                inbox::put(&self.handle, Input::Source { source: source.clone(), state: seen });
            }
            tokio::select! {
                () = tokio::time::sleep(timers.poll.0) => {}
                () = self.hint.notified() => {}
            }
        }
    }
}

/// Silent once nothing was read for long enough; until then as before.
fn silent_or(told: SourceState, last_good: Timestamp, blind_after: std::time::Duration) -> SourceState {
    if clock::now().since(last_good) >= blind_after { SourceState::Silent } else { told }
}
