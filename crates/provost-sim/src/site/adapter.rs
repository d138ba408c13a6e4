//! What Provost's Slurm adapter does for an effect, against the scheduler of the site: look, write, read back,
//! and look for a foreign drain that the write has hidden. Time passes between the parts, so others may come in
//! between.

use provost_model::effect::{Effect, EffectResult};
use provost_model::ids::HoldId;
use provost_model::scheduler::{COMMENT_PREFIX, JobKey, JobState};
use provost_model::time::Timestamp;

use super::queue::Job;
use super::slurm::{Node, Slurm};

/// The user that Provost writes as.
pub const USER: &str = "provost";

/// What the look before the write has seen.
#[derive(Clone, Debug)]
pub struct Seen {
    at: Timestamp,
    node: Option<Node>,
    restarts: u32,
}

/// A look for a foreign drain that is due after a write.
#[derive(Clone, Debug)]
pub struct Gap {
    /// Node.
    pub node: String,
    since: Timestamp,
}

/// A result `not done`.
pub fn not_done(code: &str, retry: bool) -> EffectResult {
    EffectResult::NotDone { code: code.to_owned(), retry }
}

/// A result `unknown`.
pub fn unknown(code: &str) -> EffectResult {
    EffectResult::Unknown { code: code.to_owned() }
}

fn done(observed: String, notes: Vec<String>) -> EffectResult {
    EffectResult::Done { observed, notes }
}

/// Looks before the write.
///
/// # Errors
/// The result, where nothing is to be written.
pub fn look(slurm: &Slurm, now: Timestamp, effect: &Effect) -> Result<Seen, EffectResult> {
    if slurm.away {
        return Err(not_done("away", true));
    }
    let mut seen = Seen { at: now, node: None, restarts: 0 };
    match effect {
        Effect::SchedulerHold { node, .. } | Effect::SchedulerRelease { node, .. } => {
            seen.node = Some(slurm.node(node).cloned().ok_or_else(|| not_done("not_found", false))?);
        }
        Effect::JobRequeue { job: key, .. } => {
            let job = slurm.queue.job(key.id).ok_or_else(|| not_done("not_found", false))?;
            seen.restarts = requeueable(job, key)?;
        }
        Effect::JobNote { job: key, .. } => {
            let job = slurm.queue.job(key.id).ok_or_else(|| not_done("not_found", false))?;
            if !is_run_of(job, key) {
                return Err(not_done("other_job", false));
            }
            if job.state.ended() {
                return Err(not_done("ended", false));
            }
        }
        Effect::NotesOff { .. } | Effect::PartitionJoin { .. } | Effect::PartitionLeave { .. } => {}
        // The pretended site has no BMC.
        Effect::AgentAction { .. } | Effect::NodePower { .. } => {
            return Err(not_done("not_configured", false));
        }
    }
    Ok(seen)
}

/// The restarts of a job that may be requeued: one that runs, or that failed.
fn requeueable(job: &Job, key: &JobKey) -> Result<u32, EffectResult> {
    let code = match job.state {
        _ if job.key() != *key => "other_job",
        JobState::Pending => "already_pending",
        JobState::Failed | JobState::NodeFailed => "",
        state if state.ended() => "ended",
        _ => "",
    };
    match code {
        "" if !job.request.requeue => Err(not_done("not_requeueable", false)),
        "" => Ok(job.restarts),
        code => Err(not_done(code, false)),
    }
}

/// The job of a key, also after a requeue gave it another.
fn is_run_of(job: &Job, key: &JobKey) -> bool {
    job.key() == *key || (job.restarts > 0 && job.submitted_at > key.submitted_at)
}

/// Writes. Whoever changed something since the look is overwritten: Slurm has no compare-and-swap.
///
/// # Errors
/// The result, where it is over with that.
pub fn write(slurm: &mut Slurm, now: Timestamp, effect: &Effect, seen: &Seen) -> Result<(), EffectResult> {
    if slurm.away {
        return Err(unknown("away"));
    }
    match effect {
        Effect::SchedulerHold { node, hold, reason, .. } => {
            let plan = HoldPlan::new(seen.node.as_ref(), *hold, reason);
            if plan.drain {
                slurm.drain(now, node, USER, reason);
            }
            if plan.comment {
                slurm.comment(node, &mark(*hold));
            }
        }
        Effect::SchedulerRelease { node, .. } => {
            if seen.node.as_ref().is_some_and(|before| before.reason_is_ours() && before.is_closed()) {
                slurm.resume(now, node, USER);
            }
            if seen.node.as_ref().is_some_and(|before| before.comment.starts_with(COMMENT_PREFIX)) {
                slurm.comment(node, "");
            }
        }
        // Slurm looks again: what is not as it was is refused.
        Effect::JobRequeue { job: key, .. } => {
            let still = slurm.queue.job(key.id).map(|job| requeueable(job, key));
            match still {
                Some(Ok(_)) => slurm.queue.requeue(now, key.id),
                Some(Err(result)) => return Err(result),
                None => return Err(not_done("not_found", false)),
            }
        }
        Effect::JobNote { job: key, text } => {
            let notes = slurm.queue.job(key.id).map_or("", |job| job.admin_comment.as_str());
            if !notes.split(SEPARATOR).any(|note| note == text) {
                let all = if notes.is_empty() { text.clone() } else { format!("{notes}{SEPARATOR}{text}") };
                slurm.queue.note(key.id, &all);
            }
        }
        Effect::NotesOff { .. } => {
            for id in noted(slurm) {
                slurm.queue.note(id, "");
            }
        }
        Effect::PartitionJoin { node, partitions, .. } => slurm.set_membership(node, partitions, true),
        Effect::PartitionLeave { node, partitions, .. } => slurm.set_membership(node, partitions, false),
        Effect::AgentAction { .. } | Effect::NodePower { .. } => {}
    }
    Ok(())
}

