//! Effects on the scheduler, and the polls that read it.

use std::time::Duration;

use provost_controller::{Clock as _, Message};
use provost_engine::Outstanding;
use provost_model::body::{Source, SourceState};
use provost_model::effect::{Approach, Effect, EffectResult};
use provost_model::input::Input;
use provost_model::time::Timestamp;

use super::World;
use super::agenda::LifeEvent;
use crate::site::adapter::{self, Seen};
use crate::site::layout::CLUSTER;

/// First wait before an unanswered probe is repeated; doubles with each one.
const PROBE_WAIT: Duration = Duration::from_millis(500);
/// Longest wait between two probes.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(30);

/// The reader of the scheduler.
#[derive(Debug)]
pub(super) struct Poll {
    number: u64,
    last_good: Timestamp,
    told: SourceState,
}

impl Poll {
    pub(super) fn new(now: Timestamp) -> Poll {
        Poll { number: 0, last_good: now, told: SourceState::Fresh }
    }

    pub(super) fn begin(&mut self, now: Timestamp) {
        self.last_good = now;
        self.told = SourceState::Fresh;
    }
}

/// The name of the scheduler's node that an effect is about.
fn node_of(effect: &Effect) -> Option<&String> {
    match effect {
        Effect::SchedulerHold { node, .. }
        | Effect::SchedulerRelease { node, .. }
        | Effect::PartitionJoin { node, .. }
        | Effect::PartitionLeave { node, .. }
        | Effect::AgentAction { node, .. }
        | Effect::NodePower { node, .. } => Some(node),
        Effect::JobRequeue { .. } | Effect::JobNote { .. } | Effect::NotesOff { .. } => None,
    }
}

impl World {
    /// Takes up work that the controller has handed out.
    pub(super) fn take_work(&mut self, work: Outstanding) {
        self.watch.work(self.clock.now(), &work);
        let wait = match work.approach {
            Approach::Probe if work.probes > 0 => {
                PROBE_WAIT.saturating_mul(1 << work.probes.min(8)).min(PROBE_WAIT_MAX)
            }
            _ => self.chance.millis(1, 40),
        };
        if matches!(work.effect, Effect::AgentAction { .. }) {
            self.order(work, wait);
        } else {
            self.of_life(wait, LifeEvent::Look(Box::new(work)));
        }
    }

    pub(super) fn look(&mut self, work: Box<Outstanding>) {
        let now = self.clock.now();
        if work.approach == Approach::Probe {
            let result = adapter::probe(&self.site.slurm, &work.effect);
            self.result(&work, result);
            return;
        }
        if self.chance.chance(self.weather.refused) {
            self.troubled_at(node_of(&work.effect));
            self.result(&work, adapter::not_done("not_confirmed", true));
            return;
        }
        match adapter::look(&self.site.slurm, now, &work.effect) {
            Ok(seen) => {
                let wait = self.call();
                self.of_life(wait, LifeEvent::Write(work, Box::new(seen)));
            }
            Err(result) => self.result(&work, result),
        }
    }

    pub(super) fn write(&mut self, work: &Outstanding, seen: &Seen) {
        let now = self.clock.now();
        match adapter::write(&mut self.site.slurm, now, &work.effect, seen) {
            Ok(()) => {
                let wait = self.call();
                self.of_life(wait, LifeEvent::Read(Box::new(work.clone()), Box::new(seen.clone())));
            }
            Err(result) => self.result(work, result),
        }
    }

    pub(super) fn read(&mut self, work: &Outstanding, seen: &Seen) {
        let now = self.clock.now();
        let (result, gap) = adapter::read(&self.site.slurm, &work.effect, seen);
        match gap {
            // A release says only what is so after the look for what it hid; isolation does not wait for that.
            Some(gap) if matches!(work.effect, Effect::SchedulerRelease { .. }) => {
                let restored = adapter::close_gap(&mut self.site.slurm, now, &gap);
                let (mut again, _) = adapter::read(&self.site.slurm, &work.effect, seen);
                if let EffectResult::Done { notes, .. } = &mut again
                    && restored
                {
                    notes.push("foreign_drain_restored".to_owned());
                }
                self.result(work, again);
            }
            gap => {
                self.result(work, result);
                if let Some(gap) = gap {
                    let wait = self.chance.millis(200, 3_000);
                    self.of_life(wait, LifeEvent::CloseGap(gap));
                }
            }
        }
    }

    /// A result on its way back: it may be lost, told twice, or late.
    fn result(&mut self, work: &Outstanding, result: EffectResult) {
        if self.chance.chance(self.weather.lost) {
            self.troubled_at(node_of(&work.effect));
            return;
        }
        let copies = 1 + u32::from(self.chance.chance(self.weather.doubled));
        for _ in 0..copies {
            let wait = self.call();
            self.of_life(wait, LifeEvent::Result(work.intent, result.clone()));
        }
    }

    pub(super) fn result_arrives(&mut self, intent: u64, result: EffectResult) {
        self.deliver(Message::Input(Input::EffectResult { intent, result }));
        self.hint(Duration::from_millis(100));
    }

    /// The time that one call to the scheduler takes.
    fn call(&mut self) -> Duration {
        if self.chance.chance(self.weather.slow) {
            self.chance.millis(300, 2_000)
        } else {
            self.chance.millis(5, 60)
        }
    }

    /// Reads the scheduler soon; the poll that was planned is void.
    pub(super) fn hint(&mut self, wait: Duration) {
        self.poll.number += 1;
        self.of_life(wait, LifeEvent::Poll(self.poll.number));
    }

    pub(super) fn poll(&mut self, number: u64) {
        if number != self.poll.number {
            return;
        }
        let now = self.clock.now();
        if self.site.slurm.away {
            let lost = now.since(self.poll.last_good) >= self.config.timers.blind_after.0;
            self.tell_source(if lost { SourceState::Silent } else { self.poll.told });
            self.hint(self.config.timers.poll.0);
            return;
        }
        let wait = self.call();
        self.of_life(wait, LifeEvent::PollRead(now));
    }

    pub(super) fn poll_read(&mut self, began: Timestamp) {
        if !self.site.slurm.away {
            let observation = Box::new(self.site.slurm.observe(began));
            let wait = self.call();
            self.of_life(wait, LifeEvent::Observed(observation));
        }
        self.hint(self.config.timers.poll.0);
    }

    pub(super) fn observed(&mut self, observation: Box<provost_model::scheduler::Observation>) {
        self.poll.last_good = self.clock.now();
        self.deliver(Message::Input(Input::Observed(observation)));
        self.tell_source(SourceState::Fresh);
    }

    fn tell_source(&mut self, state: SourceState) {
        if state != self.poll.told {
            self.poll.told = state;
            let source = Source::Scheduler(CLUSTER.to_owned());
            self.deliver(Message::Input(Input::Source { source, state }));
        }
    }
}
