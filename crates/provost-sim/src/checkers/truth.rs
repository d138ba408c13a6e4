//! Promises about what is so at the site, whatever the journal says.

use std::collections::BTreeMap;
use std::time::Duration;

use provost_engine::State;
use provost_engine::state::Node;
use provost_model::policy::Mode;
use provost_model::response::HoldOwner;
use provost_model::runbook::ExecutionState;
use provost_model::time::Timestamp;

use super::{Sight, Violation};

/// A read-back that has become wrong is noticed by the next poll.
const BELIEF: Duration = Duration::from_secs(15);
/// A hold reaches the scheduler within this time after the last trouble: a lost answer costs the effect's time
/// limit, a refusal up to a minute of backoff.
const CONTAINED: Duration = Duration::from_secs(100);
/// A drain of somebody outside that our write hid is put back within one reconcile (ruling 17), and a moment.
const RESTORED: Duration = Duration::from_secs(6);
/// A node that nobody holds may stay drained by us for so long after the last trouble.
const LET_GO: Duration = Duration::from_secs(100);

/// How long something has been wrong, by node.
#[derive(Debug, Default)]
pub(super) struct Truth {
    believed: BTreeMap<String, Timestamp>,
    uncontained: BTreeMap<String, Timestamp>,
    hidden: BTreeMap<String, Timestamp>,
    forgotten: BTreeMap<String, Timestamp>,
}

/// Since when `wrong` is so, forgotten where it is not.
fn since(
    times: &mut BTreeMap<String, Timestamp>,
    name: &str,
    wrong: bool,
    now: Timestamp,
) -> Option<Timestamp> {
    if !wrong {
        times.remove(name);
        return None;
    }
    Some(*times.entry(name.to_owned()).or_insert(now))
}

impl Truth {
    pub(super) fn look(&mut self, sight: &Sight<'_>) -> Option<Violation> {
        let now = sight.now;
        for (name, foreign) in &sight.trouble.foreign {
            let shown = sight.site.slurm.node(name).is_some_and(|node| {
                // Who drains under no reason has drained all the same.
                node.drain && (node.reason == foreign.reason || foreign.reason.is_empty())
            });
            let since = since(&mut self.hidden, name, !shown, now).map(|at| now.since(at));
            if since.is_some_and(|length| length > RESTORED) {
                let detail = format!("{name}, drained by hand at {}", foreign.since);
                return Some(Violation::new(now, "nobody else's drain is removed", detail));
            }
        }
        // Who was not disturbed knows that a job is there.
        let calm = |name: &str, at| sight.trouble.last(name) + BELIEF < at;
        if let Some((name, at)) = sight.site.cut.iter().find(|(name, at)| calm(name, *at)) {
            return Some(Violation::new(*at, "nothing is reset under a job", name.clone()));
        }
        let state = sight.state?;
        let live = state.epoch > 0 && !sight.site.slurm.away && !state.guard.stopped;
        for node in state.nodes.values().filter(|_| live) {
            let found = self.node(sight, state, node);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn node(&mut self, sight: &Sight<'_>, state: &State, node: &Node) -> Option<Violation> {
        let (now, name) = (sight.now, node.name.as_str());
        let there = sight.site.slurm.node(name)?;
        let calm = sight.trouble.last(name);
        let longer = |at: Option<Timestamp>, limit| at.is_some_and(|at| now.since(at.max(calm)) > limit);
        let ours = state.holds_on(node.id).find(|hold| !matches!(hold.owner, HoldOwner::External(_)));
        let acts = state.mode_of(node) == Mode::Act;

        let believed = node.observed.as_ref().is_some_and(|view| view.drain);
        let wrong = since(&mut self.believed, name, believed && !there.drain && ours.is_some(), now);
        if longer(wrong, BELIEF) {
            let detail = format!("{name} takes work and is believed to be held");
            return Some(Violation::new(now, "what was read back is read again", detail));
        }
        let wrong = since(&mut self.uncontained, name, acts && ours.is_some() && there.is_schedulable(), now);
        if longer(wrong, CONTAINED) {
            let owner = ours.map(|hold| hold.owner.to_string()).unwrap_or_default();
            return Some(Violation::new(now, "a held node gets no work", format!("{name}, held by {owner}")));
        }
        let left = acts && ours.is_none() && there.drain && there.reason_is_ours();
        let wrong = since(&mut self.forgotten, name, left, now);
        if longer(wrong, LET_GO) {
            let detail = format!("{name}, {}", there.reason);
            return Some(Violation::new(now, "our drain goes with our last hold", detail));
        }
        None
    }
}

/// What must be so when nothing has gone wrong for a while and people did what they were asked.
pub(super) fn quiet(sight: &Sight<'_>) -> Option<Violation> {
    let now = sight.now;
    let Some(state) = sight.state else {
        return Some(Violation::new(now, "the controller is back", "none runs".to_owned()));
    };
    // A job that ends now may ask for something in this very moment: that has its own time.
    if let Some((intent, open)) = state.effects.iter().find(|(_, open)| open.requested.deadline <= now) {
        let detail = format!("record {intent}: {:?} for {:?}", open.requested.effect, open.requested.purpose);
        return Some(Violation::new(now, "every intent comes to an end", detail));
    }
    for run in state.executions.values() {
        let waits = match run.state {
            state if state.is_final() => true,
            // These say who is asked for what.
            ExecutionState::AwaitingApproval
            | ExecutionState::AwaitingHuman
            | ExecutionState::NeedsOperator => true,
            ExecutionState::Waiting | ExecutionState::Running => {
                run.steps.iter().any(|step| step.until.is_some_and(|until| until > now))
            }
            _ => false,
        };
        if !waits {
            let detail = format!("{} {} is {} because of {}", run.runbook, run.id, run.state.name(), run.why);
            return Some(Violation::new(now, "an execution ends, or asks somebody", detail));
        }
    }
    if let Some((node, _)) = state.guard.deferred.iter().next() {
        let name = state.nodes.get(node).map_or("?", |node| node.name.as_str());
        return Some(Violation::new(now, "an isolation does not wait for ever", name.to_owned()));
    }
    // Everybody agrees on who is held.
    for node in state.nodes.values() {
        let there = sight.site.slurm.node(&node.name)?;
        let held = state.holds_on(node.id).next().is_some();
        if held != there.drain {
            let detail =
                format!("{}: {} holds, {}", node.name, state.holds_on(node.id).count(), there.state());
            return Some(Violation::new(now, "journal and scheduler agree", detail));
        }
        let healthy = !sight.trouble.damaged.contains_key(&node.name);
        let incident = state.holds_on(node.id).any(|hold| matches!(hold.owner, HoldOwner::Incident(_)));
        if healthy && incident {
            return Some(Violation::new(now, "no healthy node is held", node.name.clone()));
        }
    }
    None
}
