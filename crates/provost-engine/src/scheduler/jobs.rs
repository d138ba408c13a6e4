//! Jobs that hold nodes, and those that did lately.

use std::collections::{BTreeMap, BTreeSet};

use provost_model::body::{Body, JobForgotten, JobObserved, Purpose};
use provost_model::effect::Effect;
use provost_model::ids::NodeId;
use provost_model::input::{Action, Reply};
use provost_model::record::{Actor, Class, Subject, SubjectKind};
use provost_model::scheduler::{JobKey, JobState, Observation, ObservedJob};
use provost_model::time::Timestamp;

use crate::command::Asked;
use crate::effect::{self, Requested};
use crate::event::{Decisions, Event};
use crate::state::{Job, State};

pub(crate) fn apply_job(state: &mut State, data: &JobObserved) {
    let job = Job {
        key: data.job.clone(),
        state: data.state,
        project: data.project.clone(),
        tier: data.tier,
        partition: data.partition.clone(),
        nodes: data.nodes.clone(),
        gpus: data.gpus.clone(),
        requeue: data.requeue,
        restarts: data.restarts,
        pinned: data.pinned.clone(),
        started_at: data.started_at,
        ended_at: data.ended_at,
    };
    let before = state.jobs.get(&data.job).map(|job| job.nodes.clone()).unwrap_or_default();
    state.dirty.nodes.extend(before.union(&job.nodes));
    state.dirty.jobs.insert(job.key.clone());
    state.jobs.insert(job.key.clone(), job);
}

pub(crate) fn apply_forgotten(state: &mut State, data: &JobForgotten) {
    state.jobs.remove(&data.job);
    state.dirty.jobs.insert(data.job.clone());
}

/// Records what changed about jobs that hold nodes or are known. `ids`: the cluster's nodes by their names there.
pub(super) fn compare(
    state: &State,
    now: Timestamp,
    observation: &Observation,
    ids: &BTreeMap<&str, NodeId>,
    out: &mut Decisions,
) {
    let mut listed = BTreeSet::new();
    for seen in observation.jobs.iter().filter(|seen| seen.key.cluster == observation.cluster) {
        if !listed.insert(&seen.key) {
            continue;
        }
        let known = state.jobs.get(&seen.key);
        if !seen.state.holds_nodes() && known.is_none() {
            continue;
        }
        let data = observed(seen, known, ids);
        if known.is_none_or(|known| differs(known, &data)) {
            push(observation, Body::JobObserved(data), &seen.key, out);
        }
    }
    if observation.unparsed > 0 {
        return;
    }
    for job in state.jobs.values().filter(|job| job.key.cluster == observation.cluster) {
        let listed = listed.contains(&job.key);
        if !listed && job.state.holds_nodes() {
            // It holds nothing any more; how it ended is not said.
            let data = JobObserved { state: JobState::Unknown, ..as_observed(job) };
            push(observation, Body::JobObserved(data), &job.key, out);
        } else if is_over(state, now, job, listed) {
            push(observation, Body::JobForgotten(JobForgotten { job: job.key.clone() }), &job.key, out);
        }
    }
}

/// Nobody will ask about the job any more: it has ended, or is not listed, for long enough, and no open incident
/// or execution is about it.
fn is_over(state: &State, now: Timestamp, job: &Job, listed: bool) -> bool {
    if job.state.holds_nodes() {
        return false;
    }
    let old = match job.ended_at {
        Some(ended) => now.since(ended) > state.config.timers.failed_job.0,
        // A job that waits again may hold nodes again, with another life; one that is listed is still there.
        None => !listed,
    };
    let of_incident = || {
        state.incidents.values().any(|incident| incident.state.is_open() && incident.jobs.contains(&job.key))
    };
    let of_execution =
        || state.executions.values().any(|run| !run.state.is_final() && run.job.as_ref() == Some(&job.key));
    old && !of_incident() && !of_execution()
}

fn push(observation: &Observation, body: Body, key: &JobKey, out: &mut Decisions) {
    let subject = Subject { kind: SubjectKind::Job, id: key.to_string(), name: None, node: None };
    out.push(Event::new(Class::Detection, body).by(Actor::scheduler(&observation.cluster)).about(subject));
}

