//! Puts jobs back into the queue and leaves notes on them, always after a check of their identity.

use provost_model::scheduler::{JobKey, JobState, ObservedJob, REASON_PREFIX};

use super::error::{Error, Probe, WriteError, settle};
use super::json::Job;
use super::{Cluster, checked_text};

/// A job that is back in the queue, as it was read back: it waits, still ends its old run, or runs again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requeued {
    /// The job now. Its key differs from the old one as soon as it waits: Slurm sets a new submit time.
    pub job: ObservedJob,
}

/// Between the notes on a job.
const SEPARATOR: &str = " | ";
/// Longest note, in characters.
const MAX_NOTE: usize = 400;
/// Longest text with all notes; older notes of ours make room, other people's never.
const MAX_NOTES: usize = 2_000;

impl Cluster {
    /// The job that has this JobId now.
    async fn job(&self, id: u32) -> Result<Job, Error> {
        let parsed = self.read_jobs(Some(id)).await?;
        let unparsed = parsed.unparsed;
        parsed.items.into_iter().find(|job| job.observed.key.id == id).ok_or_else(|| match unparsed {
            0 => Error::NotFound { what: format!("job {id}") },
            _ => Error::Unparsable { tool: "squeue", detail: format!("job {id} or another one") },
        })
    }

    /// The run that `key` names; an error where the JobId belongs to another run by now.
    async fn run_of(&self, key: &JobKey) -> Result<Job, Error> {
        let job = self.job(key.id).await?;
        if job.observed.key == *key { Ok(job) } else { Err(Error::OtherJob { id: key.id }) }
    }

    /// Ends a job that runs and puts it back into the queue.
    pub async fn requeue_job(&self, key: &JobKey) -> Result<Requeued, WriteError> {
        self.requeue_where(key, |job| match job.state {
            JobState::Pending => Err(Error::AlreadyPending { id: key.id }),
            state if state.ended() => Err(Error::Ended { id: key.id }),
            _ => Ok(()),
        })
        .await
    }

    /// Puts a job that failed back into the queue, as long as slurmctld remembers it.
    pub async fn requeue_failed(&self, key: &JobKey) -> Result<Requeued, WriteError> {
        self.requeue_where(key, |job| match job.state {
            JobState::Failed | JobState::NodeFailed => Ok(()),
            JobState::Pending => Err(Error::AlreadyPending { id: key.id }),
            _ => Err(Error::NotFailed { id: key.id }),
        })
        .await
    }

    async fn requeue_where(
        &self,
        key: &JobKey,
        allowed: impl FnOnce(&ObservedJob) -> Result<(), Error>,
    ) -> Result<Requeued, WriteError> {
        let before = self.run_of(key).await.map_err(WriteError::before)?;
        allowed(&before.observed).map_err(WriteError::before)?;
        if !before.observed.requeue {
            return Err(WriteError::before(Error::NotRequeueable { id: key.id }));
        }
        let sent = self.tools.run("scontrol", &["requeue", &before.target()]).await.map(drop);
        let after = match self.job(key.id).await {
            Ok(job) => job.observed,
            Err(read) => return Err(WriteError::unread(sent, read)),
        };
        settle(sent, is_requeued(&after, key, before.observed.restarts), || {
            format!("the requeue of job {}", key.id)
        })?;
        Ok(Requeued { job: after })
    }

    /// Whether the job was requeued since it had `restarts` restarts.
    pub async fn probe_requeue(&self, key: &JobKey, restarts: u32) -> Probe {
        Probe::shown(self.job(key.id).await.map(|job| is_requeued(&job.observed, key, restarts)))
    }

    /// Leaves a note (`provost …`, one line, no personal data) in the job's AdminComment, which users can't
    /// write; what others wrote there stays. Slurm takes no note for a job that has ended.
    pub async fn note_job(&self, key: &JobKey, note: &str) -> Result<ObservedJob, WriteError> {
        let note = checked_text("note", note, REASON_PREFIX, MAX_NOTE).map_err(WriteError::before)?;
        let before = self.noted(key).await.map_err(WriteError::before)?;
        self.write_notes(key, before, |notes| add_note(notes, note), |notes| has_note(notes, note)).await
    }

