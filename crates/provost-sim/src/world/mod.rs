//! The world: virtual time, the site, and a real controller with a real journal in the middle of it.
//!
//! It is the controller's clock and its neighbours. Time jumps from one event to the next; nothing waits.

mod agenda;
mod agents;
mod life;
mod outside;
mod people;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use provost_controller::{Answer, Clock as _, Committed, Controller, Handle, Message};
use provost_engine::{Outstanding, State};
use provost_model::policy::EngineConfig;
use provost_model::runbook::Runbook;
use provost_model::time::Timestamp;

pub use agenda::Event;
pub use life::Scratch;
pub use people::Mood;
pub use trouble::{Foreign, Trouble};

use crate::checkers::{Sight, Violation, Watch};
use crate::draw::Draw;
use crate::faults::Weather;
use crate::site::Site;
use crate::site::layout::{BEGIN, Layout};
use crate::site::work::Work;
use agenda::{Agenda, LifeEvent};
use life::{Tray, VirtualClock};
use outside::Poll;
use people::People;

/// Gets records once they are durable, in order: for those who show the story to others while it goes on.
pub type Live = Box<dyn FnMut(&[Committed]) + Send>;

/// Why a world came to an end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal.
    #[error("the journal failed")]
    Journal(#[from] provost_journal::Error),
    /// The controller.
    #[error("the controller could not start from its journal")]
    Controller(#[from] provost_controller::Error),
    /// A promise was broken.
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// What a world is made of.
pub struct Options {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Size of the site.
    pub layout: Layout,
    /// Configuration of the controller.
    pub config: EngineConfig,
    /// Runbooks, with their versions.
    pub runbooks: Vec<(String, Runbook)>,
    /// Data directory; must be empty.
    pub dir: PathBuf,
    /// Wait of a requeued job.
    pub cred_expire: Duration,
    /// Whether jobs are drawn and come in by themselves.
    pub work: bool,
    /// How people are.
    pub mood: Mood,
    /// Whether every checker looks after every turn. Costs as much as the rest.
    pub check: bool,
    /// Somebody who follows the records.
    pub live: Option<Live>,
}

/// The world.
pub struct World {
    clock: VirtualClock,
    config: EngineConfig,
    runbooks: Vec<(String, Runbook)>,
    dir: PathBuf,
    controller: Option<Controller>,
    life: u32,
    agenda: Agenda,
    inbox: Vec<Message>,
    commit_due: bool,
    outbox: Tray<Outstanding>,
    tape: Tray<Committed>,
    told: Tray<(&'static str, Answer)>,
    live: Option<Arc<Mutex<Live>>>,
    /// The site.
    pub site: Site,
    work: Option<Work>,
    weather: Weather,
    chance: Draw,
    people: People,
    sending: BTreeMap<String, Arc<AtomicBool>>,
    poll: Poll,
    trouble: Trouble,
    /// The checkers.
    pub watch: Watch,
    check: bool,
    /// Records of the last turns, for whoever tells the story; see [`World::take_records`].
    records: Vec<Committed>,
    keep_records: bool,
    stuck: u32,
}

/// Turns at one instant that may follow each other without anything happening outside.
const MAX_TURNS_AT_ONCE: u32 = 100;

impl World {
    /// A world at its beginning: the controller starts with the first event.
    pub fn new(options: Options) -> World {
        let root = Draw::root(options.seed);
        let clock = VirtualClock::new(BEGIN);
        let mut world = World {
            clock,
            site: Site::new(options.layout, options.cred_expire),
            work: options.work.then(|| Work::new(root.child("work"), &options.layout)),
            watch: Watch::new(&options.config.site),
            config: options.config,
            runbooks: options.runbooks,
            dir: options.dir,
            controller: None,
            life: 0,
            agenda: Agenda::default(),
            inbox: Vec::new(),
            commit_due: false,
            outbox: Tray::default(),
            tape: Tray::default(),
            told: Tray::default(),
            live: options.live.map(|live| Arc::new(Mutex::new(live))),
            weather: Weather::CALM,
            chance: root.child("chance"),
            people: People::new(root.child("people"), options.mood),
            sending: BTreeMap::new(),
            poll: Poll::new(BEGIN),
            trouble: Trouble::default(),
            check: options.check,
            records: Vec::new(),
            keep_records: false,
            stuck: 0,
        };
        world.agenda.at(BEGIN, Event::Start);
        world.agenda.at(BEGIN + Duration::from_secs(1), Event::People);
        if world.work.is_some() {
            world.agenda.at(BEGIN, Event::Work);
        }
        world
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.now().since(BEGIN)
    }

    /// Lets `event` happen so long after the beginning.
    pub fn plan(&mut self, after: Duration, event: Event) {
        self.agenda.at(BEGIN + after, event);
    }

    /// The State as the controller has it; as the journal has it, where none runs.
    pub fn state(&self) -> &State {
        self.controller.as_ref().map_or_else(|| self.watch.state(), Controller::state)
    }

    /// A handle on the controller; none while none runs.
    pub fn handle(&self) -> Option<Handle> {
        self.controller.as_ref().map(Controller::handle)
    }

    /// The data directory.
    pub fn dir(&self) -> &std::path::Path {
        &self.dir
    }

    /// Nodes that had something broken at any time.
    pub fn damaged(&self) -> BTreeSet<String> {
        self.trouble.damaged.keys().cloned().collect()
    }

    /// Answers to [`World::ask`] since the last call, with the names of what was asked.
    pub fn answers(&mut self) -> Vec<(&'static str, Answer)> {
        self.told.take()
    }

    /// Records since the last call. Nothing is kept before the first call.
    pub fn take_records(&mut self) -> Vec<Committed> {
        self.keep_records = true;
        std::mem::take(&mut self.records)
    }

    /// Takes up what others asked for through a [`Handle`].
    pub fn take_in(&mut self) {
        let waiting = self.controller.as_ref().map(Controller::waiting).unwrap_or_default();
        for message in waiting {
            self.deliver(message);
        }
    }

    /// Sets how people are from now on.
    pub fn set_mood(&mut self, mood: Mood) {
        self.people.mood = mood;
    }

    /// Sets how reliable messages are from now on.
    pub fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
        self.troubled();
    }

    /// Lives on for so long.
    ///
    /// # Errors
    /// The first promise that is broken, or a journal that fails.
    pub fn run_for(&mut self, length: Duration) -> Result<(), Error> {
        self.run_until(self.now() + length)
    }

    /// Lives until then.
    ///
    /// # Errors
    /// As for [`World::run_for`].
    pub fn run_until(&mut self, end: Timestamp) -> Result<(), Error> {
        while let Some(at) = self.next().filter(|at| *at <= end) {
            self.clock.set(at.max(self.now()));
            self.step()?;
        }
        self.clock.set(end.max(self.now()));
        Ok(())
    }

    /// Lives until `is_so`, for at most `limit`. True where it is so.
    ///
    /// # Errors
    /// As for [`World::run_for`].
    pub fn run_until_so(&mut self, limit: Duration, is_so: impl Fn(&World) -> bool) -> Result<bool, Error> {
        let end = self.now() + limit;
        while !is_so(self) {
            let Some(at) = self.next().filter(|at| *at <= end) else {
                self.clock.set(end);
                return Ok(is_so(self));
            };
            self.clock.set(at.max(self.now()));
            self.step()?;
        }
        Ok(true)
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Timestamp> {
        let wake = self.controller.as_ref().and_then(Controller::next_wake);
        [self.agenda.next(), self.site.slurm.next_change(), wake].into_iter().flatten().min()
    }

    /// One thing happens: in the scheduler, on the agenda, or in the controller by its own clock.
    fn step(&mut self) -> Result<(), Error> {
        let now = self.now();
        let due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        if due(self.site.slurm.next_change()) {
            self.site.slurm.advance(now);
        } else if due(self.agenda.next()) {
            if let Some(event) = self.agenda.pop() {
                self.happen(event)?;
            }
        } else {
            self.wake()?;
        }
        if self.check {
            self.look_around();
        }
        self.watch.verdict().map_err(Error::from)
    }

    /// The controller wakes by itself. A deadline of which nothing comes would wake it again and again.
    fn wake(&mut self) -> Result<(), Error> {
        let now = self.now();
        let inbox = std::mem::take(&mut self.inbox);
        let records = self.process(inbox);
        self.after_turn();
        let again = self.controller.as_ref().and_then(Controller::next_wake).is_some_and(|at| at <= now);
        self.stuck = if again { self.stuck + 1 } else { 0 };
        if again && (records == 0 || self.stuck > MAX_TURNS_AT_ONCE) {
            let detail = format!("{records} records came of it, {} turns at this instant", self.stuck);
            return Err(Violation::new(now, "a deadline wakes the controller for nothing", detail).into());
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Start => self.start()?,
            Event::Commit => {
                self.commit_due = false;
                let inbox = std::mem::take(&mut self.inbox);
                self.process(inbox);
                self.after_turn();
            }
            Event::Submit(request) => drop(self.site.slurm.queue.submit(self.now(), *request)),
            Event::Work => self.submit_work(),
            Event::People => self.people_look(),
            Event::Fault(fault) => self.strike(fault),
            Event::JobDies { node, gpu } => {
                if let Some(job) = self.site.jobs_on_gpu(&node, gpu) {
                    let failed = provost_model::scheduler::JobState::Failed;
                    self.site.slurm.queue.end(self.now(), job, failed);
                }
            }
            Event::AgentSends(node) => self.agent_sends(&node),
            Event::AgentMissed(node) => self.agent_missed(&node),
            Event::OrderEnds(order, result) => self.order_ends(&order, result),
            Event::OfLife(life, event) if life == self.life && self.controller.is_some() => {
                self.live_on(event);
            }
            Event::OfLife(..) => {}
        }
        Ok(())
    }

    fn live_on(&mut self, event: LifeEvent) {
        match event {
            LifeEvent::Poll(number) => self.poll(number),
            LifeEvent::PollRead(began) => self.poll_read(began),
            LifeEvent::Observed(observation) => self.observed(observation),
            LifeEvent::Look(work) => self.look(work),
            LifeEvent::Write(work, seen) => self.write(&work, &seen),
            LifeEvent::Read(work, seen) => self.read(&work, &seen),
            LifeEvent::Result(intent, result) => self.result_arrives(intent, result),
            LifeEvent::CloseGap(gap) => {
                let now = self.now();
                crate::site::adapter::close_gap(&mut self.site.slurm, now, &gap);
            }
            LifeEvent::Order(order) => self.order_arrives(order),
            LifeEvent::Hello(node) => self.hello(&node),
        }
    }

    /// Lets `event` happen after `wait`, where this controller still lives then.
    fn of_life(&mut self, wait: Duration, event: LifeEvent) {
        self.agenda.at(self.now() + wait, Event::OfLife(self.life, event));
    }

    /// Puts a message into the controller's inbox; the loop takes what came within a moment as one batch.
    fn deliver(&mut self, message: Message) {
        if self.controller.is_none() {
            return;
        }
        self.inbox.push(message);
        if !self.commit_due {
            self.commit_due = true;
            let wait = self.chance.millis(0, 3);
            self.agenda.at(self.now() + wait, Event::Commit);
        }
    }

    /// One batch; gives the number of records that came of it.
    fn process(&mut self, messages: Vec<Message>) -> usize {
        let Some(controller) = &mut self.controller else { return 0 };
        controller.process(messages);
        let committed = self.tape.take();
        let records = committed.len();
        let now = self.clock.now();
        for one in &committed {
            self.watch.record(now, one);
        }
        if self.check && records > 0 {
            self.watch.replayed(now, controller.state());
        }
        if self.keep_records {
            self.records.extend(committed);
        }
        records
    }

    /// What a batch let out: acknowledgements and work. A planned end between commit and effect happens here.
    fn after_turn(&mut self) {
        self.take_acks();
        let work = self.outbox.take();
        if !work.is_empty()
            && let Some(away) = self.trouble.crash_before_effect.take()
        {
            self.crash(away);
            return;
        }
        for one in work {
            self.take_work(one);
        }
    }

    fn submit_work(&mut self) {
        let now = self.now();
        let Some(work) = &mut self.work else { return };
        // Enough waits already: a site of any size stays busy without an endless queue.
        if self.site.slurm.queue.pending() < 4 {
            self.site.slurm.queue.submit(now, work.request());
        }
        let idle =
            self.site.slurm.nodes().values().filter(|node| node.is_schedulable() && node.used.is_empty());
        let wait = if idle.count() > self.site.layout.nodes as usize / 4 {
            Duration::from_millis(200)
        } else {
            work.pause()
        };
        self.agenda.at(now + wait, Event::Work);
    }

    fn look_around(&mut self) {
        let sight = Sight {
            now: self.clock.now(),
            site: &self.site,
            trouble: &self.trouble,
            state: self.controller.as_ref().map(Controller::state),
        };
        self.watch.look(&sight);
    }

    /// Looks at a world that has been left in peace: nothing may be open that nobody waits for.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn check_quiet(&mut self) -> Result<(), Error> {
        let sight = Sight {
            now: self.clock.now(),
            site: &self.site,
            trouble: &self.trouble,
            state: self.controller.as_ref().map(Controller::state),
        };
        self.watch.quiet(&sight);
        self.watch.verdict().map_err(Error::from)
    }

    /// Ends the controller in good order, so that its journal can be verified by others.
    ///
    /// # Errors
    /// The first promise that is broken: the State of the journal is not the one that was lived.
    pub fn end(&mut self) -> Result<(), Error> {
        if let Some(mut controller) = self.controller.take() {
            controller.finish();
        }
        self.watch.journal(self.clock.now(), &self.dir);
        self.watch.verdict().map_err(Error::from)
    }
}
