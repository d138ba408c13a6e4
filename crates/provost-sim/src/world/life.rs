//! Lives of the controller: its start from the journal, and its end at any moment.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use provost_controller::{Clock, Committed, Controller, Message, Neighbours};
use provost_engine::Outstanding;
use provost_journal::{Emergency, Journal, Sealer};
use provost_model::input::Input;
use provost_model::time::Timestamp;

use super::agenda::{Event, LifeEvent};
use super::{Error, World};

/// The version that the simulated controller tells.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Virtual time, shared by everything that asks for it.
#[derive(Clone, Debug)]
pub struct VirtualClock(Arc<AtomicI64>);

impl VirtualClock {
    pub(super) fn new(begin: Timestamp) -> VirtualClock {
        VirtualClock(Arc::new(AtomicI64::new(begin.as_millis())))
    }

    pub(super) fn set(&self, now: Timestamp) {
        self.0.store(now.as_millis(), Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// Something that the controller hands out while it works and the world takes up afterwards.
#[derive(Debug)]
pub(super) struct Tray<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Tray<T> {
    fn clone(&self) -> Tray<T> {
        Tray(Arc::clone(&self.0))
    }
}

impl<T> Default for Tray<T> {
    fn default() -> Tray<T> {
        Tray(Arc::new(Mutex::new(Vec::new())))
    }
}

impl<T> Tray<T> {
    pub(super) fn put(&self, thing: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(thing);
    }

    pub(super) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Neighbours for Tray<Outstanding> {
    fn start(&mut self, work: Outstanding) {
        self.put(work);
    }
}

/// A folder that goes with its owner: in memory where the machine has such a place, because a journal syncs often.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty folder.
    ///
    /// # Errors
    /// Where it can't be made.
    pub fn new() -> std::io::Result<Scratch> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = base.join(format!("provost-sim-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        Ok(Scratch(dir))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left in a folder of temporary files is the system's to remove.
        std::fs::remove_dir_all(&self.0).ok();
    }
}

impl World {
    /// Opens the controller from its journal and tells it that it has started.
    pub(super) fn start(&mut self) -> Result<(), Error> {
        let site = self.config.site.clone();
        let journal = Journal::open(&self.dir, provost_journal::Options::new(&site))?;
        let sealer = Sealer::open(&self.dir, journal.size() == 0)?;
        let emergency = Emergency::open(&Emergency::default_path(&self.dir))?;
        let (tape, live) = (self.tape.clone(), self.live.clone());
        let on_commit = move |committed: &[Committed]| {
            for one in committed {
                tape.put(one.clone());
            }
            if let Some(live) = &live {
                live.lock().unwrap_or_else(PoisonError::into_inner)(committed);
            }
        };
        let options = provost_controller::Options {
            site,
            journal,
            emergency,
            sealer,
            clock: Box::new(self.clock.clone()),
            neighbours: Box::new(self.outbox.clone()),
            on_commit: Box::new(on_commit),
        };
        let controller = Controller::open(options, &mut |_| {})?;
        self.watch.reopened(self.clock.now(), controller.state());
        self.controller = Some(controller);
        self.life += 1;
        self.troubled();
        self.process(vec![Message::Input(Input::Started {
            version: VERSION.to_owned(),
            config: Box::new(self.config.clone()),
            runbooks: self.runbooks.clone(),
        })]);
        if let Some(controller) = &mut self.controller {
            controller.merge_emergency();
        }
        self.process(Vec::new());
        self.after_turn();
        self.begin_life();
        Ok(())
    }

    /// Everybody finds the new controller: the first poll, agents that connect, those that are missed.
    fn begin_life(&mut self) {
        let now = self.clock.now();
        self.poll.begin(now);
        self.hint(Duration::from_millis(50));
        let silent_after = self.config.timers.silent_after.0;
        for name in self.site.layout.names() {
            let wait = self.chance.millis(20, 1_500);
            self.of_life(wait, LifeEvent::Hello(name.clone()));
            self.agenda.at(now + silent_after, Event::AgentMissed(name));
        }
    }

    /// The process ends here and now. What it had in flight is lost, but for writes that have just left it.
    pub(super) fn crash(&mut self, away: Duration) {
        if self.controller.take().is_none() {
            return;
        }
        let life = self.life;
        let mut writes = Vec::new();
        self.agenda.cancel(|event| match event {
            Event::OfLife(of, LifeEvent::Write(work, seen)) if *of == life => {
                writes.push((work.clone(), seen.clone()));
                true
            }
            Event::OfLife(of, _) => *of == life,
            Event::Commit => true,
            _ => false,
        });
        for (work, seen) in writes {
            // A tool that was started before the end goes on without its parent.
            if self.chance.chance(50) {
                self.write(&work, &seen);
            }
        }
        self.commit_due = false;
        self.inbox.clear();
        self.outbox.take();
        self.sending.clear();
        self.troubled();
        self.agenda.at(self.clock.now() + away, Event::Start);
    }
}
