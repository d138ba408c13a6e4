//! Carries out what the engine asks for on the site's pretended scheduler, as an adapter would: it reads back.

use std::time::Duration;

use provost_model::effect::{Approach, Effect, EffectResult};
use provost_model::input::{Action, Input, Reply};
use provost_model::policy::Role;
use provost_model::scheduler::{COMMENT_PREFIX, JobState, ObservedNode};

use super::Site;
use crate::state::Outstanding;
use crate::{containment, outstanding, scheduler};

impl Site {
    /// Carries out everything that is asked for, until nothing is; each result comes a millisecond later.
    pub(crate) fn carry_out(&mut self) -> Vec<&'static str> {
        let mut kinds = Vec::new();
        loop {
            let next = outstanding(&self.state).next();
            let Some(order) = next else { return kinds };
            let result = self.perform(&order);
            kinds.extend(self.answer(&order, result));
        }
    }

    /// Carries out what is asked for at this moment, and nothing that follows from it.
    pub(crate) fn carry_out_once(&mut self) -> Vec<&'static str> {
        let orders: Vec<Outstanding> = outstanding(&self.state).collect();
        let mut kinds = Vec::new();
        for order in orders {
            let result = self.perform(&order);
            kinds.extend(self.answer(&order, result));
        }
        kinds
    }

    /// A person ends an incident.
    pub(crate) fn resolve(&mut self, number: u32) {
        self.resolve_number(&format!("INC-2026-{number:06}"));
    }

    /// A person ends the incident of this number: first its alerts, then, without waiting, itself.
    pub(crate) fn resolve_number(&mut self, number: &str) {
        for _ in 0..2 {
            let reply = self.ask(Role::Operator, Action::IncidentResolve { incident: number.to_owned() });
            assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
        }
    }

    /// Gives the result of one order a millisecond later.
    pub(crate) fn answer(&mut self, order: &Outstanding, result: EffectResult) -> Vec<&'static str> {
        self.now = self.now + Duration::from_millis(1);
        self.feed(Input::EffectResult { intent: order.intent, result })
    }

    /// A poll a millisecond later, so that it is newer than every result.
    pub(crate) fn look(&mut self) -> Vec<&'static str> {
        self.now = self.now + Duration::from_millis(1);
        self.poll()
    }

    /// Acts or looks, as an executor would.
    pub(crate) fn perform(&mut self, order: &Outstanding) -> EffectResult {
        let act = order.approach == Approach::Act;
        match &order.effect {
            Effect::SchedulerHold { node, .. }
            | Effect::SchedulerRelease { node, .. }
            | Effect::PartitionJoin { node, .. }
            | Effect::PartitionLeave { node, .. } => {
                let Some(seen) = self.nodes.get_mut(node) else { return not_done("not_found", false) };
                let mut notes = Vec::new();
                if act {
                    write(seen, &order.effect, &mut notes);
                }
                let done = containment::shows(&scheduler::view_of(seen), &order.effect);
                if done { done_as(&seen.state, notes) } else { not_done("failed", true) }
            }
            Effect::JobRequeue { job, .. } => {
                let Some(job) = self.jobs.iter_mut().find(|seen| seen.key == *job) else {
                    return not_done("not_found", false);
                };
                if act {
                    job.state = JobState::Pending;
                    job.restarts += 1;
                }
                if job.state == JobState::Pending {
                    done_as("PENDING", vec![])
                } else {
                    not_done("failed", true)
                }
            }
            Effect::JobNote { .. } | Effect::NotesOff { .. } | Effect::AgentAction { .. } => {
                done_as("", vec![])
            }
            Effect::NodePower { on, .. } => done_as(if *on { "power on" } else { "power off" }, vec![]),
        }
    }
}

fn write(seen: &mut ObservedNode, effect: &Effect, notes: &mut Vec<String>) {
    match effect {
        Effect::SchedulerHold { hold, reason, .. } => {
            if seen.comment.is_empty() || seen.comment.starts_with(COMMENT_PREFIX) {
                seen.comment = format!("{COMMENT_PREFIX}{hold}");
            } else {
                notes.push("foreign_comment_kept".to_owned());
            }
            if seen.reason_is_ours() || !(seen.drain || seen.down) {
                seen.drain = true;
                seen.reason.clone_from(reason);
            } else {
                notes.push("foreign_reason_kept".to_owned());
            }
        }
        Effect::SchedulerRelease { .. } => {
            if seen.comment.starts_with(COMMENT_PREFIX) {
                seen.comment.clear();
            }
            if seen.reason_is_ours() {
                seen.drain = false;
                seen.reason.clear();
            }
        }
        Effect::PartitionJoin { partitions, .. } => seen.partitions.extend(partitions.iter().cloned()),
        Effect::PartitionLeave { partitions, .. } => seen.partitions.retain(|p| !partitions.contains(p)),
        Effect::JobRequeue { .. }
        | Effect::JobNote { .. }
        | Effect::NotesOff { .. }
        | Effect::AgentAction { .. }
        | Effect::NodePower { .. } => {}
    }
    seen.state = flags(seen);
}

fn flags(seen: &ObservedNode) -> String {
    let base = match (seen.down, seen.busy) {
        (true, _) => "DOWN",
        (false, true) => "MIXED",
        (false, false) => "IDLE",
    };
    if seen.drain { format!("{base}+DRAIN") } else { base.to_owned() }
}

fn done_as(observed: &str, notes: Vec<String>) -> EffectResult {
    EffectResult::Done { observed: observed.to_owned(), notes }
}

/// A result that says: certainly not done.
pub(crate) fn not_done(code: &str, retry: bool) -> EffectResult {
    EffectResult::NotDone { code: code.to_owned(), retry }
}
