//! Runbooks and their executions.

use std::path::PathBuf;

use clap::Subcommand;

use super::{Named, Reason, Target, Watch};

#[derive(Debug, Subcommand)]
pub enum Runbook {
    /// List runbooks in force
    List,
    /// Show a runbook in force
    Show(Named),
    /// Tell every error of runbook files
    Lint {
        /// Files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Print the JSON Schema of runbooks
    Schema,
}

#[derive(Debug, Subcommand)]
pub enum Run {
    /// List executions
    List {
        /// Also those that ended
        #[arg(long)]
        all: bool,
        /// Only those of this incident
        #[arg(long)]
        incident: Option<String>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Show an execution
    Show {
        #[command(flatten)]
        which: Named,
        #[command(flatten)]
        watch: Watch,
    },
    /// Start a runbook for an incident
    Start {
        /// Runbook
        runbook: String,
        /// Number of the incident
        #[arg(long)]
        incident: String,
        #[command(flatten)]
        reason: Reason,
    },
    /// Approve a plan
    Approve {
        #[command(flatten)]
        target: Target,
        /// Digest of the plan that was looked at
        #[arg(long)]
        plan_digest: String,
    },
    /// Reject a plan
    Reject {
        #[command(flatten)]
        target: Target,
        /// Digest of the plan that was looked at
        #[arg(long)]
        plan_digest: String,
    },
    /// Answer a human step: provost run answer EXECUTION --step repair outcome=reseated -m done
    Answer {
        #[command(flatten)]
        target: Target,
        /// Step; the one that waits where it is not given
        #[arg(long)]
        step: Option<String>,
        /// Answers: FIELD=VALUE
        #[arg(required = true, value_name = "FIELD=VALUE")]
        answers: Vec<String>,
    },
    /// Stop after the current step
    Pause(Target),
    /// Go on
    Resume(Target),
    /// Try the failed step again
    Retry(Target),
    /// Skip the failed step
    Skip(Target),
    /// End it, undoing what can be undone
    Abort(Target),
}
