//! Keeps new work off a node: compares the desired state with what the scheduler says.
//!
//! A node is desired to be held while anybody but somebody outside holds it or one of its GPUs. The scheduler
//! then shows it closed, drained or down, and our mark, which names the hold that speaks for the node; a node that
//! comes up again by itself is drained then. Containment waits for nothing but the mode and the guard: not for
//! approval, evidence or the choice of a runbook.
//!
//! A result `done` was read back by the adapter, so it counts as the scheduler's answer until the next one.

#[cfg(test)]
mod tests;

use std::time::Duration;

use provost_model::body::{NodeView, Purpose, ReasonOwner, SchedulerName};
use provost_model::effect::Effect;
use provost_model::ids::{HoldId, NodeId};
use provost_model::response::HoldOwner;
use provost_model::scheduler::REASON_PREFIX;
use provost_model::time::Timestamp;

use crate::effect::{self, Permission};
use crate::event::Decisions;
use crate::hold;
use crate::slot;
use crate::state::{Hold, Node, State, TimerKey};

/// Undoing of our hold by somebody outside counts as going on when it comes again inside this time.
const UNDONE_WINDOW: Duration = Duration::from_secs(600);
/// Longer reasons are cut; schedulers show them in one column.
const MAX_REASON: usize = 200;

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    for node in state.touched_nodes() {
        let purpose = Purpose::Containment { node: node.id };
        let waits = node.containment.not_before.is_some_and(|at| at > now);
        if waits || effect::is_open(state, &purpose) {
            continue;
        }
        if let Some(effect) = difference(state, node) {
            effect::request(state, now, effect, purpose, out);
        }
    }
}

/// What must be written so that the scheduler shows the desired state; nothing where it does.
fn difference(state: &State, node: &Node) -> Option<Effect> {
    let name = node.scheduler.as_ref()?;
    let (effect, shown) = match speaking_hold(state, node.id) {
        Some(hold) => {
            let effect = hold_effect(name, hold);
            let shown = node.observed.as_ref().is_some_and(|view| shows(view, &effect));
            (effect, shown)
        }
        None => {
            let effect = Effect::SchedulerRelease { cluster: name.cluster.clone(), node: name.node.clone() };
            let shown = node.observed.as_ref().is_none_or(|view| shows(view, &effect));
            (effect, shown || !may_release(state, node))
        }
    };
    (!shown).then_some(effect)
}

/// The hold that the scheduler's comment names: an incident's before another's, since it says most; the oldest
/// of a kind, so that the mark stays. Holds of somebody outside are written there already.
pub(crate) fn speaking_hold(state: &State, node: NodeId) -> Option<&Hold> {
    state
        .holds_on(node)
        .filter(|hold| !matches!(hold.owner, HoldOwner::External(_)))
        .min_by_key(|hold| (!matches!(hold.owner, HoldOwner::Incident(_)), hold.since, hold.id))
}

/// The scheduler keeps new work off the node, as far as it said last.
pub(crate) fn is_contained(node: &Node) -> bool {
    node.observed.as_ref().is_some_and(is_closed)
}

/// No new work comes to the node.
fn is_closed(view: &NodeView) -> bool {
    view.drain || view.down
}

/// The mark of this hold stands, or cannot stand because the comment is somebody else's.
fn is_marked(view: &NodeView, hold: HoldId) -> bool {
    view.mark == Some(hold) || (view.mark.is_none() && view.comment_taken)
}

/// A drain under our reason that an earlier installation has left is not ours to end: taking our mark away would
/// resume the node.
fn may_release(state: &State, node: &Node) -> bool {
    let looks_ours =
        node.observed.as_ref().is_some_and(|view| view.drain && view.reason == ReasonOwner::Ours);
    !(looks_ours && state.holds_on(node.id).any(hold::is_earlier))
}

fn hold_effect(name: &SchedulerName, hold: &Hold) -> Effect {
    let who = match &hold.owner {
        HoldOwner::Incident(number) => number.as_str(),
        _ => "hold",
    };
    let reason: String = format!("{REASON_PREFIX}{who}: {}", hold.reason).chars().take(MAX_REASON).collect();
    Effect::SchedulerHold { cluster: name.cluster.clone(), node: name.node.clone(), hold: hold.id, reason }
}

