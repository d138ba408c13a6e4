//! Moves executions on (03 §4.2). Each look compares what an execution waits for with State and decides the
//! moves that follow; a move that asks for something outside ends the look, since its result comes as an input.
//!
//! Nothing is in flight here: a wait is a deadline in State, an open intent, a lock or gate that `why` names, or a
//! person. So a restart changes nothing, except that open intents are unknown until they were probed.

mod compensate;
mod gate;
mod step;

use std::time::Duration;

use provost_model::body::{Body, ExecutionChanged, Purpose, StepChanged, WouldHave};
use provost_model::effect::Effect;
use provost_model::policy::Mode;
use provost_model::runbook::{ExecutionState, OnFail, Risk, Runbook, StepState};
use provost_model::time::Timestamp;

use super::actions::{self, Context};
use super::condition::Condition;
use super::{cause, event, fold, mode_of};
use crate::effect;
use crate::event::Decisions;
use crate::state::{Execution, State, StepRun};

pub(super) use gate::lock;
pub(super) use step::unanswered;

/// A person asked for a pause.
pub(super) const PAUSE_REQUESTED: &str = "pause_requested";
/// A person ended a pause.
pub(super) const RESUMED: &str = "resumed";
/// Nobody approved in time. It is never approved by itself.
pub(super) const APPROVAL_OVERDUE: &str = "approval_overdue";
/// Nobody answered in time.
pub(super) const OVERDUE: &str = "overdue";
/// A node passed its test.
pub(super) const VALIDATED: &str = "validated";
/// A node takes work again.
pub(super) const RELEASED: &str = "released";
/// Listed what would have been done, and did nothing.
pub(super) const MODE_OBSERVE: &str = "mode_observe";
/// Listed what would have been done, for people.
pub(super) const MODE_ADVISE: &str = "mode_advise";
/// A person skipped a step.
pub(super) const SKIPPED: &str = "skipped";
/// An approval is asked for this long before it is called overdue.
pub(super) const APPROVAL_TIME: Duration = Duration::from_secs(1_800);

/// More moves than one look can need: every step is skipped or ends at once.
const MAX_MOVES: usize = 8 * super::MAX_STEPS;

/// What the looks of one round share: State does not show yet what they decided.
#[derive(Default)]
struct Round {
    /// An execution was let in; the next must see it first.
    admitted: bool,
    /// A spare was chosen.
    chose_spare: bool,
}

pub(super) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    let mut round = Round::default();
    for id in &state.open_executions {
        let Some(run) = state.executions.get(id).filter(|run| touched(state, run)) else { continue };
        let Some(runbook) = state.runbooks.get(&run.version) else { continue };
        let mut look = Look { state, now, run: run.clone(), runbook, round: &mut round, out, acted: false };
        for _ in 0..MAX_MOVES {
            if look.acted || !look.next() {
                break;
            }
        }
    }
}

/// Whether this turn touched something that the execution may wait for.
fn touched(state: &State, run: &Execution) -> bool {
    let dirty = &state.dirty;
    let alerts_or_nodes = !dirty.nodes.is_empty() || !dirty.jobs.is_empty() || !dirty.alerts.is_empty();
    dirty.all
        || dirty.executions.contains(&run.id)
        || run.incident.is_some_and(|incident| dirty.incidents.contains(&incident))
        // Its node, its spare, its jobs, room in the governor, a lock.
        || (run.node.is_some() && (alerts_or_nodes || !dirty.executions.is_empty()))
}

/// The first step that is not settled; none where all are.
pub(super) fn current(run: &Execution, runbook: &Runbook) -> Option<usize> {
    run.steps.iter().zip(&runbook.steps).position(|(record, step)| match record.state {
        StepState::Succeeded | StepState::Skipped => false,
        StepState::Failed => step.on_fail != OnFail::Continue,
        StepState::Pending
        | StepState::Acting
        | StepState::Waiting
        | StepState::Retrying
        | StepState::Unknown
        | StepState::Compensating
        | StepState::Compensated
        | StepState::CompensationFailed => true,
    })
}

/// One look at one execution. `run` is as State will show it once the decisions so far are applied.
struct Look<'a> {
    state: &'a State,
    now: Timestamp,
    run: Execution,
    runbook: &'a Runbook,
    round: &'a mut Round,
    out: &'a mut Decisions,
    /// Something was asked for whose record must be applied before the next move.
    acted: bool,
}

