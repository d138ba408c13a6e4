//! Puts the jobs that hold the faulty GPU back into the queue (ruling 18). Other jobs of the node are left alone,
//! and a job that may not be requeued gets a note and is never ended.

use std::time::Duration;

use provost_model::effect::{Effect, EffectResult};
use provost_model::runbook::StepState;
use provost_model::scheduler::{JobKey, JobState};
use provost_model::time::Timestamp;

use super::{Action, Context, Needs, Progress, Undo, at_once, nothing};
use crate::state::{Incident, Job, Node};

pub(super) const ACTION: Action = Action {
    name: "jobs.requeue",
    about: "requeues the jobs that hold the faulty GPU, and those that failed on the node within `timers.failed_job`; \
            the owners of those that cannot be requeued get a note",
    needs: Needs::Node,
    arguments: &[],
    plan,
    act: |ctx, _| if contained(ctx) { plan(ctx) } else { Vec::new() },
    check,
    done: nothing,
    not_before: at_once,
    undo: Undo::Irreversible,
};

/// Schedulers write whole seconds: an end up to this long before the fault may be after it.
const CLOCK_GRAIN: Duration = Duration::from_secs(1);

fn plan(ctx: &Context<'_>) -> Vec<Effect> {
    hit(ctx).into_iter().flat_map(|job| care(ctx, job)).collect()
}

/// The node gets no new work, as its scheduler said: a job that is requeued before could come back to it.
fn contained(ctx: &Context<'_>) -> bool {
    ctx.node().is_some_and(|node| match (&node.scheduler, &node.observed) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(_), Some(seen)) => seen.drain || seen.down || seen.not_responding,
    })
}

/// Effects for jobs that were not cared for yet by the step that requeues, or by this one.
pub(super) fn late(ctx: &Context<'_>) -> Vec<Effect> {
    let runbook = ctx.state.runbooks.get(&ctx.run.version);
    let requeues = runbook.is_some_and(|runbook| {
        let steps = runbook.steps.iter().zip(&ctx.run.steps);
        let mut earlier = steps.take_while(|(step, _)| step.id != ctx.step.id);
        // Where that step did not apply, the fault hits no job that it left running.
        earlier.any(|(step, record)| {
            step.action.as_deref() == Some(ACTION.name) && record.state != StepState::Skipped
        })
    });
    if !requeues {
        return Vec::new();
    }
    let cared: Vec<&JobKey> =
        ctx.run.steps.iter().flat_map(|step| step.wanted.values()).filter_map(job_of).collect();
    hit(ctx).into_iter().filter(|job| !cared.contains(&&job.key)).flat_map(|job| care(ctx, job)).collect()
}

/// The jobs that the fault hit: those that hold the GPU, and those that failed on the node after the fault.
fn hit<'a>(ctx: &Context<'a>) -> Vec<&'a Job> {
    let (Some(node), Some(incident)) = (ctx.node(), ctx.incident()) else { return Vec::new() };
    let failed_by = incident.fault_at + ctx.state.config.timers.failed_job.0;
    let failed = |job: &&Job| job.nodes.contains(&node.id) && failed_after(job, incident.fault_at, failed_by);
    let running = ctx.state.jobs_on(node.id).filter(|job| holds_the_gpu(job, node, ctx.run.gpu, incident));
    running.chain(ctx.state.jobs.values().filter(failed)).collect()
}

/// Whether the job holds the GPU. Where the scheduler does not say which GPUs a job has, only a job that the
/// incident names is known to be hit. A fault of the whole node hits every job on it.
fn holds_the_gpu(job: &Job, node: &Node, gpu: Option<u32>, incident: &Incident) -> bool {
    match (gpu, job.gpus.get(&node.id)) {
        (None, _) => true,
        (Some(gpu), Some(held)) => held.contains(&gpu),
        (Some(_), None) => incident.jobs.contains(&job.key),
    }
}

fn failed_after(job: &Job, fault: Timestamp, until: Timestamp) -> bool {
    matches!(job.state, JobState::Failed | JobState::NodeFailed)
        && job.ended_at.is_some_and(|ended| ended + CLOCK_GRAIN >= fault && ended <= until)
}

/// What is done for one job. The note holds no personal data: the owner knows whose job it is.
fn care(ctx: &Context<'_>, job: &Job) -> Vec<Effect> {
    let note = |text: &str| Effect::JobNote { job: job.key.clone(), text: format!("{} {text}", begins(ctx)) };
    if !job.requeue {
        let text = if job.state.holds_nodes() {
            "This job does not allow a requeue, so it was left running: save what you can and submit it again."
        } else {
            "This job failed after that and does not allow a requeue: submit it again."
        };
        return vec![note(text)];
    }
    let mut effects = vec![Effect::JobRequeue { job: job.key.clone(), restarts: job.restarts }];
    if ctx.run.node.is_some_and(|node| job.pinned.contains(&node)) {
        effects.push(note(
            "This job was requeued, but it asks for this node by name and waits until the node is back: \
             take the node out of its request to let it run elsewhere.",
        ));
    }
    effects
}

fn begins(ctx: &Context<'_>) -> String {
    let number = ctx.incident().map_or("", |incident| incident.number.as_str());
    let node = ctx.node().map_or("a node", |node| node.name.as_str());
    match ctx.run.gpu {
        Some(gpu) => format!("provost {number}: GPU {gpu} of {node} failed."),
        None => format!("provost {number}: {node} failed."),
    }
}

fn job_of(effect: &Effect) -> Option<&JobKey> {
    match effect {
        Effect::JobRequeue { job, .. } | Effect::JobNote { job, .. } => Some(job),
        _ => None,
    }
}

fn check(ctx: &Context<'_>) -> Progress {
    if ctx.intents().next().is_none() {
        if !contained(ctx) {
            return Progress::Wait { what: "containment", until: None };
        }
        let effects = plan(ctx);
        if !effects.is_empty() {
            return Progress::More(effects);
        }
    }
    let (mut requeued, mut noted, mut gone) = (0_u32, 0_u32, 0_u32);
    let mut failed: Option<(&str, bool)> = None;
    for (effect, result) in ctx.intents() {
        let on_node = job_of(effect).is_some_and(|job| holds(ctx, job));
        match (effect, result) {
            (_, None) => return Progress::Wait { what: "scheduler", until: None },
            (Effect::JobRequeue { .. }, Some(EffectResult::Done { .. })) => {
                // The scheduler said so; the node's jobs must say it too.
                if on_node {
                    return Progress::Wait { what: "job_to_leave", until: None };
                }
                requeued += 1;
            }
            (_, Some(EffectResult::Done { .. })) => noted += 1,
            (_, Some(EffectResult::NotDone { code, .. })) if code == "not_found" && !on_node => gone += 1,
            (_, Some(EffectResult::NotDone { code, retry })) => {
                failed = Some((code, *retry || failed.is_some_and(|(_, retry)| retry)));
            }
            (_, Some(EffectResult::Unknown { code })) => failed = Some((code, false)),
        }
    }
    if let Some((code, retry)) = failed {
        return Progress::Failed { code: format!("requeue_failed:{code}"), retry };
    }
    Progress::Done { result: format!("{requeued} requeued, {noted} noted, {gone} gone") }
}

/// The job holds the node still.
fn holds(ctx: &Context<'_>, job: &JobKey) -> bool {
    let job = ctx.state.jobs.get(job);
    job.zip(ctx.run.node).is_some_and(|(job, node)| job.state.holds_nodes() && job.nodes.contains(&node))
}
