//! The spare goes back to the other spares once it is idle. The slot sees to it by itself as soon as its own
//! node serves again; this step waits until it has.

use super::{Action, Context, Needs, Progress, Undo, at_once, nothing};

pub(super) const ACTION: Action = Action {
    name: "slot.return_spare",
    about: "waits until the spare that served in the node's slot is back among the spares",
    needs: Needs::Node,
    arguments: &[],
    plan: |ctx| super::slot_bind_spare::leave(ctx),
    act: |_, _| Vec::new(),
    check,
    done: nothing,
    not_before: at_once,
    undo: Undo::Nothing,
};

fn check(ctx: &Context<'_>) -> Progress {
    let slot = super::slot_bind_spare::slot_of(ctx);
    let Some(spare) = slot.and_then(|slot| slot.spare) else {
        return Progress::Done { result: "no spare serves in the slot".to_owned() };
    };
    if ctx.run.node.is_some_and(|node| ctx.state.holds_on(node).next().is_some()) {
        return Progress::Done { result: "the spare serves on: others hold the node".to_owned() };
    }
    let busy = ctx.state.jobs_on(spare).next().is_some();
    Progress::Wait { what: if busy { "spare_jobs" } else { "spare" }, until: None }
}
