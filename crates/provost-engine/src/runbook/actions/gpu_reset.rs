//! Resets a GPU by the agent's action `gpu_reset`, or what the argument names. It ends whatever runs there, so it is
//! begun only on a node that is held and has no job (ruling 18).

use provost_model::effect::Effect;

use super::{Action, Context, Needs, Progress, Undo, at_once, nothing};

pub(super) const ACTION: Action = Action {
    name: "gpu.reset",
    about: "resets the GPU by the agent's action `gpu_reset`, only while the node is held and has no job",
    needs: Needs::Node,
    arguments: &["action"],
    plan: reset,
    act: |ctx, _| if ctx.is_free() { reset(ctx) } else { Vec::new() },
    check,
    done: nothing,
    not_before: at_once,
    undo: Undo::Irreversible,
};

fn reset(ctx: &Context<'_>) -> Vec<Effect> {
    ctx.agent_action("gpu_reset")
}

fn check(ctx: &Context<'_>) -> Progress {
    if ctx.intents().next().is_none() && !reset(ctx).is_empty() {
        return Progress::Failed { code: "node_not_free".to_owned(), retry: true };
    }
    ctx.agent_progress()
}