/// What a step changes to.
struct To<'a> {
    state: StepState,
    attempt: u32,
    why: &'a str,
    result: Option<String>,
    until: Option<Timestamp>,
}

impl Look<'_> {
    /// Makes one move, where one is to be made.
    fn next(&mut self) -> bool {
        if let Some(why) = cause::over(self.state, &self.run, self.runbook) {
            return self.to(ExecutionState::Cancelled, why);
        }
        match self.run.state {
            ExecutionState::Proposed => self.propose(),
            ExecutionState::AwaitingApproval => self.approval(),
            ExecutionState::Queued => self.admit(),
            ExecutionState::Running | ExecutionState::Waiting => self.go_on(),
            ExecutionState::AwaitingHuman => self.await_human(),
            ExecutionState::Paused => self.paused(),
            ExecutionState::NeedsOperator => self.needs_operator(),
            ExecutionState::Compensating => self.compensate(),
            ExecutionState::Succeeded | ExecutionState::RolledBack | ExecutionState::Cancelled => false,
        }
    }

    /// Moves the execution, unless it is there already for the same reason.
    fn to(&mut self, to: ExecutionState, why: &str) -> bool {
        if self.run.state == to && self.run.why == why {
            return false;
        }
        let data = ExecutionChanged { execution: self.run.id, from: self.run.state, to, why: why.to_owned() };
        fold::changed(&mut self.run, self.now, &data);
        let event = event(self.state, &self.run, None, Body::ExecutionChanged(data));
        self.out.push(event);
        true
    }

    /// Moves a step.
    fn step_to(&mut self, i: usize, to: To<'_>) -> bool {
        let Some(record) = self.run.steps.get(i) else { return false };
        let data = StepChanged {
            execution: self.run.id,
            step: record.id.clone(),
            from: record.state,
            to: to.state,
            attempt: to.attempt,
            why: to.why.to_owned(),
            result: to.result,
            until: to.until,
        };
        fold::step_changed(&mut self.run, self.now, &data);
        let step = data.step.clone();
        let event = event(self.state, &self.run, Some(&step), Body::StepChanged(data));
        self.out.push(event);
        true
    }

    /// What the action of a step sees.
    fn context(&self, i: usize) -> Option<Context<'_>> {
        let (step, record) = (self.runbook.steps.get(i)?, self.run.steps.get(i)?);
        Some(Context { state: self.state, now: self.now, run: &self.run, step, record })
    }

    /// Calls what an action decides besides effects.
    fn decide<T>(&mut self, i: usize, act: impl Fn(&Context<'_>, &mut Decisions) -> T) -> Option<T> {
        let before = self.out.len();
        let (step, record) = (self.runbook.steps.get(i)?, self.run.steps.get(i)?);
        let ctx = Context { state: self.state, now: self.now, run: &self.run, step, record };
        let given = act(&ctx, self.out);
        self.acted |= self.out.len() != before;
        Some(given)
    }

    /// Asks for effects. What becomes of them is seen once they are recorded.
    fn request(&mut self, effects: Vec<Effect>, purpose: &Purpose) {
        for effect in effects {
            effect::request(self.state, self.now, effect, purpose.clone(), self.out);
            self.acted = true;
        }
    }

    fn propose(&mut self) -> bool {
        match mode_of(self.state, &self.run) {
            Mode::Observe => {
                self.list_would_have(Mode::Observe);
                self.to(ExecutionState::Cancelled, MODE_OBSERVE)
            }
            Mode::Advise => {
                self.list_would_have(Mode::Advise);
                self.to(ExecutionState::AwaitingApproval, MODE_ADVISE)
            }
            Mode::Act => self.planned(),
        }
    }

    /// Recovery on one node is approved beforehand; several nodes or data are not.
    fn planned(&mut self) -> bool {
        if self.runbook.risk >= Risk::R3 && !self.run.approved {
            return self.to(ExecutionState::AwaitingApproval, "approval");
        }
        self.to(ExecutionState::Queued, "planned")
    }

    /// Records what every step would do as things stand.
    fn list_would_have(&mut self, mode: Mode) {
        for i in 0..self.runbook.steps.len() {
            let Some(ctx) = self.context(i) else { continue };
            let action = ctx.step.action.as_deref().and_then(actions::find);
            let effects = action.filter(|_| applies(&ctx)).map(|action| (action.plan)(&ctx));
            let (step, execution) = (ctx.step.id.clone(), self.run.id);
            for effect in effects.unwrap_or_default() {
                let purpose = Purpose::Step { execution, step: step.clone(), attempt: 1 };
                let body = Body::WouldHave(WouldHave { effect, purpose, mode });
                let event = event(self.state, &self.run, Some(&step), body);
                self.out.push(event);
            }
        }
    }

    fn approval(&mut self) -> bool {
        if self.run.why == MODE_ADVISE {
            return match mode_of(self.state, &self.run) {
                Mode::Act => self.planned(),
                Mode::Observe => self.to(ExecutionState::Cancelled, MODE_OBSERVE),
                Mode::Advise => false,
            };
        }
        if self.run.approved {
            return self.to(ExecutionState::Queued, "approved");
        }
        let late = self.now >= self.run.state_since + APPROVAL_TIME;
        late && self.to(ExecutionState::AwaitingApproval, APPROVAL_OVERDUE)
    }

    fn admit(&mut self) -> bool {
        if self.run.pause_requested {
            // Paused, it has its node's lock: it waits for that first.
            if let Some(lock) = gate::lock(self.state, &self.run) {
                return self.to(ExecutionState::Queued, &lock);
            }
            let first = !std::mem::replace(&mut self.round.admitted, true);
            return first && self.to(ExecutionState::Paused, "person");
        }
        if let Some(why) = gate::admission(self.state, self.now, &self.run) {
            return self.to(ExecutionState::Queued, &why);
        }
        if self.round.admitted {
            return false;
        }
        self.round.admitted = true;
        self.to(ExecutionState::Running, "admitted")
    }

    fn paused(&mut self) -> bool {
        if self.run.pause_requested {
            return self.to(ExecutionState::Paused, "person");
        }
        match gate::closed(self.state, &self.run) {
            Some(why) => self.to(ExecutionState::Paused, why),
            None => self.to(ExecutionState::Running, "gate_open"),
        }
    }

    /// A late answer of a probe is a fact: the step goes on with it.
    fn needs_operator(&mut self) -> bool {
        let Some(record) = current(&self.run, self.runbook).and_then(|i| self.run.steps.get(i)) else {
            return false;
        };
        let answered = record.state == StepState::Unknown && !unanswered(self.state, record);
        answered && self.go_back_to_work("probe_answered")
    }

    /// Runs again, or waits for the lock that it gave up while a person had it.
    fn go_back_to_work(&mut self, why: &str) -> bool {
        let to = if gate::lock(self.state, &self.run).is_some() || self.round.admitted {
            ExecutionState::Queued
        } else {
            self.round.admitted = true;
            ExecutionState::Running
        };
        self.to(to, why)
    }

    fn await_human(&mut self) -> bool {
        let waiting = current(&self.run, self.runbook)
            .and_then(|i| Some((i, self.run.steps.get(i)?)))
            .filter(|(_, record)| record.state == StepState::Waiting);
        let Some((i, record)) = waiting else { return self.go_back_to_work("answered") };
        if record.until.is_none_or(|until| until > self.now) {
            return false;
        }
        let (attempt, id) = (record.attempts, record.id.clone());
        self.step_to(i, To { state: StepState::Waiting, attempt, why: OVERDUE, result: None, until: None });
        self.to(ExecutionState::AwaitingHuman, &format!("{OVERDUE}:{id}"))
    }
}

/// The step's condition holds. One that cannot be read was refused before; it holds nothing back.
fn applies(ctx: &Context<'_>) -> bool {
    let when = ctx.step.when.as_deref().and_then(|when| Condition::parse(when).ok());
    when.is_none_or(|condition| condition.holds(ctx.run, ctx))
}

/// The wait before attempt `attempt + 1`: doubles, at most ten times the first.
fn backoff(first: Duration, attempt: u32) -> Duration {
    first.saturating_mul(1 << attempt.saturating_sub(1).min(8)).min(first.saturating_mul(10))
}

/// Intents of the step that are not answered, by sequence.
pub(super) fn open_intents<'a>(state: &'a State, record: &'a StepRun) -> impl Iterator<Item = u64> + 'a {
    record.intents.keys().copied().filter(|seq| state.effects.contains_key(seq))
}
