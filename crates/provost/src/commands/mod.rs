//! What each command does: those of this program first, then those that ask a server.

mod ask;
mod bmc;
mod corpus;
mod demo;
mod explain;
mod faults;
mod journal;
mod local;
mod reference;
mod show;
mod story;

use crate::cli::{Agent, AgentCommand, Audit, Cli, Command, Corpus, Runbook, Token};
use crate::client::Client;
use crate::error::Error;

/// Runs the command; gives the exit code where it is not 0 or an error.
pub fn run(cli: Cli) -> Result<u8, Error> {
    let Cli { global, command } = cli;
    match command {
        Command::Up(up) => local::up(&global, up).map(done),
        Command::Demo(demo) => demo::run(&demo, global.given_data).map(done),
        Command::Agent(Agent { config, command: None }) => local::agent(config).map(done),
        Command::Agent(Agent {
            command: Some(AgentCommand::Token(Token::Create { nodes, uses, ttl, reason })),
            ..
        }) => ask::create_token(&Client::find(&global)?, &nodes, uses, ttl, &reason).map(done),
        Command::Verify(verify) => journal::verify(&verify, global.output),
        Command::Audit(Audit::Export { to, from, until }) => {
            journal::export(&global.data(), to.as_deref(), from, until).map(done)
        }
        Command::Explain(explain) => explain::run(&explain, global.output).map(done),
        Command::Corpus(Corpus::Run { corpus, only }) => corpus::run(&corpus, only.as_deref(), global.output),
        Command::Corpus(Corpus::Titan { path }) => corpus::titan(&path, global.output).map(done),
        Command::Bmc(command) => bmc::run(&command, global.output).map(done),
        Command::Config(config) => local::config(&config, global.output),
        Command::Runbook(Runbook::Lint { files }) => local::lint(&files, global.output),
        Command::Runbook(Runbook::Schema) => local::schema().map(done),
        Command::Completion { shell } => local::completion(shell).map(done),
        asking => ask::run(&Client::find(&global)?, asking, global.output),
    }
}

fn done((): ()) -> u8 {
    0
}
