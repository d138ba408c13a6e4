//! The points of an incident's clock, each claimed only when it was read back.

use provost_model::body::{Body, IncidentClock};
use provost_model::fleet::Phase;
use provost_model::record::Class;
use provost_model::response::{Classification, Clock};

use super::alerts;
use crate::event::{Decisions, Event};
use crate::state::{Incident, Node, State};

pub(super) fn react(state: &State, incident: &Incident, out: &mut Decisions) {
    if !incident.state.is_open() {
        return;
    }
    let Some(node) = incident.node.and_then(|id| state.nodes.get(&id)) else { return };
    let blocks =
        alerts(state, incident).any(|alert| alert.classifications.contains(&Classification::BlocksPlacement));
    if !blocks {
        return;
    }
    if incident.isolated_at.is_none() && unschedulable(node) {
        reached(incident, Clock::Isolated, out);
    } else if incident.isolated_at.is_some() && incident.mitigated_at.is_none() && serves(state, node) {
        reached(incident, Clock::Mitigated, out);
    }
}

/// The incident's slot serves now.
pub(super) fn served(state: &State, incident: &Incident) -> bool {
    incident.node.and_then(|id| state.nodes.get(&id)).is_some_and(|node| serves(state, node))
}

/// The scheduler was read and gives the node no new work.
fn unschedulable(node: &Node) -> bool {
    node.observed.as_ref().is_some_and(|view| view.drain || view.down)
}

/// The node's slot serves: through a spare that was read back in the slot's partitions, or by itself again.
fn serves(state: &State, node: &Node) -> bool {
    let spare = node.slot.and_then(|slot| state.slots.get(&slot)).and_then(|slot| {
        let spare = state.nodes.get(&slot.spare?)?;
        Some((slot, spare.observed.as_ref()?))
    });
    let by_spare = spare.is_some_and(|(slot, view)| {
        let usable = !view.drain && !view.down && !view.not_responding;
        usable && slot.partitions.is_subset(&view.partitions)
    });
    let released = matches!(node.phase, Phase::InService | Phase::Probation)
        && state.holds_on(node.id).next().is_none()
        && node.observed.as_ref().is_some_and(|view| !view.drain && !view.down);
    by_spare || released
}

fn reached(incident: &Incident, clock: Clock, out: &mut Decisions) {
    let body = Body::IncidentClock(IncidentClock { incident: incident.id, clock });
    let event = Event::new(Class::Response, body);
    out.push(event.about(incident.subject.clone()).of_incident(&incident.number));
}

/// The end, which goes with the change to resolved.
pub(super) fn resolved(incident: &Incident) -> Event {
    let body = Body::IncidentClock(IncidentClock { incident: incident.id, clock: Clock::Resolved });
    Event::new(Class::Response, body).about(incident.subject.clone()).of_incident(&incident.number)
}
