//! Reasons why a node gets no new work, each with an owner. Nobody removes another owner's hold.
//!
//! Holds live in the journal, whatever the mode; `containment` brings them to the scheduler.

mod command;
#[cfg(test)]
mod tests;

pub(crate) use command::{marks, may_release, on_command, place_for};

use std::collections::BTreeSet;

use provost_model::body::{Body, HoldPlaced, HoldReleased, IsolationDeferred, NodeView, ReasonOwner};
use provost_model::fleet::Phase;
use provost_model::ids::{AlertId, HoldId, IncidentId, NodeId};
use provost_model::record::{Actor, Class, Record, Subject};
use provost_model::response::{AlertState, Classification, HoldOwner, IncidentState};
use provost_model::time::Timestamp;

use crate::event::{Decisions, Event};
use crate::state::{Alert, Hold, Incident, Node, State, TimerKey};
use crate::{alert, containment, governor, lifecycle, slot};

pub(crate) fn apply_placed(state: &mut State, record: &Record, data: &HoldPlaced) {
    let hold = Hold {
        id: data.hold,
        owner: data.owner.clone(),
        node: data.node,
        gpu: data.gpu,
        reason: data.reason.clone(),
        since: record.at,
        until: data.until,
    };
    state.holds.insert(hold.id, hold);
    state.timers.set(TimerKey::Hold(data.hold), data.until);
    if data.isolation {
        governor::count_isolation(state, record.at, data.node);
    }
    if let HoldOwner::Incident(number) = &data.owner
        && let Some(id) = state.incident_numbers.get(number)
    {
        state.dirty.incidents.insert(*id);
    }
    state.dirty.nodes.insert(data.node);
    forget_deferral(state, data.node);
    containment::set_timer(state, data.node);
    slot::set_timers_of(state, data.node);
}

pub(crate) fn apply_released(state: &mut State, record: &Record, data: &HoldReleased) {
    state.timers.set(TimerKey::Hold(data.hold), None);
    let Some(hold) = state.holds.remove(&data.hold) else { return };
    if let HoldOwner::Incident(number) = &hold.owner {
        // What a verified step ended is over by itself; only a person's word makes evidence count no more.
        if let Some(node) = state.nodes.get_mut(&hold.node).filter(|_| data.why == "owner") {
            node.cleared_at = Some(record.at);
        }
        if let Some(id) = state.incident_numbers.get(number) {
            state.dirty.incidents.insert(*id);
        }
    }
    state.dirty.nodes.insert(hold.node);
    if let Some(slot) = state.nodes.get(&hold.node).and_then(|node| node.slot) {
        state.mark_slot(slot);
    }
    forget_deferral(state, hold.node);
    containment::set_timer(state, hold.node);
    slot::set_timers_of(state, hold.node);
}

/// What is over asks for no isolation any more.
pub(crate) fn apply_alert_over(state: &mut State, alert: AlertId) {
    if let Some(node) = state.alerts.get(&alert).and_then(|alert| alert.node) {
        forget_deferral(state, node);
        containment::set_timer(state, node);
    }
}

/// An isolation waits only as long as it is wanted: its deadline would wake the loop for nothing, again and again.
fn forget_deferral(state: &mut State, node: NodeId) {
    let Some(deferred) = state.guard.deferred.get(&node) else { return };
    let wanted = state
        .incidents
        .get(&deferred.incident)
        .is_some_and(|incident| unheld(state, incident).iter().any(|(unheld, _)| unheld.id == node));
    if !wanted {
        state.guard.deferred.remove(&node);
    }
}

/// An incident that is over asks for no isolation any more.
pub(crate) fn apply_incident_over(state: &mut State, incident: IncidentId) {
    let waiting: Vec<NodeId> = state
        .guard
        .deferred
        .iter()
        .filter(|(_, deferred)| deferred.incident == incident)
        .map(|(node, _)| *node)
        .collect();
    for node in waiting {
        state.guard.deferred.remove(&node);
        containment::set_timer(state, node);
    }
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    for node in state.touched_nodes() {
        expire(state, now, node, out);
        follow_outside(state, node, out);
        follow_phase(state, node, out);
    }
    isolate(state, now, out);
    release_of_ended(state, out);
}

/// Holds with an end end.
fn expire(state: &State, now: Timestamp, node: &Node, out: &mut Decisions) {
    for hold in state.holds_on(node.id).filter(|hold| hold.until.is_some_and(|until| until <= now)) {
        out.push(released(state, hold, "expired"));
    }
}

