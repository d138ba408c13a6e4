//! The scheduler's jobs: waiting, placed on whole or part nodes, running, requeued, ended.
//!
//! A requeue gives a job a new submit time and lets it wait until its old credential has expired, as Slurm does.
//! Times of jobs are whole seconds, as Slurm writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use provost_model::scheduler::{JobKey, JobState, ObservedJob, Tier};
use provost_model::time::Timestamp;

use super::layout::{self, CLUSTER};
use super::slurm::Node;

/// slurmctld remembers an ended job for so long (MinJobAge).
const MIN_JOB_AGE: Duration = Duration::from_secs(300);
/// A job that ends is completing for so long.
const COMPLETING: Duration = Duration::from_secs(1);

/// What somebody submits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who pays.
    pub project: String,
    /// Tier, from the QOS.
    pub tier: Tier,
    /// Partition.
    pub partition: String,
    /// Nodes.
    pub nodes: u32,
    /// GPUs on each of them.
    pub gpus: u32,
    /// `--requeue`.
    pub requeue: bool,
    /// `-w`.
    pub pinned: Vec<String>,
    /// How long it runs, from its start or restart.
    pub run_for: Duration,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// JobId.
    pub id: u32,
    /// What was submitted.
    pub request: Request,
    /// Submit time of this run.
    pub submitted_at: Timestamp,
    /// Where it stands.
    pub state: JobState,
    /// Nodes and GPU indexes that it holds, or held last.
    pub on: BTreeMap<String, Vec<u32>>,
    /// Times it was requeued.
    pub restarts: u32,
    /// Start of this run.
    pub started_at: Option<Timestamp>,
    /// End.
    pub ended_at: Option<Timestamp>,
    /// AdminComment.
    pub admin_comment: String,
    /// What follows when it has completed.
    then: JobState,
    /// Its next change.
    due: Option<Timestamp>,
}

impl Job {
    /// The key of this run.
    pub fn key(&self) -> JobKey {
        JobKey { cluster: CLUSTER.to_owned(), id: self.id, submitted_at: self.submitted_at }
    }
}

/// The jobs of the scheduler.
#[derive(Debug)]
pub struct Queue {
    jobs: BTreeMap<u32, Job>,
    due: BTreeSet<(Timestamp, u32)>,
    cred_expire: Duration,
    next_id: u32,
    /// Something changed that may let a waiting job start.
    changed: bool,
}

fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis().div_euclid(1_000) * 1_000)
}

impl Queue {
    pub(super) fn new(cred_expire: Duration) -> Queue {
        Queue { jobs: BTreeMap::new(), due: BTreeSet::new(), cred_expire, next_id: 1, changed: false }
    }

    /// Every job that is remembered, by id.
    pub fn jobs(&self) -> &BTreeMap<u32, Job> {
        &self.jobs
    }

    /// A job.
    pub fn job(&self, id: u32) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// Number of jobs that wait.
    pub fn pending(&self) -> u64 {
        self.jobs.values().filter(|job| job.state == JobState::Pending).count() as u64
    }

    pub(super) fn wake(&mut self) {
        self.changed = true;
    }

    pub(super) fn next_change(&self) -> Option<Timestamp> {
        if self.changed { Some(Timestamp::default()) } else { self.due.first().map(|(at, _)| *at) }
    }

    /// Puts a job into the queue; gives its id.
    pub fn submit(&mut self, now: Timestamp, request: Request) -> u32 {
        let id = self.next_id;
        self.next_id += 1;
        let job = Job {
            id,
            request,
            submitted_at: whole_seconds(now),
            state: JobState::Pending,
            on: BTreeMap::new(),
            restarts: 0,
            started_at: None,
            ended_at: None,
            admin_comment: String::new(),
            then: JobState::Pending,
            due: None,
        };
        self.jobs.insert(id, job);
        self.changed = true;
        id
    }

