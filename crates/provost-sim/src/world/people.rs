//! The people of the site: some answer at once, some never, some wrongly; they pause, abort, and reset.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use provost_controller::{Answer, Clock as _, Message};
use provost_engine::State;
use provost_engine::state::Execution;
use provost_model::input::{Action, Command, Input};
use provost_model::policy::Role;
use provost_model::record::{Actor, ActorKind};
use provost_model::runbook::{AnswerKind, ExecutionState, HumanStep, Question, StepState};
use provost_model::time::Timestamp;

use super::World;
use super::agenda::Event;
use crate::draw::Draw;

/// How people are today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mood {
    /// They answer what waits for them after this time; never, where none.
    pub answers_after: Option<Duration>,
    /// In so many of 100 cases an answer is nonsense first.
    pub wrong: u64,
    /// In so many of 100 looks a running execution is paused.
    pub pauses: u64,
    /// In so many of 100 looks one is aborted.
    pub aborts: u64,
}

impl Mood {
    /// They do at once what is asked of them, and nothing else.
    pub const HELPFUL: Mood =
        Mood { answers_after: Some(Duration::from_secs(3)), wrong: 0, pauses: 0, aborts: 0 };
    /// Nobody looks.
    pub const AWAY: Mood = Mood { answers_after: None, wrong: 0, pauses: 0, aborts: 0 };
}

/// The people.
#[derive(Debug)]
pub(super) struct People {
    pub(super) mood: Mood,
    draw: Draw,
    requests: u64,
}

/// How often they look.
const LOOKS_EVERY: Duration = Duration::from_secs(2);

impl People {
    pub(super) fn new(draw: Draw, mood: Mood) -> People {
        People { mood, draw, requests: 0 }
    }
}

/// Something that a person asks for. A technician who says that a node is repaired has repaired it.
struct Wish {
    action: Action,
    repairs: Option<String>,
}

impl From<Action> for Wish {
    fn from(action: Action) -> Wish {
        Wish { action, repairs: None }
    }
}

impl World {
    /// Asks for something as a person with this role; the answer comes back in [`World::answers`].
    pub fn ask(&mut self, role: Role, action: Action) {
        self.people.requests += 1;
        let name = action.name();
        let command = Command {
            actor: Actor { kind: ActorKind::Human, sub: format!("local:{}", role.name()) },
            roles: BTreeSet::from([role]),
            request: format!("request-{}", self.people.requests),
            reason: "because".to_owned(),
            action,
        };
        let told = self.told.clone();
        let answer = Box::new(move |answer: Answer| told.put((name, answer)));
        self.deliver(Message::Ask { input: Input::Command(Box::new(command)), answer });
    }

    /// People look at what waits for them.
    pub(super) fn people_look(&mut self) {
        let now = self.clock.now();
        self.agenda.at(now + LOOKS_EVERY, Event::People);
        let Some(controller) = &self.controller else { return };
        let wishes = wishes(controller.state(), now, &mut self.people);
        for wish in wishes {
            if let Some(node) = wish.repairs {
                self.site.repair(&node);
            }
            self.ask(Role::Admin, wish.action);
        }
    }
}

fn wishes(state: &State, now: Timestamp, people: &mut People) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for run in state.executions.values().filter(|run| !run.state.is_final()) {
        wishes.extend(wish_of(state, now, run, people));
    }
    let patience = people.mood.answers_after;
    if state.guard.breaker_tripped && patience.is_some() && people.draw.chance(30) {
        wishes.push(Action::BreakerReset.into());
    }
    wishes
}

fn wish_of(state: &State, now: Timestamp, run: &Execution, people: &mut People) -> Option<Wish> {
    let execution = run.id;
    let waited = people.mood.answers_after.is_some_and(|after| now.since(run.state_since) >= after);
    match run.state {
        ExecutionState::AwaitingApproval if waited => {
            Some(Action::RunApprove { execution, approve: true, plan: run.plan.clone() }.into())
        }
        ExecutionState::AwaitingHuman if waited => answer(state, run, people),
        ExecutionState::NeedsOperator if waited => {
            let draw = &mut people.draw;
            let action = match draw.below(10) {
                0 => Action::RunAbort { execution },
                1 => Action::RunSkip { execution },
                _ => Action::RunRetry { execution },
            };
            let repairs = node_name(state, run);
            Some(Wish { action, repairs })
        }
        ExecutionState::Paused if waited => Some(Action::RunResume { execution }.into()),
        ExecutionState::Running | ExecutionState::Waiting | ExecutionState::Queued => {
            if people.draw.chance(people.mood.pauses) {
                Some(Action::RunPause { execution }.into())
            } else if people.draw.chance(people.mood.aborts) {
                Some(Action::RunAbort { execution }.into())
            } else {
                None
            }
        }
        _ => None,
    }
}

fn node_name(state: &State, run: &Execution) -> Option<String> {
    Some(state.nodes.get(&run.node?)?.name.clone())
}

fn answer(state: &State, run: &Execution, people: &mut People) -> Option<Wish> {
    let (step, human) = waiting_step(state, run)?;
    let wrong = people.draw.chance(people.mood.wrong);
    let answers = if wrong { nonsense(human) } else { answers(human) };
    let action = Action::RunAnswer { execution: run.id, step: step.to_owned(), answers };
    Some(Wish { action, repairs: node_name(state, run).filter(|_| !wrong) })
}

/// The human step that an execution waits at.
pub(crate) fn waiting_step<'a>(state: &'a State, run: &Execution) -> Option<(&'a str, &'a HumanStep)> {
    let waiting = run.steps.iter().find(|step| step.state == StepState::Waiting)?;
    let step = state.runbooks.get(&run.version)?.steps.iter().find(|step| step.id == waiting.id)?;
    Some((step.id.as_str(), step.human.as_ref()?))
}

/// What a technician answers whose work went well, and no more than is asked: the first of the choices is the
/// good one.
fn answers(human: &HumanStep) -> BTreeMap<String, String> {
    let one = |(name, question): (&String, &Question)| {
        let text = match question.kind {
            AnswerKind::Choice => question.choices.first().cloned().unwrap_or_default(),
            AnswerKind::Boolean => "true".to_owned(),
            AnswerKind::Integer => "1".to_owned(),
            AnswerKind::Serial => "SN-NEW-1".to_owned(),
            AnswerKind::Text => "reseated the board".to_owned(),
        };
        (name.clone(), text)
    };
    human.ask.iter().filter(|(_, question)| question.required).map(one).collect()
}

/// What somebody types who has not read the question.
fn nonsense(human: &HumanStep) -> BTreeMap<String, String> {
    let mut answers = answers(human);
    answers.insert("mood".to_owned(), "tired".to_owned());
    answers
}
