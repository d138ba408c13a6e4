//! What limits automation, and how it ends.

use clap::{Args, Subcommand};

use super::Reason;

#[derive(Debug, Subcommand)]
pub enum Guard {
    /// What the governor counts
    Status,
    /// No new action from here on
    Stop(Reason),
    /// Allow actions again
    Start(Reason),
    /// Reset the breaker
    Reset(Reason),
}

#[derive(Debug, Subcommand)]
pub enum Mode {
    /// Show the modes that are set
    Show,
    /// Set a mode
    Set {
        /// site, scheduler:NAME or node:NAME
        scope: String,
        /// observe, advise, act, or inherit
        mode: String,
        #[command(flatten)]
        reason: Reason,
    },
}

#[derive(Debug, Args)]
pub struct Detach {
    /// Only list the marks that would be taken away
    #[arg(long)]
    pub dry_run: bool,
    /// Why; kept sealed in the record
    #[arg(long, short = 'm', value_name = "TEXT", required_unless_present = "dry_run")]
    pub reason: Option<String>,
}
