//! What people and services ask for: authorized, then decided by the concern that owns the thing.
//!
//! Every command passes [`authorize`] and needs a reason. Whatever refuses it, a `command.denied` is left.

mod asked;
mod authorize;
mod site;

use provost_model::body::{Body, CommandDenied, ModeChanged};
use provost_model::input::{Action, Command, Reply};
use provost_model::policy::ModeScope;
use provost_model::record::{Class, Outcome};
use provost_model::time::Timestamp;

pub(crate) use asked::Asked;
pub use authorize::authorize;

use crate::event::Decisions;
use crate::state::State;
use crate::{hold, incident, lifecycle, runbook, scheduler, slot, source};

/// Characters of a reason that are kept; the rest is refused, so that nobody's words are cut.
const MAX_REASON: usize = 4_096;

impl Asked<'_> {
    /// The reply to a request that was accepted; `created` are the ids of what it made.
    pub(crate) fn accepted(&self, state: &State, created: Vec<String>) -> Reply {
        Reply::Accepted { seq: state.seq, created }
    }
}

pub(crate) fn apply_mode(state: &mut State, data: &ModeChanged) {
    let config = &mut state.config;
    match (&data.scope, data.mode) {
        (ModeScope::Site, Some(mode)) => config.mode = mode,
        // A site always has a mode.
        (ModeScope::Site, None) => {}
        (ModeScope::Scheduler(name), mode) => {
            if let Some(cluster) = config.clusters.get_mut(name) {
                cluster.mode = mode;
            }
        }
        (ModeScope::Node(name), Some(mode)) => drop(config.node_modes.insert(name.clone(), mode)),
        (ModeScope::Node(name), None) => drop(config.node_modes.remove(name)),
    }
    state.dirty.all = true;
}

pub(crate) fn on_command(state: &State, now: Timestamp, command: &Command, out: &mut Decisions) -> Reply {
    let decision = authorize(&command.actor, &command.roles, &command.action);
    let asked = Asked { command, decision };
    let reply = if !asked.decision.allow {
        Reply::Forbidden { policies: asked.decision.policies.clone() }
    } else if let Some(invalid) = check_reason(&command.reason) {
        invalid
    } else {
        decide(state, now, &asked, out)
    };
    if let Some(code) = refusal(&reply) {
        let mut denied = asked;
        denied.decision.allow = false;
        if let Reply::Forbidden { policies } = &reply {
            denied.decision.policies.clone_from(policies);
        }
        if denied.decision.policies != ["default:deny"] {
            denied.decision.policies.push(format!("rule:{code}"));
        }
        let body = CommandDenied { command: command.action.name().to_owned(), code };
        out.push(
            denied.event(class_of(&command.action), Body::CommandDenied(body)).with_outcome(Outcome::Denied),
        );
    }
    reply
}

fn check_reason(reason: &str) -> Option<Reply> {
    let detail = if reason.trim().is_empty() {
        "say why: every change needs a reason".to_owned()
    } else if reason.chars().count() > MAX_REASON {
        format!("at most {MAX_REASON} characters")
    } else {
        return None;
    };
    Some(Reply::Invalid { field: "reason".to_owned(), detail })
}

fn refusal(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Accepted { .. } | Reply::Already => None,
        Reply::Forbidden { .. } => Some("forbidden".to_owned()),
        Reply::NotFound { .. } => Some("not_found".to_owned()),
        Reply::Conflict { code, .. } => Some(code.clone()),
        Reply::Invalid { .. } => Some("invalid".to_owned()),
        Reply::Guarded { .. } => Some("guarded".to_owned()),
    }
}

/// What a refused command would have been.
fn class_of(action: &Action) -> Class {
    match action {
        Action::GuardStop
        | Action::GuardStart
        | Action::BreakerReset
        | Action::ModeSet { .. }
        | Action::AgentTokenCreate { .. } => Class::Administration,
        Action::NodeHold { .. }
        | Action::HoldRelease { .. }
        | Action::NodeDrain { .. }
        | Action::NodeResume { .. }
        | Action::NodeForget { .. }
        | Action::JobRequeue { .. }
        | Action::SpareActivate { .. }
        | Action::SpareReturn { .. }
        | Action::Detach => Class::Privileged,
        Action::IncidentAck { .. }
        | Action::IncidentNote { .. }
        | Action::IncidentSeverity { .. }
        | Action::IncidentResolve { .. }
        | Action::RunStart { .. }
        | Action::RunApprove { .. }
        | Action::RunPause { .. }
        | Action::RunResume { .. }
        | Action::RunRetry { .. }
        | Action::RunSkip { .. }
        | Action::RunAbort { .. }
        | Action::RunAnswer { .. } => Class::Response,
    }
}

/// Each action goes to the concern that owns what it changes.
fn decide(state: &State, now: Timestamp, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    match &asked.command.action {
        Action::NodeHold { .. } | Action::HoldRelease { .. } | Action::Detach => {
            hold::on_command(state, now, asked, out)
        }
        Action::NodeDrain { .. } | Action::NodeResume { .. } => lifecycle::on_command(state, now, asked, out),
        Action::NodeForget { node } => source::forget(state, node, asked, out),
        Action::SpareActivate { .. } | Action::SpareReturn { .. } => slot::on_command(state, now, asked, out),
        Action::JobRequeue { .. } => scheduler::on_command(state, now, asked, out),
        Action::IncidentAck { .. }
        | Action::IncidentNote { .. }
        | Action::IncidentSeverity { .. }
        | Action::IncidentResolve { .. } => incident::on_command(state, now, asked, out),
        Action::RunStart { .. }
        | Action::RunApprove { .. }
        | Action::RunPause { .. }
        | Action::RunResume { .. }
        | Action::RunRetry { .. }
        | Action::RunSkip { .. }
        | Action::RunAbort { .. }
        | Action::RunAnswer { .. } => runbook::on_command(state, now, asked, out),
        Action::GuardStop => site::guard(state, true, asked, out),
        Action::GuardStart => site::guard(state, false, asked, out),
        Action::BreakerReset => site::reset_breaker(state, asked, out),
        Action::ModeSet { scope, mode } => site::set_mode(state, scope, *mode, asked, out),
        Action::AgentTokenCreate { token_sha256, nodes, uses, expires_at } => {
            let token = site::Token { digest: token_sha256, nodes, uses: *uses, expires_at: *expires_at };
            site::create_token(state, now, &token, asked, out)
        }
    }
}

#[cfg(test)]
mod tests;
