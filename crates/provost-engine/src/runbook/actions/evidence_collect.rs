//! Keeps what a node can still tell before anybody touches it: the agent's action `evidence`.

use super::{Action, Needs, Undo, at_once, nothing};

pub(super) const ACTION: Action = Action {
    name: "evidence.collect",
    about: "lets the agent collect evidence by its action `evidence`",
    needs: Needs::Node,
    arguments: &["action"],
    plan: |ctx| ctx.agent_action("evidence"),
    act: |ctx, _| ctx.agent_action("evidence"),
    check: |ctx| ctx.agent_progress(),
    done: nothing,
    not_before: at_once,
    undo: Undo::Nothing,
};
