//! `when`: a tiny, total language. Terms joined by `and`, each may begin with `not`; no side effects, no loops.

use provost_model::runbook::StepState;

use crate::state::Execution;

/// One condition: every term must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    terms: Vec<(bool, Term)>,
}

/// One term.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    /// `slot.needs_spare`: the slot of the node has nobody who serves in it.
    SlotNeedsSpare,
    /// `node.has_jobs`: a job holds the node.
    NodeHasJobs,
    /// `node.has_bmc`: a BMC answers for the node, so that its power can be switched.
    NodeHasBmc,
    /// `fault.contained`: the driver says that the memory error hit nobody but the program that owned the data.
    FaultContained,
    /// `fault.wants_reset`: a reset of the GPU may bring it back; not so where the driver advises more.
    FaultWantsReset,
    /// `fault.wants_restart`: starting the node anew may bring the GPU back; not so where the driver advises something
    /// else than that or less.
    FaultWantsRestart,
    /// `done.STEP`: an earlier step succeeded.
    Done { step: String },
    /// `answer.STEP.FIELD == VALUE`; an answer that was not given equals nothing.
    Answer { step: String, field: String, value: String },
}

/// What a condition asks about the world.
pub(crate) trait Facts {
    /// See [`Term::SlotNeedsSpare`].
    fn slot_needs_spare(&self) -> bool;
    /// See [`Term::NodeHasJobs`].
    fn node_has_jobs(&self) -> bool;
    /// See [`Term::NodeHasBmc`].
    fn node_has_bmc(&self) -> bool;
    /// See [`Term::FaultContained`].
    fn fault_contained(&self) -> bool;
    /// See [`Term::FaultWantsReset`].
    fn fault_wants_reset(&self) -> bool;
    /// See [`Term::FaultWantsRestart`].
    fn fault_wants_restart(&self) -> bool;
}

/// The text is no condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is none of slot.needs_spare, node.has_jobs, node.has_bmc, fault.contained, fault.wants_reset, fault.wants_restart, done.STEP, answer.STEP.FIELD == VALUE"
)]
pub struct ConditionError {
    text: String,
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// With the term that is none.
    pub fn parse(text: &str) -> Result<Condition, ConditionError> {
        let terms: Result<Vec<(bool, Term)>, ConditionError> = text.split(" and ").map(parse_term).collect();
        Ok(Condition { terms: terms? })
    }

    /// Step and field of each answer that it asks for.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.terms.iter().filter_map(|(_, term)| match term {
            Term::Answer { step, field, .. } => Some((step.as_str(), field.as_str())),
            _ => None,
        })
    }

    /// Steps whose success it asks for.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().filter_map(|(_, term)| match term {
            Term::Done { step } => Some(step.as_str()),
            _ => None,
        })
    }

    /// Whether it holds now.
    pub(crate) fn holds(&self, run: &Execution, facts: &impl Facts) -> bool {
        self.terms.iter().all(|(expected, term)| {
            let is = match term {
                Term::SlotNeedsSpare => facts.slot_needs_spare(),
                Term::NodeHasJobs => facts.node_has_jobs(),
                Term::NodeHasBmc => facts.node_has_bmc(),
                Term::FaultContained => facts.fault_contained(),
                Term::FaultWantsReset => facts.fault_wants_reset(),
                Term::FaultWantsRestart => facts.fault_wants_restart(),
                Term::Done { step } => {
                    run.steps.iter().any(|run| run.id == *step && run.state == StepState::Succeeded)
                }
                Term::Answer { step, field, value } => {
                    let asked = run.steps.iter().find(|run| run.id == *step);
                    asked.and_then(|run| run.answers.get(field)).is_some_and(|answer| answer == value)
                }
            };
            is == *expected
        })
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn parse_term(text: &str) -> Result<(bool, Term), ConditionError> {
    let error = || ConditionError { text: text.chars().take(80).collect() };
    let term = text.trim();
    let (expected, term) = term.strip_prefix("not ").map_or((true, term), |rest| (false, rest.trim()));
    let comparison = |operator: &str| term.split_once(operator);
    let (equal, (left, value)) = match (comparison("=="), comparison("!=")) {
        (Some(parts), None) => (true, parts),
        (None, Some(parts)) => (false, parts),
        (None, None) => {
            let term = match term {
                "slot.needs_spare" => Term::SlotNeedsSpare,
                "node.has_jobs" => Term::NodeHasJobs,
                "node.has_bmc" => Term::NodeHasBmc,
                "fault.contained" => Term::FaultContained,
                "fault.wants_reset" => Term::FaultWantsReset,
                "fault.wants_restart" => Term::FaultWantsRestart,
                _ => match term.strip_prefix("done.").filter(|step| is_word(step)) {
                    Some(step) => Term::Done { step: step.to_owned() },
                    None => return Err(error()),
                },
            };
            return Ok((expected, term));
        }
        (Some(_), Some(_)) => return Err(error()),
    };
    let (step, field) =
        left.trim().strip_prefix("answer.").and_then(|path| path.split_once('.')).ok_or_else(error)?;
    let value = value.trim();
    if !is_word(step) || !is_word(field) || !is_word(value) {
        return Err(error());
    }
    let term = Term::Answer { step: step.to_owned(), field: field.to_owned(), value: value.to_owned() };
    Ok((expected == equal, term))
}
