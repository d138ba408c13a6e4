//! What a step means for the phase of its node.

use provost_model::fleet::Phase;

use super::actions::Context;
use crate::event::Decisions;
use crate::lifecycle;

/// The node's phase follows the step that begins. A node that still drains keeps its phase: what is read back
/// decides when it is empty.
pub(super) fn enter(ctx: &Context<'_>, out: &mut Decisions) {
    let Some(node) = ctx.node() else { return };
    let empty = !matches!(node.phase, Phase::InService | Phase::Suspect | Phase::Draining | Phase::Spare);
    let to = match (ctx.step.action.as_deref(), &ctx.step.human) {
        (Some("evidence.collect"), _) if node.phase == Phase::Quarantined => Phase::Diagnosing,
        (None, Some(human)) if human.role == "technician" && empty => Phase::AwaitingRepair,
        (Some("node.revalidate"), _) if empty => Phase::Revalidating,
        _ => return,
    };
    lifecycle::enter(ctx.state, node.id, to, "runbook", out);
}
