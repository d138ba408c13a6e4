//! The agent as a program of its own.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context as _, Result};
use clap::Parser;
use provost_agent::{Config, Shutdown};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Reads a node's kernel log and tells the Provost controller what it means.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Configuration, TOML.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let config = match Config::load(&arguments.config) {
        Ok(config) => config,
        Err(found) => {
            for error in found.errors {
                eprintln!("{}: {error}", arguments.config.display());
            }
            return ExitCode::from(2);
        }
    };
    match run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("provost-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(config: &Config) -> Result<()> {
    let shutdown = Shutdown::new().context("failed to prepare the end")?;
    let (mut told, handler) = UnixStream::pair().context("failed to prepare for signals")?;
    for signal in [SIGTERM, SIGINT] {
        let handler = handler.try_clone().context("failed to prepare for signals")?;
        signal_hook::low_level::pipe::register(signal, handler).context("failed to take signals")?;
    }
    let end = shutdown.clone();
    thread::Builder::new().name("signals".into()).stack_size(64 * 1024).spawn(move || {
        // A byte comes with each signal. An error would leave the agent deaf to them, so it ends too.
        told.read_exact(&mut [0]).ok();
        end.trigger();
    })?;
    Ok(provost_agent::run(config, &shutdown)?)
}
