//! Jobs of the cluster, as their users submit and see them.

use std::time::Duration;

use crate::testbed::Testbed;
use crate::wait::wait_until;

/// What Slurm says about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// `RUNNING`.
    pub state: String,
    /// Why it is in that state.
    pub reason: String,
    /// Where it runs; empty where it does not.
    pub node: String,
    /// How often it was put back into the queue.
    pub restarts: u32,
    /// Notes of administrators; empty where there is none.
    pub note: String,
}

impl Testbed {
    /// Submits a job as root; gives its id.
    ///
    /// # Panics
    /// Where Slurm refuses it.
    #[track_caller]
    pub fn submit(&self, args: &[&str]) -> u32 {
        let all = [&["--parsable", "-o", "/dev/null"], args].concat();
        self.slurm("sbatch", &all).trim().parse().expect("sbatch prints the id")
    }

    /// A job; none where slurmctld does not answer or does not know it.
    pub fn try_job(&self, id: u32) -> Option<Job> {
        let output = self.try_slurm("scontrol", &["show", "job", &id.to_string()]);
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        let field = |name: &str| {
            let mut words = text.split_whitespace();
            words.find_map(|word| word.strip_prefix(name)).unwrap_or_default().to_owned()
        };
        let line = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.trim().strip_prefix(name)).unwrap_or_default().to_owned()
        };
        let node = field("NodeList=");
        Some(Job {
            state: field("JobState="),
            reason: field("Reason="),
            node: if node == "(null)" { String::new() } else { node },
            restarts: field("Restarts=").parse().ok()?,
            note: line("AdminComment="),
        })
    }

    /// Waits until a job is as `wanted` says.
    ///
    /// # Panics
    /// Where it is not after `limit`.
    #[track_caller]
    pub fn wait_job(&self, id: u32, what: &str, limit: Duration, wanted: impl Fn(&Job) -> bool) -> Job {
        wait_until(&format!("job {id} {what}"), limit, || match self.try_job(id) {
            Some(job) if wanted(&job) => Ok(job),
            seen => Err(format!("{seen:?}")),
        })
    }

    /// Waits until a job runs; gives its node.
    ///
    /// # Panics
    /// Where it does not.
    #[track_caller]
    pub fn wait_running(&self, id: u32, limit: Duration) -> String {
        self.wait_job(id, "runs", limit, |job| job.state == "RUNNING").node
    }

    /// Ends a job, as its user does.
    pub fn cancel(&self, id: u32) {
        self.slurm("scancel", &[&id.to_string()]);
    }
}
