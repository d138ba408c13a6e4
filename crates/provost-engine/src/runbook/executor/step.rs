//! One step: begins, asks, waits, is judged by what was read back, tries again, or fails.

use provost_model::body::{Body, EffectVoided, Purpose};
use provost_model::runbook::{ExecutionState, OnFail, StepState};
use provost_model::time::Timestamp;

use super::super::actions::{self, Action, Progress};
use super::super::{cause, event, phase};
use super::{Look, RELEASED, To, VALIDATED, applies, backoff, current, gate, open_intents};
use crate::state::{State, StepRun};

/// Probes get this many times `timers.effect`, at most the step's time limit, before a person is asked.
const PROBE_TIME: u32 = 10;

/// An intent of the step has no final result.
pub(in super::super) fn unanswered(state: &State, record: &StepRun) -> bool {
    open_intents(state, record).next().is_some()
}

impl Look<'_> {
    /// The current step moves, or the execution is at its end.
    pub(super) fn go_on(&mut self) -> bool {
        let Some(i) = current(&self.run, self.runbook) else { return self.finish() };
        let Some(record) = self.run.steps.get(i) else { return false };
        match record.state {
            StepState::Pending => self.begin(i),
            StepState::Retrying => {
                let due = record.until.is_none_or(|until| until <= self.now);
                due && self.attempt(i)
            }
            StepState::Waiting if record.attempts == 0 => {
                let due = record.until.is_none_or(|until| until <= self.now);
                due && self.attempt(i)
            }
            StepState::Acting | StepState::Waiting | StepState::Unknown => self.judge(i),
            StepState::Failed => self.failed(i),
            StepState::Succeeded
            | StepState::Skipped
            | StepState::Compensating
            | StepState::Compensated
            | StepState::CompensationFailed => self.to(ExecutionState::NeedsOperator, "malformed"),
        }
    }

    fn begin(&mut self, i: usize) -> bool {
        if self.run.pause_requested {
            return self.to(ExecutionState::Paused, "person");
        }
        let Some(ctx) = self.context(i) else { return false };
        if !applies(&ctx) {
            let to = To { state: StepState::Skipped, attempt: 0, why: "when", result: None, until: None };
            return self.step_to(i, to);
        }
        let step = ctx.step;
        if step.human.is_some() {
            let (until, id) = (self.now + step.timeout.0, step.id.clone());
            let to =
                To { state: StepState::Waiting, attempt: 1, why: "asked", result: None, until: Some(until) };
            self.step_to(i, to);
            self.enter_phase(i);
            return self.to(ExecutionState::AwaitingHuman, &format!("human:{id}"));
        }
        let wait = action_of(step).and_then(|action| (action.not_before)(&ctx));
        match wait.filter(|(until, _)| *until > self.now) {
            Some((until, what)) => {
                let to =
                    To { state: StepState::Waiting, attempt: 0, why: what, result: None, until: Some(until) };
                self.step_to(i, to);
                self.to(ExecutionState::Waiting, what)
            }
            None => self.attempt(i),
        }
    }

    /// Begins the next attempt. It counts from here on, whatever becomes of it.
    fn attempt(&mut self, i: usize) -> bool {
        if self.run.pause_requested {
            return self.to(ExecutionState::Paused, "person");
        }
        if let Some(why) = gate::closed(self.state, &self.run) {
            return self.to(ExecutionState::Paused, why);
        }
        if let Some(why) = gate::lock(self.state, &self.run) {
            return self.to(ExecutionState::Queued, &why);
        }
        let (Some(step), Some(record)) = (self.runbook.steps.get(i), self.run.steps.get(i)) else {
            return false;
        };
        let Some(action) = action_of(step) else {
            return self.to(ExecutionState::NeedsOperator, "unknown_action");
        };
        let attempt = record.attempts + 1;
        let until = Some(self.now + step.timeout.0);
        if !self.may_choose(action) {
            return false;
        }
        let purpose = self.purpose(i, attempt);
        self.step_to(i, To { state: StepState::Acting, attempt, why: "attempt", result: None, until });
        if self.run.state != ExecutionState::Running {
            self.to(ExecutionState::Running, "attempt");
        }
        self.enter_phase(i);
        let effects = self.decide(i, action.act).unwrap_or_default();
        self.request(effects, &purpose);
        true
    }

    /// One spare is chosen a round, so that no two steps choose the same.
    fn may_choose(&mut self, action: &Action) -> bool {
        action.name != "slot.bind_spare" || !std::mem::replace(&mut self.round.chose_spare, true)
    }

    fn purpose(&self, i: usize, attempt: u32) -> Purpose {
        let step = self.runbook.steps.get(i).map(|step| step.id.clone()).unwrap_or_default();
        Purpose::Step { execution: self.run.id, step, attempt }
    }

    /// The node's phase says what is being done with it.
    fn enter_phase(&mut self, i: usize) {
        self.decide(i, phase::enter);
    }

    /// Looks at what became of the attempt.
    fn judge(&mut self, i: usize) -> bool {
        let (Some(step), Some(record)) = (self.runbook.steps.get(i), self.run.steps.get(i)) else {
            return false;
        };
        if unanswered(self.state, record) {
            return self.await_answers(i);
        }
        if record.would_have > 0 {
            return self.fail(i, "not_permitted_by_mode", false);
        }
        let Some(action) = action_of(step) else {
            return self.to(ExecutionState::NeedsOperator, "unknown_action");
        };
        let attempt = record.attempts;
        let deadline = record.attempt_at.unwrap_or(self.now) + step.timeout.0;
        let Some(progress) = self.context(i).map(|ctx| (action.check)(&ctx)) else { return false };
        match progress {
            Progress::Done { result } => self.succeed(i, action, attempt, result),
            Progress::Failed { code, retry } => self.fail(i, &code, retry),
            _ if self.now >= deadline => self.fail(i, "timeout", true),
            Progress::More(_) if !self.may_choose(action) => false,
            Progress::More(effects) => self.more(i, attempt, deadline, effects),
            Progress::Wait { what, until } => {
                let until = until.filter(|until| *until > self.now).map_or(deadline, |at| at.min(deadline));
                self.wait(i, attempt, what, until)
            }
        }
    }

    fn more(
        &mut self,
        i: usize,
        attempt: u32,
        deadline: Timestamp,
        effects: Vec<provost_model::effect::Effect>,
    ) -> bool {
        let closed = gate::closed(self.state, &self.run).map(str::to_owned);
        if let Some(why) = closed.or_else(|| gate::lock(self.state, &self.run)) {
            return self.wait(i, attempt, &why, deadline);
        }
        let to = To { state: StepState::Acting, attempt, why: "more", result: None, until: Some(deadline) };
        self.step_to(i, to);
        let purpose = self.purpose(i, attempt);
        self.request(effects, &purpose);
        true
    }

    fn wait(&mut self, i: usize, attempt: u32, what: &str, until: Timestamp) -> bool {
        let Some(record) = self.run.steps.get(i) else { return false };
        let until = Some(until);
        let same = record.state == StepState::Waiting && record.why == what && record.until == until;
        if !same {
            self.step_to(i, To { state: StepState::Waiting, attempt, why: what, result: None, until });
        }
        self.to(ExecutionState::Waiting, what) || !same
    }

    fn succeed(&mut self, i: usize, action: &Action, attempt: u32, result: String) -> bool {
        let why = match action.name {
            "node.revalidate" => VALIDATED,
            "node.release" => RELEASED,
            _ => "verified",
        };
        self.decide(i, action.done);
        let to = To { state: StepState::Succeeded, attempt, why, result: Some(result), until: None };
        self.step_to(i, to);
        if self.run.state != ExecutionState::Running {
            self.to(ExecutionState::Running, why);
        }
        true
    }

    /// Another attempt where one is left and may help; otherwise the step has failed.
    fn fail(&mut self, i: usize, code: &str, retry: bool) -> bool {
        let (Some(step), Some(record)) = (self.runbook.steps.get(i), self.run.steps.get(i)) else {
            return false;
        };
        let attempt = record.attempts;
        if retry && attempt < step.retry.max {
            let until = Some(self.now + backoff(step.retry.backoff.0, attempt));
            self.step_to(i, To { state: StepState::Retrying, attempt, why: code, result: None, until });
            return self.to(ExecutionState::Waiting, "retry");
        }
        self.step_to(i, To { state: StepState::Failed, attempt, why: code, result: None, until: None });
        if self.run.state != ExecutionState::Running {
            self.to(ExecutionState::Running, "step_failed");
        }
        true
    }

    /// The step has failed for good, and the runbook says what then. Where it says `continue`, the step is
    /// settled and this is not reached.
    fn failed(&mut self, i: usize) -> bool {
        let (Some(step), Some(record)) = (self.runbook.steps.get(i), self.run.steps.get(i)) else {
            return false;
        };
        let why = format!("{}:{}", record.id, record.why);
        let back = cause::point_of_no_return(&self.run, self.runbook).is_none();
        let to = match step.on_fail {
            OnFail::Rollback if back => ExecutionState::Compensating,
            OnFail::Rollback | OnFail::Hold | OnFail::Continue => ExecutionState::NeedsOperator,
        };
        self.to(to, &why)
    }

    /// Nobody knows what became of an intent of the step; it is probed.
    pub(super) fn is_unknown(&self, record: &StepRun) -> bool {
        open_intents(self.state, record)
            .filter_map(|seq| self.state.effects.get(&seq))
            .any(|open| open.unknown || open.epoch != self.state.epoch)
    }

    /// Until when probes may answer before a person is asked.
    pub(super) fn probed_until(&self) -> Timestamp {
        self.now + self.state.config.timers.effect.0.saturating_mul(PROBE_TIME)
    }

    /// Intents are open. One that is unknown makes the step unknown: only a probe may follow.
    fn await_answers(&mut self, i: usize) -> bool {
        let (Some(step), Some(record)) = (self.runbook.steps.get(i), self.run.steps.get(i)) else {
            return false;
        };
        let attempt = record.attempts;
        let unknown = self.is_unknown(record);
        let late = record.until.is_some_and(|until| until <= self.now);
        if record.state != StepState::Unknown && (unknown || late) {
            let why = if unknown { "outcome_unknown" } else { "timeout" };
            let until = Some(self.probed_until().min(self.now + step.timeout.0));
            self.step_to(i, To { state: StepState::Unknown, attempt, why, result: None, until });
            return self.to(ExecutionState::Waiting, "probe");
        }
        late && record.state == StepState::Unknown && self.give_up(i)
    }

    /// Nobody could say what became of an intent. It is not tried again; a person decides, unless the runbook
    /// goes on without the step.
    fn give_up(&mut self, i: usize) -> bool {
        let (Some(step), Some(record)) = (self.runbook.steps.get(i), self.run.steps.get(i)) else {
            return false;
        };
        let (attempt, id) = (record.attempts, record.id.clone());
        if step.on_fail != OnFail::Continue {
            let to = To { state: StepState::Unknown, attempt, why: "no_answer", result: None, until: None };
            self.step_to(i, to);
            return self.to(ExecutionState::NeedsOperator, &format!("{id}:unknown"));
        }
        let open: Vec<u64> = open_intents(self.state, record).collect();
        self.step_to(i, To { state: StepState::Failed, attempt, why: "unknown", result: None, until: None });
        for intent in open {
            let body = Body::EffectVoided(EffectVoided { intent, why: "step_given_up".to_owned() });
            let event = event(self.state, &self.run, Some(&id), body);
            self.out.push(event);
        }
        self.acted = true;
        self.to(ExecutionState::Running, "step_failed");
        true
    }

    /// Every step is settled. What failed or was skipped on the way stays visible.
    fn finish(&mut self) -> bool {
        let any = |state: StepState, why: Option<&str>| {
            self.run.steps.iter().any(|step| step.state == state && why.is_none_or(|why| step.why == why))
        };
        let why = if any(StepState::Failed, None) {
            "done_with_failures"
        } else if any(StepState::Skipped, Some(super::SKIPPED)) {
            "done_with_skips"
        } else {
            "verified"
        };
        self.to(ExecutionState::Succeeded, why)
    }
}

fn action_of(step: &provost_model::runbook::Step) -> Option<&'static Action> {
    step.action.as_deref().and_then(actions::find)
}
