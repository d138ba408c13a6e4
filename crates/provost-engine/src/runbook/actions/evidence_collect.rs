//! Keeps what a node can still tell before anybody touches it: the agent's action `evidence`.

use provost_model::effect::Effect;

use super::{Action, Context, Needs, Undo, at_once, nothing};

pub(super) const ACTION: Action = Action {
    name: "evidence.collect",
    about: "lets the agent collect evidence by its action `evidence`",
    needs: Needs::Node,
    arguments: &["action"],
    plan: collect,
    act: |ctx, _| collect(ctx),
    check: |ctx| ctx.agent_progress(),
    done: nothing,
    not_before: at_once,
    undo: Undo::Nothing,
};

/// An execution about a whole node collects at the GPU of its fault, and at the node's first where a switch has it:
/// the action may need a device, and nothing is done to that.
fn collect(ctx: &Context<'_>) -> Vec<Effect> {
    let gpu = ctx.run.gpu.or_else(|| ctx.open_alerts().find_map(|alert| alert.gpu));
    let first = || ctx.node()?.gpus.keys().next().copied();
    ctx.agent_action_at("evidence", gpu.or_else(first))
}
