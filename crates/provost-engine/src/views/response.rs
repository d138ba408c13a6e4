//! Alerts, incidents, executions and runbooks.

use std::collections::BTreeMap;
use std::time::Duration;

use provost_model::record::Subject;
use provost_model::response::Severity;
use provost_model::runbook::{AnswerKind, Question, Runbook, Step, StepState};
use provost_model::time::Timestamp;
use provost_model::view;

use super::words::{self, name_of};
use crate::alert::subject;
use crate::state::{Alert, Execution, Incident, State, StepRun};

/// An alert.
pub fn alert(state: &State, alert: &Alert) -> view::Alert {
    let incident = alert.incident.and_then(|id| state.incidents.get(&id));
    view::Alert {
        id: alert.id.to_string(),
        condition: alert.condition.clone(),
        subject: alert.subject.clone(),
        state: name_of(&alert.state),
        impact: name_of(&alert.impact),
        classifications: alert.classifications.iter().map(name_of).collect(),
        count: alert.count,
        first_at: alert.first_at,
        last_at: alert.last_at,
        evidence: alert.evidence.clone(),
        incident: incident.map(|incident| incident.number.clone()),
    }
}

/// An incident.
pub fn incident(state: &State, incident: &Incident) -> view::Incident {
    let alerts: Vec<&Alert> = incident.alerts.iter().filter_map(|id| state.alerts.get(id)).collect();
    let mut subjects: Vec<Subject> = vec![incident.subject.clone()];
    for alert in &alerts {
        if !subjects.contains(&alert.subject) {
            subjects.push(alert.subject.clone());
        }
    }
    view::Incident {
        id: incident.id.to_string(),
        number: incident.number.clone(),
        title: incident.title.clone(),
        state: incident.state.name().to_owned(),
        severity: incident.severity.to_string(),
        cause_class: None,
        subjects,
        alerts: incident.alerts.iter().map(ToString::to_string).collect(),
        jobs: incident.jobs.iter().map(ToString::to_string).collect(),
        fault_at: incident.fault_at,
        detected_at: incident.detected_at,
        opened_at: incident.opened_at,
        acked_at: incident.acked_at,
        isolated_at: incident.isolated_at,
        mitigated_at: incident.mitigated_at,
        resolved_at: incident.resolved_at,
        due: due(incident.severity, incident.opened_at),
        owner: incident.owner.clone(),
        execution: incident.executions.last().map(ToString::to_string),
        count: alerts.iter().map(|alert| alert.count).sum(),
        would_have: incident.would_have.iter().map(words::effect).collect(),
    }
}

/// When a person must have it, the subject be isolated, the slot serve again: the default clocks of 03 §2.2, from
/// the opening. SEV4 counts business days, which need a calendar, so it has none here.
fn due(severity: Severity, opened_at: Timestamp) -> BTreeMap<String, Timestamp> {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    let (respond, isolate, mitigate) = match severity {
        Severity::Sev1 => (5 * MINUTE, 5 * MINUTE, HOUR),
        Severity::Sev2 => (15 * MINUTE, 5 * MINUTE, 4 * HOUR),
        Severity::Sev3 => (HOUR, 15 * MINUTE, 24 * HOUR),
        Severity::Sev4 => return BTreeMap::new(),
    };
    [("respond", respond), ("isolate", isolate), ("mitigate", mitigate)]
        .into_iter()
        .map(|(name, after)| (name.to_owned(), opened_at + Duration::from_secs(after)))
        .collect()
}

/// An execution.
pub fn execution(state: &State, execution: &Execution) -> view::Execution {
    let runbook = state.runbooks.get(&execution.version);
    let step = |run: &StepRun| {
        let written = runbook.and_then(|book| book.steps.iter().find(|step| step.id == run.id));
        step_view(run, written)
    };
    view::Execution {
        id: execution.id.to_string(),
        runbook: execution.runbook.clone(),
        version: execution.version.clone(),
        state: execution.state.name().to_owned(),
        why: execution.why.clone(),
        incident: execution
            .incident
            .and_then(|id| state.incidents.get(&id))
            .map(|incident| incident.number.clone()),
        subject: subject_of(state, execution),
        plan: execution.plan.clone(),
        steps: execution.steps.iter().map(step).collect(),
        created_at: execution.created_at,
        ended_at: execution.ended_at,
    }
}

fn subject_of(state: &State, execution: &Execution) -> Option<Subject> {
    if let Some(node) = execution.node.and_then(|id| state.nodes.get(&id)) {
        let gpu = execution.gpu.and_then(|index| node.gpus.get(&index));
        return Some(gpu.map_or_else(|| node.subject(), |gpu| subject::of_gpu(node, gpu.pci)));
    }
    execution.job.as_ref().and_then(|key| state.jobs.get(key)).map(subject::of_job)
}

fn step_view(run: &StepRun, step: Option<&Step>) -> view::StepView {
    let human = step.and_then(|step| step.human.as_ref());
    let waits = matches!(
        run.state,
        StepState::Waiting
            | StepState::Acting
            | StepState::Retrying
            | StepState::Unknown
            | StepState::Compensating
    );
    let action = step.and_then(|step| step.action.clone()).unwrap_or_else(|| "human".to_owned());
    let ask = human.into_iter().flat_map(|human| &human.ask);
    view::StepView {
        id: run.id.clone(),
        action,
        about: step.map(|step| step.about.clone()).unwrap_or_default(),
        state: name_of(&run.state),
        started_at: run.started_at,
        ended_at: run.ended_at,
        attempts: run.attempts,
        result: run.result.clone(),
        waiting_for: waits.then(|| run.why.clone()),
        why: run.why.clone(),
        until: run.until,
        instructions: human.map(|human| human.instructions.clone()),
        ask: ask.map(|(field, question)| (field.clone(), words_of(question))).collect(),
    }
}

/// A question as text: `one of replaced, reseated; required`.
fn words_of(question: &Question) -> String {
    let mut text = match question.kind {
        AnswerKind::Choice => format!("one of {}", question.choices.join(", ")),
        AnswerKind::Boolean => "true or false".to_owned(),
        AnswerKind::Integer => "a whole number".to_owned(),
        AnswerKind::Serial => "a serial number".to_owned(),
        AnswerKind::Text => "text, sealed".to_owned(),
    };
    if question.required {
        text.push_str("; required");
    }
    text
}

/// A version of a runbook.
pub fn runbook(version: &str, runbook: &Runbook) -> view::RunbookView {
    view::RunbookView {
        id: runbook.id.clone(),
        version: version.to_owned(),
        title: runbook.title.clone(),
        risk: name_of(&runbook.risk),
        steps: runbook.steps.iter().map(|step| format!("{}: {}", step.id, step.about)).collect(),
    }
}
