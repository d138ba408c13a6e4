//! The loop over a real journal: nothing is seen or done before it is durable, a journal that can't be written
//! changes nothing, and a start comes to the same State.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use provost_controller::{
    Answer, Clock, Committed, Controller, Handle, Message, Neighbours, Options, replay,
};
use provost_engine::Outstanding;
use provost_journal::{Emergency, Journal, Reader, Sealer};
use provost_model::fleet::{GpuFacts, NodeFacts};
use provost_model::input::{Action, Command, Input, Reply};
use provost_model::policy::{ClusterPolicy, EngineConfig, Mode, Role};
use provost_model::record::{Actor, ActorKind};
use provost_model::scheduler::{Observation, ObservedNode};
use provost_model::signal::{Impact, PciAddress, Signal, SignalFields, SignalKind, Trust};
use provost_model::time::Timestamp;
use rusqlite::Connection;

/// 2026-11-30T19:00:00Z.
const T0: Timestamp = Timestamp::from_millis(1_796_065_200_000);
const GPU: PciAddress = PciAddress { domain: 0, bus: 0x3b, device: 0, function: 0 };

/// A directory of its own, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("provost-controller-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Directory(dir)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Left behind, it harms nobody.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The time that a test says it is.
#[derive(Clone)]
struct Told(Arc<Mutex<Timestamp>>);