/// A drain of somebody outside is a hold of theirs, from when it is seen until it is seen gone.
fn follow_outside(state: &State, node: &Node, out: &mut Decisions) {
    let (Some(name), Some(view)) = (&node.scheduler, &node.observed) else { return };
    let mut external = state.holds_on(node.id).filter(|hold| matches!(hold.owner, HoldOwner::External(_)));
    match external.next() {
        None if is_foreign(view) => {
            let owner = HoldOwner::External(format!("slurm:{}", name.cluster));
            let event = place(node.id, node.subject(), out.id(), owner, "drained in the scheduler");
            out.push(event.by(Actor::scheduler(&name.cluster)));
        }
        // Nobody but us writes our reason, and never over a drain of theirs: theirs had ended before.
        Some(hold) if !view.drain || (view.reason == ReasonOwner::Ours && !is_earlier(hold)) => {
            out.push(released(state, hold, "external_gone").by(Actor::scheduler(&name.cluster)));
        }
        _ => {}
    }
}

/// Owner of a drain under our reason that an earlier installation has left; a cluster's name follows.
pub(crate) const EARLIER: &str = "earlier:";

/// The hold stands for what an earlier installation has left.
pub(crate) fn is_earlier(hold: &Hold) -> bool {
    matches!(&hold.owner, HoldOwner::External(name) if name.starts_with(EARLIER))
}

/// Drained by somebody else: under their reason, or under none and without our mark.
fn is_foreign(view: &NodeView) -> bool {
    let theirs = match view.reason {
        ReasonOwner::Foreign => true,
        ReasonOwner::None => view.mark.is_none(),
        ReasonOwner::Ours => false,
    };
    view.drain && theirs
}

/// A phase that forbids work holds its node; no other phase's hold stays.
fn follow_phase(state: &State, node: &Node, out: &mut Decisions) {
    let wanted = lifecycle::forbids_work(node.phase).then(|| phase_owner(node.phase));
    let mut held = false;
    for hold in state.holds_on(node.id) {
        if wanted.as_ref() == Some(&hold.owner) {
            held = true;
        } else if matches!(&hold.owner, HoldOwner::Policy(name) if name.starts_with(PHASE_PREFIX)) {
            out.push(released(state, hold, "phase_left"));
        }
    }
    if let Some(owner) = wanted.filter(|_| !held) {
        let reason = format!("phase {}", node.phase.name());
        let hold = out.id();
        out.push(place(node.id, node.subject(), hold, owner, &reason));
    }
}

const PHASE_PREFIX: &str = "lifecycle:";

fn phase_owner(phase: Phase) -> HoldOwner {
    HoldOwner::Policy(format!("{PHASE_PREFIX}{}", phase.name()))
}

/// Places the holds of incidents whose alerts block placement, inside the isolation budget. At most one new
/// isolation a call: the budget is counted in State, which has to see the first before it can judge the second.
fn isolate(state: &State, now: Timestamp, out: &mut Decisions) {
    let mut isolated = BTreeSet::new();
    for incident in touched_incidents(state) {
        for (node, alert) in unheld(state, incident) {
            let has_hold =
                containment::speaking_hold(state, node.id).is_some() || isolated.contains(&node.id);
            if has_hold {
                out_incident_hold(incident, node, alert, false, out);
                continue;
            }
            if !isolated.is_empty() {
                continue;
            }
            match governor::may_isolate(state, now, node.id) {
                Ok(()) => {
                    isolated.insert(node.id);
                    out_incident_hold(incident, node, alert, true, out);
                }
                Err(not_before) => defer(state, now, incident, node, not_before, out),
            }
        }
    }
}

/// Incidents that this turn touched, themselves or by an alert or a node that waits for its isolation.
fn touched_incidents(state: &State) -> Vec<&Incident> {
    if state.dirty.all {
        return state.incidents.values().collect();
    }
    let of_alerts = state.dirty.alerts.iter().filter_map(|id| state.alerts.get(id)?.incident);
    let of_nodes = state.dirty.nodes.iter().filter_map(|id| Some(state.guard.deferred.get(id)?.incident));
    let ids: BTreeSet<IncidentId> =
        state.dirty.incidents.iter().copied().chain(of_alerts).chain(of_nodes).collect();
    ids.iter().filter_map(|id| state.incidents.get(id)).collect()
}

