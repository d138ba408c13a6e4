//! Makes lines of records. What comes in masses is counted and told once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use provost_controller::Committed;
use provost_engine::State;
use provost_model::body::{Body, ExecutionChanged, IncidentOpened, JobObserved, StepChanged};
use provost_model::effect::{Effect, EffectResult};
use provost_model::fleet::Phase;
use provost_model::ids::{NodeId, SlotId};
use provost_model::record::Record;
use provost_model::response::HoldOwner;
use provost_model::runbook::{ExecutionState, StepState};
use provost_model::scheduler::{JobState, Tier};
use provost_model::signal::Impact;
use provost_model::time::Timestamp;

use super::script::by_tier;
use super::{Line, elapsed};
use crate::site::layout::GPUS;

/// What is counted is told when nothing was added for so long.
const SETTLED: Duration = Duration::from_secs(3);

/// Things that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Crowd {
    Adopted,
    Spares,
    Jobs,
    StormGpus,
    StormLines,
    Notes,
}

/// Tells what records say.
pub(super) struct Narrator {
    lines: Vec<Line>,
    counts: BTreeMap<Crowd, u64>,
    jobs: BTreeMap<Tier, usize>,
    storm_nodes: BTreeSet<String>,
    changed: Option<Timestamp>,
    first_jobs_told: bool,
    facts: Facts,
}

/// What the summary needs.
#[derive(Default)]
struct Facts {
    records: u64,
    incidents: u32,
    fault_at: Option<Timestamp>,
    isolated: Option<Duration>,
    served: Option<Duration>,
    elsewhere: Option<Duration>,
    returned: Option<Duration>,
    notes: u64,
    storm_lines: u64,
    storm_nodes: BTreeSet<String>,
    isolated_nodes: BTreeSet<String>,
}

impl Narrator {
    pub(super) fn new() -> Narrator {
        Narrator {
            lines: Vec::new(),
            counts: BTreeMap::new(),
            jobs: BTreeMap::new(),
            storm_nodes: BTreeSet::new(),
            changed: None,
            first_jobs_told: false,
            facts: Facts::default(),
        }
    }

