//! Tests a node by the agent's action `validate`. A test that passes now ends the faults that were seen before
//! it began; nothing else but a person does (ruling 9).

use super::{Action, Context, Needs, Undo, at_once};
use crate::event::Decisions;

pub(super) const ACTION: Action = Action {
    name: "node.revalidate",
    about: "tests the node by the agent's action `validate`; success ends the alerts that are older than it",
    needs: Needs::Node,
    arguments: &["action"],
    plan: |ctx| ctx.agent_action("validate"),
    act: |ctx, _| ctx.agent_action("validate"),
    check: |ctx| ctx.agent_progress(),
    done: end_alerts,
    not_before: at_once,
    undo: Undo::Irreversible,
};

fn end_alerts(ctx: &Context<'_>, out: &mut Decisions) {
    let (Some(node), Some(began)) = (ctx.run.node, ctx.record.attempt_at) else { return };
    crate::alert::resolve_verified(ctx.state, node, ctx.run.gpu, began, out);
}
