//! People take part in executions: start, approve, pause, decide about a failed step, answer.

use std::collections::BTreeMap;

use provost_model::body::{
    ApprovalDecided, Body, EffectVoided, ExecutionChanged, HumanAnswered, StepChanged,
};
use provost_model::ids::ExecutionId;
use provost_model::input::{Action, Reply};
use provost_model::record::Class;
use provost_model::runbook::{ExecutionState, HumanStep, IncidentUse, Runbook, StepState};
use provost_model::time::Timestamp;

use super::executor::{MODE_ADVISE, PAUSE_REQUESTED, RESUMED, SKIPPED, current, lock, open_intents};
use super::{actions, answer, cause, mode_of, neighbours, propose};
use crate::command::Asked;
use crate::event::{Decisions, Event};
use crate::state::{Execution, State, StepRun};

pub(crate) fn on_command(state: &State, now: Timestamp, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    let (id, act): (&ExecutionId, fn(&Case<'_>, &mut Decisions) -> Reply) = match &asked.command.action {
        Action::RunStart { runbook, incident } => return start(state, runbook, incident, asked, out),
        Action::RunApprove { execution, .. } => (execution, approve),
        Action::RunPause { execution } => (execution, pause),
        Action::RunResume { execution } => (execution, resume),
        Action::RunRetry { execution } => (execution, retry),
        Action::RunSkip { execution } => (execution, skip),
        Action::RunAbort { execution } => (execution, abort),
        Action::RunAnswer { execution, .. } => (execution, answer),
        other => {
            let detail = format!("{} is not about an execution", other.name());
            return Reply::Invalid { field: "action".to_owned(), detail };
        }
    };
    let known = state.executions.get(id).and_then(|run| Some((run, state.runbooks.get(&run.version)?)));
    let Some((run, runbook)) = known else { return Reply::NotFound { what: format!("execution {id}") } };
    if run.state.is_final() {
        let detail = format!("the execution is over: {} ({})", run.state.name(), run.why);
        return conflict("execution_over", detail);
    }
    act(&Case { state, now, asked, run, runbook }, out)
}

/// A command about an execution that is not over.
struct Case<'a> {
    state: &'a State,
    now: Timestamp,
    asked: &'a Asked<'a>,
    run: &'a Execution,
    runbook: &'a Runbook,
}

impl Case<'_> {
    fn push(&self, step: Option<&str>, body: Body, out: &mut Decisions) {
        out.push(self.event(step, body));
    }

    fn event(&self, step: Option<&str>, body: Body) -> Event {
        let mut event = self.asked.event(Class::Response, body);
        let incident = self.run.incident.and_then(|id| self.state.incidents.get(&id));
        event.subject = incident.map(|incident| incident.subject.clone());
        event.corr.incident = incident.map(|incident| incident.number.clone());
        event.corr.execution = Some(self.run.id);
        event.corr.step = step.map(str::to_owned);
        event
    }

    fn to(&self, to: ExecutionState, why: &str, out: &mut Decisions) {
        let body = ExecutionChanged { execution: self.run.id, from: self.run.state, to, why: why.to_owned() };
        self.push(None, Body::ExecutionChanged(body), out);
    }

    fn step_to(&self, record: &StepRun, to: StepState, why: &str, out: &mut Decisions) {
        let body = StepChanged {
            execution: self.run.id,
            step: record.id.clone(),
            from: record.state,
            to,
            attempt: record.attempts,
            why: why.to_owned(),
            result: None,
            until: (to == StepState::Retrying).then_some(self.now),
        };
        self.push(Some(&record.id), Body::StepChanged(body), out);
    }

    /// Back to work: at once, or as soon as the node's lock is free.
    fn go_on(&self, why: &str, out: &mut Decisions) {
        let free = lock(self.state, self.run).is_none();
        self.to(if free { ExecutionState::Running } else { ExecutionState::Queued }, why, out);
    }

    /// The step that a person must decide about: what could not be undone, else what failed or is unknown.
    fn stuck(&self) -> Option<&StepRun> {
        if self.run.state != ExecutionState::NeedsOperator {
            return None;
        }
        let undo = self.run.steps.iter().find(|step| step.state == StepState::CompensationFailed);
        undo.or_else(|| self.run.steps.get(current(self.run, self.runbook)?))
    }

    fn not_stuck(&self) -> Reply {
        let detail = format!("no step needs a decision: the execution is {}", self.run.state.name());
        conflict("needs_no_operator", detail)
    }

    /// Nobody acts on the step's open intents any more.
    fn void_intents(&self, record: &StepRun, out: &mut Decisions) {
        for intent in open_intents(self.state, record) {
            let body = EffectVoided { intent, why: "person".to_owned() };
            self.push(Some(&record.id), Body::EffectVoided(body), out);
        }
    }

    fn accepted(&self) -> Reply {
        self.asked.accepted(self.state, Vec::new())
    }
}

