//! Agents that are gone for good. What is known of the node stays; only nobody waits for its agent any more.

use std::collections::BTreeSet;

use provost_model::body::{Body, Source, SourceChanged, SourceState};
use provost_model::fleet::NodeFacts;
use provost_model::input::Reply;
use provost_model::policy::EngineConfig;
use provost_model::record::Class;

use super::subject;
use crate::command::Asked;
use crate::event::{Decisions, Event};
use crate::state::State;

fn gone(source: &Source) -> Body {
    Body::SourceChanged(SourceChanged { source: source.clone(), state: SourceState::Gone })
}

/// `node.forget`: a person knows that the agent does not come back.
pub(crate) fn forget(state: &State, node: &str, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    let agent = Source::Agent(node.to_owned());
    let Some(health) = state.sources.get(&agent) else {
        return Reply::NotFound { what: format!("an agent of {node}") };
    };
    if health.state == SourceState::Fresh {
        let detail = format!("the agent of {node} reports; stop it on the node first");
        return Reply::Conflict { code: "agent_reports".to_owned(), detail };
    }
    if health.state == SourceState::Gone {
        return Reply::Already;
    }
    for source in [agent, Source::KernelLog(node.to_owned())] {
        if state.sources.contains_key(&source) {
            out.push(asked.event(Class::Administration, gone(&source)).about(subject(&source)));
        }
    }
    asked.accepted(state, Vec::new())
}

/// Agents of nodes that the inventory lists no more, and schedulers that are configured no more. Which report all
/// the same are expected again.
pub(super) fn left_configuration(state: &State, config: &EngineConfig, out: &mut Decisions) {
    let names = |nodes: &[NodeFacts]| nodes.iter().map(|node| node.name.clone()).collect::<BTreeSet<_>>();
    let (before, after) = (names(&state.config.inventory), names(&config.inventory));
    for (source, health) in &state.sources {
        let left = match source {
            Source::Agent(node) | Source::KernelLog(node) | Source::Bmc(node) => {
                before.contains(node) && !after.contains(node)
            }
            Source::Scheduler(name) => !config.clusters.contains_key(name),
        };
        if left && health.state != SourceState::Gone {
            out.push(Event::new(Class::Administration, gone(source)).about(subject(source)));
        }
    }
}
