//! One authority for disruption: counts what is unavailable, whoever caused it, and says whether automation may
//! take more away (rulings 4 and 10). It never blocks a release.

use std::collections::BTreeMap;

use provost_model::body::{BreakerTripped, IsolationDeferred};
use provost_model::fleet::Phase;
use provost_model::ids::NodeId;
use provost_model::record::{Class, Subject, SubjectKind};
use provost_model::time::Timestamp;
use provost_model::view;

use crate::event::{Decisions, Event};
use crate::scheduler;
use crate::state::{Deferred, Execution, Node, State};

mod scope;
mod unavailable;

#[cfg(test)]
mod tests;

pub(crate) use unavailable::unavailable;

/// Parts of the site that one view shows.
const MAX_SCOPES: usize = 500;

/// `absolute`, or `percent` of the nodes where that is more. Parts of a node do not count.
fn larger(absolute: u32, percent: u32, nodes: usize) -> u32 {
    let nodes = u64::try_from(nodes).unwrap_or(u64::MAX);
    let share = nodes.saturating_mul(u64::from(percent)) / 100;
    absolute.max(u32::try_from(share).unwrap_or(u32::MAX))
}

/// Whether automation may isolate `node` now; otherwise the earliest time at which the budget has room. A node
/// that is held already loses nothing by another hold, so it needs no budget.
pub(crate) fn may_isolate(state: &State, now: Timestamp, node: NodeId) -> Result<(), Timestamp> {
    if state.holds_on(node).next().is_some() {
        return Ok(());
    }
    let limits = &state.config.governor;
    let allowed = larger(limits.isolations_per_window, limits.isolations_percent, state.nodes.len());
    let recent: Vec<Timestamp> = isolations(state, now).map(|(at, _)| at).collect();
    let of_site = last_to_leave(&recent, allowed, now);
    let of_scopes = scope::of(state, node).filter_map(|scope| {
        let inside = isolations(state, now).filter(|(_, node)| scope.nodes.contains(node));
        let recent: Vec<Timestamp> = inside.map(|(at, _)| at).collect();
        last_to_leave(&recent, scope.max_isolations()?, now)
    });
    match of_site.into_iter().chain(of_scopes).max() {
        None => Ok(()),
        Some(last) => Err(last + limits.window.0),
    }
}

/// The isolation that must leave the window before there is room for another; none where there is room. As many as
/// are too many, and one more, must leave.
fn last_to_leave(recent: &[Timestamp], allowed: u32, now: Timestamp) -> Option<Timestamp> {
    let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
    let last = || recent.get(recent.len().saturating_sub(allowed.max(1))).copied().unwrap_or(now);
    (recent.len() >= allowed).then(last)
}

/// Isolations inside the window, oldest first.
fn isolations(state: &State, now: Timestamp) -> impl Iterator<Item = (Timestamp, NodeId)> + '_ {
    let window = state.config.governor.window.0;
    state.guard.isolations.iter().copied().filter(move |(at, _)| *at + window > now)
}

/// Whether `execution` may disrupt its node now; otherwise the code of the limit that says no, and whose it is. Its
/// own node counts once: where it is out already, recovering it takes nothing more away.
pub(crate) fn may_disrupt(state: &State, now: Timestamp, execution: &Execution) -> Result<(), String> {
    let limits = &state.config.governor;
    // A person's yes makes it no automatic disruption.
    if state.guard.breaker_tripped && !execution.approved {
        return Err("breaker".to_owned());
    }
    let running: Vec<Option<NodeId>> =
        disruptions(state).filter(|other| other.id != execution.id).map(|other| other.node).collect();
    let out = unavailable(state, now);
    let adds = execution.node.is_some_and(|node| !out.contains_key(&node));
    let is_full = |used: usize, max: u32| used >= usize::try_from(max).unwrap_or(usize::MAX);
    if is_full(running.len(), limits.concurrent_disruptions) {
        return Err("governor_concurrent_disruptions".to_owned());
    }
    if adds
        && is_full(
            out.len(),
            larger(limits.max_unavailable, limits.max_unavailable_percent, state.nodes.len()),
        )
    {
        return Err("governor_max_unavailable".to_owned());
    }
    for scope in execution.node.into_iter().flat_map(|node| scope::of(state, node)) {
        let inside = running.iter().flatten().filter(|node| scope.nodes.contains(node)).count();
        if scope.max_disruptions().is_some_and(|max| is_full(inside, max)) {
            return Err(format!("governor_concurrent_disruptions:{}", scope.name));
        }
        let gone = out.keys().filter(|node| scope.nodes.contains(node)).count();
        if adds && scope.max_unavailable().is_some_and(|max| is_full(gone, max)) {
            return Err(format!("governor_max_unavailable:{}", scope.name));
        }
    }
    Ok(())
}

/// Executions that disrupt something now. One that waits for a person, or for a spare to become idle, disrupts
/// nothing more than its node, which is counted as unavailable.
fn disruptions(state: &State) -> impl Iterator<Item = &Execution> {
    state
        .open_executions
        .iter()
        .filter_map(|id| state.executions.get(id))
        .filter(|run| crate::runbook::is_at_work(run) && crate::runbook::disrupts(state, run))
}

