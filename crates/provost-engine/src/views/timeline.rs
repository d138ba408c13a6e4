//! What a record says, in one sentence for people. Only plain fields are used: sealed words stay sealed.

use provost_model::body::{
    AlertChanged, Body, EffectCompleted, EpisodeOpened, HoldPlaced, JobObserved, NodeObserved,
    NodePhaseChanged, ReasonOwner, SourceState, StepChanged,
};
use provost_model::effect::EffectResult;
use provost_model::policy::{Mode, ModeScope};
use provost_model::record::Record;
use provost_model::response::Clock;
use provost_model::time::Timestamp;

use super::words::{self, name_of};

/// The sentence, without a full stop.
pub fn timeline_text(record: &Record) -> String {
    let about = about(record);
    let sentence = system(record)
        .or_else(|| fleet(&record.body, &about))
        .or_else(|| response(&record.body, &about))
        .or_else(|| recovery(&record.body));
    // A type that no class tells still has its name.
    sentence.unwrap_or_else(|| say(record.body.kind()))
}

/// What the controller, its configuration and its guard say.
fn system(record: &Record) -> Option<String> {
    Some(match &record.body {
        Body::ControllerStarted(data) => {
            format!("controller {} took over, epoch {}", data.version, record.epoch)
        }
        Body::ConfigApplied(data) => format!("configuration applied, mode {}", data.config.mode.name()),
        Body::InventoryApplied(data) => {
            format!("inventory applied: {} new or changed, {} removed", data.nodes.len(), data.removed.len())
        }
        Body::RunbookPublished(data) => {
            format!("runbook {} is in force in version {}", data.runbook.id, short(&data.version))
        }
        Body::ModeChanged(data) => mode_changed(&data.scope, data.mode),
        Body::GuardStopped(_) => "guard stopped: nothing new is done".to_owned(),
        Body::GuardStarted(_) => "guard started: actions are allowed again".to_owned(),
        Body::BreakerTripped(data) => format!(
            "breaker tripped: {} of {} nodes are unavailable, no new automatic disruption",
            data.unavailable, data.nodes
        ),
        Body::BreakerReset(_) => "breaker reset".to_owned(),
        Body::CommandDenied(data) => format!("{} refused: {}", data.command, data.code),
        Body::EmergencyMerged(data) => {
            format!("{} records of the emergency journal taken over, since {}", data.entries, data.since)
        }
        Body::SignalsNotRecorded(data) => {
            format!("{} signals came while the journal could not be written", data.count)
        }
        _ => return None,
    })
}

/// Agents, sources, nodes, slots and jobs.
fn fleet(body: &Body, about: &str) -> Option<String> {
    Some(match body {
        Body::AgentTokenCreated(data) => {
            format!("enrolment token for {} nodes made, until {}", data.nodes.len(), data.expires_at)
        }
        Body::AgentEnrolled(data) if data.token_sha256.is_none() => format!("agent of {} renewed", data.node),
        Body::AgentEnrolled(data) => format!("agent of {} enrolled", data.node),
        Body::AgentReported(data) => agent_reported(&data.node, data.gpus.as_ref().map(Vec::len)),
        Body::SourceChanged(data) => source_changed(&data.source.label(), data.state),
        Body::NodeAdopted(data) => format!("{} adopted as {}", data.name, data.phase.name()),
        Body::NodeObserved(data) => node_observed(about, data),
        Body::BmcObserved(data) => format!("the BMC of {about} says: {}", words::bmc(data.view)),
        Body::NodePhaseChanged(data) => phase_changed(about, data),
        Body::GpuIdentified(data) => format!("GPU {} of {about} identified by its UUID", data.gpu.index),
        Body::SlotCreated(data) => {
            format!(
                "slot of {about} made, for {}",
                Vec::from_iter(data.partitions.iter().cloned()).join(", ")
            )
        }
        Body::SlotBound(_) => format!("a spare serves in the slot of {about}"),
        Body::SlotUnbound(_) => format!("the spare left the slot of {about}"),
        Body::JobObserved(data) => job_observed(data),
        Body::JobForgotten(data) => format!("{} is not followed any more", data.job),
        _ => return None,
    })
}

