//! The outbox: intents, their results, and what is unknown.
//!
//! Whatever is to be done outside goes through [`request`], which alone knows the mode and the guard. An
//! intent stays open until somebody can say what became of it; while nobody can, it is only probed.

mod apply;
mod request;
#[cfg(test)]
mod tests;

pub(crate) use apply::{apply_completed, apply_requested, apply_voided, apply_would_have};
pub(crate) use request::{Permission, Requested, corr_of, incident_on, is_open, permission, plan, request};

use std::time::Duration;

use provost_model::body::{Body, EffectCompleted};
use provost_model::effect::EffectResult;
use provost_model::record::{Class, Outcome};
use provost_model::time::Timestamp;

use crate::event::{Decisions, Event};
use crate::slot;
use crate::state::{OpenEffect, State, TimerKey};
use crate::{containment, lifecycle};

/// Probes without an answer that are recorded. After them the intent stays unknown and its owner escalates.
pub(crate) const MAX_PROBES: u32 = 20;
/// The longest wait between two tries.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// The wait before the next try after `failures` in a row: `timers.retry`, doubled each time, at most a minute.
pub(crate) fn backoff(state: &State, failures: u32) -> Duration {
    let first = state.config.timers.retry.0;
    first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(MAX_BACKOFF)
}

/// When a probe of an intent that is unknown since `at` must have an answer: executors wait at most as long as the
/// longest backoff before they ask. None where it is not asked any more.
pub(crate) fn answer_due(state: &State, at: Timestamp, probes: u32) -> Option<Timestamp> {
    (probes < MAX_PROBES).then(|| at + state.config.timers.effect.0 + MAX_BACKOFF)
}

/// Characters of what was read back, and of a code or note, that a record keeps.
const MAX_OBSERVED: usize = 256;
const MAX_CODE: usize = 64;
/// Notes on one result that a record keeps.
const MAX_NOTES: usize = 16;

/// A result as told from outside, cut to what a record may hold: one that is too large could never be written.
fn bounded(result: &EffectResult) -> EffectResult {
    let cut = |text: &String, max| text.chars().filter(|c| !c.is_control()).take(max).collect::<String>();
    match result {
        EffectResult::Done { observed, notes } => EffectResult::Done {
            observed: cut(observed, MAX_OBSERVED),
            notes: notes.iter().take(MAX_NOTES).map(|note| cut(note, MAX_CODE)).collect(),
        },
        EffectResult::NotDone { code, retry } => {
            EffectResult::NotDone { code: cut(code, MAX_CODE), retry: *retry }
        }
        EffectResult::Unknown { code } => EffectResult::Unknown { code: cut(code, MAX_CODE) },
    }
}

/// A result came in. One for an intent that is not open says nothing new: it is late, or told twice.
pub(crate) fn on_result(state: &State, intent: u64, result: &EffectResult, out: &mut Decisions) {
    let Some(open) = state.effects.get(&intent) else { return };
    let unanswered = matches!(result, EffectResult::Unknown { .. }) && open.unknown;
    if unanswered && open.probes >= MAX_PROBES {
        return;
    }
    complete(state, intent, open, &bounded(result), out);
}

/// Intents whose deadline has passed are unknown from then on. A probe whose answer does not come either counts as
/// one without an answer, so that the next is made: messages to agents get lost.
pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    let late = state.timers.due(now).filter_map(|key| match key {
        TimerKey::Effect(intent) => Some(*intent),
        _ => None,
    });
    for intent in late {
        if let Some(open) = state.effects.get(&intent) {
            let code = if open.unknown { "no_answer" } else { "timeout" };
            complete(state, intent, open, &EffectResult::Unknown { code: code.to_owned() }, out);
        }
    }
}

/// Records a result and what follows from it at once: a spare that was read back in its partitions serves.
pub(crate) fn complete(
    state: &State,
    intent: u64,
    open: &OpenEffect,
    result: &EffectResult,
    out: &mut Decisions,
) {
    let outcome = match result {
        EffectResult::Done { .. } => Outcome::Ok,
        EffectResult::NotDone { .. } => Outcome::Failed,
        EffectResult::Unknown { .. } => Outcome::Unknown,
    };
    let body = Body::EffectCompleted(EffectCompleted {
        intent,
        effect: open.requested.effect.clone(),
        result: result.clone(),
    });
    let mut event = Event::new(Class::Privileged, body).with_outcome(outcome);
    event.subject = request::subject_of(state, &open.requested.effect);
    event.corr = corr_of(state, &open.requested.purpose);
    out.push(event);
    slot::on_result(state, open, result, out);
    lifecycle::on_result(state, intent, open, result, out);
}

/// Whether a hold or release of a node may have happened although no result says so: what the scheduler
/// answers next settles it as well as a probe.
pub(crate) fn settled_by_observation(
    state: &State,
    cluster: &str,
    at: Timestamp,
    view: impl Fn(&str) -> Option<provost_model::body::NodeView>,
    out: &mut Decisions,
) {
    for (intent, open) in &state.effects {
        // An executor of this epoch that still has time may act at any moment, so its own word counts.
        let only_probed = open.unknown || open.epoch != state.epoch;
        if !only_probed || open.at >= at {
            continue;
        }
        let Some(observed) = containment::target(&open.requested.effect, cluster).and_then(&view) else {
            continue;
        };
        let result = if containment::shows(&observed, &open.requested.effect) {
            EffectResult::Done { observed: observed.state.clone(), notes: vec!["observed".to_owned()] }
        } else {
            EffectResult::NotDone { code: "not_observed".to_owned(), retry: true }
        };
        complete(state, *intent, open, &result, out);
    }
}
