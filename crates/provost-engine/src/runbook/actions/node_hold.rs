//! Holds a node that the fault alone does not hold, inside the isolation budget, and sees the scheduler show it.

use provost_model::effect::Effect;
use provost_model::time::Timestamp;

use super::{Action, Context, Needs, Progress, Undo, at_once, nothing};
use crate::event::Decisions;
use crate::state::Alert;
use crate::{containment, governor, hold};

pub(super) const ACTION: Action = Action {
    name: "node.hold",
    about: "keeps new work off the node, once no job holds it or `timers.remap` is over; jobs on it go on",
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
    if let (Some(incident), Some(node), Some(alert)) = (ctx.incident(), ctx.node(), alert(ctx)) {
        // It may have waited for a day: what the governor said then is not what it says now.
        if !waits(ctx, alert) && governor::may_disrupt(ctx.state, ctx.now, ctx.run).is_ok() {
            hold::hold_for(ctx.state, ctx.now, incident, node, alert, out);
        }
    }
    Vec::new()
}

/// The fault that the hold is for: of those on this GPU, one that names this runbook.
fn alert<'a>(ctx: &Context<'a>) -> Option<&'a Alert> {
    let named = |alert: &&Alert| alert.runbook.as_deref() == Some(ctx.run.runbook.as_str());
    ctx.open_alerts().find(named).or_else(|| ctx.open_alerts().next())
}

/// A job came while the hold had to wait: the node is left to it until `timers.remap` is over (ruling 8).
fn waits(ctx: &Context<'_>, alert: &Alert) -> bool {
    ctx.is_busy() && ctx.now < due(ctx, alert)
}

fn due(ctx: &Context<'_>, alert: &Alert) -> Timestamp {
    alert.raised_at.min(ctx.run.created_at) + ctx.state.config.timers.remap.0
}

fn check(ctx: &Context<'_>) -> Progress {
    let (Some(incident), Some(node), Some(alert)) = (ctx.incident(), ctx.node(), alert(ctx)) else {
        return Progress::Failed { code: "fault_gone".to_owned(), retry: false };
    };
    if hold::is_held_for(ctx.state, incident, node.id) {
        return match &node.scheduler {
            Some(_) if !containment::is_contained(node) => {
                Progress::Wait { what: "containment", until: None }
            }
            _ => Progress::Done { result: "held".to_owned() },
        };
    }
    if waits(ctx, alert) {
        return Progress::Wait { what: "jobs", until: Some(due(ctx, alert)) };
    }
    Progress::Failed { code: "governor".to_owned(), retry: true }
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
