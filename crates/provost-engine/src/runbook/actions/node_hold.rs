//! Holds a node that the fault alone does not hold, inside the isolation budget, and sees the scheduler show it.

use provost_model::effect::Effect;

use super::{Action, Context, Needs, Progress, Undo, at_once, nothing};
use crate::event::Decisions;
use crate::{containment, governor, hold};

pub(super) const ACTION: Action = Action {
    name: "node.hold",
    about: "keeps new work off the node; jobs on it go on",
    needs: Needs::Node,
    arguments: &[],
    plan: |_| Vec::new(),
    act,
    check,
    done: nothing,
    not_before: at_once,
    undo: Undo::By(undo),
};

/// The writing to the scheduler follows from the hold: containment does it.
fn act(ctx: &Context<'_>, out: &mut Decisions) -> Vec<Effect> {
    if let (Some(incident), Some(node), Some(alert)) = (ctx.incident(), ctx.node(), ctx.open_alerts().next())
    {
        // It may have waited for a day: what the governor said then is not what it says now.
        if governor::may_disrupt(ctx.state, ctx.now, ctx.run).is_ok() {
            hold::hold_for(ctx.state, ctx.now, incident, node, alert, out);
        }
    }
    Vec::new()
}

fn check(ctx: &Context<'_>) -> Progress {
    let (Some(incident), Some(node)) = (ctx.incident(), ctx.node()) else {
        return Progress::Failed { code: "node_gone".to_owned(), retry: false };
    };
    if !hold::is_held_for(ctx.state, incident, node.id) {
        return Progress::Failed { code: "governor".to_owned(), retry: true };
    }
    if node.scheduler.is_some() && !containment::is_contained(node) {
        return Progress::Wait { what: "containment", until: None };
    }
    Progress::Done { result: "held".to_owned() }
}

/// What the fault itself asks for stays.
fn undo(ctx: &Context<'_>, out: &mut Decisions) -> Vec<Effect> {
    if let (Some(incident), Some(node)) = (ctx.incident(), ctx.node())
        && !hold::is_wanted(ctx.state, incident, node.id)
    {
        hold::release_incident_holds(ctx.state, incident.id, "undone", out);
    }
    Vec::new()
}