const SEPARATOR: &str = " | ";

/// Jobs that carry a note and have not ended. Nobody but Provost writes notes on this site.
fn noted(slurm: &Slurm) -> Vec<u32> {
    let jobs = slurm.queue.jobs().values();
    jobs.filter(|job| !job.state.ended() && !job.admin_comment.is_empty()).map(|job| job.id).collect()
}

/// Reads back what became of a write.
pub fn read(slurm: &Slurm, effect: &Effect, seen: &Seen) -> (EffectResult, Option<Gap>) {
    if slurm.away {
        return (unknown("away"), None);
    }
    if !is_done(slurm, effect, Some(seen)) {
        return (not_done("not_confirmed", true), None);
    }
    match effect {
        Effect::SchedulerHold { node: name, hold, reason, .. } => {
            let Some(node) = slurm.node(name) else { return (not_done("not_found", false), None) };
            let notes = foreign_notes(node);
            let drained = HoldPlan::new(seen.node.as_ref(), *hold, reason).drain && node.reason_is_ours();
            let gap = drained.then(|| Gap { node: name.clone(), since: seen.at });
            (done(node.state(), notes), gap)
        }
        Effect::SchedulerRelease { node: name, .. } => {
            let Some(node) = slurm.node(name) else { return (not_done("not_found", false), None) };
            let ended = seen.node.as_ref().is_some_and(|before| before.reason_is_ours());
            let gap = ended.then(|| Gap { node: name.clone(), since: seen.at });
            (done(node.state(), foreign_notes(node)), gap)
        }
        _ => (done("read back".to_owned(), Vec::new()), None),
    }
}

fn foreign_notes(node: &Node) -> Vec<String> {
    let foreign = !node.reason.is_empty() && !node.reason_is_ours();
    foreign.then(|| "foreign_reason_kept".to_owned()).into_iter().collect()
}

/// Asks whether an effect is done, and does nothing.
pub fn probe(slurm: &Slurm, effect: &Effect) -> EffectResult {
    if slurm.away {
        unknown("away")
    } else if is_done(slurm, effect, None) {
        done("found done".to_owned(), Vec::new())
    } else {
        not_done("not_done", true)
    }
}

fn is_done(slurm: &Slurm, effect: &Effect, seen: Option<&Seen>) -> bool {
    match effect {
        Effect::SchedulerHold { node, hold, reason, .. } => match seen {
            None => slurm.node(node).is_some_and(|node| HoldPlan::new(Some(node), *hold, reason).is_empty()),
            Some(seen) => {
                let plan = HoldPlan::new(seen.node.as_ref(), *hold, reason);
                let marked = |node: &Node| !plan.comment || node.comment == mark(*hold);
                slurm.node(node).is_some_and(|node| node.is_closed() && marked(node))
            }
        },
        Effect::SchedulerRelease { node, .. } => slurm.node(node).is_some_and(|node| {
            let drained_by_us = node.reason_is_ours() && node.is_closed();
            !(drained_by_us || node.comment.starts_with(COMMENT_PREFIX))
        }),
        Effect::JobRequeue { job: key, restarts } => {
            let before = seen.map_or(*restarts, |seen| seen.restarts);
            let again = |job: &Job| job.restarts > before && job.submitted_at >= key.submitted_at;
            slurm.queue.job(key.id).is_some_and(again)
        }
        Effect::JobNote { job: key, text } => slurm.queue.job(key.id).is_some_and(|job| {
            is_run_of(job, key) && job.admin_comment.split(SEPARATOR).any(|note| note == text)
        }),
        Effect::NotesOff { .. } => noted(slurm).is_empty(),
        Effect::PartitionJoin { node, partitions, .. } => {
            let lists = slurm.partitions_of(node);
            partitions.iter().all(|partition| lists.contains(partition))
        }
        Effect::PartitionLeave { node, partitions, .. } => {
            let lists = slurm.partitions_of(node);
            !partitions.iter().any(|partition| lists.contains(partition))
        }
        Effect::AgentAction { .. } | Effect::NodePower { .. } => false,
    }
}

