//! Effects on Slurm, in the adapter's words.

use provost_connect::slurm::{
    Cluster, Error, Gap, GapWatch, HoldMark, Mark, Outcome, Owner, Probe, WriteError,
};
use provost_model::effect::{Effect, EffectResult};
use provost_model::ids::HoldId;
use provost_model::scheduler::COMMENT_PREFIX;

/// Drains a node. The drain is done and read back when this returns; whether it hid somebody else's is looked
/// for afterwards with the watch, because accounting tells late and isolation must not wait for it.
pub(super) async fn hold(cluster: &Cluster, node: &str, mark: &HoldMark) -> (EffectResult, Option<GapWatch>) {
    match cluster.hold_node(node, mark).await {
        Ok(held) => {
            let mut notes = Vec::new();
            if matches!(held.reason, Owner::Foreign(_)) {
                notes.push("foreign_reason_kept".to_owned());
            }
            if matches!(held.comment, Owner::Foreign(_)) {
                notes.push("foreign_comment_kept".to_owned());
            }
            (EffectResult::Done { observed: held.node.state, notes }, held.watch)
        }
        Err(error) => (failed(&error), None),
    }
}

/// The mark of a hold.
pub(super) fn mark(hold: HoldId, reason: &str) -> HoldMark {
    HoldMark { reason: reason.to_owned(), comment: format!("{COMMENT_PREFIX}{hold}") }
}

/// Does any other effect, and says what was read back.
pub(super) async fn act(cluster: &Cluster, effect: &Effect) -> EffectResult {
    let done = match effect {
        Effect::SchedulerHold { node, hold: id, reason, .. } => {
            return hold(cluster, node, &mark(*id, reason)).await.0;
        }
        Effect::SchedulerRelease { node, .. } => release_node(cluster, node).await,
        Effect::JobRequeue { job, .. } => match cluster.requeue_job(job).await {
            // A job that has ended may have failed on the node; Slurm remembers it for a while.
            Err(WriteError { source: Error::Ended { .. }, .. }) => cluster.requeue_failed(job).await,
            other => other,
        }
        .map(|requeued| {
            (format!("{:?}, {} restarts", requeued.job.state, requeued.job.restarts), Vec::new())
        }),
        Effect::JobNote { job, text } => {
            cluster.note_job(job, text).await.map(|job| (format!("{:?}", job.state), Vec::new()))
        }
        Effect::NotesOff { .. } => take_notes_off(cluster).await,
        Effect::PartitionJoin { node, partitions, .. } => {
            cluster.add_to_partitions(node, partitions).await.map(|read| (names(&read), Vec::new()))
        }
        Effect::PartitionLeave { node, partitions, .. } => {
            cluster.remove_from_partitions(node, partitions).await.map(|read| (names(&read), Vec::new()))
        }
        Effect::AgentAction { .. } | Effect::NodePower { .. } => return not_done("not_configured", false),
    };
    match done {
        Ok((observed, notes)) => EffectResult::Done { observed, notes },
        Err(error) => failed(&error),
    }
}

/// Asks whether it is done.
pub(super) async fn probe(cluster: &Cluster, effect: &Effect) -> EffectResult {
    let probe = match effect {
        Effect::SchedulerHold { node, hold, reason, .. } => {
            cluster.probe_hold(node, &mark(*hold, reason)).await
        }
        Effect::SchedulerRelease { node, .. } => cluster.probe_release(node).await,
        Effect::JobRequeue { job, restarts } => cluster.probe_requeue(job, *restarts).await,
        Effect::JobNote { job, text } => cluster.probe_note(job, text).await,
        Effect::NotesOff { .. } => match notes(cluster).await {
            Ok(notes) if notes.is_empty() => Probe::Done,
            Ok(_) => Probe::NotDone,
            Err(error) => Probe::Unknown(error),
        },
        Effect::PartitionJoin { node, partitions, .. } => {
            cluster.probe_partitions(node, partitions, true).await
        }
        Effect::PartitionLeave { node, partitions, .. } => {
            cluster.probe_partitions(node, partitions, false).await
        }
        Effect::AgentAction { .. } | Effect::NodePower { .. } => return not_done("not_configured", false),
    };
    match probe {
        Probe::Done => EffectResult::Done { observed: "found done".to_owned(), notes: Vec::new() },
        Probe::NotDone => not_done("not_done", true),
        Probe::Unknown(error) => {
            tracing::warn!(effect = effect.name(), error = %error, "a probe has no answer yet");
            EffectResult::Unknown { code: code(&error).to_owned() }
        }
    }
}

/// Notes of ours at jobs that Slurm still lets anybody change.
async fn notes(cluster: &Cluster) -> Result<Vec<Mark>, Error> {
    let (marks, _) = cluster.marks().await?;
    Ok(marks.into_iter().filter(|mark| matches!(mark, Mark::JobNote { ended: false, .. })).collect())
}

async fn take_notes_off(cluster: &Cluster) -> Result<(String, Vec<String>), WriteError> {
    let before = |source| WriteError { outcome: Outcome::NotDone, source };
    let found = notes(cluster).await.map_err(before)?;
    for note in &found {
        cluster.clear_mark(note).await?;
    }
    let left = notes(cluster).await.map_err(|source| WriteError { outcome: Outcome::Unknown, source })?;
    Ok((format!("{} notes taken off, {} left", found.len(), left.len()), Vec::new()))
}

async fn release_node(cluster: &Cluster, node: &str) -> Result<(String, Vec<String>), WriteError> {
    let released = cluster.release_node(node).await?;
    let mut notes = Vec::new();
    if matches!(released.reason, Owner::Foreign(_)) {
        notes.push("foreign_reason_kept".to_owned());
    }
    notes.extend(gap_note(&released.gap));
    Ok((released.node.state, notes))
}

/// Ruling 17: Slurm has no compare-and-swap, so a foreign drain may have been lost under our write.
pub(super) fn gap_note(gap: &Gap) -> Option<String> {
    match gap {
        Gap::Clean => None,
        Gap::Unchecked { .. } => Some("foreign_drain_unchecked".to_owned()),
        Gap::Restored { .. } => Some("foreign_drain_restored".to_owned()),
    }
}

fn names(read: &[provost_connect::slurm::PartitionReadback]) -> String {
    read.iter().map(|partition| partition.name.as_str()).collect::<Vec<_>>().join(",")
}

fn failed(error: &WriteError) -> EffectResult {
    tracing::warn!(error = %error, "a write to Slurm failed");
    match error.outcome {
        Outcome::Unknown => EffectResult::Unknown { code: code(&error.source).to_owned() },
        Outcome::NotDone => {
            let code = code(&error.source);
            // What Slurm refuses today it refuses tomorrow; what was away comes back.
            not_done(code, matches!(code, "away" | "not_confirmed" | "unparsable"))
        }
    }
}

fn code(error: &Error) -> &'static str {
    if error.is_away() {
        return "away";
    }
    match error {
        Error::NotFound { .. } => "not_found",
        Error::NotRequeueable { .. } => "not_requeueable",
        Error::OtherJob { .. } => "other_job",
        Error::AlreadyPending { .. } => "already_pending",
        Error::Ended { .. } | Error::NotFailed { .. } => "ended",
        Error::NotConfirmed { .. } => "not_confirmed",
        Error::Unparsable { .. } | Error::TooLarge { .. } => "unparsable",
        _ => "refused",
    }
}

fn not_done(code: &str, retry: bool) -> EffectResult {
    EffectResult::NotDone { code: code.to_owned(), retry }
}