fn conflict(code: &str, detail: String) -> Reply {
    Reply::Conflict { code: code.to_owned(), detail }
}

fn start(state: &State, runbook: &str, number: &str, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    let Some(incident) = state.incident_by_number(number) else {
        return Reply::NotFound { what: format!("incident {number}") };
    };
    let Some((version, _)) = propose::published(state, runbook, IncidentUse::Required) else {
        return Reply::NotFound { what: format!("runbook {runbook} that runs for an incident") };
    };
    if !incident.state.is_open() {
        let detail = format!("{number} is {}", incident.state.name());
        return conflict("incident_not_open", detail);
    }
    let open = incident.executions.iter().filter_map(|id| state.executions.get(id));
    if let Some(run) = open.into_iter().find(|run| run.runbook == runbook && !run.state.is_final()) {
        let detail = format!("{} runs already and is {}", run.id, run.state.name());
        return conflict("already_running", detail);
    }
    let alert = cause::alerts_of(state, incident, runbook).next();
    if alert.and_then(|alert| alert.node).or(incident.node).is_none() {
        return conflict("no_node", format!("{number} is about no node"));
    }
    let id: ExecutionId = out.id();
    let made = propose::create(state, incident, runbook, version, alert, id);
    let mut event = asked.event(Class::Response, made.body).of_incident(&incident.number);
    event.subject = made.subject;
    event.corr.execution = Some(id);
    out.push(event);
    asked.accepted(state, vec![id.to_string()])
}

fn approve(case: &Case<'_>, out: &mut Decisions) -> Reply {
    let Action::RunApprove { approve, plan, .. } = &case.asked.command.action else { return Reply::Already };
    let run = case.run;
    let by = &case.asked.command.actor.sub;
    // A person's yes also lets an execution pass the breaker: it is no automatic disruption any more.
    let waits = run.state == ExecutionState::AwaitingApproval
        || (run.state == ExecutionState::Queued && run.why == "breaker");
    if !waits {
        let detail = format!("the execution is {}; nobody's approval is asked for", run.state.name());
        return conflict("not_awaiting_approval", detail);
    }
    if *plan != run.plan {
        return conflict("plan_changed", format!("the plan is now {}; look at it again", run.plan));
    }
    if run.requested_by == *by {
        return conflict("approver_is_requester", "somebody else must approve it".to_owned());
    }
    if *approve && run.approvals.contains(by) {
        return Reply::Already;
    }
    if *approve && run.why == MODE_ADVISE {
        let mode = mode_of(case.state, run).name();
        let detail = format!("the mode is {mode}: nothing may be done; set the mode to act first");
        return conflict("mode_advise", detail);
    }
    let body = ApprovalDecided { execution: run.id, approved: *approve, plan: plan.clone() };
    case.push(None, Body::ApprovalDecided(body), out);
    if !*approve {
        case.to(ExecutionState::Cancelled, "rejected", out);
    }
    case.accepted()
}

fn pause(case: &Case<'_>, out: &mut Decisions) -> Reply {
    if case.run.pause_requested {
        return Reply::Already;
    }
    // It takes effect between steps; what is under way is finished or probed first.
    case.to(case.run.state, PAUSE_REQUESTED, out);
    case.accepted()
}

fn resume(case: &Case<'_>, out: &mut Decisions) -> Reply {
    let run = case.run;
    if !run.pause_requested {
        if run.state == ExecutionState::Paused {
            let detail = format!("no person paused it: {}", run.why);
            return conflict("not_paused_by_a_person", detail);
        }
        return Reply::Already;
    }
    let to = match run.state {
        ExecutionState::Paused if run.steps.iter().all(|step| step.attempts == 0) => ExecutionState::Queued,
        ExecutionState::Paused => ExecutionState::Running,
        other => other,
    };
    case.to(to, RESUMED, out);
    case.accepted()
}