/// Puts a foreign drain back that our write has hidden, under its own reason and user (ruling 17). True where
/// there was one.
pub fn close_gap(slurm: &mut Slurm, now: Timestamp, gap: &Gap) -> bool {
    let foreign = |event: &&super::slurm::NodeEvent| {
        event.node == gap.node && event.user != USER && event.at >= gap.since
    };
    let last = slurm.events().iter().rev().find(foreign).cloned();
    let Some((user, reason)) = last.and_then(|event| Some((event.user, event.drained?))) else {
        return false;
    };
    let hidden = slurm.node(&gap.node).is_some_and(|node| !node.drain || node.reason_is_ours());
    if hidden && !slurm.away {
        slurm.drain(now, &gap.node, &user, &reason);
    }
    hidden && !slurm.away
}

fn mark(hold: HoldId) -> String {
    format!("{COMMENT_PREFIX}{hold}")
}

/// What a hold has to write, from what the node shows.
struct HoldPlan {
    drain: bool,
    comment: bool,
}

impl HoldPlan {
    fn new(node: Option<&Node>, hold: HoldId, reason: &str) -> HoldPlan {
        let Some(node) = node else { return HoldPlan { drain: false, comment: false } };
        let foreign_comment = !node.comment.is_empty() && !node.comment.starts_with(COMMENT_PREFIX);
        HoldPlan {
            drain: if node.reason_is_ours() {
                !node.drain || node.reason != reason
            } else {
                !node.is_closed()
            },
            comment: !foreign_comment && node.comment != mark(hold),
        }
    }

    fn is_empty(&self) -> bool {
        !self.drain && !self.comment
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use provost_model::ids::IdSource;

    use super::*;
    use crate::site::layout::{BEGIN, CLUSTER, Layout};

    fn slurm() -> Slurm {
        Slurm::new(&Layout { nodes: 2, spares: 0 }, Duration::from_secs(5))
    }

    fn hold() -> Effect {
        Effect::SchedulerHold {
            cluster: CLUSTER.to_owned(),
            node: "gpu001".to_owned(),
            hold: IdSource::new("sim", 1).make(),
            reason: "provost INC-1: GPU 3 lost".to_owned(),
        }
    }

    fn release() -> Effect {
        Effect::SchedulerRelease { cluster: CLUSTER.to_owned(), node: "gpu001".to_owned() }
    }

    fn act(slurm: &mut Slurm, effect: &Effect) -> EffectResult {
        let seen = look(slurm, BEGIN, effect).unwrap();
        write(slurm, BEGIN, effect, &seen).unwrap();
        read(slurm, effect, &seen).0
    }

    #[test]
    fn a_hold_and_a_release_leave_what_others_set() {
        let check = |before: &str, during: &str, reason_held: &str, drained_after: bool| {
            let mut slurm = slurm();
            if !before.is_empty() {
                slurm.drain(BEGIN, "gpu001", "alice", before);
            }
            assert!(matches!(act(&mut slurm, &hold()), EffectResult::Done { .. }));
            if !during.is_empty() {
                slurm.drain(BEGIN, "gpu001", "alice", during);
            }
            assert!(matches!(probe(&slurm, &hold()), EffectResult::Done { .. }));
            assert_eq!(slurm.node("gpu001").unwrap().reason, reason_held);
            assert!(matches!(act(&mut slurm, &release()), EffectResult::Done { .. }));
            let node = slurm.node("gpu001").unwrap();
            assert_eq!((node.drain, node.comment.as_str()), (drained_after, ""));
        };
        check("", "", "provost INC-1: GPU 3 lost", false);
        check("dimm", "", "dimm", true);
        check("", "dimm", "dimm", true);
    }

    #[test]
    fn a_drain_that_a_write_hid_is_put_back() {
        for (effect, drained_by_us) in [(hold(), false), (release(), true)] {
            let mut slurm = slurm();
            if drained_by_us {
                act(&mut slurm, &hold());
            }
            let seen = look(&slurm, BEGIN, &effect).unwrap();
            slurm.drain(BEGIN, "gpu001", "alice", "dimm");
            write(&mut slurm, BEGIN, &effect, &seen).unwrap();
            let (_, gap) = read(&slurm, &effect, &seen);
            assert!(close_gap(&mut slurm, BEGIN, &gap.unwrap()));
            let node = slurm.node("gpu001").unwrap();
            assert_eq!((node.reason.as_str(), node.reason_user.as_deref()), ("dimm", Some("alice")));
        }
    }

    #[test]
    fn a_scheduler_that_is_away_says_nothing() {
        let mut slurm = slurm();
        slurm.away = true;
        assert_eq!(look(&slurm, BEGIN, &hold()).unwrap_err(), not_done("away", true));
        assert_eq!(probe(&slurm, &hold()), unknown("away"));
    }
}
