//! A decision on its way to become a record.

use provost_model::body::Body;
use provost_model::ids::{Id, IdSource, Kind};
use provost_model::record::{Actor, Change, Class, Corr, Decision, Outcome, Sensitive, Subject};

/// One decision. [`Decisions::push`] fills what most decisions share.
#[derive(Clone, Debug)]
pub struct Event {
    /// What was decided.
    pub body: Body,
    /// What it is about, for retention and review.
    pub class: Class,
    /// Whether it was done.
    pub outcome: Outcome,
    /// Who caused it.
    pub actor: Actor,
    /// What it is about.
    pub subject: Option<Subject>,
    /// By what right.
    pub decision: Option<Decision>,
    /// What people set, before and after.
    pub change: Option<Change>,
    /// What it belongs to.
    pub corr: Corr,
    /// Values to be sealed.
    pub sensitive: Vec<Sensitive>,
}

impl Event {
    /// A decision of the engine's own rules.
    pub fn new(class: Class, body: Body) -> Event {
        Event {
            body,
            class,
            outcome: Outcome::Ok,
            actor: Actor::engine(),
            subject: None,
            decision: None,
            change: None,
            corr: Corr::default(),
            sensitive: Vec::new(),
        }
    }

    /// Caused by somebody else.
    pub fn by(mut self, actor: Actor) -> Event {
        self.actor = actor;
        self
    }

    /// About something.
    pub fn about(mut self, subject: Subject) -> Event {
        self.subject = Some(subject);
        self
    }

    /// With another outcome than done.
    pub fn with_outcome(mut self, outcome: Outcome) -> Event {
        self.outcome = outcome;
        self
    }

    /// Part of an incident, by number.
    pub fn of_incident(mut self, number: &str) -> Event {
        self.corr.incident = Some(number.to_owned());
        self
    }

    /// By a right.
    pub fn decided(mut self, decision: Decision) -> Event {
        self.decision = Some(decision);
        self
    }

    /// Answering a request.
    pub fn answering(mut self, request: &str) -> Event {
        self.corr.request = Some(request.to_owned());
        self
    }

    /// With a change of something that people set.
    pub fn changing(mut self, path: String, from: Option<String>, to: Option<String>) -> Event {
        self.change = Some(Change { path, from, to });
        self
    }

    /// With a value to be sealed; an empty one is left out.
    pub fn sealing(mut self, field: &'static str, value: &str) -> Event {
        if !value.is_empty() {
            self.sensitive.push(Sensitive { field, value: value.to_owned() });
        }
        self
    }
}

/// The decisions of one concern in one round, and the source of their ids.
#[derive(Debug)]
pub struct Decisions {
    ids: IdSource,
    events: Vec<Event>,
}

impl Decisions {
    /// Decisions whose first record will get the sequence `seq`.
    pub(crate) fn new(site: &str, seq: u64) -> Decisions {
        Decisions { ids: IdSource::new(site, seq), events: Vec::new() }
    }

    /// A new id. Whoever takes one must push an event that holds it, so that the next round starts at another
    /// sequence.
    pub fn id<I: From<Id> + Kind>(&mut self) -> I {
        self.ids.make()
    }

    /// Adds a decision.
    pub fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    /// How many decisions there are.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// What was decided so far in this round; State does not show it yet.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &Body> {
        self.events.iter().map(|event| &event.body)
    }

    /// Nothing was decided.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(crate) fn into_events(self) -> Vec<Event> {
        self.events
    }
}
