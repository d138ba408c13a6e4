//! The story of `provost demo`: a GPU is lost under a training job and everything follows; a storm of harmless
//! lines must not hurt anyone; a technician answers; the node comes back and the journal is verified.
//!
//! What happens is planned, what is told is not: every line is made of records that are durable.

mod narrator;
mod script;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use provost_controller::Handle;
use provost_journal::verify::{VerifyOptions, verify};
use provost_model::fleet::Phase;
use provost_model::time::Timestamp;

use crate::seed::{Failure, runbooks};
use crate::site::layout::{BEGIN, Layout};
use crate::world::{self, Live, Scratch, World};
use narrator::Narrator;
use script::Story;

/// What to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoOptions {
    /// Production nodes, of eight GPUs each. At least 8.
    pub nodes: u32,
    /// Seed; the same tells the same.
    pub seed: u64,
    /// End after so much virtual time; by itself, where none.
    pub until: Option<Duration>,
}

impl Default for DemoOptions {
    fn default() -> DemoOptions {
        DemoOptions { nodes: 64, seed: 7, until: None }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Virtual time since the beginning.
    pub at: Duration,
    /// What happened.
    pub text: String,
}

/// The story ends after this time even where something did not come to its end.
const LIMIT: Duration = Duration::from_secs(1_800);
/// What is looked at in one go.
const SLICE: Duration = Duration::from_millis(250);

/// A demo under way. As an iterator it gives the lines as fast as they come; [`Demo::advance_to`] is for those who
/// keep pace with a clock and show the site to others meanwhile.
pub struct Demo {
    world: World,
    story: Story,
    narrator: Narrator,
    lines: VecDeque<Line>,
    until: Option<Duration>,
    over: bool,
    stays: bool,
    told: bool,
    /// Removed with the demo.
    _scratch: Option<Scratch>,
}

impl Demo {
    /// A demo over a journal of its own, which goes with it.
    ///
    /// # Errors
    /// Where no folder can be made for the journal.
    pub fn new(options: DemoOptions) -> Result<Demo, Failure> {
        let scratch = Scratch::new()?;
        let mut demo = Demo::over(options, scratch.path().to_owned(), None);
        demo._scratch = Some(scratch);
        Ok(demo)
    }

    /// A demo over an empty data directory that stays. `live` gets every record once it is durable, so that others
    /// can be shown the site while the story goes on.
    pub fn over(options: DemoOptions, dir: PathBuf, live: Option<Live>) -> Demo {
        let layout = Layout { nodes: options.nodes.max(8), spares: (options.nodes / 16).max(1) };
        let mut world = World::new(world::Options {
            seed: options.seed,
            layout,
            config: script::config(&layout),
            runbooks: runbooks(),
            dir,
            cred_expire: script::CRED_EXPIRE,
            work: false,
            mood: script::MOOD,
            check: false,
            live,
        });
        world.take_records();
        let story = Story::new(options.seed, layout, &mut world);
        Demo {
            world,
            story,
            narrator: Narrator::new(),
            lines: VecDeque::new(),
            until: options.until,
            over: false,
            stays: false,
            told: false,
            _scratch: None,
        }
    }

    /// The site lives on after the summary, so that others can go on asking it; it ends only by `until`.
    pub fn staying(self) -> Demo {
        Demo { stays: true, ..self }
    }

    /// A handle on the controller, to read its State and to ask for something; none before the first step and after
    /// the end.
    pub fn handle(&self) -> Option<Handle> {
        self.world.handle()
    }

    /// Virtual time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.world.elapsed()
    }

    /// Virtual time.
    pub fn now(&self) -> Timestamp {
        self.world.now()
    }

    /// Everything is told.
    pub fn is_over(&self) -> bool {
        self.over && self.lines.is_empty()
    }

    /// Lives up to this virtual time and gives the lines until then; at the end also those of the summary.
    ///
    /// # Errors
    /// Where the journal fails.
    pub fn advance_to(&mut self, at: Duration) -> Result<Vec<Line>, Failure> {
        while !self.over && self.world.elapsed() < at {
            self.slice()?;
        }
        Ok(self.lines.drain(..).collect())
    }

    /// A moment: what happens in it, what the records of it say, and what the script does then.
    fn slice(&mut self) -> Result<(), Failure> {
        self.world.take_in();
        self.world.run_for(SLICE)?;
        let records = self.world.take_records();
        self.narrator.read(self.world.state(), &records);
        self.narrator.settle(self.world.now());
        self.story.go_on(&mut self.world);
        self.lines.extend(self.narrator.take());
        let elapsed = self.world.elapsed();
        let ends = self.until.is_some_and(|until| elapsed >= until);
        let told = self.until.is_none() && !self.told && (self.is_told() || elapsed >= LIMIT);
        if told && self.stays {
            self.told = true;
            self.sum_up();
        } else if told || ends {
            self.end()?;
        }
        Ok(())
    }

    /// Everything that the story began has come to its end.
    fn is_told(&self) -> bool {
        let state = self.world.state();
        let Some(node) = self.story.victim().and_then(|name| state.node_by_name(name)) else { return false };
        let home = node.phase == Phase::InService && state.slots.values().all(|slot| slot.spare.is_none());
        let open = state.incidents.values().any(|incident| incident.state.is_open());
        self.story.is_played() && home && !open && state.effects.is_empty()
    }

    /// The site ends here and now; its journal is signed to the last record.
    ///
    /// # Errors
    /// Where the journal fails.
    pub fn stop(&mut self) -> Result<(), Failure> {
        self.over = true;
        Ok(self.world.end()?)
    }

    /// The controller ends in good order, and the story is summed up.
    fn end(&mut self) -> Result<(), Failure> {
        self.stop()?;
        self.sum_up();
        Ok(())
    }

    /// The journal is verified, also while it is written; the summary is told.
    fn sum_up(&mut self) {
        let at = self.world.elapsed();
        let damaged = self.world.damaged();
        let verified = verify(self.world.dir(), &VerifyOptions { keys: None, strict: true });
        let verdict = match verified {
            Ok(report) => format!(
                "journal verified: {} records, {} signed checkpoints, every byte as it was written",
                report.records.end - report.records.start,
                report.checkpoints
            ),
            Err(failure) => format!("journal NOT verified: {failure}"),
        };
        let summary = self.narrator.summary(&damaged);
        self.lines.extend(std::iter::once(verdict).chain(summary).map(|text| Line { at, text }));
    }
}

impl Iterator for Demo {
    type Item = Result<Line, Failure>;

    fn next(&mut self) -> Option<Result<Line, Failure>> {
        while self.lines.is_empty() && !self.over {
            if let Err(failure) = self.slice() {
                self.over = true;
                return Some(Err(failure));
            }
        }
        self.lines.pop_front().map(Ok)
    }
}

/// Virtual time since the beginning of a story.
fn elapsed(at: Timestamp) -> Duration {
    at.since(BEGIN)
}
