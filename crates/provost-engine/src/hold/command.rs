//! Holds that people place and release, and `detach`.

use std::collections::BTreeSet;

use provost_model::body::{Body, Empty, HoldPlaced, HoldReleased, Purpose};
use provost_model::effect::Effect;
use provost_model::ids::HoldId;
use provost_model::input::{Action, Reply};
use provost_model::policy::Role;
use provost_model::record::Class;
use provost_model::response::HoldOwner;
use provost_model::time::Timestamp;

use crate::command::Asked;
use crate::effect;
use crate::event::Decisions;
use crate::state::{Hold, Node, State};
use crate::{containment, slot};

/// `node.hold`, `hold.release` and `detach`.
pub(crate) fn on_command(state: &State, now: Timestamp, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    match &asked.command.action {
        Action::NodeHold { node, until } => hold(state, now, node, *until, asked, out),
        Action::HoldRelease { hold } => release(state, *hold, asked, out),
        Action::Detach => detach(state, now, asked, out),
        other => {
            Reply::Invalid { field: "action".to_owned(), detail: format!("{} is not here", other.name()) }
        }
    }
}

fn hold(
    state: &State,
    now: Timestamp,
    name: &str,
    until: Option<Timestamp>,
    asked: &Asked<'_>,
    out: &mut Decisions,
) -> Reply {
    let Some(node) = state.node_by_name(name) else {
        return Reply::NotFound { what: format!("node {name}") };
    };
    if until.is_some_and(|until| until <= now) {
        return Reply::Invalid { field: "until".to_owned(), detail: "a time in the future".to_owned() };
    }
    let owner = HoldOwner::Operator(asked.command.actor.sub.clone());
    if state.holds_on(node.id).any(|held| held.owner == owner && held.gpu.is_none() && held.until == until) {
        return Reply::Already;
    }
    let created = place_for(node, until, asked, out);
    Reply::Accepted { seq: state.seq, created: vec![created.to_string()] }
}

/// Places a hold of whoever asks. Their words are sealed; the plain reason says nothing about them.
pub(crate) fn place_for(
    node: &Node,
    until: Option<Timestamp>,
    asked: &Asked<'_>,
    out: &mut Decisions,
) -> HoldId {
    let hold = out.id();
    let data = HoldPlaced {
        hold,
        owner: HoldOwner::Operator(asked.command.actor.sub.clone()),
        node: node.id,
        gpu: None,
        reason: "held by an operator".to_owned(),
        until,
        isolation: false,
    };
    out.push(asked.event(Class::Privileged, Body::HoldPlaced(data)).about(node.subject()));
    hold
}

/// Whoever asks may release this operator's hold: it is theirs, or they are an operator themselves.
pub(crate) fn may_release(hold: &Hold, asked: &Asked<'_>) -> bool {
    let own = hold.owner == HoldOwner::Operator(asked.command.actor.sub.clone());
    let operator = || asked.command.roles.iter().any(|role| matches!(role, Role::Operator | Role::Admin));
    own || operator()
}

fn release(state: &State, id: HoldId, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    let Some(hold) = state.holds.get(&id) else { return Reply::NotFound { what: format!("hold {id}") } };
    let admin = asked.command.roles.contains(&Role::Admin);
    let refusal = match &hold.owner {
        HoldOwner::Operator(_) if may_release(hold, asked) => None,
        HoldOwner::Operator(_) => Some("it is another person's hold; ask an operator".to_owned()),
        HoldOwner::Incident(_) if admin => None,
        HoldOwner::Incident(number) => Some(format!(
            "it belongs to {number}, which releases it once the repair is verified; see `provost incident show {number}`"
        )),
        HoldOwner::External(owner) => Some(format!(
            "somebody drained the node in {owner}; resume it there, then the hold ends by itself"
        )),
        HoldOwner::Policy(rule) => Some(format!(
            "it belongs to the rule {rule} and ends with the node's phase; see `provost node show`"
        )),
        HoldOwner::Legal(_) => Some("it is a legal hold; whoever placed it must release it".to_owned()),
    };
    if let Some(detail) = refusal {
        return Reply::Conflict { code: "not_yours".to_owned(), detail };
    }
    let body =
        Body::HoldReleased(HoldReleased { hold: id, owner: hold.owner.clone(), why: "owner".to_owned() });
    let mut event = asked.event(Class::Privileged, body);
    event.subject = state.nodes.get(&hold.node).map(Node::subject);
    if let HoldOwner::Incident(number) = &hold.owner {
        event.corr.incident = Some(number.clone());
    }
    out.push(event);
    Reply::Accepted { seq: state.seq, created: Vec::new() }
}

/// Takes every mark of ours away, in any mode. The guard stops with it, or containment would write them again;
/// holds stay in the journal. Asked for again once the intents are done, it answers that nothing is left.
fn detach(state: &State, now: Timestamp, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    let effects = marks(state);
    let running: Vec<&Effect> = state
        .effects
        .values()
        .filter(|open| open.requested.purpose == Purpose::Detach)
        .map(|open| &open.requested.effect)
        .collect();
    let pending = !running.is_empty();
    if !state.guard.stopped && (pending || !effects.is_empty()) {
        out.push(asked.event(Class::Administration, Body::GuardStopped(Empty {})));
    }
    for effect in effects.iter().filter(|effect| !running.contains(effect)) {
        if let (_, Some(body)) = effect::plan(state, now, effect, &Purpose::Detach) {
            out.push(asked.event(Class::Privileged, body));
        }
    }
    if out.is_empty() && !pending {
        return Reply::Already;
    }
    Reply::Accepted { seq: state.seq, created: Vec::new() }
}

/// What takes every mark of ours away: off nodes, off jobs, and spares out of the slots that they serve in.
pub(crate) fn marks(state: &State) -> BTreeSet<Effect> {
    let notes = state.noted.iter().map(|cluster| Effect::NotesOff { cluster: cluster.clone() });
    state.nodes.values().flat_map(|node| marks_on(state, node)).chain(notes).collect()
}

fn marks_on(state: &State, node: &Node) -> Vec<Effect> {
    let mut effects = Vec::new();
    let Some(name) = &node.scheduler else { return effects };
    let release = Effect::SchedulerRelease { cluster: name.cluster.clone(), node: name.node.clone() };
    let marked = node.observed.as_ref().is_some_and(|view| !containment::shows(view, &release));
    // A hold that is on its way may have been written although nothing shows it yet.
    let on_its_way = effect::is_open(state, &Purpose::Containment { node: node.id });
    if marked || on_its_way {
        effects.push(release);
    }
    if let Some(slot) = node.serves.and_then(|id| state.slots.get(&id)) {
        effects.extend(slot::leave(slot, node));
    }
    effects
}
