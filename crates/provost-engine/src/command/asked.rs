//! A request that was allowed, on its way to the concern that decides on it.

use provost_model::body::Body;
use provost_model::input::Command;
use provost_model::record::{Class, Decision};

use crate::event::Event;

/// A request and the right by which it is made.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    /// The request.
    pub(crate) command: &'a Command,
    /// Why it is allowed.
    pub(crate) decision: Decision,
}

impl Asked<'_> {
    /// A decision of the person or service who asks, with the reason sealed.
    pub(crate) fn event(&self, class: Class, body: Body) -> Event {
        Event::new(class, body)
            .by(self.command.actor.clone())
            .decided(self.decision.clone())
            .answering(&self.command.request)
            .sealing("reason", &self.command.reason)
    }
}