    /// `scontrol requeue` of a job that runs, or that failed. The caller has looked whether Slurm allows it.
    pub fn requeue(&mut self, now: Timestamp, id: u32) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.restarts += 1;
        if job.state.holds_nodes() {
            job.state = JobState::Completing;
            job.then = JobState::Pending;
            self.set_due(id, Some(now + COMPLETING));
        } else {
            self.wait_again(now, id);
        }
    }

    /// Ends a job in this state, by itself or by a fault.
    pub fn end(&mut self, now: Timestamp, id: u32, state: JobState) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.state == JobState::Running) else { return };
        job.state = JobState::Completing;
        job.then = state;
        self.set_due(id, Some(now + COMPLETING));
    }

    /// A node of the job is gone: requeued at once, or failed.
    pub(super) fn lose_node(&mut self, now: Timestamp, id: u32, nodes: &mut BTreeMap<String, Node>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let then = match job.state {
            JobState::Completing => job.then,
            _ if job.request.requeue => {
                job.restarts += 1;
                JobState::Pending
            }
            _ => JobState::NodeFailed,
        };
        self.free(id, nodes);
        if then == JobState::Pending { self.wait_again(now, id) } else { self.finish(now, id, then) }
    }

    /// Sets a job's AdminComment.
    pub fn note(&mut self, id: u32, text: &str) {
        if let Some(job) = self.jobs.get_mut(&id) {
            text.clone_into(&mut job.admin_comment);
        }
    }

    fn set_due(&mut self, id: u32, at: Option<Timestamp>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if let Some(old) = job.due.take() {
            self.due.remove(&(old, id));
        }
        job.due = at;
        self.due.extend(at.map(|at| (at, id)));
    }

    fn wait_again(&mut self, now: Timestamp, id: u32) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.state = JobState::Pending;
        job.submitted_at = whole_seconds(now);
        (job.started_at, job.ended_at) = (None, None);
        job.on.clear();
        self.set_due(id, Some(now + self.cred_expire));
    }

    fn finish(&mut self, now: Timestamp, id: u32, state: JobState) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.state = state;
        job.ended_at = Some(whole_seconds(now));
        self.set_due(id, Some(now + MIN_JOB_AGE));
    }

    fn free(&mut self, id: u32, nodes: &mut BTreeMap<String, Node>) {
        let on = self.jobs.get(&id).map(|job| job.on.clone()).unwrap_or_default();
        for name in on.keys() {
            if let Some(node) = nodes.get_mut(name) {
                node.used.retain(|_, user| *user != id);
            }
        }
        self.changed = true;
    }

    pub(super) fn advance(
        &mut self,
        now: Timestamp,
        nodes: &mut BTreeMap<String, Node>,
        partitions: &BTreeMap<String, BTreeSet<String>>,
    ) {
        while let Some((at, id)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, id));
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            job.due = None;
            match job.state {
                JobState::Running => self.end(at, id, JobState::Completed),
                JobState::Completing => {
                    let then = job.then;
                    self.free(id, nodes);
                    if then == JobState::Pending {
                        self.wait_again(at, id)
                    } else {
                        self.finish(at, id, then)
                    }
                }
                JobState::Pending => self.changed = true,
                _ => drop(self.jobs.remove(&id)),
            }
        }
        if std::mem::take(&mut self.changed) {
            self.start_all(now, nodes, partitions);
        }
    }

    /// Starts what fits: the highest tier first, then the oldest; what does not fit keeps nobody else waiting.
    fn start_all(
        &mut self,
        now: Timestamp,
        nodes: &mut BTreeMap<String, Node>,
        partitions: &BTreeMap<String, BTreeSet<String>>,
    ) {
        let waits = |job: &&Job| job.state == JobState::Pending && job.due.is_none_or(|due| due <= now);
        let mut waiting: Vec<(Tier, u32)> =
            self.jobs.values().filter(waits).map(|job| (job.request.tier, job.id)).collect();
        waiting.sort_by_key(|(tier, id)| (std::cmp::Reverse(*tier), *id));
        for (_, id) in waiting {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let Some(place) = place(&job.request, nodes, partitions) else { continue };
            for (name, gpus) in &place {
                if let Some(node) = nodes.get_mut(name) {
                    node.used.extend(gpus.iter().map(|gpu| (*gpu, id)));
                }
            }
            job.on = place;
            job.state = JobState::Running;
            job.started_at = Some(whole_seconds(now));
            let end = now + job.request.run_for;
            self.set_due(id, Some(end));
        }
    }

    /// Jobs as the adapter gives them on.
    pub(super) fn observed(&self) -> Vec<ObservedJob> {
        let known = |job: &&Job| job.state != JobState::Pending || job.restarts > 0;
        self.jobs.values().filter(known).map(observed).collect()
    }
}

