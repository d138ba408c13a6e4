//! Waits for a moment in which a node has no job by itself, so that what has to be done to it costs nobody anything.
//! It does not wait for ever: after `timers.remap` the node is held, and idle once its jobs have ended.

use super::{Action, Context, Needs, Progress, Undo, at_once, nothing};

pub(super) const ACTION: Action = Action {
    name: "node.await_gap",
    about: "waits until no job holds the node, at most `timers.remap`; holds nothing and disturbs nobody",
    needs: Needs::Node,
    arguments: &[],
    plan: |_| Vec::new(),
    act: |_, _| Vec::new(),
    check,
    done: nothing,
    not_before: at_once,
    undo: Undo::Nothing,
};

fn check(ctx: &Context<'_>) -> Progress {
    let until = ctx.record.attempt_at.unwrap_or(ctx.now) + ctx.state.config.timers.remap.0;
    match ctx.is_busy() {
        false => Progress::Done { result: "idle".to_owned() },
        true if ctx.now >= until => Progress::Done { result: "busy to the end".to_owned() },
        true => Progress::Wait { what: "jobs", until: Some(until) },
    }
}