    /// Whether the job carries the note.
    pub async fn probe_note(&self, key: &JobKey, note: &str) -> Probe {
        Probe::shown(self.noted(key).await.map(|job| has_note(&job.admin_comment, note)))
    }

    /// Takes all our notes off a job; what others wrote stays.
    pub(super) async fn clear_notes(&self, key: &JobKey) -> Result<ObservedJob, WriteError> {
        let before = self.noted(key).await.map_err(WriteError::before)?;
        self.write_notes(key, before, foreign_notes, |notes| our_notes(notes).next().is_none()).await
    }

    /// The job of `key`, also after a requeue gave it a new key: notes belong to all its runs. A JobId that
    /// slurmctld gave away anew belongs to a job without restarts.
    async fn noted(&self, key: &JobKey) -> Result<Job, Error> {
        let job = self.job(key.id).await?;
        let goes_on = job.observed.restarts > 0 && job.observed.key.submitted_at > key.submitted_at;
        if job.observed.key == *key || goes_on { Ok(job) } else { Err(Error::OtherJob { id: key.id }) }
    }

    async fn write_notes(
        &self,
        key: &JobKey,
        before: Job,
        change: impl FnOnce(&str) -> String,
        shown: impl Fn(&str) -> bool,
    ) -> Result<ObservedJob, WriteError> {
        if shown(&before.admin_comment) {
            return Ok(before.observed);
        }
        if before.observed.state.ended() {
            return Err(WriteError::before(Error::Ended { id: key.id }));
        }
        let (job, notes) =
            (format!("JobId={}", before.target()), format!("AdminComment={}", change(&before.admin_comment)));
        let sent = self.update(&[&job, &notes]).await;
        let after = match self.noted(key).await {
            Ok(job) => job,
            Err(read) => return Err(WriteError::unread(sent, read)),
        };
        settle(sent, shown(&after.admin_comment), || format!("the note on job {}", key.id))?;
        Ok(after.observed)
    }
}

/// `job` is a later run of the job that `key` names, which then had `restarts` restarts. While the old run ends the
/// submit time is still the old one.
fn is_requeued(job: &ObservedJob, key: &JobKey, restarts: u32) -> bool {
    job.restarts > restarts && job.key.submitted_at >= key.submitted_at
}

/// The notes of ours in an AdminComment.
pub(super) fn our_notes(notes: &str) -> impl Iterator<Item = &str> {
    notes.split(SEPARATOR).filter(|note| note.starts_with(REASON_PREFIX))
}

fn has_note(notes: &str, note: &str) -> bool {
    our_notes(notes).any(|there| there == note)
}

/// What others wrote.
fn foreign_notes(notes: &str) -> String {
    notes.split(SEPARATOR).filter(|note| !note.starts_with(REASON_PREFIX)).collect::<Vec<_>>().join(SEPARATOR)
}

fn add_note(notes: &str, note: &str) -> String {
    let all = match notes {
        "" => note.to_owned(),
        _ => [notes, note].join(SEPARATOR),
    };
    if all.chars().count() <= MAX_NOTES {
        return all;
    }
    match foreign_notes(notes).as_str() {
        "" => note.to_owned(),
        foreign => [foreign, note].join(SEPARATOR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_leave_other_peoples_words() {
        let check = |notes: &str, expected: &str| {
            let added = add_note(notes, "provost INC-2: b");
            assert_eq!(added, expected);
            assert!(has_note(&added, "provost INC-2: b"));
            assert_eq!(foreign_notes(&added), foreign_notes(notes));
        };
        check("", "provost INC-2: b");
        check("ask ops", "ask ops | provost INC-2: b");
        check("provost INC-1: a | ask ops", "provost INC-1: a | ask ops | provost INC-2: b");
        assert_eq!(foreign_notes("provost INC-1: a | ask ops | provost INC-2: b"), "ask ops");
        assert!(!has_note("not provost INC-2: b", "provost INC-2: b"));
        assert!(!has_note("provost INC-2: bb", "provost INC-2: b"));
        let long = format!("ask ops | provost {}", "x".repeat(MAX_NOTES));
        assert_eq!(add_note(&long, "provost n"), "ask ops | provost n");
    }
}
