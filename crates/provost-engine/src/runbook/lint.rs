//! What the shape of a runbook cannot say: which actions exist, and in which order they make sense.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use provost_model::runbook::{
    AnswerKind, HUMAN_ROLES, HumanStep, IncidentUse, OnFail, Question, Runbook, Step,
};

use super::actions::{self, Needs};
use super::condition::Condition;

/// Most steps of a runbook.
pub const MAX_STEPS: usize = 64;
/// Most questions of a step.
const MAX_QUESTIONS: usize = 16;
/// Most attempts of a step.
const MAX_ATTEMPTS: u32 = 100;
/// The longest wait of a step.
const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 86_400);

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where: `steps[2].retry.max`.
    pub path: String,
    /// What is wrong and what is expected.
    pub message: String,
}

/// Everything that is wrong with a runbook, in the order of its text. Only one without findings is published.
pub fn lint(runbook: &Runbook) -> Vec<Finding> {
    let mut findings = Findings::default();
    if runbook.api_version != "runbook/v1" {
        findings.add("api_version", "must be runbook/v1");
    }
    if !is_name(&runbook.id, '-') {
        findings.add("id", "must be 1 to 64 small letters, digits and hyphens, beginning with a letter");
    }
    text(&mut findings, "title", &runbook.title, 120, false);
    if runbook.steps.is_empty() || runbook.steps.len() > MAX_STEPS {
        findings.add("steps", &format!("must have 1 to {MAX_STEPS} steps"));
    }
    let mut ids = BTreeSet::new();
    for (i, step) in runbook.steps.iter().enumerate() {
        let path = format!("steps[{i}]");
        if !ids.insert(step.id.as_str()) {
            findings.add(&format!("{path}.id"), &format!("`{}` is the id of an earlier step", step.id));
        }
        lint_step(&mut findings, &path, runbook, step);
        lint_condition(&mut findings, &path, &runbook.steps[..i], step);
        lint_order(&mut findings, &path, &runbook.steps[..i], step);
    }
    findings.list
}

#[derive(Default)]
struct Findings {
    list: Vec<Finding>,
}

impl Findings {
    fn add(&mut self, path: &str, message: &str) {
        self.list.push(Finding { path: path.to_owned(), message: message.to_owned() });
    }
}

/// A lower-case name; `also` may stand inside it.
fn is_name(text: &str, also: char) -> bool {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == also;
    text.len() <= 64 && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(inside)
}

/// Text for people ends in terminals and pages: no control characters, and short enough to be read.
fn text(findings: &mut Findings, path: &str, text: &str, max: usize, lines: bool) {
    if text.trim().is_empty() {
        findings.add(path, "must say something");
    }
    if text.chars().count() > max {
        findings.add(path, &format!("is longer than {max} characters"));
    }
    // Marks that turn the direction of writing can make a text read as something else.
    let hidden =
        |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if text.chars().any(|c| (c.is_control() && !(lines && c == '\n')) || hidden(c)) {
        findings.add(path, "holds control characters");
    }
}

fn lint_step(findings: &mut Findings, path: &str, runbook: &Runbook, step: &Step) {
    if !is_name(&step.id, '_') {
        let expected = "must be 1 to 64 small letters, digits and underscores, beginning with a letter";
        findings.add(&format!("{path}.id"), expected);
    }
    text(findings, &format!("{path}.about"), &step.about, 200, false);
    match (&step.action, &step.human) {
        (Some(name), None) => lint_action(findings, path, runbook, name, &step.with),
        (None, Some(human)) => lint_human(findings, path, runbook, human),
        _ => findings.add(path, "must have exactly one of `use` and `human`"),
    }
    if step.action.is_none() && !step.with.is_empty() {
        findings.add(&format!("{path}.with"), "belongs to an action; this step has none");
    }
    if step.timeout.0.is_zero() || step.timeout.0 > MAX_TIMEOUT {
        findings.add(&format!("{path}.timeout"), "must be more than nothing and at most 30d");
    }
    if step.retry.max == 0 || step.retry.max > MAX_ATTEMPTS {
        let expected = format!("counts the first attempt: must be 1 to {MAX_ATTEMPTS}");
        findings.add(&format!("{path}.retry.max"), &expected);
    }
    if step.retry.backoff.0.is_zero() || step.retry.backoff.0 > Duration::from_secs(3_600) {
        findings.add(&format!("{path}.retry.backoff"), "must be more than nothing and at most 1h");
    }
}

fn lint_action(
    findings: &mut Findings,
    path: &str,
    runbook: &Runbook,
    name: &str,
    with: &BTreeMap<String, String>,
) {
    let Some(action) = actions::find(name) else {
        let known: Vec<&str> = actions::ACTIONS.iter().map(|action| action.name).collect();
        findings.add(&format!("{path}.use"), &format!("`{name}` is none of {}", known.join(", ")));
        return;
    };
    let has = match runbook.incident {
        IncidentUse::Required => Needs::Node,
        IncidentUse::None => Needs::Job,
    };
    if action.needs != has {
        let message = match action.needs {
            Needs::Node => "needs a node, and so an incident: remove `incident: none`",
            Needs::Job => "needs a job alone: say `incident: none`",
        };
        findings.add(&format!("{path}.use"), &format!("`{name}` {message}"));
    }
    for (key, value) in with {
        if !action.arguments.contains(&key.as_str()) {
            findings.add(&format!("{path}.with.{key}"), &format!("is no argument of `{name}`"));
        } else if !is_name(value, '_') {
            findings.add(&format!("{path}.with.{key}"), "must be the name of an action of the agent");
        }
    }
}