/// The scheduler's view is what the effect wants. Nothing is said about effects on other things.
pub(crate) fn shows(view: &NodeView, effect: &Effect) -> bool {
    match effect {
        Effect::SchedulerHold { hold, .. } => is_closed(view) && is_marked(view, *hold),
        Effect::SchedulerRelease { .. } => {
            view.mark.is_none() && !(is_closed(view) && view.reason == ReasonOwner::Ours)
        }
        Effect::PartitionJoin { partitions, .. } => partitions.iter().all(|p| view.partitions.contains(p)),
        Effect::PartitionLeave { partitions, .. } => !partitions.iter().any(|p| view.partitions.contains(p)),
        Effect::JobRequeue { .. }
        | Effect::JobNote { .. }
        | Effect::NotesOff { .. }
        | Effect::AgentAction { .. }
        | Effect::NodePower { .. } => false,
    }
}

/// The name of the node of this cluster whose view shows whether the effect is done.
pub(crate) fn target<'a>(effect: &'a Effect, in_cluster: &str) -> Option<&'a str> {
    match effect {
        Effect::SchedulerHold { cluster, node, .. }
        | Effect::SchedulerRelease { cluster, node }
        | Effect::PartitionJoin { cluster, node, .. }
        | Effect::PartitionLeave { cluster, node, .. } => (cluster == in_cluster).then_some(node.as_str()),
        Effect::JobRequeue { .. }
        | Effect::JobNote { .. }
        | Effect::NotesOff { .. }
        | Effect::AgentAction { .. }
        | Effect::NodePower { .. } => None,
    }
}

/// What was read back becomes the node's view until the scheduler's next answer. Where the scheduler has said
/// nothing yet, whether jobs run on the node is unknown, which counts as busy.
pub(crate) fn apply_done(
    state: &mut State,
    at: Timestamp,
    effect: &Effect,
    observed: &str,
    notes: &[String],
) {
    let name = match effect {
        Effect::SchedulerHold { cluster, node, .. }
        | Effect::SchedulerRelease { cluster, node }
        | Effect::PartitionJoin { cluster, node, .. }
        | Effect::PartitionLeave { cluster, node, .. } => {
            SchedulerName { cluster: cluster.clone(), node: node.clone() }
        }
        Effect::JobNote { job, .. } => {
            // For detach: somewhere in this cluster stands a note of ours.
            state.noted.insert(job.cluster.clone());
            return;
        }
        Effect::NotesOff { cluster } => {
            state.noted.remove(cluster);
            return;
        }
        Effect::JobRequeue { .. } | Effect::AgentAction { .. } | Effect::NodePower { .. } => return,
    };
    let Some(node) = state.scheduler_names.get(&name).and_then(|id| state.nodes.get_mut(id)) else { return };
    let before = node.observed.clone();
    node.written_at = Some(at);
    let view = node.observed.get_or_insert_with(|| NodeView { busy: true, ..NodeView::default() });
    take_over(view, effect, observed, notes);
    if availability(before.as_ref()) != availability(node.observed.as_ref()) {
        node.observed_at = Some(at);
    }
    let id = node.id;
    state.dirty.nodes.insert(id);
    set_timer(state, id);
    slot::set_timers_of(state, id);
}

/// What an effect that was read back says of its node.
fn take_over(view: &mut NodeView, effect: &Effect, observed: &str, notes: &[String]) {
    let noted = |code: &str| notes.iter().any(|note| note == code);
    match effect {
        Effect::SchedulerHold { hold, .. } => {
            let foreign = view.reason == ReasonOwner::Foreign && is_closed(view);
            let flags = read_back(view, observed);
            // It is closed, or it would not be done.
            view.drain |= !view.down;
            view.comment_taken = noted("foreign_comment_kept");
            view.mark = (!view.comment_taken).then_some(*hold);
            // Flags come with notes, which know whose the reason was when they were read; what we knew before may
            // be over by then. A probe has neither.
            let kept = noted("foreign_reason_kept") || (foreign && !flags);
            view.reason = if kept { ReasonOwner::Foreign } else { ReasonOwner::Ours };
        }
        Effect::SchedulerRelease { .. } => {
            let foreign = view.reason == ReasonOwner::Foreign && view.drain;
            let kept = foreign || noted("foreign_reason_kept") || noted("foreign_drain_restored");
            view.mark = None;
            view.drain = kept;
            view.reason = if kept { ReasonOwner::Foreign } else { ReasonOwner::None };
            // Flags that were read back say more than what follows from the notes.
            read_back(view, observed);
            if view.drain && view.reason == ReasonOwner::None {
                view.reason = ReasonOwner::Foreign;
            }
        }
        Effect::PartitionJoin { partitions, .. } => view.partitions.extend(partitions.iter().cloned()),
        Effect::PartitionLeave { partitions, .. } => {
            view.partitions.retain(|partition| !partitions.contains(partition));
        }
        Effect::JobRequeue { .. }
        | Effect::JobNote { .. }
        | Effect::NotesOff { .. }
        | Effect::AgentAction { .. }
        | Effect::NodePower { .. } => {}
    }
}