    /// Lines since the last call.
    pub(super) fn take(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// Reads records; `state` has them all.
    pub(super) fn read(&mut self, state: &State, records: &[Committed]) {
        for one in records {
            let record = &one.record;
            self.facts.records = record.seq + 1;
            if let Some(text) = self.tell(state, record) {
                self.flush_if(record.at, SETTLED);
                self.lines.push(Line { at: elapsed(record.at), text });
            }
        }
    }

    /// Tells what was counted, where nothing was added for a while.
    pub(super) fn settle(&mut self, now: Timestamp) {
        self.flush_if(now, SETTLED);
    }

    fn count(&mut self, at: Timestamp, what: Crowd, n: u64) {
        self.changed = Some(at);
        *self.counts.entry(what).or_default() += n;
    }

    fn flush_if(&mut self, now: Timestamp, after: Duration) {
        if self.changed.is_none_or(|changed| now.since(changed) < after) {
            return;
        }
        self.changed = None;
        let counts = std::mem::take(&mut self.counts);
        let of = |what| counts.get(&what).copied().unwrap_or(0);
        let mut texts = Vec::new();
        if of(Crowd::Adopted) + of(Crowd::Spares) > 0 {
            let (nodes, spares) = (of(Crowd::Adopted), of(Crowd::Spares));
            let gpus = (nodes + spares) * u64::from(GPUS);
            texts.push(format!(
                "Slurm shows {} nodes: {nodes} in production, {spares} spares, {gpus} GPUs",
                nodes + spares
            ));
        }
        if of(Crowd::Jobs) > 0 {
            texts.push(format!("{} jobs run: {}", of(Crowd::Jobs), by_tier(&self.jobs)));
            // Jobs that come later are the site's everyday.
            self.first_jobs_told = true;
        }
        if of(Crowd::StormLines) > 0 {
            let (gpus, lines) = (of(Crowd::StormGpus), of(Crowd::StormLines));
            let nodes = self.storm_nodes.len();
            self.facts.storm_lines += lines;
            self.facts.storm_nodes.append(&mut self.storm_nodes);
            texts.push(format!(
                "Xid 45 in {lines} kernel lines from {gpus} GPUs of {nodes} nodes: programs ended, the hardware is fine"
            ));
        }
        if of(Crowd::Notes) > 0 {
            self.facts.notes += of(Crowd::Notes);
            texts.push(format!("{} jobs carry a note that tells their owners", of(Crowd::Notes)));
        }
        self.lines.extend(texts.into_iter().map(|text| Line { at: elapsed(now), text }));
    }

    /// The line of one record; none where it is counted, or is no news for people.
    fn tell(&mut self, state: &State, record: &Record) -> Option<String> {
        match &record.body {
            Body::ControllerStarted(data) => {
                Some(format!("Provost {} takes over an empty journal", data.version))
            }
            Body::ConfigApplied(data) => {
                Some(format!("site {}, mode {}", data.config.site, data.config.mode.name()))
            }
            Body::NodeAdopted(data) => {
                let what = if data.phase == Phase::Spare { Crowd::Spares } else { Crowd::Adopted };
                self.count(record.at, what, 1);
                None
            }
            Body::JobObserved(data) => self.job(state, record, data),
            Body::EpisodeOpened(data) if data.impact <= Impact::Info => {
                self.count(record.at, Crowd::StormGpus, 1);
                self.count(record.at, Crowd::StormLines, 1);
                self.storm_nodes.insert(data.key.node.to_string());
                None
            }
            Body::EpisodeRepeated(data) => {
                self.count(record.at, Crowd::StormLines, data.count);
                None
            }
            Body::IncidentOpened(data) => Some(self.incident(record, data)),
            Body::HoldPlaced(data) => {
                if let HoldOwner::Incident(_) = data.owner {
                    self.facts.isolated_nodes.insert(name(state, data.node));
                }
                None
            }
            Body::EffectRequested(data) => match &data.effect {
                Effect::SchedulerHold { node, reason, .. } => {
                    Some(format!("{node} must get no new work: Slurm is told to drain it, reason `{reason}`"))
                }
                _ => None,
            },
            Body::EffectCompleted(data) => match &data.result {
                EffectResult::Done { observed, .. } => self.done(record, &data.effect, observed),
                EffectResult::NotDone { .. } | EffectResult::Unknown { .. } => {
                    Some(provost_engine::views::timeline_text(record))
                }
            },
            Body::SlotBound(data) => Some(self.bound(state, record, data.slot, data.spare)),
            Body::SlotUnbound(data) => Some(format!("{} goes back to the spares", name(state, data.spare))),
            Body::NodePhaseChanged(data) => self.phase(state, record, data.node, data.to),
            Body::StepChanged(data) => step(data),
            Body::HumanAnswered(data) => {
                let answers: Vec<String> =
                    data.answers.iter().map(|(name, text)| format!("{name} {text}")).collect();
                Some(format!("the technician answers: {}", answers.join(", ")))
            }
            Body::ExecutionChanged(data) => execution(state, data),
            Body::IncidentChanged(data) if !data.to.is_open() => {
                let number = record.corr.incident.as_deref().unwrap_or("the incident");
                Some(format!("{number} is {}", data.to.name()))
            }
            Body::CommandDenied(_)
            | Body::BreakerTripped(_)
            | Body::GuardStopped(_)
            | Body::GuardStarted(_)
            | Body::IsolationDeferred(_)
            | Body::ModeChanged(_)
            | Body::SourceChanged(_) => self.worth_telling(record),
            _ => None,
        }
    }

    /// Sources that report for the first time are no news.
    fn worth_telling(&self, record: &Record) -> Option<String> {
        let fresh = matches!(
            &record.body,
            Body::SourceChanged(data) if data.state == provost_model::body::SourceState::Fresh
        );
        (!fresh).then(|| provost_engine::views::timeline_text(record))
    }

    fn incident(&mut self, record: &Record, data: &IncidentOpened) -> String {
        self.facts.incidents += 1;
        self.facts.fault_at.get_or_insert(data.fault_at);
        let jobs = match data.jobs.len() {
            0 => "no job is hit".to_owned(),
            1 => format!("job {} is hit", data.jobs[0].id),
            n => format!("{n} jobs are hit"),
        };
        let late = record.at.since(data.fault_at).as_millis();
        format!("{} {}: {}; {jobs} ({late} ms after the kernel line)", data.number, data.severity, data.title)
    }

    fn since_fault(&self, at: Timestamp) -> Option<Duration> {
        self.facts.fault_at.map(|fault| at.since(fault))
    }

    fn done(&mut self, record: &Record, effect: &Effect, observed: &str) -> Option<String> {
        let since = self.since_fault(record.at);
        match effect {
            Effect::SchedulerHold { node, .. } => {
                let late = since.filter(|_| self.facts.isolated.is_none());
                self.facts.isolated = self.facts.isolated.or(since);
                let late =
                    late.map(|late| format!(", {} ms after the fault", late.as_millis())).unwrap_or_default();
                Some(format!("{node} is drained, read back as {observed}{late}"))
            }
            Effect::SchedulerRelease { node, .. } => {
                Some(format!("{node} takes work again, read back as {observed}"))
            }
            Effect::JobRequeue { job, .. } => Some(format!(
                "job {} is back in the queue; Slurm lets it start once its credential has expired",
                job.id
            )),
            Effect::JobNote { .. } => {
                self.count(record.at, Crowd::Notes, 1);
                None
            }
            _ => None,
        }
    }

    fn bound(&mut self, state: &State, record: &Record, slot: SlotId, spare: NodeId) -> String {
        let since = self.since_fault(record.at);
        self.facts.served = self.facts.served.or(since);
        let own = state.slots.get(&slot).map(|slot| name(state, slot.node)).unwrap_or_default();
        format!("{} serves in place of {own}, read back in its partitions", name(state, spare))
    }

    fn job(&mut self, state: &State, record: &Record, data: &JobObserved) -> Option<String> {
        let runs = data.state == JobState::Running;
        if !self.first_jobs_told && runs {
            self.count(record.at, Crowd::Jobs, 1);
            *self.jobs.entry(data.tier).or_default() += 1;
            return None;
        }
        let hit =
            state.incidents.values().any(|incident| incident.jobs.iter().any(|job| job.id == data.job.id));
        if !hit {
            return None;
        }
        if runs && data.restarts > 0 {
            let since = self.since_fault(record.at);
            self.facts.elsewhere = self.facts.elsewhere.or(since);
            let nodes: Vec<String> = data.nodes.iter().map(|node| name(state, *node)).collect();
            return Some(format!("job {} runs again, on {}", data.job.id, nodes.join(", ")));
        }
        (data.state == JobState::Completed).then(|| format!("job {} has completed", data.job.id))
    }

    fn phase(&mut self, state: &State, record: &Record, node: NodeId, to: Phase) -> Option<String> {
        let node = name(state, node);
        match to {
            Phase::Probation => {
                self.facts.returned = self.facts.returned.or(self.since_fault(record.at));
                Some(format!("{node} is released and watched"))
            }
            Phase::InService => Some(format!("{node} is in service")),
            Phase::Lost => Some(format!("{node} is lost: neither its agent nor Slurm hears from it")),
            _ => None,
        }
    }

    /// The end: what people want to know of it. `damaged` are the nodes that really had something broken.
    pub(super) fn summary(&self, damaged: &BTreeSet<String>) -> Vec<String> {
        let facts = &self.facts;
        let time = |length: Option<Duration>| length.map_or("not yet".to_owned(), seconds);
        let isolated = match facts.isolated_nodes.len() {
            0 => "nothing".to_owned(),
            _ => Vec::from_iter(facts.isolated_nodes.iter().cloned()).join(", "),
        };
        let touched = facts.storm_nodes.intersection(&facts.isolated_nodes).count();
        let wrong = facts.isolated_nodes.difference(damaged).count();
        vec![
            format!("{} records, {} incident{}", facts.records, facts.incidents, plural(facts.incidents)),
            format!(
                "fault to isolated {}; to spare serving {}; to job running elsewhere {}; to node back {}",
                time(facts.isolated),
                time(facts.served),
                time(facts.elsewhere),
                time(facts.returned)
            ),
            format!(
                "{} harmless kernel lines on {} nodes: {} notes to owners, {touched} of the nodes touched",
                facts.storm_lines,
                facts.storm_nodes.len(),
                facts.notes
            ),
            format!("isolated {isolated}; false isolations {wrong}"),
        ]
    }
}

fn plural(n: u32) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// `0.093 s`, `127 s`.
fn seconds(length: Duration) -> String {
    let exact = length < Duration::from_secs(10);
    if exact { format!("{:.3} s", length.as_secs_f64()) } else { format!("{} s", length.as_secs()) }
}

fn name(state: &State, node: NodeId) -> String {
    state.nodes.get(&node).map(|node| node.name.clone()).unwrap_or_default()
}

fn step(data: &StepChanged) -> Option<String> {
    let result = data.result.as_deref().unwrap_or("done");
    match (data.step.as_str(), data.to) {
        ("collect", StepState::Succeeded) => {
            Some("evidence is kept before anybody touches the node".to_owned())
        }
        ("drain", StepState::Succeeded) => Some(format!("the node is empty: {result}")),
        ("revalidate", StepState::Acting) => Some("the node is tested".to_owned()),
        ("revalidate", StepState::Succeeded) => Some("the test passed; only that ends the fault".to_owned()),
        (step, StepState::Failed | StepState::Unknown) => {
            Some(format!("step {step}: {}", data.why.replace('_', " ")))
        }
        _ => None,
    }
}

fn execution(state: &State, data: &ExecutionChanged) -> Option<String> {
    let run = state.executions.get(&data.execution).filter(|run| run.incident.is_some())?;
    let book = state.runbooks.get(&run.version)?;
    let about = |step: &str| {
        let found = book.steps.iter().find(|found| found.id == step);
        found.map_or_else(|| step.to_owned(), |found| found.about.clone())
    };
    match data.to {
        ExecutionState::AwaitingHuman => {
            let step = data.why.strip_prefix("human:").unwrap_or(&data.why);
            Some(format!("runbook {} waits for a person: {}", book.id, about(step)))
        }
        ExecutionState::NeedsOperator => Some(format!("runbook {} needs an operator: {}", book.id, data.why)),
        ExecutionState::Running if data.from == ExecutionState::Queued => {
            Some(format!("runbook {} starts: {}", book.id, book.title))
        }
        ExecutionState::Succeeded => Some(format!("runbook {} has succeeded", book.id)),
        ExecutionState::Cancelled => Some(format!("runbook {} is cancelled: {}", book.id, data.why)),
        _ => None,
    }
}
