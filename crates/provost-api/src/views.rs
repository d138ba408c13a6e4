//! What State shows: each list and each thing, from the engine's views. The only file that calls them.
//!
//! A function here runs under the read lock, so it looks at the keys of a list first and makes only the rows of
//! the page.

use std::collections::BTreeMap;

use provost_engine::state::Node;
use provost_engine::{State, views as engine};
use provost_model::body::Body;
use provost_model::ids::{AlertId, ExecutionId, HoldId, IncidentId, NodeId};
use provost_model::policy::ModeScope;
use provost_model::record::Record;
use provost_model::response::AlertState;
use provost_model::time::Timestamp;
use provost_model::view::Page;
use serde::{Deserialize, Serialize};

use crate::cursor;
use crate::field::Fields;
use crate::history::DEFAULT_LIMIT;
use crate::openapi::Shape;
use crate::problem::{Kind, Problem};
use crate::verbs::write_scope;

/// A view of State and its form.
pub(crate) struct View {
    pub(crate) shape: Shape,
    pub(crate) make: Make,
}

/// Looks at State; what it gives is written out after the lock.
pub(crate) type Make = fn(&Look<'_>) -> Result<Made, Problem>;

/// A view that was made and not written yet.
pub(crate) type Made = Box<dyn FnOnce() -> Result<Vec<u8>, Problem>>;

/// What a view is made from.
pub(crate) struct Look<'a> {
    pub(crate) state: &'a State,
    pub(crate) now: Timestamp,
    pub(crate) version: &'a str,
    /// When the agent of a node was last heard; heartbeats are not in State.
    pub(crate) last_seen: &'a dyn Fn(&str) -> Option<Timestamp>,
    /// When the BMC of a node answered last.
    pub(crate) bmc_read: &'a dyn Fn(&str) -> Option<Timestamp>,
    /// The journal can be written.
    pub(crate) journal: bool,
    /// The part of the path that names the resource.
    pub(crate) id: &'a str,
    pub(crate) query: &'a Fields,
}

/// Fields of records whose sealed value is words of a person. Kernel lines are not: they may name processes of
/// users.
pub(crate) const SEALED_WORDS: &[&str] = &["reason", "note", "answer"];

/// A view as JSON.
pub(crate) fn written<T: Serialize>(value: &T) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(value).map_err(|error| Problem::new(Kind::Internal, error.to_string()))
}

fn one<T: Serialize + 'static>(value: Option<T>, what: &str, look: &Look<'_>) -> Result<Made, Problem> {
    let value = value.ok_or_else(|| Problem::not_found(what, look.id))?;
    Ok(Box::new(move || written(&value)))
}

/// A page of `rows`, which come in the order of the list with a key each. The order of the keys is that of the
/// list, or its reverse.
fn page<R, T: Serialize + 'static>(
    look: &Look<'_>,
    order: Order,
    rows: impl Iterator<Item = (String, R)>,
    view: impl Fn(R) -> T,
) -> Result<Made, Problem> {
    let limit = look.query.number("limit").and_then(|n| usize::try_from(n).ok()).unwrap_or(DEFAULT_LIMIT);
    let behind = cursor::key(look.query)?;
    let is_behind = |key: &String| match (&behind, order) {
        (None, _) => true,
        (Some(behind), Order::Ascending) => key > behind,
        (Some(behind), Order::Descending) => key < behind,
    };
    let mut rows = rows.skip_while(|(key, _)| !is_behind(key)).peekable();
    let (mut items, mut last, mut next_cursor) = (Vec::new(), None, None);
    while let Some((key, row)) = rows.next_if(|_| items.len() < limit) {
        items.push(view(row));
        last = Some(key);
    }
    if let (Some(_), Some(last)) = (rows.peek(), &last) {
        next_cursor = Some(cursor::after(last, look.query));
    }
    let page = Page { items, next_cursor, as_of: look.state.seq.saturating_sub(1) };
    Ok(Box::new(move || written(&page)))
}

#[derive(Clone, Copy)]
enum Order {
    Ascending,
    Descending,
}

pub(crate) fn status(look: &Look<'_>) -> Result<Made, Problem> {
    let status = engine::status(look.state, look.now, look.version, look.journal);
    one(Some(status), "status", look)
}

pub(crate) fn guard(look: &Look<'_>) -> Result<Made, Problem> {
    one(Some(engine::guard(look.state, look.now)), "guard", look)
}

pub(crate) fn nodes(look: &Look<'_>) -> Result<Made, Problem> {
    let nodes =
        look.state.node_names.iter().filter_map(|(name, id)| Some((name.clone(), look.state.nodes.get(id)?)));
    let wanted = nodes.filter(|(_, node)| look.query.allows("phase", node.phase.name()));
    page(look, Order::Ascending, wanted, |node| heard(look, node))
}

