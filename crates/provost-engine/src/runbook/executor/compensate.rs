//! Undoing, in reverse order. An undo is never tried again blindly, and what cannot be undone stays done and is
//! named.

use provost_model::body::Purpose;
use provost_model::effect::EffectResult;
use provost_model::runbook::{ExecutionState, StepState};

use super::super::actions::{self, Action, Undo};
use super::super::waits_for_lock;
use super::{Look, To, gate, unanswered};
use crate::state::StepRun;

impl Look<'_> {
    pub(super) fn compensate(&mut self) -> bool {
        if let Some(i) = self.interrupted() {
            return self.settle_interrupted(i);
        }
        if let Some(i) = self.last(|record, _| record.state == StepState::Compensating) {
            return self.undone(i);
        }
        let undoable = |record: &StepRun, action: Option<&Action>| {
            matches!(record.state, StepState::Succeeded | StepState::Failed)
                && action.is_some_and(|action| matches!(action.undo, Undo::By(_)))
        };
        if let Some(i) = self.last(undoable) {
            return self.undo(i);
        }
        let left = self.last(|record, action| {
            record.state == StepState::Succeeded
                && action.is_some_and(|action| matches!(action.undo, Undo::Irreversible))
        });
        let left =
            left.and_then(|i| self.run.steps.get(i)).map(|record| format!("undone_except:{}", record.id));
        self.to(ExecutionState::RolledBack, left.as_deref().unwrap_or("undone"))
    }

    /// The last step that `is`.
    fn last(&self, is: impl Fn(&StepRun, Option<&Action>) -> bool) -> Option<usize> {
        let action = |i: usize| self.runbook.steps.get(i)?.action.as_deref().and_then(actions::find);
        (0..self.run.steps.len()).rev().find(|i| self.run.steps.get(*i).is_some_and(|r| is(r, action(*i))))
    }

    /// The step that was under way when the undoing began.
    fn interrupted(&self) -> Option<usize> {
        self.last(|record, _| {
            matches!(
                record.state,
                StepState::Acting | StepState::Waiting | StepState::Retrying | StepState::Unknown
            )
        })
    }

    /// What is under way must be answered first: nobody can undo what may still happen.
    fn settle_interrupted(&mut self, i: usize) -> bool {
        let Some(record) = self.run.steps.get(i) else { return false };
        let (attempt, id) = (record.attempts, record.id.clone());
        if unanswered(self.state, record) {
            if record.until.is_some_and(|until| until > self.now) {
                // A step may wait for a day; probes answer soon or not at all.
                let sooner = record.until.min(Some(self.probed_until()));
                if record.state != StepState::Unknown && self.is_unknown(record) {
                    let why = "outcome_unknown";
                    let state = StepState::Unknown;
                    self.step_to(i, To { state, attempt, why, result: None, until: sooner });
                }
                return false;
            }
            let to = To {
                state: StepState::CompensationFailed,
                attempt,
                why: "unknown",
                result: None,
                until: None,
            };
            self.step_to(i, to);
            return self.to(ExecutionState::NeedsOperator, &format!("undo:{id}:unknown"));
        }
        let done = |result: &Option<EffectResult>| matches!(result, Some(EffectResult::Done { .. }));
        let state = if record.intents.values().any(done) { StepState::Succeeded } else { StepState::Skipped };
        self.step_to(i, To { state, attempt, why: "interrupted", result: None, until: None })
    }

    fn undo(&mut self, i: usize) -> bool {
        if let Some(why) = gate::closed(self.state, &self.run) {
            // Undoing writes outside too; it goes on once it may.
            return self.to(ExecutionState::Compensating, why);
        }
        if let Some(lock) = gate::lock(self.state, &self.run) {
            return self.to(ExecutionState::Compensating, &lock);
        }
        if waits_for_lock(&self.run) {
            let first = !std::mem::replace(&mut self.round.admitted, true);
            return first && self.to(ExecutionState::Compensating, "aborted");
        }
        let (Some(step), Some(record)) = (self.runbook.steps.get(i), self.run.steps.get(i)) else {
            return false;
        };
        let Some(Undo::By(undo)) = step.action.as_deref().and_then(actions::find).map(|action| action.undo)
        else {
            return false;
        };
        let until = Some(self.now + step.timeout.0);
        let attempt = record.attempts;
        self.step_to(i, To { state: StepState::Compensating, attempt, why: "undo", result: None, until });
        let purpose = Purpose::Undo { execution: self.run.id, step: step.id.clone() };
        let effects = self.decide(i, undo).unwrap_or_default();
        self.request(effects, &purpose);
        true
    }

    /// What became of an undo.
    fn undone(&mut self, i: usize) -> bool {
        let Some(record) = self.run.steps.get(i) else { return false };
        let (attempt, id) = (record.attempts, record.id.clone());
        let late = record.until.is_some_and(|until| until <= self.now);
        let failed = if unanswered(self.state, record) {
            if !late {
                return false;
            }
            true
        } else {
            record.would_have > 0
                || record.intents.values().any(|result| !matches!(result, Some(EffectResult::Done { .. })))
        };
        let (state, why) = if failed {
            (StepState::CompensationFailed, "undo_failed")
        } else {
            (StepState::Compensated, "undone")
        };
        self.step_to(i, To { state, attempt, why, result: None, until: None });
        !failed || self.to(ExecutionState::NeedsOperator, &format!("undo:{id}:failed"))
    }
}
