//! Who may do what: every route with every role, and every action with its route.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use axum::http::Method;
use provost_engine::State;
use provost_model::input::Action;
use serde_json::{Map, Value, json};

use super::harness::{Site, TOKENS, request};
use crate::command::Command;
use crate::field::{Field, Fields, Kind};
use crate::routes::{ROUTES, Route, Serves, Verb};
use crate::verbs::Asked;

/// A path that names something of the right form that does not exist: what is left is who may ask.
fn path_of(route: &Route) -> String {
    let nobody = "00000000-0000-8000-8000-000000000000";
    let id = match route.path.split('/').nth(2) {
        Some("holds") => format!("hold_{nobody}"),
        Some("alerts") => format!("alert_{nobody}"),
        Some("executions") => format!("exec_{nobody}"),
        Some("jobs") => "slurm:main:4711@2026-11-30T19:00:00.000Z".to_owned(),
        Some("incidents") => "INC-2026-999999".to_owned(),
        _ => "nothing".to_owned(),
    };
    route.path.replace("{id}", &id)
}

/// A value that a field accepts.
fn sample(field: &Field) -> Value {
    match field.kind {
        Kind::Text(_) if field.name == "scope" => json!("node:nothing"),
        Kind::Text(_) => json!("nothing"),
        Kind::Number(_, max) => json!(max.min(60)),
        Kind::Time => json!("2026-12-01T00:00:00Z"),
        Kind::Choice(words) | Kind::Choices(words) => json!(words[0]),
        Kind::Names(_) => json!(["gpu001"]),
        Kind::Answers => json!({"fixed": true}),
    }
}

fn body_of(command: &Command) -> Map<String, Value> {
    command.fields.iter().map(|field| (field.name.to_owned(), sample(field))).collect()
}

#[tokio::test]
async fn every_route_with_every_role() {
    let mut rows: BTreeMap<String, Vec<u16>> = BTreeMap::new();
    for token in ["", "unheard-of"].iter().chain(TOKENS) {
        // A site of its own: what one role changes is not what the next one finds.
        let site = Site::new().await;
        for route in ROUTES {
            let (method, body) = match &route.serves {
                Serves::Command(command) => (Method::POST, Body::from(json!(body_of(command)).to_string())),
                _ => (Method::GET, Body::empty()),
            };
            let status = site.send(request(method.clone(), &path_of(route), token, body)).await.status();
            rows.entry(format!("{method} {}", route.path)).or_default().push(status.as_u16());
        }
    }
    let mut table = format!("{:<52}{:>9}{:>9}", "route, nothing of the name exists", "no token", "unknown");
    for token in TOKENS {
        table.push_str(&format!("{token:>9}"));
    }
    table.push('\n');
    for (route, statuses) in rows {
        table.push_str(&format!("{route:<52}"));
        for status in statuses {
            table.push_str(&format!("{status:>9}"));
        }
        table.push('\n');
    }
    expect_test::expect_file!["access.txt"].assert_eq(&table);
}

/// The action that a route asks for, with fields that it accepts.
fn action_of(route: &Route, site: &Site) -> Option<Action> {
    let Serves::Command(command) = &route.serves else { return None };
    let fields = Fields::of_body(command.fields, body_of(command)).unwrap();
    let path = path_of(route);
    let id = route.path.split('/').position(|part| part == "{id}").and_then(|at| path.split('/').nth(at));
    let state: &State = &site.handle.state();
    let asked = Asked { id: id.unwrap_or_default(), fields: &fields, state, backend: site.server.as_ref() };
    Some((command.build)(&asked).map_err(|problem| format!("{}: {problem:?}", route.path)).unwrap().action)
}

/// Every name of an action; the match makes a new variant stop the build here.
fn names() -> BTreeSet<&'static str> {
    const fn listed(action: &Action) {
        match action {
            Action::NodeHold { .. }
            | Action::HoldRelease { .. }
            | Action::NodeDrain { .. }
            | Action::NodeResume { .. }
            | Action::NodeForget { .. }
            | Action::IncidentAck { .. }
            | Action::IncidentNote { .. }
            | Action::IncidentSeverity { .. }
            | Action::IncidentResolve { .. }
            | Action::JobRequeue { .. }
            | Action::SpareActivate { .. }
            | Action::SpareReturn { .. }
            | Action::RunStart { .. }
            | Action::RunApprove { .. }
            | Action::RunPause { .. }
            | Action::RunResume { .. }
            | Action::RunRetry { .. }
            | Action::RunSkip { .. }
            | Action::RunAbort { .. }
            | Action::RunAnswer { .. }
            | Action::GuardStop
            | Action::GuardStart
            | Action::BreakerReset
            | Action::ModeSet { .. }
            | Action::AgentTokenCreate { .. }
            | Action::Detach => {}
        }
    }
    listed(&Action::Detach);
    "node.hold hold.release node.drain node.resume node.forget incident.ack incident.note incident.severity \
     incident.resolve job.requeue spare.activate spare.return run.start run.approve run.pause run.resume \
     run.retry run.skip run.abort run.answer guard.stop guard.start breaker.reset mode.set agent.token_create \
     detach"
        .split_whitespace()
        .collect()
}

#[tokio::test]
async fn every_action_has_one_route() {
    let site = Site::new().await;
    let mut routes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for route in ROUTES {
        if let Some(action) = action_of(route, &site) {
            routes.entry(action.name()).or_default().push(route.path);
        }
    }
    assert_eq!(routes.keys().copied().collect::<BTreeSet<_>>(), names());
    for (name, paths) in routes {
        // Yes and no to a plan are one action.
        let expected = if name == "run.approve" { 2 } else { 1 };
        assert_eq!(paths.len(), expected, "{name}: {paths:?}");
    }
}

#[test]
fn routes_are_distinct_and_name_one_thing() {
    let mut seen = BTreeSet::new();
    for route in ROUTES {
        assert!(seen.insert((route.path, route.verb == Verb::Get)), "{}", route.path);
        assert!(route.path.matches('{').count() <= 1, "{}", route.path);
        let is_command = matches!(route.serves, Serves::Command(_));
        assert_eq!(is_command, route.verb == Verb::Post, "{}", route.path);
    }
}
