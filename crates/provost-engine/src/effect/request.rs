//! The one place where something to be done outside becomes an intent, or is kept from becoming one.

use std::time::Duration;

use provost_model::body::{Body, EffectRequested, Purpose, WouldHave};
use provost_model::effect::Effect;
use provost_model::fleet::Phase;
use provost_model::ids::NodeId;
use provost_model::policy::Mode;
use provost_model::record::{Class, Corr, Outcome, Subject, SubjectKind};
use provost_model::response::HoldOwner;
use provost_model::time::Timestamp;

use crate::event::{Decisions, Event};
use crate::state::{Node, State};

/// What became of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requested {
    /// It is an intent; its result comes as an input.
    Intent,
    /// The mode keeps it from being done; that is recorded.
    WouldHave,
    /// Nothing was recorded, and nothing is done: the guard is stopped, or the spare was promised to another slot
    /// in this round.
    Stopped,
}

/// Whether effects on a thing may be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Yes.
    Act,
    /// No: this mode only says what it would have done.
    Mode(Mode),
    /// No: a person said stop.
    Stopped,
}

/// Asks for `effect`. Whoever asks looks first whether an intent for the same purpose is open.
pub(crate) fn request(
    state: &State,
    now: Timestamp,
    effect: Effect,
    purpose: Purpose,
    out: &mut Decisions,
) -> Requested {
    if promised(&effect, out) {
        return Requested::Stopped;
    }
    let (requested, body) = plan(state, now, &effect, &purpose);
    if let Some(body) = body {
        out.push(event(state, &effect, &purpose, body));
    }
    requested
}

/// The spare was already promised in this round. Two slots that choose at once see the same State.
fn promised(effect: &Effect, out: &Decisions) -> bool {
    let spare = |effect: &Effect| match effect {
        Effect::PartitionJoin { cluster, node, .. } => Some((cluster.clone(), node.clone())),
        _ => None,
    };
    let wanted = spare(effect);
    wanted.is_some()
        && out.bodies().any(|body| match body {
            Body::EffectRequested(other) => spare(&other.effect) == wanted,
            _ => false,
        })
}

/// What [`request`] would record, for callers who add who asked for it.
pub(crate) fn plan(
    state: &State,
    now: Timestamp,
    effect: &Effect,
    purpose: &Purpose,
) -> (Requested, Option<Body>) {
    match permission(state, effect, purpose) {
        Permission::Stopped => (Requested::Stopped, None),
        Permission::Act => {
            let deadline = now + time_of(state, effect);
            let body = EffectRequested { effect: effect.clone(), purpose: purpose.clone(), deadline };
            (Requested::Intent, Some(Body::EffectRequested(body)))
        }
        Permission::Mode(_) if told_before(state, effect, purpose) => (Requested::WouldHave, None),
        Permission::Mode(mode) => {
            let body = WouldHave { effect: effect.clone(), purpose: purpose.clone(), mode };
            (Requested::WouldHave, Some(Body::WouldHave(body)))
        }
    }
}

/// A large server takes minutes until its power shows; what is asked of anybody else has an answer soon.
const POWER: Duration = Duration::from_secs(5 * 60);

fn time_of(state: &State, effect: &Effect) -> Duration {
    let time = state.config.timers.effect.0;
    if matches!(effect, Effect::NodePower { .. }) { time.max(POWER) } else { time }
}

/// Mode and guard, for one effect. `detach` takes our marks away, so neither keeps it from that.
pub(crate) fn permission(state: &State, effect: &Effect, purpose: &Purpose) -> Permission {
    if matches!(purpose, Purpose::Detach) {
        return Permission::Act;
    }
    match mode_of(state, effect) {
        Mode::Act if state.guard.stopped => Permission::Stopped,
        Mode::Act => Permission::Act,
        mode => Permission::Mode(mode),
    }
}

/// The strictest mode among the nodes that an effect touches: a job that also runs on a node which is only
/// observed is left alone.
fn mode_of(state: &State, effect: &Effect) -> Mode {
    let (cluster, nodes) = match effect {
        Effect::JobRequeue { job, .. } | Effect::JobNote { job, .. } => {
            let nodes = state.jobs.get(job).map(|job| job.nodes.iter().copied().collect());
            (Some(&job.cluster), nodes.unwrap_or_default())
        }
        Effect::SchedulerHold { cluster, .. }
        | Effect::SchedulerRelease { cluster, .. }
        | Effect::PartitionJoin { cluster, .. }
        | Effect::PartitionLeave { cluster, .. } => (Some(cluster), Vec::from_iter(node_of(state, effect))),
        Effect::NotesOff { cluster } => (Some(cluster), Vec::new()),
        Effect::AgentAction { .. } | Effect::NodePower { .. } => {
            (None, Vec::from_iter(node_of(state, effect)))
        }
    };
    let of_nodes = nodes.iter().filter_map(|id| state.nodes.get(id)).map(|node| state.mode_of(node)).min();
    let of_cluster = || state.config.clusters.get(cluster?).and_then(|cluster| cluster.mode);
    of_nodes.or_else(of_cluster).unwrap_or(state.config.mode)
}