fn lint_human(findings: &mut Findings, path: &str, runbook: &Runbook, human: &HumanStep) {
    if runbook.incident == IncidentUse::None {
        findings.add(&format!("{path}.human"), "nobody is asked without an incident");
    }
    if !HUMAN_ROLES.iter().any(|(role, _)| *role == human.role) {
        let known: Vec<&str> = HUMAN_ROLES.iter().map(|(role, _)| *role).collect();
        findings.add(&format!("{path}.human.role"), &format!("must be one of: {}", known.join(", ")));
    }
    text(findings, &format!("{path}.human.instructions"), &human.instructions, 4_000, true);
    if human.ask.is_empty() || human.ask.len() > MAX_QUESTIONS {
        findings.add(&format!("{path}.human.ask"), &format!("must have 1 to {MAX_QUESTIONS} questions"));
    }
    for (name, question) in &human.ask {
        lint_question(findings, &format!("{path}.human.ask.{name}"), name, question);
    }
}

fn lint_question(findings: &mut Findings, path: &str, name: &str, question: &Question) {
    if !is_name(name, '_') {
        findings.add(path, "must be named by small letters, digits and underscores");
    }
    let choices: BTreeSet<&String> = question.choices.iter().collect();
    if question.kind == AnswerKind::Choice {
        if choices.len() < 2 || choices.len() != question.choices.len() || choices.len() > 32 {
            findings.add(&format!("{path}.choices"), "must be 2 to 32 different answers");
        }
        if choices.iter().any(|choice| !is_name(choice, '_')) {
            findings.add(&format!("{path}.choices"), "must be small letters, digits and underscores");
        }
    } else if !choices.is_empty() {
        findings.add(&format!("{path}.choices"), "belongs to a question of the type choice");
    }
}

/// A condition must be readable and may ask only for answers that were given before.
fn lint_condition(findings: &mut Findings, path: &str, earlier: &[Step], step: &Step) {
    let Some(when) = &step.when else { return };
    let condition = match Condition::parse(when) {
        Ok(condition) => condition,
        Err(error) => return findings.add(&format!("{path}.when"), &error.to_string()),
    };
    for asked in condition.steps().filter(|asked| !earlier.iter().any(|step| step.id == **asked)) {
        findings.add(&format!("{path}.when"), &format!("`done.{asked}` is no earlier step"));
    }
    for (asked, field) in condition.answers() {
        let question = earlier
            .iter()
            .find(|step| step.id == asked)
            .and_then(|step| step.human.as_ref())
            .and_then(|human| human.ask.get(field));
        match question {
            None => findings.add(
                &format!("{path}.when"),
                &format!("`answer.{asked}.{field}` is no question of an earlier step"),
            ),
            Some(question) if question.kind == AnswerKind::Text => findings.add(
                &format!("{path}.when"),
                &format!("`answer.{asked}.{field}` is free text: it is sealed and nothing can depend on it"),
            ),
            Some(_) => {}
        }
    }
}

/// Evidence before hands, a test before the return, no rolling back past the point of no return.
fn lint_order(findings: &mut Findings, path: &str, earlier: &[Step], step: &Step) {
    let uses = |step: &Step, name: &str| step.action.as_deref() == Some(name);
    if uses(step, "evidence.collect")
        && earlier
            .iter()
            .any(|step| step.human.is_some() || uses(step, "gpu.reset") || uses(step, "node.revalidate"))
    {
        findings.add(&format!("{path}.use"), "evidence must be collected before anybody touches the node");
    }
    if uses(step, "gpu.reset") {
        let before = |name: &str| earlier.iter().any(|step| uses(step, name) && step.when.is_none());
        if !before("node.await_idle") {
            let expected = "needs an earlier step `node.await_idle` without `when`: a reset ends what runs";
            findings.add(&format!("{path}.use"), expected);
        }
        if !before("evidence.collect") {
            let expected = "needs an earlier step `evidence.collect` without `when`: a reset takes it away";
            findings.add(&format!("{path}.use"), expected);
        }
    }
    if uses(step, "node.release") {
        let tested = earlier.iter().rev().find(|step| step.human.is_some() || uses(step, "node.revalidate"));
        if !tested.is_some_and(|step| uses(step, "node.revalidate") && step.when.is_none()) {
            let expected =
                "needs an earlier step `node.revalidate` without `when`, and no human step between";
            findings.add(&format!("{path}.use"), expected);
        }
    }
    if step.on_fail == OnFail::Rollback && earlier.iter().any(|step| step.point_of_no_return) {
        findings.add(&format!("{path}.on_fail"), "cannot roll back past the point of no return");
    }
}
