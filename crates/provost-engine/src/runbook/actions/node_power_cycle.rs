//! Takes a node's power away by its BMC and gives it back: the rung after a reset that did not help. It ends whatever runs
//! there, so it is begun only on a node that is held and has no job. Each half is asked for once and read back; one whose
//! answer is lost is probed and, where that says nothing, a person's.

use provost_model::body::{Source, SourceState};
use provost_model::effect::{Effect, EffectResult};

use super::{Action, Context, Needs, Progress, Undo, at_once, nothing};
use crate::bmc;

pub(super) const ACTION: Action = Action {
    name: "node.power_cycle",
    about: "takes the power of the node away by its BMC and gives it back, only while the node is held and has no job; then waits for its agent",
    needs: Needs::Node,
    arguments: &[],
    plan: |ctx| [false, true].into_iter().flat_map(|on| power(ctx, on)).collect(),
    act: |ctx, _| if ctx.is_free() { power(ctx, false) } else { Vec::new() },
    check,
    done: nothing,
    not_before: at_once,
    undo: Undo::Irreversible,
};

/// Nothing where no BMC answers for the node.
fn power(ctx: &Context<'_>, on: bool) -> Vec<Effect> {
    let node = ctx.node().filter(|node| bmc::source(ctx.state, node) == Some(SourceState::Fresh));
    node.map(|node| Effect::NodePower { node: node.name.clone(), on }).into_iter().collect()
}

fn check(ctx: &Context<'_>) -> Progress {
    let (mut off, mut on) = (None, None);
    for (effect, result) in ctx.intents() {
        match effect {
            Effect::NodePower { on: true, .. } => on = Some(result),
            _ => off = Some(result),
        }
    }
    if off.is_none() {
        let code = if power(ctx, false).is_empty() { "not_configured" } else { "node_not_free" };
        return Progress::Failed { code: code.to_owned(), retry: code == "node_not_free" };
    }
    for result in [off, on].into_iter().flatten() {
        match result {
            None => return Progress::Wait { what: "power", until: None },
            Some(EffectResult::Done { .. }) => {}
            Some(EffectResult::NotDone { code, retry }) => {
                return Progress::Failed { code: code.clone(), retry: *retry };
            }
            Some(EffectResult::Unknown { code }) => {
                return Progress::Failed { code: code.clone(), retry: false };
            }
        }
    }
    match on {
        None => {
            let name = ctx.node().map(|node| node.name.clone()).unwrap_or_default();
            // Asked for whatever the BMC's state is by now: the machine stands there without power.
            Progress::More(vec![Effect::NodePower { node: name, on: true }])
        }
        Some(_) if has_booted(ctx) => Progress::Done { result: "power off, power on".to_owned() },
        Some(_) => Progress::Wait { what: "boot", until: None },
    }
}

/// Its agent reports, and has not done so all the time. A node without an agent has nobody who could tell.
fn has_booted(ctx: &Context<'_>) -> bool {
    let (Some(node), Some(began)) = (ctx.node(), ctx.record.attempt_at) else { return true };
    let agent = ctx.state.sources.get(&Source::Agent(node.name.clone()));
    agent.is_none_or(|agent| agent.state == SourceState::Fresh && agent.since >= began)
}
