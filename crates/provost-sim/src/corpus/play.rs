//! Lets an episode happen, and writes down what Provost made of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use provost_engine::State;
use provost_model::body::{Body, Source, SourceState};
use provost_model::input::{Action, Input};
use provost_model::policy::{EngineConfig, Role, Timers};
use provost_model::record::SubjectKind;
use provost_model::response::{AlertState, Classification, HoldOwner, IncidentState, Severity};
use provost_model::signal::Signal;
use provost_model::time::{Span, Timestamp};

use super::episode::Episode;
use super::timeline::{What, by_instant, numbered};
use super::{KernelReader, NewReader, Place};
use crate::faults::Fault;
use crate::seed::{Failure, runbooks};
use crate::site::adapter;
use crate::site::layout::{BATCH, BEGIN, Layout};
use crate::site::queue::Request;
use crate::world::{Mood, Options, Scratch, World};

/// The one site of all episodes; `corpus/README.md` describes it.
pub(super) const LAYOUT: Layout = Layout { nodes: 24, spares: 2 };
/// Before an episode begins, the controller has found everybody.
const LEAD: Duration = Duration::from_secs(10);
/// Automation has a SEV3 or SEV4 for so long before a person is called (03 §2.4).
const GRACE: Duration = Duration::from_secs(180);
/// Episodes longer than this are polled less often, and whenever something has happened, so that a day is played in
/// a moment.
const LONG: Duration = Duration::from_secs(3_600);
const LONG_POLL: Span = Span(Duration::from_secs(300));
/// Looks at an episode, from its beginning to its end.
const LOOKS: u32 = 300;
/// Slurm's default wait of a requeued job.
const CRED_EXPIRE: Duration = Duration::from_secs(120);

/// What Provost made of an episode.
#[derive(Debug, Default)]
pub(super) struct Played {
    /// What each incident names, by place and condition.
    pub(super) incidents: Vec<BTreeSet<(String, String)>>,
    /// What owners of jobs were told.
    pub(super) notes: BTreeSet<(String, String)>,
    /// Nodes that it wanted isolated, and when it was so in the scheduler.
    pub(super) isolated: BTreeMap<String, Isolated>,
    /// When a person would have been called.
    pub(super) paged: Option<Duration>,
}

/// An isolation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Isolated {
    /// Decided.
    pub(super) held: Duration,
    /// No new work could reach the node.
    pub(super) reached: Option<Duration>,
}

/// The configuration of the site: the defaults, and it acts.
fn config(episode: &Episode) -> EngineConfig {
    let base = LAYOUT.config();
    let mut timers = Timers::default();
    if episode.lasts > LONG {
        timers.poll = LONG_POLL;
    }
    EngineConfig { site: "corpus".to_owned(), timers, governor: Default::default(), ..base }
}

/// The kernel log of a node in one boot.
struct Log {
    reader: Box<dyn KernelReader>,
    boot: u32,
    sequence: u64,
}

struct Stage<'a> {
    world: World,
    new_reader: NewReader<'a>,
    driver: Option<u32>,
    logs: BTreeMap<String, Log>,
    jobs: BTreeMap<String, u32>,
    played: Played,
}

/// Plays an episode.
pub(super) fn play(episode: &Episode, new_reader: NewReader<'_>) -> Result<Played, Failure> {
    let dir = Scratch::new()?;
    let mut world = World::new(Options {
        seed: 1,
        layout: LAYOUT,
        config: config(episode),
        runbooks: runbooks(),
        dir: dir.path().to_owned(),
        cred_expire: CRED_EXPIRE,
        work: false,
        mood: Mood::AWAY,
        check: false,
        live: None,
    });
    world.take_records();
    let mut stage = Stage {
        world,
        new_reader,
        driver: episode.driver,
        logs: BTreeMap::new(),
        jobs: BTreeMap::new(),
        played: Played::default(),
    };
    let look = (episode.lasts / LOOKS).max(Duration::from_secs(1));
    for (at, moments) in by_instant(&episode.moments) {
        stage.until(at, look)?;
        let mut lines: BTreeMap<String, Vec<Signal>> = BTreeMap::new();
        for moment in moments {
            if moment.nodes.is_empty() {
                stage.on_site(&moment.what);
            } else if let What::Job { name, .. } = &moment.what {
                let id = stage.submit(&moment.what, &moment.nodes);
                stage.jobs.extend(id.map(|id| (name.clone(), id)));
            } else {
                for node in &moment.nodes {
                    let signals = stage.on_node(node, &moment.what);
                    lines.entry(node.clone()).or_default().extend(signals);
                }
            }
        }
        for (node, signals) in lines.into_iter().filter(|(_, signals)| !signals.is_empty()) {
            stage.world.kernel(&node, signals);
        }
        if episode.lasts > LONG {
            stage.world.poll_soon();
        }
    }
    stage.until(episode.lasts, look)?;
    stage.conclude();
    Ok(stage.played)
}

