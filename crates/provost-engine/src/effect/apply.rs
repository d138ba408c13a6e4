//! Intents and results, folded in.

use provost_model::body::{EffectCompleted, EffectRequested, EffectVoided, Purpose, WouldHave};
use provost_model::effect::EffectResult;
use provost_model::ids::IncidentId;
use provost_model::record::Record;
use provost_model::response::HoldOwner;

use super::backoff;
use crate::containment;
use crate::state::{OpenEffect, Reconcile, State, StepRun, TimerKey};

/// Effects that an incident remembers as not done.
const MAX_WOULD_HAVE: usize = 200;

pub(crate) fn apply_requested(state: &mut State, record: &Record, data: &EffectRequested) {
    let open =
        OpenEffect { requested: data.clone(), at: record.at, epoch: record.epoch, unknown: false, probes: 0 };
    state.effects.insert(record.seq, open);
    state.timers.set(TimerKey::Effect(record.seq), Some(data.deadline));
    if let Purpose::Step { attempt, .. } = &data.purpose
        && let Some(step) = step_of(state, &data.purpose)
        && step.attempts == *attempt
    {
        step.intents.insert(record.seq, None);
    }
    if let Some(reconcile) = reconcile_of(state, &data.purpose) {
        reconcile.would_have = None;
    }
    touched(state, &data.purpose);
    state.mark_effect(record.seq);
}

pub(crate) fn apply_completed(state: &mut State, record: &Record, data: &EffectCompleted) {
    state.mark_effect(data.intent);
    state.timers.set(TimerKey::Effect(data.intent), None);
    let Some(open) = state.effects.get_mut(&data.intent) else { return };
    let EffectRequested { effect, purpose, .. } = open.requested.clone();
    match &data.result {
        EffectResult::Unknown { .. } => {
            open.probes += u32::from(open.unknown);
            open.unknown = true;
            let probes = open.probes;
            let due = super::answer_due(state, record.at, probes);
            state.timers.set(TimerKey::Effect(data.intent), due);
        }
        EffectResult::Done { observed, notes } => {
            state.effects.remove(&data.intent);
            containment::apply_done(state, record.at, &effect, observed, notes);
            if let Some(reconcile) = reconcile_of(state, &purpose) {
                reconcile.failures = 0;
                // What waits because somebody outside undid it goes on waiting.
                if reconcile.not_before.is_some_and(|at| at <= record.at) {
                    reconcile.not_before = None;
                }
            }
        }
        EffectResult::NotDone { .. } => {
            state.effects.remove(&data.intent);
            let failures = reconcile_of(state, &purpose).map_or(0, |reconcile| reconcile.failures + 1);
            let not_before = record.at + backoff(state, failures);
            if let Some(reconcile) = reconcile_of(state, &purpose) {
                reconcile.failures = failures;
                reconcile.not_before = Some(not_before);
            }
        }
    }
    if let Some(slot) = step_of(state, &purpose).and_then(|step| step.intents.get_mut(&data.intent)) {
        *slot = Some(data.result.clone());
    }
    touched(state, &purpose);
}

pub(crate) fn apply_voided(state: &mut State, data: &EffectVoided) {
    state.mark_effect(data.intent);
    state.timers.set(TimerKey::Effect(data.intent), None);
    let Some(open) = state.effects.remove(&data.intent) else { return };
    if let Some(step) = step_of(state, &open.requested.purpose) {
        step.intents.remove(&data.intent);
    }
    touched(state, &open.requested.purpose);
}

pub(crate) fn apply_would_have(state: &mut State, data: &WouldHave) {
    if let Some(step) = step_of(state, &data.purpose) {
        step.would_have += 1;
    }
    if let Some(reconcile) = reconcile_of(state, &data.purpose) {
        reconcile.would_have = Some(data.effect.clone());
    }
    if let Some(incident) = incident_of(state, &data.purpose).and_then(|id| state.incidents.get_mut(&id))
        && incident.would_have.len() < MAX_WOULD_HAVE
        && !incident.would_have.contains(&data.effect)
    {
        incident.would_have.push(data.effect.clone());
    }
    if let Purpose::Step { execution, .. } | Purpose::Undo { execution, .. } = &data.purpose {
        state.dirty.executions.insert(*execution);
    }
    touched(state, &data.purpose);
}

/// Deadlines that hang on what an intent is for.
fn touched(state: &mut State, purpose: &Purpose) {
    match purpose {
        Purpose::Containment { node } => containment::set_timer(state, *node),
        Purpose::Slot { slot } => crate::slot::set_timer(state, *slot),
        Purpose::Step { .. } | Purpose::Undo { .. } | Purpose::Detach | Purpose::Command { .. } => {}
    }
}

/// The step whose running attempt an intent belongs to.
fn step_of<'a>(state: &'a mut State, purpose: &Purpose) -> Option<&'a mut StepRun> {
    let (Purpose::Step { execution, step, .. } | Purpose::Undo { execution, step }) = purpose else {
        return None;
    };
    state.executions.get_mut(execution)?.steps.iter_mut().find(|run| run.id == *step)
}

fn reconcile_of<'a>(state: &'a mut State, purpose: &Purpose) -> Option<&'a mut Reconcile> {
    match purpose {
        Purpose::Containment { node } => state.nodes.get_mut(node).map(|node| &mut node.containment),
        Purpose::Slot { slot } => state.slots.get_mut(slot).map(|slot| &mut slot.membership),
        Purpose::Step { .. } | Purpose::Undo { .. } | Purpose::Detach | Purpose::Command { .. } => None,
    }
}

/// The incident that is told what was not done.
fn incident_of(state: &State, purpose: &Purpose) -> Option<IncidentId> {
    match purpose {
        Purpose::Step { execution, .. } | Purpose::Undo { execution, .. } => {
            state.executions.get(execution)?.incident
        }
        Purpose::Containment { node } => state.holds_on(*node).find_map(|hold| match &hold.owner {
            HoldOwner::Incident(number) => state.incident_numbers.get(number).copied(),
            _ => None,
        }),
        Purpose::Slot { .. } | Purpose::Detach | Purpose::Command { .. } => None,
    }
}