impl Clock for Told {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// What came out of the controller, in order; each was looked up in the journal at that moment.
#[derive(Clone)]
struct Seen {
    dir: PathBuf,
    log: Arc<Mutex<Vec<String>>>,
}

impl Seen {
    /// Notes it, with whether the journal that others read holds the record `seq`.
    fn note(&self, what: &str, seq: u64) {
        let durable = Reader::open(&self.dir).unwrap().size().unwrap() > seq;
        self.log.lock().unwrap().push(format!("{what}{}", if durable { "" } else { " before its record" }));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

impl Neighbours for Seen {
    fn start(&mut self, work: Outstanding) {
        self.note(&format!("{:?} {}", work.approach, work.effect.name()), work.intent);
    }
}

struct Site {
    controller: Controller,
    now: Told,
    seen: Seen,
}

impl Site {
    fn open(dir: &Path) -> Site {
        Site::telling(dir, |_| ())
    }

    /// `tell` hears of every batch before it is noted.
    fn telling(dir: &Path, mut tell: impl FnMut(&[Committed]) + Send + 'static) -> Site {
        let now = Told(Arc::new(Mutex::new(T0)));
        let seen = Seen { dir: dir.to_owned(), log: Arc::default() };
        let live = seen.clone();
        let options = Options {
            site: "test".to_owned(),
            journal: Journal::open(dir, provost_journal::Options::new("test")).unwrap(),
            emergency: Emergency::open(&Emergency::default_path(dir)).unwrap(),
            sealer: Sealer::open(dir, true).unwrap(),
            clock: Box::new(now.clone()),
            neighbours: Box::new(seen.clone()),
            on_commit: Box::new(move |committed: &[Committed]| {
                tell(committed);
                committed.iter().for_each(|one| live.note(one.record.kind(), one.record.seq));
            }),
        };
        Site { controller: Controller::open(options, &mut |_| ()).unwrap(), now, seen }
    }

    /// One node that runs in mode `act`.
    fn start(&mut self) {
        let gpu = GpuFacts { index: 2, pci: GPU, uuid: None, model: None, serial: None };
        let node = NodeFacts {
            name: "gpu001".to_owned(),
            serial: None,
            rack: None,
            leaf: None,
            slurm: Some("main/gpu001".to_owned()),
            gpus: vec![gpu],
        };
        let policy = ClusterPolicy { mode: None, partitions: Vec::new(), spare_partition: None };
        let config = EngineConfig {
            site: "test".to_owned(),
            mode: Mode::Act,
            clusters: BTreeMap::from([("main".to_owned(), policy)]),
            inventory: vec![node],
            ..EngineConfig::default()
        };
        let node = ObservedNode { state: "IDLE".to_owned(), ..ObservedNode::default() };
        let poll = Observation {
            cluster: "main".to_owned(),
            at: T0,
            nodes: BTreeMap::from([("gpu001".to_owned(), node)]),
            jobs: Vec::new(),
            jobs_pending: 0,
            partitions: BTreeMap::new(),
            unparsed: 0,
        };
        let started =
            Input::Started { version: "1".to_owned(), config: Box::new(config), runbooks: Vec::new() };
        self.controller
            .process(vec![Message::Input(started), Message::Input(Input::Observed(Box::new(poll)))]);
        self.seen.take();
    }

    fn wait(&self, seconds: u64) {
        let mut now = self.now.0.lock().unwrap();
        *now = *now + Duration::from_secs(seconds);
    }

    /// An agent tells of a lost GPU.
    fn lose_gpu(&mut self) {
        let seen = self.seen.clone();
        let signal = Signal {
            node: "gpu001".to_owned(),
            kind: SignalKind::Xid,
            code: Some(79),
            pci: Some(GPU),
            impact: Impact::Info,
            fields: SignalFields::default(),
            at: self.now.now(),
            boot_id: None,
            sequence: None,
            historic: false,
            trust: Trust::Kernel,
            line: "NVRM: Xid (PCI:0000:3b:00): 79, made up".to_owned(),
        };
        let next = self.controller.state().seq;
        let ack = Box::new(move || seen.note("ack", next));
        self.controller.process(vec![Message::Signals { signals: vec![signal], ack }]);
    }

    /// A person stops the guard; gives the answer.
    fn stop_guard(&mut self) -> Answer {
        let answered = Arc::new(Mutex::new(None));
        let (seen, slot, next) = (self.seen.clone(), Arc::clone(&answered), self.controller.state().seq);
        let answer = Box::new(move |answer: Answer| {
            if answer.is_ok() {
                seen.note("answer", next);
            }
            *slot.lock().unwrap() = Some(answer);
        });
        self.controller.process(vec![Message::Ask { input: command(Action::GuardStop), answer }]);
        answered.lock().unwrap().take().expect("every question is answered")
    }
}

fn command(action: Action) -> Input {
    Input::Command(Box::new(Command {
        actor: Actor { kind: ActorKind::Human, sub: "local:admin".to_owned() },
        roles: BTreeSet::from([Role::Admin]),
        request: "request-1".to_owned(),
        reason: "a test".to_owned(),
        action,
    }))
}

/// Asks through the inbox of a controller that runs, and waits for the answer.
fn ask(handle: &Handle, action: Action) -> Answer {
    let (sender, receiver) = std::sync::mpsc::channel();
    let answer = Box::new(move |answer| drop(sender.send(answer)));
    handle.send(Message::Ask { input: command(action), answer }).unwrap();
    receiver.recv().expect("every question is answered")
}

#[test]
fn nothing_is_seen_or_done_before_it_is_durable() {
    let dir = Directory::new();
    let mut site = Site::open(&dir.0);
    site.start();
    site.lose_gpu();
    let seen = site.seen.take();
    assert!(seen.iter().all(|what| !what.ends_with(" before its record")), "{seen:?}");
    let at = |what: &str| seen.iter().position(|seen| seen == what).expect(what);
    assert!(
        at("episode.opened") < at("hold.placed") && at("hold.placed") < at("effect.requested"),
        "{seen:?}"
    );
    assert!(at("effect.requested") < at("ack") && at("ack") < at("Act scheduler_hold"), "{seen:?}");
    assert!(matches!(site.stop_guard(), Ok(Reply::Accepted { .. })));
    assert_eq!(site.seen.take(), ["guard.stopped", "answer"]);
    assert_eq!(*site.controller.handle().state(), *site.controller.state(), "readers see all of it");
}

#[test]
fn a_journal_that_can_not_be_written_changes_nothing_but_contains() {
    let dir = Directory::new();
    let mut site = Site::open(&dir.0);
    site.start();
    let before = site.controller.state().clone();
    let somebody = Connection::open(dir.0.join("journal.db")).unwrap();
    somebody.execute_batch("BEGIN IMMEDIATE").unwrap();

    let refused = site.stop_guard().expect_err("nothing can be recorded");
    assert!(refused.to_string().contains("nothing was changed"), "{refused}");
    assert!(!site.controller.handle().health().journal_available());
    assert_eq!(*site.controller.state(), before);
    assert_eq!(site.seen.take(), [""; 0], "nobody saw anything");

    // A hard fault contains its node all the same, and the agent keeps its signal.
    site.lose_gpu();
    assert_eq!(site.seen.take(), ["Act scheduler_hold before its record"]);
    assert_eq!(Emergency::open(&Emergency::default_path(&dir.0)).unwrap().entries().len(), 1);
    assert_eq!(*site.controller.state(), before);

    // By itself, once the journal can be written.
    somebody.execute_batch("ROLLBACK").unwrap();
    site.wait(2);
    site.controller.process(Vec::new());
    assert!(site.controller.handle().health().journal_available());
    let seen = site.seen.take();
    let merged = ["journal.emergency_merged", "signals.not_recorded", "episode.opened"];
    assert_eq!(seen[..3], merged, "{seen:?}");
    assert_eq!(seen.last().unwrap(), "Act scheduler_hold", "the hold has its record, and is written again");
    assert!(Emergency::open(&Emergency::default_path(&dir.0)).unwrap().entries().is_empty());
    assert_eq!(site.controller.state().holds.len(), 1);
}

#[test]
fn what_was_accepted_is_in_the_journal_whatever_fails_between_two_batches() {
    const ASKED: usize = 200;
    let dir = Directory::new();
    let mut site = Site::open(&dir.0);
    site.start();
    let Site { controller, now, seen } = site;
    let handle = controller.handle();
    let running = std::thread::spawn(move || controller.run());
    let (accepted, refused) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..ASKED {
                    let action = if i % 2 == 0 { Action::GuardStop } else { Action::GuardStart };
                    match ask(&handle, action) {
                        Ok(Reply::Accepted { .. }) => accepted.fetch_add(1, Ordering::Relaxed),
                        Ok(_) => 0,
                        Err(_) => refused.fetch_add(1, Ordering::Relaxed),
                    };
                }
            });
        }
        // The journal is taken away for a while, in the middle of it.
        while accepted.load(Ordering::Relaxed) < 20 {
            std::thread::yield_now();
        }
        let somebody = Connection::open(dir.0.join("journal.db")).unwrap();
        somebody.busy_timeout(Duration::from_secs(10)).unwrap();
        somebody.execute_batch("BEGIN IMMEDIATE").unwrap();
        while handle.health().journal_available() {
            std::thread::yield_now();
        }
        somebody.execute_batch("ROLLBACK").unwrap();
        *now.0.lock().unwrap() = T0 + Duration::from_secs(60);
    });
    assert!(refused.into_inner() > 0, "some were refused");
    *now.0.lock().unwrap() = T0 + Duration::from_secs(120);
    while !handle.health().journal_available() {
        drop(ask(&handle, Action::GuardStop));
    }
    handle.send(Message::Stop).unwrap();
    running.join().unwrap().unwrap();
    let seen = seen.take();
    assert!(seen.iter().all(|what| !what.ends_with(" before its record")), "{seen:?}");
    let records = replay(&dir.0).unwrap().records;
    let stored = Reader::open(&dir.0).unwrap().read(0, usize::try_from(records).unwrap()).unwrap();
    let toggled =
        stored.iter().filter(|one| ["guard.stopped", "guard.started"].contains(&one.kind.as_str())).count();
    let told = seen.iter().filter(|what| what.starts_with("guard.")).count();
    let answered = usize::try_from(accepted.into_inner()).unwrap();
    assert!(
        toggled == told && (toggled == answered || toggled == answered + 1),
        "{toggled} {told} {answered}"
    );
    // A replay compares what it comes to with the snapshot of the end.
    assert_eq!(replay(&dir.0).unwrap().snapshot, Some(records));
}

