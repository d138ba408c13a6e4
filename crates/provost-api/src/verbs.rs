//! From the fields of a request to the action of a command. Names are resolved here, rights are not: the engine
//! decides who may do what, and records it.

use std::collections::BTreeSet;
use std::str::FromStr;

use provost_engine::State;
use provost_model::ids::{ExecutionId, HoldId, IncidentId, NodeId};
use provost_model::input::Action;
use provost_model::policy::{Mode, ModeScope};
use provost_model::response::Severity;
use provost_model::time::Timestamp;

use crate::backend::Backend;
use crate::field::{Fields, MAX_NAME, is_text};
use crate::problem::{FieldError, Kind, Problem};

/// Most nodes that one enrolment token may name; larger sites make several.
pub(crate) const MAX_TOKEN_NODES: usize = 4_096;

/// A request whose fields were checked.
pub(crate) struct Asked<'a> {
    /// The part of the path that names the resource; empty where there is none.
    pub(crate) id: &'a str,
    pub(crate) fields: &'a Fields,
    pub(crate) state: &'a State,
    pub(crate) backend: &'a dyn Backend,
}

/// What a request asks for.
pub(crate) struct Built {
    pub(crate) action: Action,
    /// A secret that is shown in the first answer and kept nowhere.
    pub(crate) secret: Option<Secret>,
}

/// A token for enrolment.
pub(crate) struct Secret {
    pub(crate) token: String,
    pub(crate) expires_at: Timestamp,
}

/// Makes an action of a request.
pub(crate) type Build = fn(&Asked<'_>) -> Result<Built, Problem>;

impl From<Action> for Built {
    fn from(action: Action) -> Built {
        Built { action, secret: None }
    }
}

impl Asked<'_> {
    fn text(&self, name: &str) -> String {
        // Required fields are there: they were checked against their declaration.
        self.fields.text(name).unwrap_or_default().to_owned()
    }

    /// The node's name, where the path gives its id or its name.
    fn node(&self) -> Result<String, Problem> {
        let Ok(id) = self.id.parse::<NodeId>() else { return Ok(self.id.to_owned()) };
        let node = self.state.nodes.get(&id).ok_or_else(|| Problem::not_found("node", self.id))?;
        Ok(node.name.clone())
    }

    /// The incident's number, where the path gives its id or its number.
    fn incident(&self) -> Result<String, Problem> {
        let Ok(id) = self.id.parse::<IncidentId>() else { return Ok(self.id.to_owned()) };
        let incident =
            self.state.incidents.get(&id).ok_or_else(|| Problem::not_found("incident", self.id))?;
        Ok(incident.number.clone())
    }

    /// A typed id; text of another form names nothing.
    fn typed<I: FromStr>(&self, what: &str) -> Result<I, Problem> {
        self.id.parse().map_err(|_| Problem::not_found(what, self.id))
    }

    fn execution(&self) -> Result<ExecutionId, Problem> {
        self.typed("execution")
    }
}

pub(crate) fn node_hold(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::NodeHold { node: asked.node()?, until: asked.fields.time("until") }.into())
}

pub(crate) fn node_drain(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::NodeDrain { node: asked.node()? }.into())
}

pub(crate) fn node_resume(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::NodeResume { node: asked.node()? }.into())
}

pub(crate) fn node_forget(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::NodeForget { node: asked.node()? }.into())
}

pub(crate) fn hold_release(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::HoldRelease { hold: asked.typed::<HoldId>("hold")? }.into())
}

pub(crate) fn incident_ack(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::IncidentAck { incident: asked.incident()? }.into())
}

pub(crate) fn incident_note(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::IncidentNote { incident: asked.incident()? }.into())
}

pub(crate) fn incident_severity(asked: &Asked<'_>) -> Result<Built, Problem> {
    let severity = match asked.fields.text("severity") {
        Some("sev1") => Severity::Sev1,
        Some("sev2") => Severity::Sev2,
        Some("sev3") => Severity::Sev3,
        Some("sev4") => Severity::Sev4,
        _ => return Err(wrong("/severity", "sev1, sev2, sev3 or sev4")),
    };
    Ok(Action::IncidentSeverity { incident: asked.incident()?, severity }.into())
}

pub(crate) fn incident_resolve(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::IncidentResolve { incident: asked.incident()? }.into())
}

pub(crate) fn job_requeue(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::JobRequeue { job: asked.id.to_owned() }.into())
}

pub(crate) fn spare_activate(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::SpareActivate { node: asked.text("node") }.into())
}

pub(crate) fn spare_return(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::SpareReturn { spare: asked.node()? }.into())
}

pub(crate) fn run_start(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::RunStart { runbook: asked.text("runbook"), incident: asked.text("incident") }.into())
}

pub(crate) fn run_approve(asked: &Asked<'_>) -> Result<Built, Problem> {
    decide(asked, true)
}

