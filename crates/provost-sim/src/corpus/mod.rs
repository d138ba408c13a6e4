//! The corpus: labelled episodes, played through the parser and the engine that run live, and scored.
//!
//! Promises about detection are cheap; this is what they are measured with. An [`Episode`] says what happened and
//! what would have been right; [`play`] lets it happen in a [`World`](crate::world::World) on virtual time, with
//! the real controller and its real waits; [`score`] compares. A label is what is right by the rules of the house,
//! not what the program does today: what it misses is listed.
//!
//! Kernel lines are read by a [`KernelReader`] that whoever runs the corpus brings along, because the parser
//! belongs to the agent, and the simulator knows no agent.

mod episode;
mod floor;
mod history;
mod play;
mod score;
mod timeline;

#[cfg(test)]
mod tests;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use provost_model::signal::Signal;
use provost_model::time::Timestamp;

pub use episode::{Class, Detect, Episode, Expect, Isolate};
pub use floor::{Floor, Limits, Questions};
pub use history::{History, HistoryError, Lemons, Rate, Spares};
pub use score::{Count, Finding, FindingKind, Report, Row};

use crate::seed::Failure;

/// Where a record of a kernel log was read.
#[derive(Clone, Debug)]
pub struct Place {
    /// Name of the node.
    pub node: String,
    /// When the kernel wrote it.
    pub at: Timestamp,
    /// Boot that it belongs to.
    pub boot_id: String,
    /// It stood there before the agent's first start.
    pub historic: bool,
}

/// Reads the kernel log of one node in one boot, as its agent would.
pub trait KernelReader {
    /// What a record of `/dev/kmsg` reports, if anything.
    fn read(&mut self, record: &[u8], place: Place) -> Option<Signal>;
}

/// Makes a reader for a node whose GPU driver has this major version, where it is known.
pub type NewReader<'a> = &'a (dyn Fn(Option<u32>) -> Box<dyn KernelReader> + Sync);

/// Why a corpus can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// A file or the folder.
    #[error("`{}` can't be read", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// Not TOML with the keys of the format.
    #[error("`{}` is not as corpus/README.md says", path.display())]
    Format {
        /// Which.
        path: PathBuf,
        /// Cause, with line and column.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// An episode says something that can't be.
    #[error("`{}`, episode `{id}`: {problem}", path.display())]
    Episode {
        /// File.
        path: PathBuf,
        /// Id of the episode.
        id: String,
        /// What, with the text that is meant.
        problem: String,
    },
    /// There is nothing in the folder.
    #[error("`{}` holds no episodes; name the corpus with --corpus DIR", dir.display())]
    Empty {
        /// Folder.
        dir: PathBuf,
    },
    /// An episode could not be played.
    #[error("episode `{id}` ended early")]
    Play {
        /// Id of the episode.
        id: String,
        /// Cause.
        #[source]
        source: Box<Failure>,
    },
}

/// All episodes of a folder, and what must be reached.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// Episodes, by file and place in it.
    pub episodes: Vec<Episode>,
    /// The least that must be reached.
    pub floor: Floor,
}

impl Corpus {
    /// Reads every file of the folder that belongs to a class, and the floor.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load(dir: &Path) -> Result<Corpus, CorpusError> {
        let read = |path: &Path| {
            std::fs::read_to_string(path)
                .map_err(|source| CorpusError::Read { path: path.to_owned(), source })
        };
        let mut episodes = Vec::new();
        for class in Class::ALL {
            let path = dir.join(format!("{}.toml", class.name()));
            if path.exists() {
                episodes.extend(episode::parse(*class, &path, &read(&path)?)?);
            }
        }
        if episodes.is_empty() {
            return Err(CorpusError::Empty { dir: dir.to_owned() });
        }
        episode::check_ids(dir, &episodes)?;
        let path = dir.join("floor.toml");
        let floor = toml::from_str(&read(&path)?)
            .map_err(|source| CorpusError::Format { path, source: Box::new(source) })?;
        Ok(Corpus { episodes, floor })
    }

    /// Plays every episode whose id contains `filter`, on all processors, and scores them.
    ///
    /// # Errors
    /// The first episode that could not be played to its end.
    pub fn run(&self, filter: &str, reader: NewReader<'_>) -> Result<Report, CorpusError> {
        let chosen: Vec<&Episode> =
            self.episodes.iter().filter(|episode| episode.id.contains(filter)).collect();
        let next = AtomicUsize::new(0);
        let played = Mutex::new(Vec::new());
        let work = || {
            while let Some(episode) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = play::play(episode, reader)
                    .map_err(|source| CorpusError::Play { id: episode.id.clone(), source: Box::new(source) });
                let mut played = played.lock().unwrap_or_else(PoisonError::into_inner);
                played.push((*episode, outcome));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
                scope.spawn(work);
            }
        });
        let mut played = played.into_inner().unwrap_or_else(PoisonError::into_inner);
        played.sort_by(|(a, _), (b, _)| (a.class, &a.id).cmp(&(b.class, &b.id)));
        let mut report = Report::default();
        for (episode, outcome) in played {
            report.add(episode, &outcome?);
        }
        Ok(report)
    }
}
