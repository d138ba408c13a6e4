//! The journal as it grows, and as it is searched.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use provost_model::time::Timestamp;

#[derive(Debug, Args)]
pub struct Events {
    /// Begin after this sequence; -1 for all; from now on where it is not given
    #[arg(long, allow_negative_numbers = true)]
    pub after: Option<i64>,
    /// Only types that begin so: incident.
    #[arg(long = "type", value_name = "PREFIX")]
    pub kind: Option<String>,
    /// End after so many
    #[arg(long)]
    pub limit: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Search the journal
    Search {
        /// Only types that begin so: hold.
        #[arg(long = "type", value_name = "PREFIX")]
        kind: Option<String>,
        /// Id or name of what it is about
        #[arg(long)]
        subject: Option<String>,
        /// Number of the incident
        #[arg(long)]
        incident: Option<String>,
        /// Who caused it: local:admin
        #[arg(long)]
        actor: Option<String>,
        /// Decided at or after
        #[arg(long)]
        since: Option<Timestamp>,
        /// Decided before
        #[arg(long)]
        until: Option<Timestamp>,
        /// The oldest first
        #[arg(long)]
        oldest: bool,
        /// Most rows
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },
    /// Write the journal of --data as JSON Lines with proofs; needs no server
    Export {
        /// File; standard output where it is not given
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
        /// First sequence
        #[arg(long)]
        from: Option<u64>,
        /// Sequence after the last
        #[arg(long)]
        until: Option<u64>,
    },
}
