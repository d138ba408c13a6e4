//! What a person's decision about a step means for other concerns.

use provost_model::body::Body;
use provost_model::record::{Class, SubjectKind};
use provost_model::response::AlertState;

use crate::alert;
use crate::command::Asked;
use crate::event::Decisions;
use crate::state::{Execution, State};

/// Ends the event alerts of the incident on the node of an execution: a person says that they are over, and why.
pub(super) fn end_alerts(state: &State, run: &Execution, asked: &Asked<'_>, out: &mut Decisions) {
    let incident = run.incident.and_then(|id| state.incidents.get(&id));
    let alerts = incident.into_iter().flat_map(|incident| &incident.alerts);
    let over = alerts.filter_map(|id| state.alerts.get(id)).filter(|alert| {
        alert.event
            && alert.state != AlertState::Resolved
            && alert.node == run.node
            && alert.subject.kind != SubjectKind::Source
    });
    for alert in over {
        let body = Body::AlertChanged(alert::changed(alert, AlertState::Resolved, "person"));
        out.push(asked.event(Class::Response, body).about(alert.subject.clone()));
    }
}
