//! Planned work: a person takes a node out of service and gives it back.

use provost_model::body::{Body, EffectVoided, HoldReleased, NodePhaseChanged, Purpose};
use provost_model::effect::{Effect, EffectResult};
use provost_model::fleet::Phase;
use provost_model::input::{Action, Reply};
use provost_model::record::Class;
use provost_model::response::HoldOwner;
use provost_model::time::Timestamp;

use super::home;
use crate::command::Asked;
use crate::effect::{self, Requested};
use crate::event::{Decisions, Event};
use crate::hold;
use crate::state::{Hold, Node, OpenEffect, State};

/// Why a node comes home whose test passed.
pub(super) const VALIDATED: &str = "validated";
/// The agent's action that tests a node.
const VALIDATE: &str = "validate";

/// `node.drain` and `node.resume`.
pub(crate) fn on_command(state: &State, now: Timestamp, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    match &asked.command.action {
        Action::NodeDrain { node } => match state.node_by_name(node) {
            Some(node) => drain(state, node, asked, out),
            None => Reply::NotFound { what: format!("node {node}") },
        },
        Action::NodeResume { node } => match state.node_by_name(node) {
            Some(node) => resume(state, now, node, asked, out),
            None => Reply::NotFound { what: format!("node {node}") },
        },
        other => {
            Reply::Invalid { field: "action".to_owned(), detail: format!("{} is not here", other.name()) }
        }
    }
}

fn drain(state: &State, node: &Node, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    match node.phase {
        Phase::Maintenance => return Reply::Already,
        Phase::InService | Phase::Spare | Phase::Probation | Phase::Lost => {}
        phase => {
            return Reply::Conflict {
                code: "in_recovery".to_owned(),
                detail: format!(
                    "{} is {} because of a fault; place a hold of your own with `provost node hold`",
                    node.name,
                    phase.name()
                ),
            };
        }
    }
    let created = hold::place_for(node, None, asked, out);
    out.push(changed_by(node, Phase::Maintenance, "planned_work", asked));
    Reply::Accepted { seq: state.seq, created: vec![created.to_string()] }
}

/// Releases the person's own holds. A node in maintenance goes on to a test where its agent has one, else
/// straight home; a fault's phases end by their runbook.
fn resume(state: &State, now: Timestamp, node: &Node, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    let own: Vec<&Hold> = state
        .holds_on(node.id)
        .filter(|held| matches!(&held.owner, HoldOwner::Operator(_)) && hold::may_release(held, asked))
        .collect();
    if own.is_empty() && node.phase != Phase::Maintenance {
        return Reply::Already;
    }
    let validation = (node.phase == Phase::Maintenance).then(|| plan_validation(state, now, node, asked));
    if matches!(validation, Some((Requested::Stopped, _))) {
        return Reply::Conflict {
            code: "guard_stopped".to_owned(),
            detail: format!(
                "{} must be tested before it returns, and the guard is stopped; `provost guard start` first",
                node.name
            ),
        };
    }
    for held in own {
        let body = Body::HoldReleased(HoldReleased {
            hold: held.id,
            owner: held.owner.clone(),
            why: "owner".to_owned(),
        });
        out.push(asked.event(Class::Privileged, body).about(node.subject()));
    }
    match validation {
        Some((Requested::Intent, Some(body))) => {
            out.push(changed_by(node, Phase::Revalidating, "planned_work_over", asked));
            out.push(asked.event(Class::Privileged, body).about(node.subject()));
        }
        Some((_, would_have)) => {
            if let Some(body) = would_have {
                out.push(asked.event(Class::Privileged, body).about(node.subject()));
            }
            out.push(changed_by(node, home(node), "planned_work_over", asked));
        }
        None => {}
    }
    Reply::Accepted { seq: state.seq, created: Vec::new() }
}

/// The test that a node has to pass; `WouldHave` without a body where its agent has none.
fn plan_validation(
    state: &State,
    now: Timestamp,
    node: &Node,
    asked: &Asked<'_>,
) -> (Requested, Option<Body>) {
    if !node.actions.contains(VALIDATE) {
        return (Requested::WouldHave, None);
    }
    let effect = Effect::AgentAction { node: node.name.clone(), action: VALIDATE.to_owned(), pci: None };
    effect::plan(state, now, &effect, &Purpose::Command { request: asked.command.request.clone() })
}

fn changed_by(node: &Node, to: Phase, why: &str, asked: &Asked<'_>) -> Event {
    let data = NodePhaseChanged { node: node.id, from: node.phase, to, why: why.to_owned() };
    asked.event(Class::Response, Body::NodePhaseChanged(data)).about(node.subject())
}

/// The open intent of a test that a person's `node.resume` started.
pub(super) fn validation_of<'a>(state: &'a State, node: &Node) -> Option<&'a OpenEffect> {
    state.effects.values().find(|open| validates(open) == Some(&node.name))
}

/// The name of the node that an intent tests for a person.
fn validates(open: &OpenEffect) -> Option<&String> {
    match (&open.requested.effect, &open.requested.purpose) {
        (Effect::AgentAction { node, action, .. }, Purpose::Command { .. }) if action == VALIDATE => {
            Some(node)
        }
        _ => None,
    }
}

/// A test that a person's `node.resume` started came to an end: the node goes home, or back to maintenance.
/// So it does where nobody could say for long what became of the test.
pub(crate) fn on_result(
    state: &State,
    intent: u64,
    open: &OpenEffect,
    result: &EffectResult,
    out: &mut Decisions,
) {
    let Some(node) = validates(open).and_then(|name| state.node_by_name(name)) else { return };
    if node.phase != Phase::Revalidating {
        return;
    }
    match result {
        EffectResult::Done { .. } => out.push(super::changed(state, node, home(node), VALIDATED)),
        EffectResult::NotDone { .. } => {
            out.push(super::changed(state, node, Phase::Maintenance, "validation_failed"));
        }
        EffectResult::Unknown { .. } if open.probes + 1 >= effect::MAX_PROBES => {
            out.push(super::changed(state, node, Phase::Maintenance, "validation_unknown"));
            let body = Body::EffectVoided(EffectVoided { intent, why: "no_answer".to_owned() });
            out.push(Event::new(Class::Privileged, body).about(node.subject()));
        }
        // A probe may still tell.
        EffectResult::Unknown { .. } => {}
    }
}