#[test]
fn a_batch_is_told_while_the_next_one_is_written() {
    let dir = Directory::new();
    // Whoever hears of the first batch does not go on before the second is durable.
    let first = Arc::new(AtomicU64::new(u64::MAX));
    let (path, seq) = (dir.0.clone(), Arc::clone(&first));
    let mut site = Site::telling(&dir.0, move |committed| {
        let (begun, seq) = (Instant::now(), seq.load(Ordering::Relaxed));
        while committed[0].record.seq == seq && Reader::open(&path).unwrap().size().unwrap() == seq + 1 {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the second batch waits for the first to be told"
            );
            std::thread::yield_now();
        }
    });
    site.start();
    first.store(site.controller.state().seq, Ordering::Relaxed);
    let handle = site.controller.handle();
    let inputs = || handle.counters().inputs.load(Ordering::Relaxed);
    let worked_on = |action, before| {
        let answer = Box::new(|_| ());
        handle.send(Message::Ask { input: command(action), answer }).unwrap();
        while inputs() == before {
            std::thread::yield_now();
        }
    };
    let before = inputs();
    let Site { controller, seen, .. } = site;
    let running = std::thread::spawn(move || controller.run());
    // The first cannot be written until the second has been worked on.
    let somebody = Connection::open(dir.0.join("journal.db")).unwrap();
    somebody.execute_batch("BEGIN IMMEDIATE").unwrap();
    worked_on(Action::GuardStop, before);
    worked_on(Action::GuardStart, before + 1);
    somebody.execute_batch("ROLLBACK").unwrap();
    handle.send(Message::Stop).unwrap();
    running.join().unwrap().unwrap();
    assert_eq!(seen.take(), ["guard.stopped", "guard.started"]);
}

#[test]
fn a_start_comes_to_the_same_state_and_only_asks_after_what_was_begun() {
    let dir = Directory::new();
    let mut site = Site::open(&dir.0);
    site.start();
    site.lose_gpu();
    let (state, open) = (site.controller.state().clone(), site.controller.state().effects.len());
    assert_eq!(open, 1, "the hold was asked for and nobody answered");
    let intent = *state.effects.keys().next().unwrap();
    drop(site);
    assert_eq!(replay(&dir.0).unwrap().records, state.seq);

    let mut site = Site::open(&dir.0);
    assert_eq!(*site.controller.state(), state);
    let config = Box::new(state.config.clone());
    let started = Input::Started { version: "2".to_owned(), config, runbooks: Vec::new() };
    site.controller.process(vec![Message::Input(started)]);
    assert_eq!(site.controller.state().epoch, state.epoch + 1);
    assert!(site.controller.state().effects[&intent].unknown, "nobody knows whether it was done");
    assert_eq!(site.seen.take().last().unwrap(), "Probe scheduler_hold");
}
