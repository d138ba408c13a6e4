//! Commands about the site itself: the guard, modes, tokens.

use std::collections::BTreeSet;

use provost_model::body::{AgentTokenCreated, Body, Empty, ModeChanged};
use provost_model::input::Reply;
use provost_model::policy::{Mode, ModeScope};
use provost_model::record::Class;
use provost_model::time::Timestamp;

use super::Asked;
use crate::event::Decisions;
use crate::state::State;

/// Names that one token may hold, in bytes of JSON: its record stays one that a person can read.
const MAX_TOKEN_BYTES: usize = 32 * 1024;

pub(super) fn guard(state: &State, stop: bool, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    if state.guard.stopped == stop {
        return Reply::Already;
    }
    let body = if stop { Body::GuardStopped(Empty {}) } else { Body::GuardStarted(Empty {}) };
    let event = asked.event(Class::Administration, body);
    let text = |stopped: bool| Some(stopped.to_string());
    out.push(event.changing("guard/stopped".to_owned(), text(!stop), text(stop)));
    asked.accepted(state, Vec::new())
}

pub(super) fn reset_breaker(state: &State, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    if !state.guard.breaker_tripped {
        return Reply::Already;
    }
    let event = asked.event(Class::Administration, Body::BreakerReset(Empty {}));
    let text = |tripped: bool| Some(tripped.to_string());
    out.push(event.changing("guard/breaker".to_owned(), text(true), text(false)));
    asked.accepted(state, Vec::new())
}

pub(super) fn set_mode(
    state: &State,
    scope: &ModeScope,
    mode: Option<Mode>,
    asked: &Asked<'_>,
    out: &mut Decisions,
) -> Reply {
    let (path, before) = match scope {
        ModeScope::Site if mode.is_none() => {
            let detail = "a site always has a mode: observe, advise or act".to_owned();
            return Reply::Invalid { field: "mode".to_owned(), detail };
        }
        ModeScope::Site => ("mode/site".to_owned(), Some(state.config.mode)),
        ModeScope::Scheduler(name) => match state.config.clusters.get(name) {
            Some(cluster) => (format!("mode/scheduler/{name}"), cluster.mode),
            None => return Reply::NotFound { what: format!("scheduler {name}") },
        },
        ModeScope::Node(name) if !state.node_names.contains_key(name) => {
            return Reply::NotFound { what: format!("node {name}") };
        }
        ModeScope::Node(name) => (format!("mode/node/{name}"), state.config.node_modes.get(name).copied()),
    };
    if before == mode {
        return Reply::Already;
    }
    let body = Body::ModeChanged(ModeChanged { scope: scope.clone(), mode });
    let text = |mode: Option<Mode>| mode.map(|mode| mode.name().to_owned());
    out.push(asked.event(Class::Administration, body).changing(path, text(before), text(mode)));
    asked.accepted(state, Vec::new())
}

pub(super) struct Token<'a> {
    pub(super) digest: &'a str,
    pub(super) nodes: &'a BTreeSet<String>,
    pub(super) uses: u32,
    pub(super) expires_at: Timestamp,
}

pub(super) fn create_token(
    state: &State,
    now: Timestamp,
    token: &Token<'_>,
    asked: &Asked<'_>,
    out: &mut Decisions,
) -> Reply {
    let invalid =
        |field: &str, detail: &str| Reply::Invalid { field: field.to_owned(), detail: detail.to_owned() };
    let hex =
        token.digest.len() == 64 && token.digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if !hex {
        return invalid("token_sha256", "a SHA-256 in 64 lower-case hexadecimal digits");
    }
    let bytes: usize = token.nodes.iter().map(|name| name.len() + 3).sum();
    if token.nodes.is_empty() || bytes > MAX_TOKEN_BYTES {
        return invalid("nodes", "at least one node name, and at most 32 KiB of names; make several tokens");
    }
    if token.uses == 0 {
        return invalid("uses", "at least 1");
    }
    if token.expires_at <= now {
        return invalid("expires_at", "a time that is still to come");
    }
    if state.tokens.contains_key(token.digest) {
        return Reply::Already;
    }
    let body = Body::AgentTokenCreated(AgentTokenCreated {
        token_sha256: token.digest.to_owned(),
        nodes: token.nodes.clone(),
        uses: token.uses,
        expires_at: token.expires_at,
    });
    out.push(asked.event(Class::Administration, body));
    asked.accepted(state, Vec::new())
}