/// Nodes, and the alert that asks for each hold, that an open incident does not hold yet.
fn unheld<'a>(state: &'a State, incident: &'a Incident) -> Vec<(&'a Node, &'a Alert)> {
    if !incident.state.is_open() {
        return Vec::new();
    }
    let owner = HoldOwner::Incident(incident.number.clone());
    let mut wanted: Vec<(&Node, &Alert)> = Vec::new();
    for alert in incident.alerts.iter().filter_map(|id| state.alerts.get(id)) {
        let blocks = alert.classifications.contains(&Classification::BlocksPlacement);
        let Some(node) = alert.node.and_then(|id| state.nodes.get(&id)) else { continue };
        let fresh = node.cleared_at.is_none_or(|cleared| alert.last_at.max(alert.raised_at) > cleared);
        let held = state.holds_on(node.id).any(|hold| hold.owner == owner && hold.gpu == alert.gpu);
        let twice = wanted.iter().any(|(n, other)| n.id == node.id && other.gpu == alert.gpu);
        if blocks && alert.state != AlertState::Resolved && fresh && !held && !twice {
            wanted.push((node, alert));
        }
    }
    wanted
}

fn out_incident_hold(incident: &Incident, node: &Node, alert: &Alert, isolation: bool, out: &mut Decisions) {
    let data = HoldPlaced {
        hold: out.id(),
        owner: HoldOwner::Incident(incident.number.clone()),
        node: node.id,
        gpu: alert.gpu,
        reason: alert::short(alert),
        until: None,
        isolation,
    };
    let event = Event::new(Class::Privileged, Body::HoldPlaced(data));
    out.push(event.about(node.subject()).of_incident(&incident.number));
}

/// Holds a node for an incident whose runbook has come so far, where the isolation budget has room.
pub(crate) fn hold_for(
    state: &State,
    now: Timestamp,
    incident: &Incident,
    node: &Node,
    alert: &Alert,
    out: &mut Decisions,
) {
    if !is_held_for(state, incident, node.id) && governor::may_isolate(state, now, node.id).is_ok() {
        let isolation = containment::speaking_hold(state, node.id).is_none();
        out_incident_hold(incident, node, alert, isolation, out);
    }
}

/// The incident holds the node.
pub(crate) fn is_held_for(state: &State, incident: &Incident, node: NodeId) -> bool {
    let owner = HoldOwner::Incident(incident.number.clone());
    state.holds_on(node).any(|hold| hold.owner == owner)
}

/// An open alert of the incident wants the node held.
pub(crate) fn is_wanted(state: &State, incident: &Incident, node: NodeId) -> bool {
    incident.alerts.iter().filter_map(|id| state.alerts.get(id)).any(|alert| {
        alert.node == Some(node)
            && alert.state != AlertState::Resolved
            && alert.classifications.contains(&Classification::BlocksPlacement)
    })
}

/// Says once that an isolation waits, and again when the wait turned out too short.
fn defer(
    state: &State,
    now: Timestamp,
    incident: &Incident,
    node: &Node,
    not_before: Timestamp,
    out: &mut Decisions,
) {
    if state.guard.deferred.get(&node.id).is_some_and(|deferred| deferred.not_before > now) {
        return;
    }
    let body =
        Body::IsolationDeferred(IsolationDeferred { node: node.id, incident: incident.id, not_before });
    let event = Event::new(Class::Response, body);
    out.push(event.about(node.subject()).of_incident(&incident.number));
}

/// Holds of incidents that are over. An automatic end comes after the release; a person may end one earlier.
fn release_of_ended(state: &State, out: &mut Decisions) {
    for incident in touched_incidents(state) {
        if matches!(incident.state, IncidentState::Resolved | IncidentState::Closed) {
            release_incident_holds(state, incident.id, "incident_resolved", out);
        }
    }
}

/// Releases every hold of an incident: its work is verified, or a person ended it. `why` is the code in the
/// records: `verified`, `incident_resolved`.
pub(crate) fn release_incident_holds(state: &State, incident: IncidentId, why: &str, out: &mut Decisions) {
    let Some(incident) = state.incidents.get(&incident) else { return };
    let owner = HoldOwner::Incident(incident.number.clone());
    for hold in state.holds.values().filter(|hold| hold.owner == owner) {
        out.push(released(state, hold, why));
    }
}

/// A hold on a whole node that is no isolation by automation.
pub(crate) fn place(node: NodeId, subject: Subject, hold: HoldId, owner: HoldOwner, reason: &str) -> Event {
    let data =
        HoldPlaced { hold, owner, node, gpu: None, reason: reason.to_owned(), until: None, isolation: false };
    Event::new(Class::Privileged, Body::HoldPlaced(data)).about(subject)
}

fn released(state: &State, hold: &Hold, why: &str) -> Event {
    let body =
        Body::HoldReleased(HoldReleased { hold: hold.id, owner: hold.owner.clone(), why: why.to_owned() });
    let mut event = Event::new(Class::Privileged, body);
    event.subject = state.nodes.get(&hold.node).map(Node::subject);
    match &hold.owner {
        HoldOwner::Incident(number) => event.of_incident(number),
        _ => event,
    }
}