pub(crate) fn run_reject(asked: &Asked<'_>) -> Result<Built, Problem> {
    decide(asked, false)
}

fn decide(asked: &Asked<'_>, approve: bool) -> Result<Built, Problem> {
    Ok(Action::RunApprove { execution: asked.execution()?, approve, plan: asked.text("plan") }.into())
}

pub(crate) fn run_pause(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::RunPause { execution: asked.execution()? }.into())
}

pub(crate) fn run_resume(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::RunResume { execution: asked.execution()? }.into())
}

pub(crate) fn run_retry(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::RunRetry { execution: asked.execution()? }.into())
}

pub(crate) fn run_skip(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::RunSkip { execution: asked.execution()? }.into())
}

pub(crate) fn run_abort(asked: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::RunAbort { execution: asked.execution()? }.into())
}

pub(crate) fn run_answer(asked: &Asked<'_>) -> Result<Built, Problem> {
    let answers = asked.fields.answers("answers");
    Ok(Action::RunAnswer { execution: asked.execution()?, step: asked.text("step"), answers }.into())
}

pub(crate) fn guard_stop(_: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::GuardStop.into())
}

pub(crate) fn guard_start(_: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::GuardStart.into())
}

pub(crate) fn breaker_reset(_: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::BreakerReset.into())
}

pub(crate) fn mode_set(asked: &Asked<'_>) -> Result<Built, Problem> {
    let scope = parse_scope(&asked.text("scope"))
        .ok_or_else(|| wrong("/scope", "site, scheduler:NAME or node:NAME"))?;
    let mode = match asked.fields.text("mode") {
        Some("observe") => Some(Mode::Observe),
        Some("advise") => Some(Mode::Advise),
        Some("act") => Some(Mode::Act),
        _ if scope == ModeScope::Site => {
            return Err(wrong("/mode", "observe, advise or act: the site has nobody to inherit from"));
        }
        _ => None,
    };
    Ok(Action::ModeSet { scope, mode }.into())
}

/// `site`, `scheduler:main`, `node:gpu001`.
fn parse_scope(text: &str) -> Option<ModeScope> {
    match text.split_once(':') {
        None if text == "site" => Some(ModeScope::Site),
        Some(("scheduler", name)) if is_text(name, MAX_NAME) => Some(ModeScope::Scheduler(name.to_owned())),
        Some(("node", name)) if is_text(name, MAX_NAME) => Some(ModeScope::Node(name.to_owned())),
        _ => None,
    }
}

/// `site`, `scheduler:main`, `node:gpu001`.
pub(crate) fn write_scope(scope: &ModeScope) -> String {
    match scope {
        ModeScope::Site => "site".to_owned(),
        ModeScope::Scheduler(name) => format!("scheduler:{name}"),
        ModeScope::Node(name) => format!("node:{name}"),
    }
}

pub(crate) fn agent_token_create(asked: &Asked<'_>) -> Result<Built, Problem> {
    let mut nodes = BTreeSet::new();
    for list in asked.fields.names("nodes") {
        let names = asked.backend.expand_nodes(list).filter(|names| !names.is_empty());
        nodes.extend(
            names.ok_or_else(|| wrong("/nodes", "node names, or lists of them such as gpu[001-008]"))?,
        );
        if nodes.len() > MAX_TOKEN_NODES {
            return Err(wrong("/nodes", "at most 4096 nodes in all; make several tokens"));
        }
    }
    let (token, token_sha256) = asked.backend.new_secret();
    if token.is_empty() {
        return Err(Problem::new(
            Kind::Internal,
            "the system gives no random bytes, so no token can be made",
        ));
    }
    let ttl = u64::try_from(asked.fields.number("ttl_seconds").unwrap_or_default()).unwrap_or_default();
    let expires_at = asked.backend.now() + std::time::Duration::from_secs(ttl);
    // Absent: one use for each node, which is what a list of nodes asks for.
    let each_once = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    let uses = asked.fields.number("uses").and_then(|uses| u32::try_from(uses).ok()).unwrap_or(each_once);
    let action = Action::AgentTokenCreate { token_sha256, nodes, uses, expires_at };
    Ok(Built { action, secret: Some(Secret { token, expires_at }) })
}

pub(crate) fn detach(_: &Asked<'_>) -> Result<Built, Problem> {
    Ok(Action::Detach.into())
}

fn wrong(pointer: &str, expected: &str) -> Problem {
    let error = FieldError { pointer: pointer.to_owned(), code: "invalid", detail: expected.to_owned() };
    Problem::invalid(vec![error])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_written_and_read_back() {
        for text in ["site", "scheduler:main", "node:gpu001", "node:a:b"] {
            assert_eq!(parse_scope(text).map(|scope| write_scope(&scope)).as_deref(), Some(text));
        }
        for text in ["", "Site", "site:hel", "scheduler:", "rack:r1", "node"] {
            assert_eq!(parse_scope(text), None, "{text}");
        }
    }
}