/// Faults, incidents and holds.
fn response(body: &Body, about: &str) -> Option<String> {
    Some(match body {
        Body::EpisodeOpened(data) => episode_opened(data),
        Body::EpisodeRepeated(data) => {
            format!("{} seen {} more times on {}", condition(&data.key), data.count, data.key.node)
        }
        Body::AlertRaised(data) => format!("alert {} on {about}, {}", data.condition, name_of(&data.impact)),
        Body::AlertChanged(data) => alert_changed(about, data),
        Body::IncidentOpened(data) => format!("{} opened, {}: {}", data.number, data.severity, data.title),
        Body::IncidentAttached(data) => format!("another alert attached: {}", say(&data.reason)),
        Body::IncidentChanged(data) => {
            format!("{} became {}: {}", say(data.from.name()), say(data.to.name()), say(&data.why))
        }
        Body::IncidentSeverity(data) => format!("severity {} became {}", data.from, data.to),
        Body::IncidentAcknowledged(data) => format!("{} has it, until {}", data.owner, data.until),
        Body::IncidentClock(data) => match data.clock {
            Clock::Isolated => "isolated: no new work reaches it".to_owned(),
            Clock::Mitigated => "mitigated: the slot serves again".to_owned(),
            Clock::Resolved => "resolved".to_owned(),
        },
        Body::IncidentNoted(_) => "note".to_owned(),
        Body::IncidentJob(data) => format!("{} was hit: {}", data.job, say(&data.reason)),
        Body::HoldPlaced(data) => hold_placed(about, data),
        Body::HoldReleased(data) => format!("{} released {about}: {}", data.owner, say(&data.why)),
        Body::IsolationDeferred(data) => {
            format!("isolation of {about} waits for its budget, until {}", data.not_before)
        }
        _ => return None,
    })
}

/// Effects, executions and what people decided about them.
fn recovery(body: &Body) -> Option<String> {
    Some(match body {
        Body::EffectRequested(data) => format!("to do: {}", words::effect(&data.effect)),
        Body::EffectCompleted(data) => effect_completed(data),
        Body::EffectVoided(data) => format!("given up: {}", say(&data.why)),
        Body::WouldHave(data) => {
            format!("would have: {} (mode {})", words::effect(&data.effect), data.mode.name())
        }
        Body::ExecutionCreated(data) => format!("runbook {} starts", data.runbook),
        Body::ExecutionChanged(data) => {
            format!("runbook {}: {}", say(data.to.name()), say(&data.why))
        }
        Body::StepChanged(data) => step_changed(data),
        Body::HumanAnswered(data) => human_answered(&data.step, &data.answers),
        Body::ApprovalDecided(data) if data.approved => "plan approved".to_owned(),
        Body::ApprovalDecided(_) => "plan rejected".to_owned(),
        _ => return None,
    })
}

/// The name of what the record is about.
fn about(record: &Record) -> String {
    match &record.subject {
        Some(subject) => subject.name.clone().unwrap_or_else(|| subject.id.clone()),
        None => "the site".to_owned(),
    }
}

