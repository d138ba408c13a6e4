//! One seed, lived from its beginning to its end under every checker.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use provost_controller::Committed;
use provost_engine::runbook;
use provost_model::runbook::Runbook;

use crate::draw::Draw;
use crate::faults::Plan;
use crate::site::layout::BEGIN;
use crate::site::layout::Layout;
use crate::world::{Error, Event, Live, Mood, Options, Scratch, World};

/// After everything was mended, peace must come within this time.
const PEACE: Duration = Duration::from_secs(900);
/// Peace that lasts for so long is peace.
const LASTING: Duration = Duration::from_secs(150);

/// Why a seed failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No folder could be made for its journal.
    #[error("failed to make a folder for the journal")]
    Scratch(#[from] std::io::Error),
    /// The world came to an end.
    #[error(transparent)]
    World(#[from] Error),
}

/// What a seed did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records of the journal.
    pub records: u64,
    /// Lives of the controller.
    pub lives: u64,
    /// Incidents that were opened.
    pub incidents: usize,
    /// Executions that were made.
    pub executions: usize,
    /// Virtual time.
    pub lived: Duration,
}

/// The runbooks of the program. A simulated version is the runbook's name: nobody signs for it.
pub fn runbooks() -> Vec<(String, Runbook)> {
    // The built-in runbooks are parsed and linted by the engine's own tests.
    let parse = |(name, text): &(&str, &str)| {
        let runbook = runbook::parse(text).expect("built-in runbooks are well-formed");
        ((*name).to_owned(), runbook)
    };
    runbook::builtin().iter().map(parse).collect()
}

/// The size of a seed's site.
pub fn layout(seed: u64) -> Layout {
    let mut draw = Draw::root(seed).child("layout");
    let nodes = u32::try_from(6 + draw.below(9)).unwrap_or(6);
    Layout { nodes, spares: u32::try_from(1 + draw.below(2)).unwrap_or(1) }
}

/// A world of this seed, before anything has happened.
pub fn world(seed: u64, dir: &Scratch, live: Option<Live>) -> World {
    let layout = layout(seed);
    let mut world = World::new(Options {
        seed,
        layout,
        config: layout.config(),
        runbooks: runbooks(),
        dir: dir.path().to_owned(),
        cred_expire: Duration::from_secs(5),
        work: true,
        mood: Mood::HELPFUL,
        check: true,
        live,
    });
    let plan = Plan::draw(&Draw::root(seed), &layout);
    for (at, fault) in plan.faults {
        world.plan(at, Event::Fault(fault));
    }
    world
}

/// Lives a seed.
///
/// # Errors
/// The first promise that is broken.
pub fn run(seed: u64) -> Result<Summary, Failure> {
    let dir = Scratch::new()?;
    let mut world = world(seed, &dir, None);
    Ok(live(&mut world)?)
}

/// Lives a seed and says what was planned and every record of it, also where it fails.
///
/// # Errors
/// As for [`run`].
pub fn tell(seed: u64, say: &mut dyn FnMut(String)) -> Result<Summary, Failure> {
    let mut faults = Plan::draw(&Draw::root(seed), &layout(seed)).faults;
    faults.sort_by_key(|(at, _)| *at);
    for (at, fault) in faults {
        say(format!("planned {:>9.3} {fault:?}", at.as_secs_f64()));
    }
    let lines = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&lines);
    let follow = move |committed: &[Committed]| {
        told.lock().unwrap_or_else(PoisonError::into_inner).extend(committed.iter().map(line));
    };
    let dir = Scratch::new()?;
    let mut world = world(seed, &dir, Some(Box::new(follow)));
    let lived = live(&mut world);
    for line in std::mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner)) {
        say(line);
    }
    Ok(lived?)
}

/// A record in one line, without what is sealed.
fn line(one: &Committed) -> String {
    let record = &one.record;
    let about = record.subject.as_ref().map_or("-", |subject| subject.name.as_deref().unwrap_or(&subject.id));
    // A body is data of ours; were it not to become JSON, the record would not have become durable.
    let body = serde_json::to_string(&record.body).unwrap_or_default();
    format!("{:>9.3} {:>5} {about} {body}", record.at.since(BEGIN).as_secs_f64(), record.seq)
}

/// Lives a world that has been planned: until everything is mended, until there is peace, and a while longer.
///
/// # Errors
/// The first promise that is broken.
pub fn live(world: &mut World) -> Result<Summary, Error> {
    world.run_for(Duration::from_secs(420))?;
    world.run_until_so(PEACE, |world| {
        let state = world.state();
        let works = state.executions.values().any(|run| !run.state.is_final());
        !works && state.effects.is_empty() && state.guard.deferred.is_empty()
    })?;
    world.run_for(LASTING)?;
    world.check_quiet()?;
    let state = world.state();
    let summary = Summary {
        records: state.seq,
        lives: state.epoch,
        incidents: state.incidents.len(),
        executions: state.executions.len(),
        lived: world.elapsed(),
    };
    world.end()?;
    Ok(summary)
}
