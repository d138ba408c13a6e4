//! Takes our incident's holds away and sees the node take work again. What somebody else holds stays held.

use provost_model::body::SchedulerName;
use provost_model::effect::Effect;
use provost_model::fleet::Phase;
use provost_model::response::HoldOwner;
use provost_model::time::Timestamp;

use super::{Action, Context, Needs, Progress, Undo, nothing};
use crate::event::Decisions;
use crate::state::{Hold, Node};
use crate::{hold, lifecycle};

pub(super) const ACTION: Action = Action {
    name: "node.release",
    about: "releases the incident's holds after `timers.soak` and waits until the scheduler uses the node again",
    needs: Needs::Node,
    arguments: &[],
    plan,
    act,
    check,
    done: nothing,
    not_before: soaked,
    undo: Undo::Irreversible,
};

fn plan(ctx: &Context<'_>) -> Vec<Effect> {
    let name = ctx.node().and_then(|node| node.scheduler.as_ref());
    let release = |name: &SchedulerName| Effect::SchedulerRelease {
        cluster: name.cluster.clone(),
        node: name.node.clone(),
    };
    name.map(release).into_iter().collect()
}

/// The writing to the scheduler follows from the holds: containment does it. The node is watched from here on,
/// unless another fault holds it.
fn act(ctx: &Context<'_>, out: &mut Decisions) -> Vec<Effect> {
    let (Some(incident), Some(node)) = (ctx.incident(), ctx.node()) else { return Vec::new() };
    if is_for_a_person(ctx, node) {
        return Vec::new();
    }
    hold::release_incident_holds(ctx.state, incident.id, "verified", out);
    let faulted = ctx.state.holds_on(node.id).any(|hold| match &hold.owner {
        HoldOwner::Incident(number) => *number != incident.number,
        _ => false,
    });
    let to = if faulted { Phase::Quarantined } else { Phase::Probation };
    lifecycle::enter(ctx.state, node.id, to, "released", out);
    Vec::new()
}

fn check(ctx: &Context<'_>) -> Progress {
    let Some(node) = ctx.node() else {
        return Progress::Failed { code: "node_gone".to_owned(), retry: false };
    };
    let number = ctx.incident().map(|incident| incident.number.as_str());
    if is_for_a_person(ctx, node)
        && ctx.incident().is_some_and(|incident| hold::is_held_for(ctx.state, incident, node.id))
    {
        return Progress::Failed { code: "returned_too_often".to_owned(), retry: false };
    }
    // The hold of the phase that the node leaves goes with ours.
    let phases = ctx.state.holds_on(node.id).all(|hold| !foreign_incident(hold, number));
    let ours = |hold: &Hold| match &hold.owner {
        HoldOwner::Incident(name) => Some(name.as_str()) == number,
        HoldOwner::Policy(name) => phases && name.starts_with("lifecycle:"),
        HoldOwner::Operator(_) | HoldOwner::External(_) | HoldOwner::Legal(_) => false,
    };
    let (own, others): (Vec<&Hold>, Vec<&Hold>) = ctx.state.holds_on(node.id).partition(|hold| ours(hold));
    if !own.is_empty() {
        return Progress::Wait { what: "holds", until: None };
    }
    if !others.is_empty() {
        return Progress::Done { result: format!("released; {} holds of others stay", others.len()) };
    }
    match (&node.scheduler, &node.observed) {
        (None, _) => Progress::Done { result: "released; no scheduler serves it".to_owned() },
        (Some(_), Some(seen)) if !seen.drain && !seen.down && !seen.not_responding => {
            Progress::Done { result: seen.state.clone() }
        }
        (Some(_), _) => Progress::Wait { what: "scheduler", until: None },
    }
}

/// The node came back so often lately that a person decides. Their decision is the next attempt.
fn is_for_a_person(ctx: &Context<'_>, node: &Node) -> bool {
    ctx.record.attempts <= 1 && lifecycle::returned_too_often(node, ctx.now)
}

/// The hold is another incident's.
fn foreign_incident(hold: &Hold, number: Option<&str>) -> bool {
    matches!(&hold.owner, HoldOwner::Incident(name) if Some(name.as_str()) != number)
}

/// Quiet after the test; a fault that comes again in this time ends the execution.
fn soaked(ctx: &Context<'_>) -> Option<(Timestamp, &'static str)> {
    let tested = ctx.node().and_then(|node| node.validated_at)?;
    // A test of another fault, long ago, says nothing; then a person skipped the test of this one.
    (tested >= ctx.run.created_at).then(|| (tested + ctx.state.config.timers.soak.0, "soak"))
}
