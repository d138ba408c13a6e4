//! The whole site on one screen.

use std::collections::BTreeMap;

use provost_model::body::{Source, SourceState};
use provost_model::response::Severity;
use provost_model::runbook::ExecutionState;
use provost_model::time::Timestamp;
use provost_model::view;

use super::fleet::{Open, is_watched};
use crate::governor;
use crate::state::{Execution, State};

/// What the governor counts.
pub fn guard(state: &State, now: Timestamp) -> view::Guard {
    governor::counts(state, now)
}

/// The verdict and what it comes from. `version`: of the program; `journal`: it can be written.
pub fn status(state: &State, now: Timestamp, version: &str, journal: bool) -> view::Status {
    let mut nodes_by_phase = BTreeMap::new();
    let mut gpus_by_health = BTreeMap::new();
    let mut gpus = 0;
    let open = Open::of(state);
    for node in state.nodes.values() {
        *nodes_by_phase.entry(node.phase.name().to_owned()).or_default() += 1;
        let watched = is_watched(state, node);
        for index in node.gpus.keys() {
            gpus += 1;
            *gpus_by_health.entry(open.gpu(node.id, *index, watched).to_owned()).or_default() += 1;
        }
    }
    let mut incidents_open = BTreeMap::new();
    let mut worst = None;
    for incident in state.incidents.values().filter(|incident| incident.state.is_open()) {
        *incidents_open.entry(incident.severity.to_string()).or_default() += 1;
        worst = worst.max(Some(incident.severity));
    }
    let lost = state
        .sources
        .iter()
        .filter(|(_, health)| matches!(health.state, SourceState::Silent | SourceState::Blind));
    let sources_lost: Vec<String> =
        lost.map(|(source, _)| source.label()).chain(unread_schedulers(state)).collect();
    let guard = guard(state, now);
    let impaired = worst.is_some() || !sources_lost.is_empty() || guard.stopped || guard.breaker_tripped;
    let verdict = match worst {
        Some(Severity::Sev1 | Severity::Sev2) => "critical",
        _ if !journal => "critical",
        _ if impaired => "degraded",
        _ => "ok",
    };
    view::Status {
        verdict: verdict.to_owned(),
        site: state.site.clone(),
        version: version.to_owned(),
        mode: state.config.mode.name().to_owned(),
        nodes_by_phase,
        gpus,
        gpus_by_health,
        incidents_open,
        needs_you: needs_you(state, &guard),
        sources_lost,
        guard,
        jobs_running: count(state.jobs.values().filter(|job| job.state.holds_nodes()).count()),
        as_of: state.seq.saturating_sub(1),
        at: now,
        journal: if journal { "ok" } else { "unavailable" }.to_owned(),
    }
}

/// Schedulers that have shown no node yet: until then nothing is known of them, which is not well.
fn unread_schedulers(state: &State) -> impl Iterator<Item = String> {
    state.config.clusters.keys().filter_map(|name| {
        let source = Source::Scheduler(name.clone());
        let is_known = state.sources.contains_key(&source)
            || state.scheduler_names.keys().any(|node| node.cluster == *name);
        (!is_known).then(|| format!("{} (not read yet)", source.label()))
    })
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// What waits for a person, one line each with the command that goes on.
fn needs_you(state: &State, guard: &view::Guard) -> Vec<String> {
    let mut lines = Vec::new();
    if guard.breaker_tripped {
        lines.push("the breaker tripped: look at what is out, then `provost guard reset`".to_owned());
    }
    if guard.stopped {
        lines.push("the guard is stopped: nothing is done until `provost guard start`".to_owned());
    }
    lines.extend(state.guard.deferred.iter().filter_map(|(node, deferred)| {
        let name = &state.nodes.get(node)?.name;
        Some(format!(
            "{name} is faulty and still gets work: its isolation waits for the budget until {}; \
             `provost node hold {name}` holds it now",
            deferred.not_before
        ))
    }));
    lines.extend(state.executions.values().filter_map(|execution| line_of(state, execution)));
    lines
}

fn line_of(state: &State, execution: &Execution) -> Option<String> {
    let what = match execution.state {
        ExecutionState::AwaitingApproval => "approval: see `provost run show",
        ExecutionState::AwaitingHuman => "an answer: see `provost run show",
        ExecutionState::NeedsOperator => {
            "a decision, `provost run retry`, `skip` or `abort`: see `provost run show"
        }
        _ => return None,
    };
    let of = execution.incident.and_then(|id| state.incidents.get(&id)).map_or_else(
        || execution.runbook.clone(),
        |incident| format!("{} ({})", incident.number, execution.runbook),
    );
    Some(format!("{of} waits for {what} {}`", execution.id))
}