/// What the governor counts, for people.
pub fn counts(state: &State, now: Timestamp) -> view::Guard {
    let limits = &state.config.governor;
    let nodes = state.nodes.len();
    let name = |id: &NodeId| state.nodes.get(id).map(|node| node.name.clone());
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let out = unavailable(state, now);
    view::Guard {
        stopped: state.guard.stopped,
        breaker_tripped: state.guard.breaker_tripped,
        mode: state.config.mode.name().to_owned(),
        nodes: count(nodes),
        unavailable: count(out.len()),
        unavailable_max: larger(limits.max_unavailable, limits.max_unavailable_percent, nodes),
        unavailable_nodes: out.keys().filter_map(name).collect(),
        isolations_in_window: count(isolations(state, now).count()),
        isolations_max: larger(limits.isolations_per_window, limits.isolations_percent, nodes),
        disruptions_running: count(disruptions(state).count()),
        disruptions_max: limits.concurrent_disruptions,
        deferred: state.guard.deferred.keys().filter_map(name).collect(),
        scopes: scope_counts(state, now, &out),
    }
}

/// The same for parts of the site in which something counts.
fn scope_counts(state: &State, now: Timestamp, out: &BTreeMap<NodeId, Timestamp>) -> Vec<view::GuardScope> {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let counted = scope::all(state).into_iter().map(|scope| {
        let inside = |node: &NodeId| scope.nodes.contains(node);
        view::GuardScope {
            nodes: count(scope.nodes.len()),
            unavailable: count(out.keys().filter(|node| inside(node)).count()),
            unavailable_max: scope.max_unavailable(),
            isolations_in_window: count(isolations(state, now).filter(|(_, node)| inside(node)).count()),
            isolations_max: scope.max_isolations(),
            disruptions_running: count(
                disruptions(state).filter(|run| run.node.is_some_and(|node| inside(&node))).count(),
            ),
            disruptions_max: scope.max_disruptions(),
            scope: scope.name,
        }
    });
    counted
        .filter(|scope| scope.unavailable + scope.isolations_in_window + scope.disruptions_running > 0)
        .take(MAX_SCOPES)
        .collect()
}

/// Trips the breaker where so much is out that the monitor is as likely at fault as the nodes. As many as may be
/// out anyway never trip it, or one node of a small site would. After a person reset it, only an outage that
/// began later trips it again.
pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    if state.guard.breaker_tripped || (!state.dirty.all && state.dirty.nodes.is_empty()) {
        return;
    }
    let lost = unavailable(state, now);
    let limits = &state.config.governor;
    let percent = u64::from(limits.breaker_percent);
    let share = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let allowed = larger(limits.max_unavailable, limits.max_unavailable_percent, state.nodes.len());
    let enough = share(lost.len()) > u64::from(allowed)
        && share(lost.len()).saturating_mul(100) >= percent.saturating_mul(share(state.nodes.len()));
    let news = lost.values().any(|since| state.guard.breaker_reset_at.is_none_or(|reset| *since > reset));
    if enough && news {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let body = BreakerTripped { unavailable: count(lost.len()), nodes: count(state.nodes.len()) };
        out.push(
            Event::new(Class::Response, provost_model::body::Body::BreakerTripped(body)).about(Subject {
                kind: SubjectKind::Site,
                id: state.site.clone(),
                name: None,
                node: None,
            }),
        );
    }
}

pub(crate) fn apply_stopped(state: &mut State, on: bool) {
    state.guard.stopped = on;
    state.dirty.all = true;
}

pub(crate) fn apply_breaker(state: &mut State, at: Timestamp, on: bool) {
    state.guard.breaker_tripped = on;
    if !on {
        state.guard.breaker_reset_at = Some(at);
    }
    state.dirty.all = true;
}

pub(crate) fn apply_deferred(state: &mut State, data: &IsolationDeferred) {
    let deferred = Deferred { incident: data.incident, not_before: data.not_before };
    state.guard.deferred.insert(data.node, deferred);
}

/// Counts an isolation by automation. Called where a hold is applied that says that it counts.
pub(crate) fn count_isolation(state: &mut State, at: Timestamp, node: NodeId) {
    let window = state.config.governor.window.0;
    state.guard.isolations.retain(|(then, _)| *then + window > at);
    state.guard.isolations.push_back((at, node));
    state.guard.deferred.remove(&node);
}

/// A phase in which a node gives no capacity.
pub(crate) const fn phase_is_out(phase: Phase) -> bool {
    match phase {
        Phase::InService | Phase::Suspect | Phase::Probation | Phase::Spare => false,
        Phase::Draining
        | Phase::Quarantined
        | Phase::Diagnosing
        | Phase::Remediating
        | Phase::AwaitingRepair
        | Phase::Revalidating
        | Phase::Maintenance
        | Phase::Lost => true,
    }
}

/// Since when the node has been out by what its scheduler says; none where it says that it serves, or nothing.
fn out_by_scheduler(state: &State, now: Timestamp, node: &Node) -> Option<Timestamp> {
    let seen = node.observed.as_ref()?;
    let is_gone = seen.not_responding && scheduler::may_answer_until(state, now, node).is_none();
    let out = seen.drain || seen.down || is_gone;
    out.then(|| node.observed_at.unwrap_or(node.phase_since))
}