/// The node, and when its agent and its BMC were last heard.
fn heard(look: &Look<'_>, node: &Node) -> provost_model::view::Node {
    let mut view = engine::node(look.state, look.now, node);
    view.last_seen_at = (look.last_seen)(&node.name).or(view.last_seen_at);
    if let Some(bmc) = &mut view.bmc {
        bmc.read_at = (look.bmc_read)(&node.name);
        bmc.age_s = bmc.read_at.map(|at| look.now.since(at).as_secs());
    }
    view
}

pub(crate) fn node(look: &Look<'_>) -> Result<Made, Problem> {
    let state = look.state;
    let by_id = look.id.parse::<NodeId>().ok().and_then(|id| state.nodes.get(&id));
    let node = by_id.or_else(|| state.node_by_name(look.id));
    one(node.map(|node| heard(look, node)), "node", look)
}

pub(crate) fn gpus(look: &Look<'_>) -> Result<Made, Problem> {
    let state = look.state;
    let nodes =
        state.node_names.iter().filter(|(name, _)| look.query.text("node").is_none_or(|only| only == *name));
    let gpus = nodes.filter_map(|(_, id)| state.nodes.get(id)).flat_map(|node| {
        node.gpus.values().map(move |gpu| (format!("{} {:010}", node.name, gpu.index), (node, gpu)))
    });
    page(look, Order::Ascending, gpus, |(node, gpu)| engine::gpu(state, node, gpu))
}

pub(crate) fn gpu(look: &Look<'_>) -> Result<Made, Problem> {
    let all = look.state.nodes.values().flat_map(|node| node.gpus.values().map(move |gpu| (node, gpu)));
    let found = all.into_iter().find(|(node, gpu)| engine::gpu_id(node, gpu) == look.id);
    one(found.map(|(node, gpu)| engine::gpu(look.state, node, gpu)), "gpu", look)
}

pub(crate) fn incidents(look: &Look<'_>) -> Result<Made, Problem> {
    let state = look.state;
    let all = look.query.text("state") == Some("all");
    let incidents = state.incident_numbers.iter().rev();
    let incidents = incidents.filter_map(|(number, id)| Some((number.clone(), state.incidents.get(id)?)));
    let wanted = incidents.filter(|(_, incident)| {
        (all || incident.state.is_open()) && look.query.allows("severity", &incident.severity.to_string())
    });
    page(look, Order::Descending, wanted, |incident| engine::incident(state, incident))
}

pub(crate) fn incident(look: &Look<'_>) -> Result<Made, Problem> {
    let state = look.state;
    let by_id = look.id.parse::<IncidentId>().ok().and_then(|id| state.incidents.get(&id));
    let incident = by_id.or_else(|| state.incident_by_number(look.id));
    one(incident.map(|incident| engine::incident(state, incident)), "incident", look)
}

pub(crate) fn alerts(look: &Look<'_>) -> Result<Made, Problem> {
    let all = look.query.text("state") == Some("all");
    let alerts = look.state.alerts.values().rev();
    let wanted = alerts.filter(|alert| all || alert.state != AlertState::Resolved);
    let keyed = wanted.map(|alert| (alert.id.to_string(), alert));
    page(look, Order::Descending, keyed, |alert| engine::alert(look.state, alert))
}

pub(crate) fn alert(look: &Look<'_>) -> Result<Made, Problem> {
    let alert = look.id.parse::<AlertId>().ok().and_then(|id| look.state.alerts.get(&id));
    one(alert.map(|alert| engine::alert(look.state, alert)), "alert", look)
}

pub(crate) fn holds(look: &Look<'_>) -> Result<Made, Problem> {
    let only = look.query.text("node").map(|name| look.state.node_names.get(name).copied());
    let holds = look.state.holds.values().filter(|hold| only.is_none_or(|node| node == Some(hold.node)));
    let keyed = holds.map(|hold| (hold.id.to_string(), hold));
    page(look, Order::Ascending, keyed, |hold| engine::hold(look.state, hold))
}

pub(crate) fn hold(look: &Look<'_>) -> Result<Made, Problem> {
    let hold = look.id.parse::<HoldId>().ok().and_then(|id| look.state.holds.get(&id));
    one(hold.map(|hold| engine::hold(look.state, hold)), "hold", look)
}

pub(crate) fn jobs(look: &Look<'_>) -> Result<Made, Problem> {
    let running = look.query.text("state") == Some("running");
    let only = look.query.text("node").map(|name| look.state.node_names.get(name).copied());
    let jobs = look.state.jobs.values().filter(|job| {
        (!running || job.state.holds_nodes())
            && only.is_none_or(|node| node.is_some_and(|node| job.nodes.contains(&node)))
    });
    let keyed = jobs.map(|job| {
        let key = &job.key;
        (format!("{} {:010} {:020}", key.cluster, key.id, key.submitted_at.as_millis()), job)
    });
    page(look, Order::Ascending, keyed, |job| engine::job(look.state, job))
}

