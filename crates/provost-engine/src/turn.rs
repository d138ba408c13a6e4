//! One input, taken through the whole engine.

use provost_model::body::Body;
use provost_model::ids::IdSource;
use provost_model::input::{Input, Reply};
use provost_model::record::{Record, Sensitive, VERSION};
use provost_model::time::Timestamp;

use crate::event::Event;
use crate::state::State;
use crate::{apply, settle, step};

/// What a turn needs from its driver: values become sealed, records become whole.
pub trait Turn {
    /// Seals personal data of one record.
    fn seal(&mut self, values: &[Sensitive]) -> Vec<provost_model::record::Sealed>;
}

/// What a turn gave.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Records in order, already applied.
    pub records: Vec<Record>,
    /// The answer, where the input was a command.
    pub reply: Option<Reply>,
}

/// Takes `input` through [`step`] and [`settle`]. Every record is applied to `state` at once.
pub fn turn(state: &mut State, now: Timestamp, input: &Input, driver: &mut dyn Turn) -> Outcome {
    let mut outcome = Outcome::default();
    state.dirty.clear();
    if matches!(input, Input::Tick) {
        state.mark_due(now);
    }
    let (events, reply) = step(state, now, input);
    outcome.reply = reply;
    commit(state, now, events, driver, &mut outcome.records);
    settle::settle(state, now, &mut |state, events| commit(state, now, events, driver, &mut outcome.records));
    outcome
}

/// Makes records of events and applies them.
fn commit(
    state: &mut State,
    now: Timestamp,
    events: Vec<Event>,
    driver: &mut dyn Turn,
    records: &mut Vec<Record>,
) {
    for event in events {
        let sealed = if event.sensitive.is_empty() { Vec::new() } else { driver.seal(&event.sensitive) };
        // A start opens the next epoch; everything after it belongs there.
        let starts = matches!(event.body, Body::ControllerStarted(_));
        let record = Record {
            v: VERSION,
            seq: state.seq,
            id: IdSource::new(&state.site, state.seq).make(),
            at: now,
            site: state.site.clone(),
            epoch: state.epoch + u64::from(starts),
            producer: "controller".to_owned(),
            producer_seq: state.seq,
            class: event.class,
            outcome: event.outcome,
            actor: event.actor,
            subject: event.subject,
            decision: event.decision,
            body: event.body,
            change: event.change,
            corr: event.corr,
            sealed,
        };
        apply::apply(state, &record);
        records.push(record);
    }
}
