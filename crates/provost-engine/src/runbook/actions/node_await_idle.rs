//! Waits until nothing runs on a node any more: no job by the scheduler, and no step process where the agent can
//! tell (rulings 18 and 19). DRAIN alone is not drained.

use provost_model::effect::{Effect, EffectResult};

use super::{Action, Context, Needs, Progress, Undo, at_once, jobs_requeue, nothing};

pub(super) const ACTION: Action = Action {
    name: "node.await_idle",
    about: "waits until no job and no step process is left on the node, at most `timers.drain`; \
            the agent's action `no_steps` confirms it where it is allowed",
    needs: Needs::Node,
    arguments: &["action"],
    plan: |ctx| ctx.agent_action(CONFIRM),
    act: |_, _| Vec::new(),
    check,
    done: nothing,
    not_before: at_once,
    undo: Undo::Nothing,
};

const CONFIRM: &str = "no_steps";

fn check(ctx: &Context<'_>) -> Progress {
    let Some(node) = ctx.node() else {
        return Progress::Failed { code: "node_gone".to_owned(), retry: false };
    };
    // A job that the scheduler showed only now is treated as by `jobs.requeue`.
    let late = jobs_requeue::late(ctx);
    if !late.is_empty() {
        return Progress::More(late);
    }
    let began = ctx.record.attempt_at.unwrap_or(ctx.now);
    let deadline = began + ctx.state.config.timers.drain.0;
    let busy = match (&node.scheduler, &node.observed) {
        (None, _) => None,
        (Some(_), None) => Some("scheduler"),
        (Some(_), Some(seen)) => (seen.busy || ctx.state.jobs_on(node.id).next().is_some()).then_some("jobs"),
    };
    if let Some(what) = busy {
        if ctx.now >= deadline {
            return Progress::Failed { code: "drain_deadline".to_owned(), retry: false };
        }
        return Progress::Wait { what, until: Some(deadline) };
    }
    // Two polls must agree: one that was under way when the step began may be older than a start of a job.
    let again = began + ctx.state.config.timers.poll.0 * 2;
    if ctx.now < again && node.scheduler.is_some() {
        return Progress::Wait { what: "second_look", until: Some(again) };
    }
    confirm(ctx)
}

/// Asks the agent, where it can tell.
fn confirm(ctx: &Context<'_>) -> Progress {
    let asked = ctx.intents().find(|(effect, _)| matches!(effect, Effect::AgentAction { .. }));
    match asked {
        None => {
            let ask = ctx.agent_action(CONFIRM);
            if ask.is_empty() {
                return Progress::Done { result: "no job; the agent cannot tell about processes".to_owned() };
            }
            Progress::More(ask)
        }
        Some((_, None)) => Progress::Wait { what: "agent", until: None },
        Some((_, Some(EffectResult::Done { .. }))) => {
            Progress::Done { result: "no job, no step process".to_owned() }
        }
        Some((_, Some(EffectResult::NotDone { retry, .. }))) => {
            Progress::Failed { code: "step_processes_left".to_owned(), retry: *retry }
        }
        Some((_, Some(EffectResult::Unknown { code }))) => {
            Progress::Failed { code: code.clone(), retry: false }
        }
    }
}
