//! What runs by itself, and what is read from files: no command here asks a server, tokens aside.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use provost_model::time::Span;

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
#[command(
    after_help = "With --listen 127.0.0.1:8443 the first line says where it listens and which --data DIR the
commands need: provost --data DIR status, incident list, run answer. Its journal lies in a folder that goes
with the demo; with --data DIR it lies in that folder, which must be empty, and stays."
)]
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
    /// Let the commands ask the site while it lives, and keep it alive after the story, until Ctrl-C
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<std::net::SocketAddr>,
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
    /// Print every key of every file as Markdown: type, unit, default, meaning
    Reference,
}

#[derive(Debug, Subcommand)]
pub enum Bmc {
    /// Ask the BMC of a node for everything that it says; no controller is needed
    #[command(
        after_help = "Sensors that say nothing or are well are counted; -o wide lists them too, -o json tells all."
    )]
    Show {
        /// Name of the node
        node: String,
        /// Configuration of the controller, whose [[bmc]] says how it is reached
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Entries of its event logs, the newest first
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=1_000))]
        events: u16,
    },
}