/// Takes over what was read back, where it is the scheduler's flags: `MIXED+DRAIN`. A probe may say other words.
fn read_back(view: &mut NodeView, observed: &str) -> bool {
    let is_flag = |c: char| c.is_ascii_uppercase() || matches!(c, '+' | '_' | '*');
    if observed.is_empty() || !observed.chars().all(is_flag) {
        return false;
    }
    let flag = |name: &str| observed.split('+').any(|flag| flag.trim_end_matches('*').starts_with(name));
    observed.clone_into(&mut view.state);
    view.drain = flag("DRAIN") || flag("FAIL");
    view.down = flag("DOWN");
    true
}

/// Whether the scheduler gives work to a node; none where it says nothing.
pub(crate) fn availability(view: Option<&NodeView>) -> Option<bool> {
    view.map(|view| !(view.drain || view.down || view.not_responding))
}

/// The scheduler's view of a node changed from `before`. Where somebody outside undid our hold, the first time
/// is answered at once and each further one after a longer wait, so that two programs do not fight at full speed.
pub(crate) fn apply_observed(state: &mut State, id: NodeId, at: Timestamp, before: Option<&NodeView>) {
    let Some(node) = state.nodes.get(&id) else { return };
    let undone = speaking_hold(state, id).is_some_and(|hold| {
        let held = |view: &NodeView| is_closed(view) && is_marked(view, hold.id);
        before.is_some_and(held) && !node.observed.as_ref().is_some_and(held)
    });
    if undone {
        let recent = node.containment.undone_at.is_some_and(|last| at.since(last) < UNDONE_WINDOW);
        let times = if recent { node.containment.undone + 1 } else { 1 };
        let wait = if times == 1 { Duration::ZERO } else { effect::backoff(state, times - 1) };
        if let Some(node) = state.nodes.get_mut(&id) {
            node.containment.undone = times;
            node.containment.undone_at = Some(at);
            node.containment.not_before = Some(at + wait);
        }
    }
    set_timer(state, id);
    slot::set_timers_of(state, id);
}

/// Sets the node's deadline: the next try where one is due later, or the end of its wait for the isolation
/// budget. None where nothing can come of it, so that nobody is woken for nothing.
pub(crate) fn set_timer(state: &mut State, id: NodeId) {
    let Some(node) = state.nodes.get(&id) else { return };
    let purpose = Purpose::Containment { node: id };
    let retry = node.containment.not_before.filter(|_| {
        let acts = |effect| effect::permission(state, &effect, &purpose) == Permission::Act;
        difference(state, node).is_some_and(acts) && !effect::is_open(state, &purpose)
    });
    let deferred = state.guard.deferred.get(&id).map(|deferred| deferred.not_before);
    let next = [retry, deferred].into_iter().flatten().min();
    state.timers.set(TimerKey::Containment(id), next);
}

/// The scheduler answers again: what failed because it did not is tried at once.
pub(crate) fn apply_scheduler_back(state: &mut State, cluster: &str) {
    let of_cluster = |node: &Node| node.scheduler.as_ref().is_some_and(|name| name.cluster == cluster);
    let failed = state.nodes.values().filter(|node| node.containment.failures > 0 && of_cluster(node));
    for id in failed.map(|node| node.id).collect::<Vec<_>>() {
        if let Some(node) = state.nodes.get_mut(&id) {
            node.containment.forgive();
        }
        state.dirty.nodes.insert(id);
        set_timer(state, id);
    }
}

/// Modes, guard or configuration changed: what may be tried again did too.
pub(crate) fn set_all_timers(state: &mut State) {
    let waiting: Vec<NodeId> = state
        .nodes
        .values()
        .filter(|node| {
            node.containment.not_before.is_some()
                || state.timers.get(&TimerKey::Containment(node.id)).is_some()
        })
        .map(|node| node.id)
        .collect();
    for id in waiting {
        set_timer(state, id);
    }
}
