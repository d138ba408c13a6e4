//! What happens when, in virtual time. Things of the same instant happen in the order in which they were put down.

use std::collections::BTreeMap;

use provost_engine::Outstanding;
use provost_model::effect::EffectResult;
use provost_model::scheduler::Observation;
use provost_model::time::Timestamp;
use provost_wire::Order;

use crate::faults::Fault;
use crate::site::adapter::{Gap, Seen};
use crate::site::queue::Request;

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// The loop takes what is in its inbox.
    Commit,
    /// A controller starts, after a crash or for the first time.
    Start,
    /// Somebody submits a job.
    Submit(Box<Request>),
    /// The next of the drawn jobs is submitted.
    Work,
    /// The people of the site look at it.
    People,
    /// Something goes wrong, or is mended.
    Fault(Fault),
    /// A job dies of a broken GPU, if it still runs there.
    JobDies {
        /// Node.
        node: String,
        /// GPU.
        gpu: u32,
    },
    /// Something of one controller's life; it is void once that has ended.
    OfLife(u32, LifeEvent),
    /// An agent sends what it has.
    AgentSends(String),
    /// An agent has been silent for long enough.
    AgentMissed(String),
    /// An agent has finished an order.
    OrderEnds(Box<Order>, EffectResult),
}

/// What a controller's process has in flight.
#[derive(Clone, Debug)]
pub enum LifeEvent {
    /// A poll begins; only the newest number counts.
    Poll(u64),
    /// The poll that began then is read.
    PollRead(Timestamp),
    /// Its answer arrives.
    Observed(Box<Observation>),
    /// An effect's look, write and read.
    Look(Box<Outstanding>),
    /// The write.
    Write(Box<Outstanding>, Box<Seen>),
    /// The read.
    Read(Box<Outstanding>, Box<Seen>),
    /// Its result arrives.
    Result(u64, EffectResult),
    /// The look for a drain that the write has hidden.
    CloseGap(Gap),
    /// An order arrives at its agent.
    Order(Box<Order>),
    /// An agent connects.
    Hello(String),
}

/// Everything that is going to happen.
#[derive(Debug, Default)]
pub struct Agenda {
    events: BTreeMap<(Timestamp, u64), Event>,
    count: u64,
}

impl Agenda {
    /// Puts an event down.
    pub fn at(&mut self, at: Timestamp, event: Event) {
        self.events.insert((at, self.count), event);
        self.count += 1;
    }

    /// When the next one happens.
    pub fn next(&self) -> Option<Timestamp> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next one out.
    pub fn pop(&mut self) -> Option<Event> {
        self.events.pop_first().map(|(_, event)| event)
    }

    /// Drops what `void` says.
    pub fn cancel(&mut self, mut void: impl FnMut(&Event) -> bool) {
        self.events.retain(|_, event| !void(event));
    }
}
