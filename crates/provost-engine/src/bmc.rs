//! What the BMCs of nodes say.
//!
//! Only changes are recorded: a site at rest makes no record. That a BMC says the same still is told by its source,
//! which falls silent when it says nothing. A BMC's own judgement of health is shown and decides nothing; that a
//! machine has no power is evidence, as long as the source is fresh.

use provost_model::bmc::{BmcReading, Power};
use provost_model::body::{BmcObserved, Body, Source, SourceState};
use provost_model::record::{Actor, Class};

use crate::event::{Decisions, Event};
use crate::state::{Node, State};

pub(crate) fn apply_observed(state: &mut State, data: &BmcObserved) {
    if let Some(node) = state.nodes.get_mut(&data.node) {
        node.bmc = Some(data.view);
        node.bmc_asked_at = Some(data.asked_at);
        state.dirty.nodes.insert(data.node);
    }
}

/// What was said before a controller took over may have been said long ago.
pub(crate) fn apply_started(state: &mut State) {
    for node in state.nodes.values_mut() {
        node.bmc = None;
        node.bmc_asked_at = None;
    }
}

/// One answer of one BMC. One that was asked for before what is known already says nothing.
pub(crate) fn on_read(state: &State, reading: &BmcReading, out: &mut Decisions) {
    let Some(node) = state.node_by_name(&reading.node) else { return };
    let late = node.bmc_asked_at.is_some_and(|known| reading.at <= known);
    if late || node.bmc == Some(reading.view) {
        return;
    }
    let body = Body::BmcObserved(BmcObserved { node: node.id, asked_at: reading.at, view: reading.view });
    out.push(Event::new(Class::Detection, body).by(Actor::bmc(&node.name)).about(node.subject()));
}

/// How the source stands; none where the node has no BMC that is configured.
pub fn source(state: &State, node: &Node) -> Option<SourceState> {
    let health = state.sources.get(&Source::Bmc(node.name.clone()))?;
    (health.state != SourceState::Gone).then_some(health.state)
}

/// Whether the machine has power, by a BMC that answers; none where nobody can say.
pub fn power(state: &State, node: &Node) -> Option<Power> {
    let fresh = source(state, node) == Some(SourceState::Fresh);
    node.bmc.filter(|_| fresh)?.power
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use provost_model::bmc::{BmcView, Health};
    use provost_model::input::Input;
    use provost_model::response::AlertState;
    use provost_model::signal::Impact;

    use super::*;
    use crate::testing::{Site, T0};

    fn reading(second: u64, power: Option<Power>, health: Option<Health>) -> Input {
        Input::BmcRead(Box::new(BmcReading {
            node: "gpu001".to_owned(),
            at: T0 + Duration::from_secs(second),
            view: BmcView { power, health },
        }))
    }

    fn said(site: &mut Site, state: SourceState) -> Vec<&'static str> {
        site.feed(Input::Source { source: Source::Bmc("gpu001".to_owned()), state })
    }

    #[test]
    fn only_what_is_new_is_recorded() {
        let mut site = Site::new(2);
        let on = || reading(1, Some(Power::On), Some(Health::Ok));
        assert_eq!(site.feed(on()), ["bmc.observed"]);
        assert!(site.feed(reading(2, Some(Power::On), Some(Health::Ok))).is_empty());
        assert_eq!(site.feed(reading(3, Some(Power::Off), None)), ["bmc.observed"]);
        // Asked for before, answered after: it is of no use.
        assert!(site.feed(on()).is_empty());
        assert_eq!(site.node("gpu001").bmc.and_then(|view| view.power), Some(Power::Off));
        let stranger = BmcReading { node: "nobody".to_owned(), at: T0, view: BmcView::default() };
        assert!(site.feed(Input::BmcRead(Box::new(stranger))).is_empty());
    }

    #[test]
    fn power_is_known_only_while_the_bmc_answers() {
        let mut site = Site::new(2);
        site.feed(reading(1, Some(Power::Off), None));
        let power_of = |site: &Site| power(&site.state, site.node("gpu001"));
        assert_eq!(power_of(&site), None, "nobody said that its BMC answers");
        said(&mut site, SourceState::Fresh);
        assert_eq!(power_of(&site), Some(Power::Off));
        for state in [SourceState::Silent, SourceState::Blind, SourceState::Gone] {
            said(&mut site, state);
            assert_eq!(power_of(&site), None, "{state:?}");
        }
        assert_eq!(source(&site.state, site.node("gpu001")), None, "it is not configured any more");
        assert_eq!(source(&site.state, site.node("gpu002")), None);
    }

    #[test]
    fn what_was_said_before_a_start_is_unknown_until_it_is_said_again() {
        let mut site = Site::new(2);
        site.feed(reading(1, Some(Power::Off), None));
        said(&mut site, SourceState::Fresh);
        site.start();
        assert_eq!(power(&site.state, site.node("gpu001")), None);
        assert_eq!(site.feed(reading(2, Some(Power::Off), None)), ["bmc.observed"]);
        assert_eq!(power(&site.state, site.node("gpu001")), Some(Power::Off));
    }

    #[test]
    fn a_bmc_that_is_silent_is_a_minor_alert_that_pages_nobody() {
        let mut site = Site::new(2);
        said(&mut site, SourceState::Silent);
        let alert = site.state.alerts.values().next().expect("an alert");
        assert_eq!((alert.condition.as_str(), alert.impact), ("source.silent", Impact::Minor));
        assert!(alert.classifications.is_empty());
        said(&mut site, SourceState::Gone);
        assert!(site.state.alerts.values().all(|alert| alert.state == AlertState::Resolved));
        // Configured again, and away from the start.
        said(&mut site, SourceState::Silent);
        assert!(site.state.alerts.values().any(|alert| alert.state == AlertState::Firing));
    }
}