/// A code or name as words: `level_false` becomes `level false`.
fn say(code: &str) -> String {
    code.replace('_', " ")
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

fn mode_changed(scope: &ModeScope, mode: Option<Mode>) -> String {
    let place = match scope {
        ModeScope::Site => "the site".to_owned(),
        ModeScope::Scheduler(name) => format!("scheduler {name}"),
        ModeScope::Node(name) => name.clone(),
    };
    match mode {
        Some(mode) => format!("mode of {place} set to {}", mode.name()),
        None => format!("mode of {place} no longer set"),
    }
}

fn agent_reported(node: &str, gpus: Option<usize>) -> String {
    match gpus {
        Some(gpus) => format!("agent of {node} reported {gpus} GPUs"),
        None => format!("agent of {node} reported"),
    }
}

fn source_changed(label: &str, state: SourceState) -> String {
    match state {
        SourceState::Fresh => format!("{label} reports"),
        SourceState::Silent => format!("{label} fell silent"),
        SourceState::Blind => format!("{label} cannot be understood"),
        SourceState::Gone => format!("{label} is not expected any more"),
    }
}

fn node_observed(about: &str, data: &NodeObserved) -> String {
    let Some(view) = &data.observed else { return format!("the scheduler does not list {about}") };
    let reason = match view.reason {
        ReasonOwner::None => "",
        ReasonOwner::Ours => ", under our reason",
        ReasonOwner::Foreign => ", under somebody else's reason",
    };
    format!("the scheduler shows {about} as {}{reason}", view.state)
}

fn phase_changed(about: &str, data: &NodePhaseChanged) -> String {
    format!("{about}: {} became {}: {}", say(data.from.name()), say(data.to.name()), say(&data.why))
}

fn job_observed(data: &JobObserved) -> String {
    let place =
        if data.state.holds_nodes() { format!(" on {} nodes", data.nodes.len()) } else { String::new() };
    format!("{} is {}{place}", data.job, say(&name_of(&data.state)))
}

fn condition(key: &provost_model::body::EpisodeKey) -> String {
    match key.code {
        Some(code) => format!("{} {code}", say(key.kind.name())),
        None => say(key.kind.name()),
    }
}

fn episode_opened(data: &EpisodeOpened) -> String {
    let device = data.key.pci.map(|pci| format!(" at {pci}")).unwrap_or_default();
    let history = if data.historic { ", before this agent's start" } else { "" };
    format!("{} seen on {}{device}, {}{history}", condition(&data.key), data.key.node, name_of(&data.impact))
}

fn alert_changed(about: &str, data: &AlertChanged) -> String {
    format!("alert on {about} is {}, seen {} times: {}", name_of(&data.state), data.count, say(&data.why))
}

fn hold_placed(about: &str, data: &HoldPlaced) -> String {
    let gpu = data.gpu.map(|index| format!("GPU {index} of ")).unwrap_or_default();
    let until = data.until.map(|until: Timestamp| format!(", until {until}")).unwrap_or_default();
    format!("{} holds {gpu}{about}: {}{until}", data.owner, data.reason)
}

fn effect_completed(data: &EffectCompleted) -> String {
    let effect = words::effect(&data.effect);
    match &data.result {
        EffectResult::Done { observed, notes } => {
            let seen = if observed.is_empty() { String::new() } else { format!(", read back as {observed}") };
            let notes: Vec<String> = notes.iter().map(|note| say(note)).collect();
            let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
            format!("done: {effect}{seen}{notes}")
        }
        EffectResult::NotDone { code, retry } => {
            let again = if *retry { ", will be tried again" } else { "" };
            format!("not done: {effect}: {}{again}", say(code))
        }
        EffectResult::Unknown { code } => format!("nobody knows whether it is done: {effect}: {}", say(code)),
    }
}

fn step_changed(data: &StepChanged) -> String {
    let attempt = if data.attempt > 1 { format!(", attempt {}", data.attempt) } else { String::new() };
    let result = data.result.as_ref().map(|result| format!(": {result}")).unwrap_or_default();
    format!("step {} {}{attempt} ({}){result}", data.step, say(&name_of(&data.to)), say(&data.why))
}

fn human_answered(step: &str, answers: &std::collections::BTreeMap<String, String>) -> String {
    let given: Vec<String> = answers.iter().map(|(field, answer)| format!("{field} = {answer}")).collect();
    format!("step {step} answered: {}", given.join(", "))
}