/// The first nodes by name that have room; none where there are too few.
fn place(
    request: &Request,
    nodes: &BTreeMap<String, Node>,
    partitions: &BTreeMap<String, BTreeSet<String>>,
) -> Option<BTreeMap<String, Vec<u32>>> {
    let wanted = request.nodes as usize;
    let listed = partitions.get(&request.partition)?;
    let asked = |name: &&String| request.pinned.is_empty() || request.pinned.contains(name);
    let free = |name: &String| {
        let node = nodes.get(name).filter(|node| node.is_schedulable())?;
        let free: Vec<u32> = (0..layout::GPUS).filter(|gpu| !node.used.contains_key(gpu)).collect();
        (free.len() >= request.gpus as usize).then(|| (name.clone(), free[..request.gpus as usize].to_vec()))
    };
    let place: BTreeMap<_, _> = listed.iter().filter(asked).filter_map(free).take(wanted).collect();
    (place.len() == wanted).then_some(place)
}

fn observed(job: &Job) -> ObservedJob {
    let holds = job.state.holds_nodes();
    ObservedJob {
        key: job.key(),
        state: job.state,
        project: job.request.project.clone(),
        tier: job.request.tier,
        partition: job.request.partition.clone(),
        nodes: job.on.keys().cloned().collect(),
        gpus: if holds { job.on.clone() } else { BTreeMap::new() },
        requeue: job.request.requeue,
        restarts: job.restarts,
        pinned: job.request.pinned.clone(),
        started_at: job.started_at,
        ended_at: job.ended_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::layout::{BEGIN, Layout};
    use crate::site::slurm::Slurm;

    fn request(nodes: u32, gpus: u32) -> Request {
        Request {
            project: "p".to_owned(),
            tier: Tier::Batch,
            partition: "batch".to_owned(),
            nodes,
            gpus,
            requeue: true,
            pinned: Vec::new(),
            run_for: Duration::from_secs(100),
        }
    }

    fn advance(slurm: &mut Slurm, to: Timestamp) {
        while let Some(at) = slurm.next_change().filter(|at| *at <= to) {
            slurm.advance(at.max(BEGIN));
        }
        slurm.advance(to);
    }

    #[test]
    fn a_requeued_job_runs_elsewhere_once_its_credential_has_expired() {
        let mut slurm = Slurm::new(&Layout { nodes: 3, spares: 0 }, Duration::from_secs(5));
        let id = slurm.queue.submit(BEGIN, request(2, 8));
        advance(&mut slurm, BEGIN);
        let on = |slurm: &Slurm| slurm.queue.job(id).unwrap().on.keys().cloned().collect::<Vec<_>>();
        assert_eq!(on(&slurm), ["gpu001", "gpu002"]);
        slurm.drain(BEGIN, "gpu001", "provost", "provost x");
        let before = slurm.queue.job(id).unwrap().key();
        slurm.queue.requeue(BEGIN + Duration::from_secs(10), id);
        advance(&mut slurm, BEGIN + Duration::from_secs(15));
        assert_eq!(slurm.queue.job(id).unwrap().state, JobState::Pending);
        advance(&mut slurm, BEGIN + Duration::from_secs(16));
        assert_eq!(on(&slurm), ["gpu002", "gpu003"]);
        let job = slurm.queue.job(id).unwrap();
        assert_eq!(job.restarts, 1);
        assert_ne!(job.key(), before);
        advance(&mut slurm, BEGIN + Duration::from_secs(117));
        assert_eq!(slurm.queue.job(id).unwrap().state, JobState::Completed);
        advance(&mut slurm, BEGIN + Duration::from_secs(117 + 301));
        assert!(slurm.queue.job(id).is_none());
    }

    #[test]
    fn a_lost_node_requeues_its_jobs_or_fails_them() {
        let mut slurm = Slurm::new(&Layout { nodes: 1, spares: 0 }, Duration::from_secs(5));
        let first = slurm.queue.submit(BEGIN, request(1, 4));
        let second = slurm.queue.submit(BEGIN, Request { requeue: false, ..request(1, 4) });
        advance(&mut slurm, BEGIN);
        assert_eq!(slurm.node("gpu001").unwrap().state(), "ALLOCATED");
        slurm.set_responding("gpu001", false);
        slurm.set_down(BEGIN, "gpu001");
        assert_eq!(slurm.queue.job(first).unwrap().state, JobState::Pending);
        assert_eq!(slurm.queue.job(second).unwrap().state, JobState::NodeFailed);
        assert_eq!(slurm.node("gpu001").unwrap().reason, "Not responding");
        slurm.set_responding("gpu001", true);
        advance(&mut slurm, BEGIN + Duration::from_secs(5));
        assert_eq!(slurm.queue.job(first).unwrap().state, JobState::Running);
    }
}