impl Stage<'_> {
    fn elapsed(&self) -> Duration {
        self.world.elapsed().saturating_sub(LEAD)
    }

    /// Lives on until then, and looks around every `look`.
    fn until(&mut self, at: Duration, look: Duration) -> Result<(), Failure> {
        let end = LEAD + at;
        while self.world.elapsed() < end {
            let next = (self.world.elapsed() + look).min(end);
            self.world.run_until(BEGIN + next)?;
            self.look();
        }
        Ok(())
    }

    fn on_site(&mut self, what: &What) {
        match what {
            What::Slurmctld(true) => self.world.strike(Fault::SchedulerBack),
            What::Slurmctld(false) => self.world.strike(Fault::SchedulerAway),
            What::Reconfigure => self.world.strike(Fault::Reconfigure),
            What::Restart(away) => self.world.strike(Fault::Crash { away: *away }),
            What::End { name, state } => {
                let now = self.world.now();
                if let Some(id) = self.jobs.get(name) {
                    self.world.site.slurm.queue.end(now, *id, *state);
                }
            }
            _ => {}
        }
    }

    fn submit(&mut self, what: &What, nodes: &[String]) -> Option<u32> {
        let What::Job { gpus, run_for, tier, requeue, .. } = what else { return None };
        let request = Request {
            project: "atlas".to_owned(),
            tier: *tier,
            partition: BATCH.to_owned(),
            nodes: u32::try_from(nodes.len()).ok()?,
            gpus: *gpus,
            requeue: *requeue,
            pinned: nodes.to_vec(),
            run_for: *run_for,
        };
        let now = self.world.now();
        Some(self.world.site.slurm.queue.submit(now, request))
    }

    /// What happens on a node; gives what its agent reads of it.
    fn on_node(&mut self, node: &str, what: &What) -> Vec<Signal> {
        let name = node.to_owned();
        match what {
            What::Kernel { text, copies } => {
                return (0..*copies)
                    .filter_map(|n| self.kernel(node, 4, &numbered(text, n), false))
                    .collect();
            }
            What::History(text) => return self.kernel(node, 4, text, true).into_iter().collect(),
            What::User(text) => return self.kernel(node, 12, text, false).into_iter().collect(),
            What::Raw(record) => return self.read(node, record.as_bytes(), false).into_iter().collect(),
            What::Boot => {
                let boot = self.log(node).boot + 1;
                let reader = (self.new_reader)(self.driver);
                self.logs.insert(name.clone(), Log { reader, boot, sequence: 0 });
                self.world.boot(node, &boot_id(node, boot));
            }
            What::Agent(true) => self.world.strike(Fault::AgentBack(name)),
            What::Agent(false) => self.world.strike(Fault::AgentGone(name)),
            What::Log(reads) => {
                let state = if *reads { SourceState::Fresh } else { SourceState::Blind };
                self.world.tell(Input::Source { source: Source::KernelLog(name), state });
            }
            What::Slurmd(answers) => self.world.site.slurm.set_responding(node, *answers),
            What::SlurmdDown => {
                let now = self.world.now();
                self.world.site.slurm.set_down(now, node);
            }
            What::ForeignDrain(reason) => {
                self.world.strike(Fault::ForeignDrain { node: name, reason: reason.clone() });
            }
            What::ForeignResume => self.world.strike(Fault::ForeignResume(name)),
            What::OperatorDrain => self.world.ask(Role::Operator, Action::NodeDrain { node: name }),
            What::OperatorResume => self.world.ask(Role::Operator, Action::NodeResume { node: name }),
            _ => {}
        }
        Vec::new()
    }

    fn log(&mut self, node: &str) -> &mut Log {
        let (new_reader, driver) = (self.new_reader, self.driver);
        self.logs.entry(node.to_owned()).or_insert_with(|| Log {
            reader: new_reader(driver),
            boot: 1,
            sequence: 0,
        })
    }

    fn kernel(&mut self, node: &str, priority: u32, text: &str, historic: bool) -> Option<Signal> {
        let stamp = self.world.elapsed().as_micros();
        let log = self.log(node);
        let record = format!("{priority},{},{stamp},-;{text}", log.sequence);
        log.sequence += 1;
        self.read(node, record.as_bytes(), historic)
    }

    fn read(&mut self, node: &str, record: &[u8], historic: bool) -> Option<Signal> {
        let at = self.world.now();
        let log = self.log(node);
        let boot_id = boot_id(node, log.boot);
        log.reader.read(record, Place { node: node.to_owned(), at, boot_id, historic })
    }

    /// What the records of the last moments say, and whether a person would have been called by now.
    fn look(&mut self) {
        let elapsed = self.elapsed();
        for one in self.world.take_records() {
            let at = one.record.at.since(BEGIN + LEAD);
            let state = self.world.state();
            match &one.record.body {
                Body::HoldPlaced(hold) if matches!(hold.owner, HoldOwner::Incident(_)) => {
                    if let Some(node) = state.nodes.get(&hold.node) {
                        let isolated = Isolated { held: at, reached: None };
                        self.played.isolated.entry(node.name.clone()).or_insert(isolated);
                    }
                }
                Body::AlertRaised(alert) if alert.subject.kind == SubjectKind::Job => {
                    let node = alert.node.and_then(|id| state.nodes.get(&id));
                    let place = place(node.map(|node| node.name.as_str()), alert.gpu, None);
                    self.played.notes.insert((place, alert.condition.clone()));
                }
                _ => {}
            }
        }
        if self.played.paged.is_none() && is_paged(self.world.state(), self.world.now()) {
            self.played.paged = Some(elapsed);
        }
    }

    /// What stands at the end.
    fn conclude(&mut self) {
        let slurm = &self.world.site.slurm;
        for (name, isolated) in &mut self.played.isolated {
            let since = BEGIN + LEAD + isolated.held;
            let ours = slurm.events().iter().find(|event| {
                event.node == *name
                    && event.user == adapter::USER
                    && event.drained.is_some()
                    && event.at >= since
            });
            // Somebody else had closed it, or the machine is gone.
            let closed = slurm.node(name).is_some_and(|node| node.is_closed()).then_some(isolated.held);
            isolated.reached = ours.map(|event| event.at.since(BEGIN + LEAD)).or(closed);
        }
        let state = self.world.state();
        for incident in state.incidents.values().filter(|incident| incident.state != IncidentState::Merged) {
            let named = incident.alerts.iter().filter_map(|id| state.alerts.get(id)).map(|alert| {
                let node = alert.node.and_then(|id| state.nodes.get(&id));
                let name = alert.subject.name.as_deref();
                let place = place(node.map(|node| node.name.as_str()), alert.gpu, name);
                (place, alert.condition.clone())
            });
            self.played.incidents.push(named.collect());
        }
    }
}

/// `gpu003/2`, `gpu003`, or the name of what is no node.
fn place(node: Option<&str>, gpu: Option<u32>, name: Option<&str>) -> String {
    match (node, gpu) {
        (Some(node), Some(gpu)) => format!("{node}/{gpu}"),
        (Some(node), None) => node.to_owned(),
        (None, _) => name.unwrap_or("?").to_owned(),
    }
}

fn boot_id(node: &str, boot: u32) -> String {
    if boot == 1 { format!("boot-{node}") } else { format!("boot-{node}-{boot}") }
}

/// A person would be called: an alert that pages still fires in an incident that is grave, or that automation
/// could not end within its grace.
fn is_paged(state: &State, now: Timestamp) -> bool {
    state.incidents.values().any(|incident| {
        let fires = || {
            incident.alerts.iter().filter_map(|id| state.alerts.get(id)).any(|alert| {
                alert.state == AlertState::Firing && alert.classifications.contains(&Classification::Pages)
            })
        };
        let waits = incident.state == IncidentState::Automating;
        let grave = incident.severity >= Severity::Sev2;
        let patient = now.since(incident.opened_at) >= GRACE;
        incident.state.is_open() && !waits && (grave || patient) && fires()
    })
}