/// The node that an effect is about, where it is about one.
fn node_of(state: &State, effect: &Effect) -> Option<NodeId> {
    match effect {
        Effect::SchedulerHold { cluster, node, .. }
        | Effect::SchedulerRelease { cluster, node }
        | Effect::PartitionJoin { cluster, node, .. }
        | Effect::PartitionLeave { cluster, node, .. } => state.scheduler_node(cluster, node).map(|n| n.id),
        Effect::AgentAction { node, .. } | Effect::NodePower { node, .. } => {
            state.node_by_name(node).map(|n| n.id)
        }
        Effect::JobRequeue { .. } | Effect::JobNote { .. } | Effect::NotesOff { .. } => None,
    }
}

/// Standing differences are looked at again and again; what the mode keeps from being done is told once.
fn told_before(state: &State, effect: &Effect, purpose: &Purpose) -> bool {
    let last = match purpose {
        Purpose::Containment { node } => {
            state.nodes.get(node).and_then(|n| n.containment.would_have.as_ref())
        }
        Purpose::Slot { slot } => state.slots.get(slot).and_then(|s| s.membership.would_have.as_ref()),
        Purpose::Step { .. } | Purpose::Undo { .. } | Purpose::Detach | Purpose::Command { .. } => None,
    };
    last == Some(effect)
}

/// An intent for this purpose has no final result yet.
pub(crate) fn is_open(state: &State, purpose: &Purpose) -> bool {
    state.effects.values().any(|open| open.requested.purpose == *purpose)
}

fn event(state: &State, effect: &Effect, purpose: &Purpose, body: Body) -> Event {
    let outcome = if matches!(body, Body::EffectRequested(_)) { Outcome::Unknown } else { Outcome::Ok };
    let mut event = Event::new(Class::Privileged, body).with_outcome(outcome);
    event.subject = subject_of(state, effect);
    event.corr = corr_of(state, purpose);
    event
}

/// What an effect is about, for people.
pub(super) fn subject_of(state: &State, effect: &Effect) -> Option<Subject> {
    match effect {
        Effect::JobRequeue { job, .. } | Effect::JobNote { job, .. } => {
            Some(Subject { kind: SubjectKind::Job, id: job.to_string(), name: None, node: None })
        }
        _ => node_of(state, effect).and_then(|id| state.nodes.get(&id)).map(Node::subject),
    }
}

/// The incident, execution and step that a purpose belongs to.
pub(crate) fn corr_of(state: &State, purpose: &Purpose) -> Corr {
    let number = |id| state.incidents.get(&id).map(|incident| incident.number.clone());
    match purpose {
        Purpose::Step { execution, step, .. } | Purpose::Undo { execution, step } => Corr {
            incident: state.executions.get(execution).and_then(|run| run.incident).and_then(number),
            execution: Some(*execution),
            step: Some(step.clone()),
            request: None,
        },
        Purpose::Containment { node } => Corr { incident: incident_on(state, *node), ..Corr::default() },
        Purpose::Slot { slot } => {
            let node = state.slots.get(slot).map(|slot| slot.node);
            Corr { incident: node.and_then(|node| incident_on(state, node)), ..Corr::default() }
        }
        Purpose::Command { request } => Corr { request: Some(request.clone()), ..Corr::default() },
        Purpose::Detach => Corr::default(),
    }
}

/// The incident that a node is out for: by its hold, and after the release by the newest one about it, so that
/// the release is part of the same story.
pub(crate) fn incident_on(state: &State, node: NodeId) -> Option<String> {
    let held = state.holds_on(node).find_map(|hold| match &hold.owner {
        HoldOwner::Incident(number) => Some(number.clone()),
        _ => None,
    });
    let released = || {
        let watched = state.nodes.get(&node).is_some_and(|node| node.phase == Phase::Probation);
        let last = state.incidents.values().rev().find(|incident| incident.node == Some(node));
        last.filter(|incident| watched || incident.state.is_open()).map(|incident| incident.number.clone())
    };
    held.or_else(released)
}
