//! Lets a spare serve in the slot of the node. The spare is bound once it was read back in the slot's partitions;
//! from then on the slot keeps it there.

use provost_model::effect::{Effect, EffectResult};

use super::{Action, Context, Needs, Progress, Undo, at_once, nothing};
use crate::slot;
use crate::state::{Node, Slot};

pub(super) const ACTION: Action = Action {
    name: "slot.bind_spare",
    about: "lets a spare serve in the partitions of the node's slot",
    needs: Needs::Node,
    arguments: &[],
    plan: join,
    act: |ctx, _| join(ctx),
    check,
    done: nothing,
    not_before: at_once,
    undo: Undo::By(|ctx, _| leave(ctx)),
};

/// The slot of the node.
pub(super) fn slot_of<'a>(ctx: &Context<'a>) -> Option<&'a Slot> {
    ctx.state.slots.get(&ctx.node()?.slot?)
}

/// The node's slot has nobody who serves in it.
pub(super) fn needed(ctx: &Context<'_>) -> bool {
    slot_of(ctx).is_some_and(|slot| slot.spare.is_none())
        && ctx.run.node.is_some_and(|node| ctx.state.holds_on(node).next().is_some())
}

fn spare<'a>(ctx: &Context<'a>) -> Option<&'a Node> {
    ctx.state.nodes.get(&slot_of(ctx)?.spare?)
}

fn join(ctx: &Context<'_>) -> Vec<Effect> {
    let Some(slot) = slot_of(ctx).filter(|slot| slot.spare.is_none()) else { return Vec::new() };
    let chosen = slot::choose_spare(ctx.state, slot.id).and_then(|id| ctx.state.nodes.get(&id));
    chosen.and_then(|spare| slot::join(slot, spare)).into_iter().collect()
}

/// What takes the spare out again.
pub(super) fn leave(ctx: &Context<'_>) -> Vec<Effect> {
    let bound = slot_of(ctx).zip(spare(ctx));
    bound.and_then(|(slot, spare)| slot::leave(slot, spare)).into_iter().collect()
}

/// None was chosen yet. After a scheduler's restart its spares say nothing for some seconds.
fn choose(ctx: &Context<'_>, slot: &Slot) -> Progress {
    let chosen = join(ctx);
    if !chosen.is_empty() {
        return Progress::More(chosen);
    }
    match slot::spare_may_answer(ctx.state, ctx.now, slot) {
        Some(until) => Progress::Wait { what: "spare", until: Some(until) },
        None => Progress::Failed { code: "no_spare".to_owned(), retry: true },
    }
}

fn check(ctx: &Context<'_>) -> Progress {
    let Some(slot) = slot_of(ctx) else {
        return Progress::Failed { code: "no_slot".to_owned(), retry: false };
    };
    if let Some((_, Some(EffectResult::NotDone { code, retry }))) = ctx.intents().next() {
        return Progress::Failed { code: code.clone(), retry: *retry };
    }
    match spare(ctx) {
        Some(spare) => match &spare.observed {
            Some(seen) if slot.partitions.is_subset(&seen.partitions) => {
                Progress::Done { result: format!("{} serves", spare.name) }
            }
            _ => Progress::Wait { what: "spare_in_partitions", until: None },
        },
        None if ctx.intents().next().is_none() => choose(ctx, slot),
        None => Progress::Wait { what: "spare_bound", until: None },
    }
}
