//! The agent as a program of its own.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand};
use provost_agent::{Config, DEFAULT_STATE_DIR, Shutdown, standing};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Reads a node's kernel log and tells the Provost controller what it means.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Arguments {
    /// Configuration, TOML.
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    question: Option<Question>,
}

/// What a scheduler asks. It is answered from a file of this node, at once, whoever is away.
#[derive(Subcommand)]
enum Question {
    /// May a job start here? Prints the answer; exits 1 where a controller that is in touch holds the node, else 0.
    Prolog(Asked),
    /// May the next job start here? Prints the answer; always exits 0.
    Epilog(Asked),
}

#[derive(Args)]
struct Asked {
    /// The agent's state_dir.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_STATE_DIR)]
    state_dir: PathBuf,
    /// The node's name [default: $SLURMD_NODENAME, else the host's name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

const QUESTIONS: [&str; 2] = ["prolog", "epilog"];
const SYSLOG: &str = "/dev/log";

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        // A prolog that fails takes the node out of service: a word too many must not.
        Err(error) if words.get(1).is_some_and(|word| QUESTIONS.iter().any(|name| word == name)) => {
            tell(&format!("yes ({})", error.kind()), true);
            error.print().ok();
            return ExitCode::SUCCESS;
        }
        Err(error) => error.exit(),
    };
    match (arguments.question, arguments.config) {
        (Some(Question::Prolog(asked)), _) => ExitCode::from(u8::from(!may_work(&asked))),
        (Some(Question::Epilog(asked)), _) => {
            may_work(&asked);
            ExitCode::SUCCESS
        }
        (None, Some(config)) => agent(&config),
        (None, None) => ExitCode::from(2),
    }
}

/// Prints the answer. All but a plain yes goes into the system's log as well.
fn may_work(asked: &Asked) -> bool {
    let node = asked.node.clone().or_else(standing::default_node);
    let answer = match node {
        Some(node) => standing::ask(&asked.state_dir, &node),
        None => standing::Answer::YesUnsure("the node's name is not known"),
    };
    match answer {
        standing::Answer::Yes => tell("yes", false),
        standing::Answer::YesUnsure(why) => tell(&format!("yes ({why})"), true),
        standing::Answer::No(why) => {
            tell(&format!("no: {why}"), true);
            return false;
        }
    }
    true
}

fn tell(answer: &str, is_noteworthy: bool) {
    // Whoever started this may have closed its end.
    writeln!(std::io::stdout(), "{answer}").ok();
    if is_noteworthy {
        standing::to_syslog(Path::new(SYSLOG), &format!("may the node take work: {answer}"));
    }
}

fn agent(path: &Path) -> ExitCode {
    let config = match Config::load(path) {
        Ok(config) => config,
        Err(found) => {
            for error in found.errors {
                eprintln!("{}: {error}", path.display());
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