pub(crate) fn job(look: &Look<'_>) -> Result<Made, Problem> {
    let job = look.state.jobs.values().find(|job| job.key.to_string() == look.id);
    one(job.map(|job| engine::job(look.state, job)), "job", look)
}

pub(crate) fn spares(look: &Look<'_>) -> Result<Made, Problem> {
    let state = look.state;
    let nodes = state.node_names.iter().filter_map(|(name, id)| Some((name.clone(), state.nodes.get(id)?)));
    page(look, Order::Ascending, nodes.filter(|(_, node)| node.spare), |node| engine::spare(state, node))
}

pub(crate) fn runbooks(look: &Look<'_>) -> Result<Made, Problem> {
    let state = look.state;
    let current = state.runbooks_current.iter();
    let runbooks =
        current.filter_map(|(id, version)| Some((id.clone(), (version, state.runbooks.get(version)?))));
    page(look, Order::Ascending, runbooks, |(version, runbook)| engine::runbook(version, runbook))
}

pub(crate) fn runbook(look: &Look<'_>) -> Result<Made, Problem> {
    let version = look.state.runbooks_current.get(look.id);
    let runbook = version.and_then(|version| Some((version, look.state.runbooks.get(version)?)));
    one(runbook.map(|(version, runbook)| engine::runbook(version, runbook)), "runbook", look)
}

pub(crate) fn executions(look: &Look<'_>) -> Result<Made, Problem> {
    let state = look.state;
    let all = look.query.text("state") == Some("all");
    let only = look.query.text("incident").map(|number| state.incident_numbers.get(number).copied());
    let wanted = state.executions.values().rev().filter(|execution| {
        (all || !execution.state.is_final()) && only.is_none_or(|id| id.is_some() && execution.incident == id)
    });
    let keyed = wanted.map(|execution| (execution.id.to_string(), execution));
    page(look, Order::Descending, keyed, |execution| engine::execution(state, execution))
}

pub(crate) fn execution(look: &Look<'_>) -> Result<Made, Problem> {
    let execution = look.id.parse::<ExecutionId>().ok().and_then(|id| look.state.executions.get(&id));
    one(execution.map(|execution| engine::execution(look.state, execution)), "execution", look)
}

/// A mode that is set.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ModeView {
    /// `site`, `scheduler:main`, `node:gpu001`.
    scope: String,
    /// `observe`, `advise`, `act`.
    mode: String,
}

pub(crate) fn marks(look: &Look<'_>) -> Result<Made, Problem> {
    let marks = engine::marks(look.state).into_iter();
    let keyed = marks.enumerate().map(|(n, mark)| (format!("{n:010}"), mark));
    page(look, Order::Ascending, keyed, |mark| mark)
}

pub(crate) fn modes(look: &Look<'_>) -> Result<Made, Problem> {
    let config = &look.state.config;
    let mut modes = BTreeMap::from([(write_scope(&ModeScope::Site), config.mode)]);
    for (name, policy) in &config.clusters {
        modes.extend(policy.mode.map(|mode| (write_scope(&ModeScope::Scheduler(name.clone())), mode)));
    }
    let nodes = config.node_modes.iter();
    modes.extend(nodes.map(|(name, mode)| (write_scope(&ModeScope::Node(name.clone())), *mode)));
    let keyed = modes.into_iter().map(|(scope, mode)| (scope.clone(), (scope, mode)));
    page(look, Order::Ascending, keyed, |(scope, mode)| ModeView { scope, mode: mode.name().to_owned() })
}

/// The number of an incident that is named by number or id, and when its fault began, where State knows it.
pub(crate) fn incident_number(state: &State, id: &str) -> (String, Option<Timestamp>) {
    let by_id = id.parse::<IncidentId>().ok().and_then(|id| state.incidents.get(&id));
    match by_id.or_else(|| state.incident_by_number(id)) {
        Some(incident) => (incident.number.clone(), Some(incident.fault_at)),
        None => (id.to_owned(), None),
    }
}

/// Sequences of the records that the incident's alerts rest on, in order; none where State has forgotten it.
pub(crate) fn incident_evidence(state: &State, number: &str) -> Vec<u64> {
    let alerts = state.incident_by_number(number).into_iter().flat_map(|incident| &incident.alerts);
    let alerts = alerts.filter_map(|id| state.alerts.get(id));
    let mut evidence: Vec<u64> = alerts.flat_map(|alert| alert.evidence.iter().copied()).collect();
    evidence.sort_unstable();
    evidence.dedup();
    evidence
}

/// When the fault began, from the record that opened the incident.
pub(crate) fn fault_at(record: &Record) -> Option<Timestamp> {
    match &record.body {
        Body::IncidentOpened(opened) => Some(opened.fault_at),
        _ => None,
    }
}

/// What a record says, in one line.
pub(crate) fn timeline_text(record: &Record) -> String {
    engine::timeline_text(record)
}
