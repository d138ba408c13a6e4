//! Every mark of ours in Slurm, for `provost detach`: found by what they look like, not by what we remember.

use provost_model::scheduler::{COMMENT_PREFIX, JobKey};

use super::Cluster;
use super::error::{Error, Outcome, WriteError};
use super::jobs::our_notes;

/// A trace that we left. Our membership of spares in partitions is none: it looks like anybody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A reason of ours on a node; clearing it lifts our drain.
    NodeReason {
        /// Node.
        node: String,
        /// The reason.
        reason: String,
    },
    /// A comment of ours on a node.
    NodeComment {
        /// Node.
        node: String,
        /// The comment.
        comment: String,
    },
    /// A note of ours on a job. On a job that has ended it goes when slurmctld forgets the job.
    JobNote {
        /// The job.
        job: JobKey,
        /// The note.
        note: String,
        /// The job has ended: the note can't be taken off any more.
        ended: bool,
    },
}

impl Cluster {
    /// All marks of ours that Slurm shows, and the number of entries that could not be read.
    pub async fn marks(&self) -> Result<(Vec<Mark>, u64), Error> {
        let (nodes, jobs) = (self.read_nodes().await?, self.read_jobs(None).await?);
        let mut marks = Vec::new();
        for (node, seen) in nodes.items {
            if seen.reason_is_ours() {
                marks.push(Mark::NodeReason { node: node.clone(), reason: seen.reason });
            }
            if seen.comment.starts_with(COMMENT_PREFIX) {
                marks.push(Mark::NodeComment { node, comment: seen.comment });
            }
        }
        for job in jobs.items {
            let (key, ended) = (&job.observed.key, job.observed.state.ended());
            marks.extend(our_notes(&job.admin_comment).map(|note| Mark::JobNote {
                job: key.clone(),
                note: note.to_owned(),
                ended,
            }));
        }
        Ok((marks, nodes.unparsed + jobs.unparsed))
    }

    /// Takes one mark off and reads back that it is gone. A mark that is gone already is fine.
    pub async fn clear_mark(&self, mark: &Mark) -> Result<(), WriteError> {
        match mark {
            // Reason and comment of a node go together: a drain of ours without its comment would be nobody's.
            Mark::NodeReason { node, .. } | Mark::NodeComment { node, .. } => {
                self.release_node(node).await.map(drop)
            }
            Mark::JobNote { job, .. } => self.clear_notes(job).await.map(drop),
        }
        .or_else(|error| match error {
            WriteError {
                outcome: Outcome::NotDone,
                source: Error::NotFound { .. } | Error::OtherJob { .. },
            } => Ok(()),
            error => Err(error),
        })
    }
}
