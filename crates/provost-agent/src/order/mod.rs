//! Orders: the few things that a controller may have done on the node, each at most once.
//!
//! A thread of its own takes them in the order of their arrival and has their commands run, each on a thread of
//! its own: orders of the same action wait for each other, and nobody waits for another action, however long it
//! hangs. Before a command runs, its intent is in the [`OrderLog`] on disk; after it, its result. So a repeated order is answered and not
//! repeated, also after a crash. What was started and has no result is *unknown*, unless the action's probe can
//! tell. An intent that was answered as not done is never done later: a controller may have acted upon it.

mod command;
mod job;
mod log;
mod worker;

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

use provost_model::effect::EffectResult;
use provost_wire::{Order, OrderFacts, OrderResult};

use crate::wait::Wake;

use job::Finished;
use log::OrderLogError;
pub(crate) use log::{FILE, OrderLog};
pub(crate) use worker::Worker;

/// Orders that wait. A controller has a handful under way for one node.
const MAX_WAITING: usize = 256;

/// Hands orders to the thread that carries them out.
#[derive(Debug)]
pub(crate) struct Orders {
    waiting: Mutex<VecDeque<Work>>,
    wake: Wake,
}

#[derive(Debug)]
enum Work {
    /// A controller of this epoch is there.
    Epoch(u64),
    /// To be carried out or answered.
    Order(Order),
    /// A thread that ran commands has ended.
    Finished(Finished),
}

impl Orders {
    pub(crate) fn new() -> io::Result<Orders> {
        Ok(Orders { waiting: Mutex::default(), wake: Wake::new()? })
    }

    /// From here on, orders of older epochs are refused.
    pub(crate) fn hear_of(&self, epoch: u64) {
        self.push(Work::Epoch(epoch));
    }

    /// Takes an order in. An answer comes at once only where there is no room.
    pub(crate) fn take(&self, order: Order) -> Option<OrderResult> {
        let (intent, epoch) = (order.intent, order.epoch);
        if self.push(Work::Order(order)) {
            return None;
        }
        // Whether it was done before stands in the order log, which is not read here.
        let result = EffectResult::Unknown { code: "busy".to_owned() };
        Some(OrderResult { intent, epoch, result, facts: OrderFacts::default() })
    }

    /// False where there is no room.
    fn push(&self, work: Work) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = waiting.len() < MAX_WAITING;
        if has_room {
            waiting.push_back(work);
        }
        drop(waiting);
        self.wake.set();
        has_room
    }

    /// There is always room: no more of them run than there are actions.
    fn finish(&self, finished: Finished) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back(Work::Finished(finished));
        drop(waiting);
        self.wake.set();
    }

    fn pop(&self) -> Option<Work> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

#[cfg(test)]
mod tests;