/// The job in our ids. Nodes that a job held last stay where the answer lists none any more.
fn observed(seen: &ObservedJob, known: Option<&Job>, ids: &BTreeMap<&str, NodeId>) -> JobObserved {
    let id = |name: &String| ids.get(name.as_str()).copied();
    let mut nodes: BTreeSet<NodeId> = seen.nodes.iter().filter_map(id).collect();
    let mut gpus: BTreeMap<NodeId, BTreeSet<u32>> = seen
        .gpus
        .iter()
        .filter_map(|(name, indexes)| Some((id(name)?, indexes.iter().copied().collect())))
        .collect();
    if let Some(known) = known.filter(|_| nodes.is_empty() && !seen.state.holds_nodes()) {
        nodes.clone_from(&known.nodes);
        gpus.clone_from(&known.gpus);
    }
    JobObserved {
        job: seen.key.clone(),
        state: seen.state,
        project: seen.project.clone(),
        tier: seen.tier,
        partition: seen.partition.clone(),
        nodes,
        gpus,
        requeue: seen.requeue,
        restarts: seen.restarts,
        pinned: seen.pinned.iter().filter_map(id).collect(),
        started_at: seen.started_at,
        ended_at: seen.ended_at,
    }
}

fn as_observed(job: &Job) -> JobObserved {
    JobObserved {
        job: job.key.clone(),
        state: job.state,
        project: job.project.clone(),
        tier: job.tier,
        partition: job.partition.clone(),
        nodes: job.nodes.clone(),
        gpus: job.gpus.clone(),
        requeue: job.requeue,
        restarts: job.restarts,
        pinned: job.pinned.clone(),
        started_at: job.started_at,
        ended_at: job.ended_at,
    }
}

fn differs(known: &Job, data: &JobObserved) -> bool {
    as_observed(known) != *data
}

/// `job.requeue`.
pub(crate) fn on_command(state: &State, now: Timestamp, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    let Action::JobRequeue { job: name } = &asked.command.action else {
        let detail = format!("{} is not here", asked.command.action.name());
        return Reply::Invalid { field: "action".to_owned(), detail };
    };
    let Some(job) = find(state, name) else { return Reply::NotFound { what: format!("job {name}") } };
    let conflict = |code: &str, detail: String| Reply::Conflict { code: code.to_owned(), detail };
    if !job.state.holds_nodes() {
        return conflict("not_running", format!("{name} does not run; there is nothing to requeue"));
    }
    if !job.requeue {
        return conflict("not_requeueable", format!("{name} was submitted with --no-requeue; ask its owner"));
    }
    let effect = Effect::JobRequeue { job: job.key.clone(), restarts: job.restarts };
    if state.effects.values().any(|open| open.requested.effect == effect) {
        return Reply::Already;
    }
    let purpose = Purpose::Command { request: asked.command.request.clone() };
    let (requested, body) = effect::plan(state, now, &effect, &purpose);
    if requested == Requested::Stopped {
        return conflict("guard_stopped", "the guard is stopped; `provost guard start` first".to_owned());
    }
    if let Some(body) = body {
        let subject = Subject { kind: SubjectKind::Job, id: job.key.to_string(), name: None, node: None };
        out.push(asked.event(Class::Privileged, body).about(subject));
    }
    Reply::Accepted { seq: state.seq, created: Vec::new() }
}

/// The job of an id as shown, or of a bare JobId where only one that holds nodes has it.
fn find<'a>(state: &'a State, name: &str) -> Option<&'a Job> {
    let short = |job: &Job| {
        let full = job.key.to_string();
        full.split_once('@').is_some_and(|(short, _)| short == name) || job.key.id.to_string() == name
    };
    let exact = state.jobs.values().find(|job| job.key.to_string() == name);
    let running = || {
        let mut found = state.jobs.values().filter(|job| job.state.holds_nodes() && short(job));
        let first = found.next()?;
        found.next().is_none().then_some(first)
    };
    exact.or_else(running)
}
