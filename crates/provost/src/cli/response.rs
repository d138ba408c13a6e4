//! Incidents and alerts.

use clap::Subcommand;

use super::{Named, Reason, Target, Watch};

#[derive(Debug, Subcommand)]
pub enum Incident {
    /// List incidents
    List {
        /// Also those that are over
        #[arg(long)]
        all: bool,
        /// Only these severities, comma-separated: sev1,sev2
        #[arg(long)]
        severity: Option<String>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Tell the story of an incident
    Show(Named),
    /// Take an incident
    Ack(Target),
    /// Note something; the reason is the text
    Note(Target),
    /// Change the severity
    Severity {
        /// Number
        id: String,
        /// New severity: sev1, sev2, sev3, sev4
        severity: String,
        #[command(flatten)]
        reason: Reason,
    },
    /// End an incident
    Resolve(Target),
}

#[derive(Debug, Subcommand)]
pub enum Alert {
    /// List alerts
    List {
        /// Also those that are over
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Show an alert
    Show(Named),
}
