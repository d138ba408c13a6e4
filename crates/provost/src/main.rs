//! The one program that operators install: the controller, the demo, the agent, the verifier, and the commands
//! that ask a running controller.

mod cli;
mod client;
mod commands;
mod error;
mod output;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => error.report(),
    }
}
