//! The command line: `provost <noun> <verb>`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use provost_model::time::{Span, Timestamp};

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
    /// Data directory of the controller on this machine
    #[arg(long, global = true, value_name = "DIR", default_value = "./provost-data")]
    pub data: PathBuf,
    /// Give up on the server after this time
    #[arg(long, global = true, value_name = "TIME", default_value = "15s")]
    pub request_timeout: Span,
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
    /// Check and show configurations
    #[command(subcommand)]
    Config(Config),
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

#[derive(Debug, Args)]
#[command(after_help = "Without --config it runs on embedded defaults: nothing outside is attached.")]
pub struct Up {
    /// Configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Listen here rather than where the configuration says
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<std::net::SocketAddr>,
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Production nodes of eight GPUs each
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..=20_000))]
    pub nodes: u32,
    /// Same seed, same story
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// Virtual seconds a second; 0 waits for nothing
    #[arg(long, default_value_t = 20)]
    pub speed: u32,
    /// End after this much virtual time
    #[arg(long = "for", value_name = "TIME")]
    pub until: Option<Span>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Agent {
    /// Configuration of the agent
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub command: Option<AgentCommand>,
}

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Tokens for enrolment
    #[command(subcommand)]
    Token(Token),
}

#[derive(Debug, Subcommand)]
pub enum Token {
    /// Make a token; it is printed alone, once
    Create {
        /// Nodes that it may enrol: gpu[001-008],spare01
        #[arg(long)]
        nodes: String,
        /// How often it may be used; once a node where it is not given
        #[arg(long)]
        uses: Option<u32>,
        /// How long it is valid
        #[arg(long, default_value = "1h")]
        ttl: Span,
        /// Why; kept sealed in the record
        #[arg(long, short = 'm', default_value = "enrolment of agents")]
        reason: String,
    },
}

#[derive(Debug, Args)]
pub struct Verify {
    /// Data directory, journal or export
    pub path: PathBuf,
    /// Public keys from elsewhere; without it the key beside the data is used, and said so
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// Also check that every record is in canonical form
    #[arg(long)]
    pub strict: bool,
    /// Also fold the records and compare the result with the newest snapshot
    #[arg(long)]
    pub replay: bool,
}

#[derive(Debug, Args)]
pub struct Explain {
    /// Kernel log, or - for standard input
    #[arg(required_unless_present = "catalogue")]
    pub file: Option<PathBuf>,
    /// Driver branch, for the layout of Xids 144-150; from R575 on where it is not given
    #[arg(long)]
    pub driver: Option<u32>,
    /// Print every line, also those that mean nothing
    #[arg(long)]
    pub all: bool,
    /// Print the whole catalogue as Markdown
    #[arg(long, conflicts_with_all = ["file", "driver", "all"])]
    pub catalogue: bool,
}

#[derive(Debug, Subcommand)]
pub enum Config {
    /// Tell every error of a configuration, with line and key
    Check {
        /// Configuration
        file: PathBuf,
    },
    /// Print a configuration with every default written out
    Show {
        /// Configuration
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// With every default written out
        #[arg(long)]
        effective: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum Node {
    /// List nodes
    List {
        /// Only nodes in these phases, comma-separated
        #[arg(long)]
        phase: Option<String>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Show a node
    Show(Named),
    /// Keep new work off a node
    Hold {
        #[command(flatten)]
        target: Target,
        /// The hold ends by itself then
        #[arg(long, value_name = "TIME")]
        until: Option<Timestamp>,
    },
    /// Take a node out for planned work
    Drain(Target),
    /// End planned work: check the node and let it return
    Resume(Target),
}

#[derive(Debug, Subcommand)]
pub enum Gpu {
    /// List GPUs
    List {
        /// Only those of this node
        #[arg(long)]
        node: Option<String>,
    },
    /// Show a GPU
    Show(Named),
}

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

#[derive(Debug, Subcommand)]
pub enum Hold {
    /// List holds
    List {
        /// Only those on this node
        #[arg(long)]
        node: Option<String>,
    },
    /// Show a hold
    Show(Named),
    /// Release a hold of one's own
    Release(Target),
}

#[derive(Debug, Subcommand)]
pub enum Job {
    /// List jobs that hold nodes
    List {
        /// Only those on this node
        #[arg(long)]
        node: Option<String>,
        /// Also those that ended lately
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Show a job
    Show(Named),
    /// Put a job back into the queue
    Requeue(Target),
}

#[derive(Debug, Subcommand)]
pub enum Spare {
    /// List spares
    List,
    /// Let a spare serve in a node's slot
    Activate {
        /// Node whose slot needs it
        #[arg(long = "for", value_name = "NODE")]
        node: String,
        #[command(flatten)]
        reason: Reason,
    },
    /// Send a spare back
    Return(Target),
}

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
    #[arg(long, short = 'm', required_unless_present = "dry_run", default_value = "")]
    pub reason: String,
}

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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
