//! The controller, the demo, the agent, and what needs no server.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use provost_server::config::{Config, Error as ConfigError};
use provost_server::{Up, runbooks};
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;

use crate::cli::{self, Cli, Format, Global};
use crate::error::{Error, Exit};
use crate::output;

/// `provost up`.
pub fn up(global: &Global, up: cli::Up) -> Result<(), Error> {
    start_log();
    let mut config = match &up.config {
        Some(file) => Config::load(file).map_err(|e| config_error(&e))?,
        None => Config::embedded(),
    };
    config.listen = up.listen.unwrap_or(config.listen);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let up = Up { config, data: global.data.clone(), say: |line| drop(output::print(&format!("{line}\n"))) };
    runtime.block_on(provost_server::up(up)).map_err(|e| Error::chain(Exit::Failure, &e))
}

/// The log goes to standard error; `PROVOST_LOG` says how much: `error`, `warn`, `info`, `debug`, `trace` or `off`.
fn start_log() {
    let level = std::env::var("PROVOST_LOG").ok().and_then(|level| level.parse().ok());
    tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::INFO))
        .with_writer(std::io::stderr)
        .with_target(false)
        .init();
}

/// `provost agent`.
pub fn agent(config: Option<PathBuf>) -> Result<(), Error> {
    let Some(file) = config else {
        return Err(Error::new(Exit::Usage, "the agent needs its configuration")
            .remedy("provost agent --config /etc/provost/agent.toml, or provost agent token create"));
    };
    let config = provost_agent::Config::load(&file).map_err(|found| {
        let all: Vec<String> = found.errors.iter().map(|error| format!("\n  {error}")).collect();
        Error::new(Exit::Usage, format!("`{}` has errors:{}", file.display(), all.concat()))
    })?;
    let shutdown = provost_agent::Shutdown::new()?;
    let end = shutdown.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = runtime.block_on(async { termination() })?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(signals);
        end.trigger();
    })?;
    provost_agent::run(&config, &shutdown).map_err(|e| Error::chain(Exit::Failure, &e))
}

/// Ends when the process is told to end. The handlers stand when this returns.
fn termination() -> std::io::Result<impl Future<Output = ()> + Send> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// `provost config check|show`.
pub fn config(command: &cli::Config, format: Format) -> Result<u8, Error> {
    match command {
        cli::Config::Check { file } => {
            Config::load(file).map_err(|e| config_error(&e))?;
            output::one(&json!({"file": file, "errors": []}), format, |_| {
                format!("{} is valid\n", file.display())
            })?;
        }
        cli::Config::Show { config, .. } => {
            let config = match config {
                Some(file) => Config::load(file).map_err(|e| config_error(&e))?,
                None => Config::embedded(),
            };
            output::print(&config.effective())?;
        }
    }
    Ok(0)
}

/// Every finding, one a line.
fn config_error(error: &ConfigError) -> Error {
    match error {
        ConfigError::Findings { findings, .. } => {
            let all: Vec<String> = findings.iter().map(|finding| format!("\n  {finding}")).collect();
            Error::new(Exit::Usage, format!("{error}:{}", all.concat()))
        }
        ConfigError::Read { .. } => Error::chain(Exit::Usage, error),
    }
}

/// `provost runbook lint`.
pub fn lint(files: &[PathBuf]) -> Result<u8, Error> {
    let mut wrong = 0;
    for file in files {
        let read = std::fs::read_to_string(file).map_err(|e| e.to_string());
        let checked = read.and_then(|text| runbooks::check(&stem(file), &text).map_err(|e| e.to_string()));
        match checked {
            Ok(runbook) => {
                output::print(&format!("{}: valid, {} steps\n", file.display(), runbook.steps.len()))?;
            }
            Err(error) => {
                wrong += 1;
                eprintln!("{}: {error}", file.display());
            }
        }
    }
    Ok(if wrong == 0 { 0 } else { Exit::Usage as u8 })
}

fn stem(file: &Path) -> String {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// `provost runbook schema`.
pub fn schema() -> Result<(), Error> {
    let text = serde_json::to_string_pretty(&provost_server::runbooks::schema())
        .map_err(|e| Error::chain(Exit::Failure, &e))?;
    output::print(&(text + "\n"))
}

/// `provost completion`.
pub fn completion(shell: clap_complete::Shell) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "provost", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