fn retry(case: &Case<'_>, out: &mut Decisions) -> Reply {
    let Some(record) = case.stuck() else { return case.not_stuck() };
    case.void_intents(record, out);
    if record.state == StepState::CompensationFailed {
        case.step_to(record, StepState::Succeeded, "retry_undo", out);
        case.to(ExecutionState::Compensating, "retry_undo", out);
    } else {
        case.step_to(record, StepState::Retrying, "retry", out);
        case.go_on("retry", out);
    }
    case.accepted()
}

fn skip(case: &Case<'_>, out: &mut Decisions) -> Reply {
    let Some(record) = case.stuck() else { return case.not_stuck() };
    case.void_intents(record, out);
    case.step_to(record, StepState::Skipped, SKIPPED, out);
    if record.state == StepState::CompensationFailed {
        case.to(ExecutionState::Compensating, SKIPPED, out);
        return case.accepted();
    }
    let step = case.runbook.steps.iter().find(|step| step.id == record.id);
    if step.is_some_and(|step| step.action.as_deref() == Some("node.revalidate")) {
        // The node goes back untested because a person says so; the faults end by the same word.
        neighbours::end_alerts(case.state, case.run, case.asked, out);
    }
    case.go_on(SKIPPED, out);
    case.accepted()
}

fn abort(case: &Case<'_>, out: &mut Decisions) -> Reply {
    let run = case.run;
    if run.state == ExecutionState::Compensating {
        return Reply::Already;
    }
    let gave_up = run.steps.iter().find(|step| step.state == StepState::CompensationFailed);
    let stuck = case.stuck().filter(|step| step.state == StepState::Unknown).or(gave_up);
    if let Some(record) = stuck {
        case.void_intents(record, out);
    }
    let done = |(record, step): (&StepRun, &provost_model::runbook::Step)| {
        let action = step.action.as_deref().and_then(actions::find);
        let undo = action.is_some_and(|action| matches!(action.undo, actions::Undo::By(_)));
        undo && matches!(record.state, StepState::Succeeded | StepState::Failed)
    };
    let back = cause::point_of_no_return(run, case.runbook).is_none() && gave_up.is_none();
    let undoable = back && run.steps.iter().zip(&case.runbook.steps).any(done);
    let under_way = stuck.is_none() && cause::has_open_intents(case.state, run);
    if undoable || under_way {
        let lock = lock(case.state, run);
        case.to(ExecutionState::Compensating, lock.as_deref().unwrap_or("aborted"), out);
    } else {
        case.to(ExecutionState::Cancelled, "aborted", out);
    }
    case.accepted()
}

fn answer(case: &Case<'_>, out: &mut Decisions) -> Reply {
    let Action::RunAnswer { step, answers, .. } = &case.asked.command.action else { return Reply::Already };
    let Some((record, human)) = asked_now(case, step) else {
        let detail = format!("the execution is {}; step {step} asks nothing now", case.run.state.name());
        return conflict("not_awaiting_answer", detail);
    };
    if !human.may_be_answered_by(&case.asked.command.roles) {
        let step = format!("runbook:{}:{}:role:{}", case.runbook.id, record.id, human.role);
        return Reply::Forbidden { policies: vec![step] };
    }
    let answers = match answer::check(&human.ask, answers) {
        Ok(answers) => answers,
        Err((field, detail)) => return Reply::Invalid { field, detail },
    };
    let result = summary(&answers.plain);
    let body =
        HumanAnswered { execution: case.run.id, step: record.id.clone(), answers: answers.plain.clone() };
    out.push(case.event(Some(&record.id), Body::HumanAnswered(body)).sealing("answer", &answers.text));
    let body = StepChanged {
        execution: case.run.id,
        step: record.id.clone(),
        from: record.state,
        to: StepState::Succeeded,
        attempt: record.attempts,
        why: "answered".to_owned(),
        result: Some(result),
        until: None,
    };
    case.push(Some(&record.id), Body::StepChanged(body), out);
    case.accepted()
}

/// The human step of this name, where it asks now.
fn asked_now<'a>(case: &Case<'a>, step: &str) -> Option<(&'a StepRun, &'a HumanStep)> {
    if case.run.state != ExecutionState::AwaitingHuman {
        return None;
    }
    let i = current(case.run, case.runbook)?;
    let (record, written) = (case.run.steps.get(i)?, case.runbook.steps.get(i)?);
    (written.id == step).then_some((record, written.human.as_ref()?))
}

fn summary(answers: &BTreeMap<String, String>) -> String {
    let parts: Vec<String> = answers.iter().map(|(field, value)| format!("{field}: {value}")).collect();
    parts.join(", ")
}
