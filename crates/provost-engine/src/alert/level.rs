//! Conditions that have a level: a source reports, or it does not.
//!
//! The silence of a source is a fact about the source. It resolves nothing of what was known before.

use std::collections::BTreeSet;

use provost_model::body::{Source, SourceState};
use provost_model::response::{AlertState, Classification};
use provost_model::signal::Impact;
use provost_model::time::Timestamp;

use super::{Raise, changed, push_changed};
use crate::event::Decisions;
use crate::source;
use crate::state::{AlertKey, SourceHealth, State, TimerKey};

pub(super) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    let all = state.dirty.all.then_some(&state.sources).into_iter().flatten();
    let touched = state.dirty.sources.iter().filter_map(|source| state.sources.get_key_value(source));
    for (source, health) in all.chain(touched.filter(|_| !state.dirty.all)) {
        follow(state, source, health, out);
    }
    for alert in state.dirty.alerts.iter().filter_map(|id| state.alerts.get(id)) {
        let held = state.timers.get(&TimerKey::Alert(alert.id)).is_some_and(|until| until <= now);
        if alert.state == AlertState::Clearing && held {
            push_changed(alert, changed(alert, AlertState::Resolved, "clear_hold"), out);
        }
    }
}

fn follow(state: &State, source: &Source, health: &SourceHealth, out: &mut Decisions) {
    let subject = source::subject(source);
    let (impact, classifications) = weight(source);
    for (condition, level) in [("source.silent", SourceState::Silent), ("source.blind", SourceState::Blind)] {
        let is_so = health.state == level;
        let key =
            AlertKey { kind: subject.kind, subject: subject.id.clone(), condition: condition.to_owned() };
        let open = state.open_alerts.get(&key).and_then(|id| state.alerts.get(id));
        match open {
            None if is_so => Raise {
                condition: condition.to_owned(),
                node: subject.node.as_ref().and_then(|name| state.node_names.get(name)).copied(),
                subject: subject.clone(),
                gpu: None,
                impact,
                classifications: classifications.clone(),
                first_at: health.since,
                event: false,
                runbook: None,
                episode: None,
            }
            .push(out),
            Some(alert) if is_so && alert.state == AlertState::Clearing => {
                let mut again = changed(alert, AlertState::Firing, "level_true");
                again.count += 1;
                again.last_at = health.since;
                push_changed(alert, again, out);
            }
            Some(alert) if health.state == SourceState::Gone => {
                push_changed(alert, changed(alert, AlertState::Resolved, "forgotten"), out);
            }
            Some(alert) if !is_so && alert.state == AlertState::Firing => {
                push_changed(alert, changed(alert, AlertState::Clearing, "level_false"), out);
            }
            _ => {}
        }
    }
}

/// How bad it is to lose a source. Faults are seen, and work is kept away, without any BMC: that one does not answer
/// wakes nobody. Where it would be needed, whoever needs it says so.
fn weight(source: &Source) -> (Impact, BTreeSet<Classification>) {
    match source {
        Source::Agent(_) | Source::KernelLog(_) | Source::Scheduler(_) => {
            (Impact::Major, BTreeSet::from([Classification::Pages]))
        }
        Source::Bmc(_) => (Impact::Minor, BTreeSet::new()),
    }
}
