//! Measuring on labelled episodes, and on years of failures.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Corpus {
    /// Play labelled episodes and score what is found, isolated and paged; fails below the corpus's floor
    Run {
        /// Folder of the corpus
        #[arg(long, value_name = "DIR", default_value = "corpus")]
        corpus: PathBuf,
        /// Only episodes whose id contains this; the floor is not asked for then
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },
    /// Replay the fault history of the Titan supercomputer: time between failures, lemons, spares needed
    Titan {
        /// Folder with the published table gc_full.csv, or the table itself
        path: PathBuf,
    },
}
