//! The command line: `provost <noun> <verb>`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use provost_model::time::Span;

mod control;
mod corpus;
mod fleet;
mod programs;
mod record;
mod recovery;
mod response;

pub use control::{Detach, Guard, Mode};
pub use corpus::Corpus;
pub use fleet::{Gpu, Hold, Job, Node, Spare};
pub use programs::{Agent, AgentCommand, Bmc, Config, Demo, Explain, Token, Up, Verify};
pub use record::{Audit, Events};
pub use recovery::{Run, Runbook};
pub use response::{Alert, Incident};

/// Runs a dedicated GPU cluster: watches, contains faults, recovers, and keeps a record that can be verified.
#[derive(Debug, Parser)]
#[command(name = "provost", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Examples:
  provost demo                                   the main job on a simulated site, nothing else needed
  provost up --config provost.toml               the controller, in the foreground
  provost status                                 one screen about the site
  provost incident show INC-2026-000001          the story of an incident
  provost verify ./provost-data                  prove the record, offline

Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 not allowed, 5 conflict, 6 timed out, 8 denied by the
guard, 10 no server; `status` ends with 20 where the site is degraded and 21 where it is critical.")]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// How to print
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// Data directory of the controller on this machine; ./provost-data where it is not given
    #[arg(long = "data", global = true, value_name = "DIR")]
    pub given_data: Option<PathBuf>,
    /// Give up on the server after this time
    #[arg(long, global = true, value_name = "TIME", default_value = "15s")]
    pub request_timeout: Span,
}

impl Global {
    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.given_data.clone().unwrap_or_else(|| PathBuf::from("./provost-data"))
    }
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people; fits 100 columns
    Table,
    /// For people, with every column
    Wide,
    /// The API's object
    Json,
    /// One object a line
    Jsonl,
    /// The API's object as YAML
    Yaml,
    /// Comma-separated, with every column
    Csv,
    /// Ids or names alone, one a line
    Name,
}

/// Why a change is made; every change needs a reason, which is kept sealed.
#[derive(Clone, Debug, Args)]
pub struct Reason {
    /// Why; kept sealed in the record
    #[arg(long, short = 'm', value_name = "TEXT")]
    pub reason: String,
}

/// A thing and a reason.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Its name, number or id
    pub id: String,
    #[command(flatten)]
    pub reason: Reason,
}

/// One thing.
#[derive(Clone, Debug, Args)]
pub struct Named {
    /// Its name, number or id
    pub id: String,
}

/// Watching.
#[derive(Clone, Copy, Debug, Args)]
pub struct Watch {
    /// Print again whenever something changes
    #[arg(long, short)]
    pub watch: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the controller in the foreground
    Up(Up),
    /// Show the main job on a simulated site
    Demo(Demo),
    /// Run the node agent, or make tokens for agents
    Agent(Agent),
    /// Prove a journal or an export, offline
    Verify(Verify),
    /// Say what a kernel log means; acts on nothing
    Explain(Explain),
    /// How well faults are told from noise, measured on labelled episodes
    #[command(subcommand)]
    Corpus(Corpus),
    /// Check and show configurations
    #[command(subcommand)]
    Config(Config),
    /// Management controllers of nodes
    #[command(subcommand)]
    Bmc(Bmc),
    /// One screen about the whole site
    Status(Watch),
    /// Nodes
    #[command(subcommand)]
    Node(Node),
    /// GPUs
    #[command(subcommand)]
    Gpu(Gpu),
    /// Incidents
    #[command(subcommand)]
    Incident(Incident),
    /// Alerts
    #[command(subcommand)]
    Alert(Alert),
    /// Holds: reasons why a node gets no new work
    #[command(subcommand)]
    Hold(Hold),
    /// Jobs
    #[command(subcommand)]
    Job(Job),
    /// Spares
    #[command(subcommand)]
    Spare(Spare),
    /// Runbooks
    #[command(subcommand)]
    Runbook(Runbook),
    /// Executions of runbooks
    #[command(subcommand)]
    Run(Run),
    /// What limits automation, and the stop
    #[command(subcommand)]
    Guard(Guard),
    /// Observe, advise or act
    #[command(subcommand)]
    Mode(Mode),
    /// Take every mark of Provost away from every scheduler
    Detach(Detach),
    /// Records as they become durable
    Events(Events),
    /// Search the journal, or export it
    #[command(subcommand)]
    Audit(Audit),
    /// Print the completion script of a shell
    Completion {
        /// Shell
        shell: clap_complete::Shell,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
