//! The controller, the demo, the agent, and what needs no server.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use provost_server::config::{Config, Error as ConfigError};
use provost_server::{Up, runbooks};
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;

use super::reference;
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
    let up = Up { config, data: global.data(), say: |line| drop(output::print(&format!("{line}\n"))) };
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
pub fn termination() -> std::io::Result<impl Future<Output = ()> + Send> {
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
        cli::Config::Check { file } => return check(file, format),
        cli::Config::Reference => reference::print()?,
        cli::Config::Show { config, .. } => {
            let config = match config {
                Some(file) => Config::load(file).map_err(|e| config_error(&e))?,
                None => Config::embedded(),
            };
            let written = config.effective();
            let value: serde_json::Value =
                toml::from_str(&written).map_err(|e| Error::chain(Exit::Failure, &e))?;
            output::one(&value, format, |_| written)?;
        }
    }
    Ok(0)
}

/// All errors of a file. For programs they are the answer, and `errors` is empty where there are none.
fn check(file: &Path, format: Format) -> Result<u8, Error> {
    let errors = match Config::load(file) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Findings { findings, .. }) if !matches!(format, Format::Table | Format::Wide) => {
            findings
        }
        Err(error) => return Err(config_error(&error)),
    };
    let valid = errors.is_empty();
    let errors: Vec<_> = errors
        .iter()
        .map(|error| json!({"line": error.line, "key": error.key, "message": error.message}))
        .collect();
    output::one(&json!({"file": file.display().to_string(), "errors": errors}), format, |_| {
        format!("{} is valid\n", file.display())
    })?;
    Ok(if valid { 0 } else { Exit::Usage as u8 })
}

/// Every finding, one a line.
pub fn config_error(error: &ConfigError) -> Error {
    match error {
        ConfigError::Findings { findings, .. } => {
            let all: Vec<String> = findings.iter().map(|finding| format!("\n  {finding}")).collect();
            Error::new(Exit::Usage, format!("{error}:{}", all.concat()))
        }
        ConfigError::Read { .. } => Error::chain(Exit::Usage, error),
    }
}

/// `provost runbook lint`.
pub fn lint(files: &[PathBuf], format: Format) -> Result<u8, Error> {
    let mut found = Vec::new();
    for file in files {
        let read = std::fs::read_to_string(file).map_err(|e| e.to_string());
        let checked = read.and_then(|text| runbooks::check(&stem(file), &text).map_err(|e| e.to_string()));
        if let (Err(error), Format::Table | Format::Wide) = (&checked, format) {
            eprintln!("{}: {error}", file.display());
        }
        found.push(json!({
            "file": file.display().to_string(),
            "id": checked.as_ref().ok().map(|runbook| &runbook.id),
            "steps": checked.as_ref().ok().map(|runbook| runbook.steps.len()),
            "error": checked.as_ref().err(),
        }));
    }
    let wrong = found.iter().any(|file| !file["error"].is_null());
    let valid = |file: &&serde_json::Value| file["error"].is_null();
    match format {
        Format::Table | Format::Wide => {
            let line = |file: &serde_json::Value| {
                format!("{}: valid, {} steps\n", output::field(file, "file"), output::field(file, "steps"))
            };
            output::print(&found.iter().filter(valid).map(line).collect::<String>())?;
        }
        _ => {
            let columns = [output::Column::new("FILE", "file"), output::Column::new("ERROR", "error")];
            output::list(&json!({"items": found, "next_cursor": null}), &columns, format)?;
        }
    }
    Ok(if wrong { Exit::Usage as u8 } else { 0 })
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
