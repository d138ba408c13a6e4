//! Runs one command: no shell, hardly any environment, a time limit, and an end for all that it started.

use std::io::{self, PipeReader, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::config::{Piece, Word};
use crate::wait::{Interest, Shutdown, wait};

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How often a command is asked whether it has ended. A descriptor that tells needs Linux 5.3; nodes have older.
const ASK: Duration = Duration::from_millis(10);
/// A killed process that hangs in the kernel is left behind after this.
pub(super) const AFTER_KILL: Duration = Duration::from_secs(1);

/// Bytes of the end of the output that are looked at.
const TAIL: usize = 128;
/// Hexadecimal digits of a digest.
const DIGITS: usize = 64;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal that is not ours.
    Signal,
    /// It took too long and was killed.
    TimedOut,
    /// The agent ends, and it was killed.
    Stopped,
    /// It could not be started.
    NotStarted,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) exit: Exit,
    /// Bytes that it wrote. They are read and let go: they may hold anything.
    pub(super) output_bytes: u64,
    /// `sha256:` and 64 digits, where that is the last line. Nothing else of the output leaves the node.
    pub(super) digest: Option<String>,
}

/// Fills in the words of a command line; none where one needs a device and there is none.
pub(super) fn fill(words: &[Word], node: &str, pci: Option<&str>) -> Option<Vec<String>> {
    let fill = |piece: &Piece| match piece {
        Piece::Literal(text) => Some(text.clone()),
        Piece::Node => Some(node.to_owned()),
        Piece::GpuPci => pci.map(str::to_owned),
    };
    words.iter().map(|word| word.iter().map(fill).collect::<Option<String>>()).collect()
}

/// Runs `argv` and waits for its end.
pub(super) fn run(argv: &[String], timeout: Duration, shutdown: &Shutdown) -> Ended {
    match start(argv) {
        Ok((child, output)) => {
            let running = Running { child, output: Some(output), output_bytes: 0, tail: Vec::new() };
            running.finish(timeout, shutdown)
        }
        Err(_) => Ended { exit: Exit::NotStarted, output_bytes: 0, digest: None },
    }
}

fn start(argv: &[String]) -> io::Result<(Child, PipeReader)> {
    let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (output, writer) = io::pipe()?;
    rustix::io::ioctl_fionbio(&output, true)?;
    let child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into()))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .spawn()?;
    Ok((child, output))
}

struct Running {
    child: Child,
    output: Option<PipeReader>,
    output_bytes: u64,
    /// The end of the output so far.
    tail: Vec<u8>,
}

impl Running {
    fn finish(mut self, timeout: Duration, shutdown: &Shutdown) -> Ended {
        let deadline = Instant::now() + timeout;
        let exit = loop {
            self.drain();
            if let Some(status) = self.status() {
                self.drain();
                break status.code().map_or(Exit::Signal, Exit::Code);
            }
            if Instant::now() >= deadline {
                break self.kill(Exit::TimedOut);
            }
            let end = (shutdown.as_fd(), Interest::Read);
            let ended = match &self.output {
                Some(output) => wait([end, (output.as_fd(), Interest::Read)], Some(ASK))[0],
                None => wait([end], Some(ASK))[0],
            };
            if ended {
                break self.kill(Exit::Stopped);
            }
        };
        Ended { exit, output_bytes: self.output_bytes, digest: digest(&self.tail) }
    }

    /// None while it runs. Where the kernel does not say, it is taken as running, up to the time limit.
    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn drain(&mut self) {
        let Some(output) = &mut self.output else { return };
        let mut chunk = [0; 4096];
        // Bounded, so that a command that never stops writing is seen to run too long.
        for _ in 0..64 {
            match output.read(&mut chunk) {
                Ok(0) => {
                    self.output = None;
                    return;
                }
                Ok(count) => {
                    self.output_bytes += count as u64;
                    self.tail.extend_from_slice(&chunk[..count]);
                    self.tail.drain(..self.tail.len().saturating_sub(TAIL));
                }
                Err(_) => return,
            }
        }
    }

    /// Kills it and whatever it has started, and waits a little for it.
    fn kill(&mut self, exit: Exit) -> Exit {
        // Fails only where nothing is left of the group; its number is not free before the wait below.
        kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
        let deadline = Instant::now() + AFTER_KILL;
        while self.status().is_none() && Instant::now() < deadline {
            std::thread::sleep(ASK);
        }
        self.drain();
        exit
    }
}

/// The digest that the last line is, if it is nothing else.
fn digest(tail: &[u8]) -> Option<String> {
    let line = tail.strip_suffix(b"\n")?.rsplit(|b| *b == b'\n').next()?;
    let digits = line.strip_prefix(b"sha256:")?;
    let is_hex = digits.len() == DIGITS && digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| String::from_utf8_lossy(line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(argv: &[&str], exit: Exit, output_bytes: u64) {
        let argv: Vec<String> = argv.iter().map(ToString::to_string).collect();
        let ended = run(&argv, Duration::from_secs(20), &Shutdown::new().unwrap());
        assert_eq!((ended.exit, ended.output_bytes), (exit, output_bytes), "{argv:?}");
    }

    #[test]
    fn only_a_digest_leaves_the_node() {
        let check = |output: &str, expected: Option<&str>| {
            let argv = ["printf", "%s", output].map(str::to_owned);
            let ended = run(&argv, Duration::from_secs(20), &Shutdown::new().unwrap());
            assert_eq!(ended.digest.as_deref(), expected, "{output}");
        };
        let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
        check(&format!("{digest}\n"), Some(&digest));
        check(&format!("{}\n{digest}\n", "x".repeat(10_000)), Some(&digest));
        check(&digest, None);
        check(&format!("{digest}\nmore\n"), None);
        check(&format!("{digest}0\n"), None);
        check(&format!("x{digest}\n"), None);
        check(&format!("{}\n", digest.replace('f', "F")), None);
        check(&format!("{}\n", &digest[..70]), None);
        check("alice@example.org\n", None);
        check("", None);
    }

    #[test]
    fn commands_end() {
        check(&["true"], Exit::Code(0), 0);
        check(&["false"], Exit::Code(1), 0);
        check(&["sh", "-c", "echo out; echo err >&2; exit 7"], Exit::Code(7), 8);
        check(&["sh", "-c", "kill -9 $$"], Exit::Signal, 0);
        check(&["/nonexistent/program"], Exit::NotStarted, 0);
        check(&[], Exit::NotStarted, 0);
        check(&["head", "-c", "3000000", "/dev/zero"], Exit::Code(0), 3_000_000);
        // The words are words: nothing expands them.
        check(&["echo", "$(id)", "; true", "*"], Exit::Code(0), "$(id) ; true *\n".len() as u64);
        // A descendant that holds the pipe does not hold the agent.
        check(&["sh", "-c", "sleep 5 & exit 3"], Exit::Code(3), 0);
    }

    #[test]
    fn only_the_path_is_in_the_environment() {
        let argv =
            ["sh", "-c", "test \"$(env | grep -cv -e ^PATH= -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD=)\" = 0"];
        check(&argv, Exit::Code(0), 0);
    }

    #[test]
    fn a_command_that_takes_too_long_goes_with_all_it_started() {
        let shutdown = Shutdown::new().unwrap();
        let argv = ["sh", "-c", "sleep 60 & echo $!; wait"].map(str::to_owned);
        let started = Instant::now();
        let ended = run(&argv, Duration::from_millis(100), &shutdown);
        assert_eq!(ended.exit, Exit::TimedOut);
        assert!(ended.output_bytes > 1 && started.elapsed() < Duration::from_secs(5));
        shutdown.trigger();
        assert_eq!(run(&argv, Duration::from_secs(60), &shutdown).exit, Exit::Stopped);
    }

    #[test]
    fn nothing_that_a_command_does_keeps_it_alive_or_holds_the_agent() {
        let check = |script: &str| {
            let argv = ["sh", "-c", script].map(str::to_owned);
            let started = Instant::now();
            let ended = run(&argv, Duration::from_millis(300), &Shutdown::new().unwrap());
            assert_eq!(ended.exit, Exit::TimedOut, "{script}");
            assert!(started.elapsed() < Duration::from_secs(5), "{script}");
        };
        check("trap '' TERM INT HUP; while :; do sleep 1; done");
        // Its descendants hold the pipe, one of them out of reach in a session of its own.
        check("sleep 60 & sleep 60 & setsid sleep 3 & wait");
        check("kill -STOP $$");
        check("exec 2>&1; while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done");
    }

    #[test]
    fn the_whole_process_group_goes() {
        let folder = crate::testing::Folder::new();
        let pids = folder.path().join("pids");
        let script =
            format!("sleep 61 & echo $! >{0}; sh -c 'echo $$ >>{0}; exec sleep 62' & wait", pids.display());
        let argv = ["sh", "-c", &script].map(str::to_owned);
        run(&argv, Duration::from_millis(500), &Shutdown::new().unwrap());
        let pids = std::fs::read_to_string(pids).unwrap();
        assert_eq!(pids.lines().count(), 2);
        for pid in pids.lines() {
            let deadline = Instant::now() + Duration::from_secs(10);
            // Gone, or waiting for whoever inherited it to notice.
            while std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|words| !words.is_empty())
            {
                assert!(Instant::now() < deadline, "{pid} lives");
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn words_are_filled_in() {
        let words = vec![
            vec![Piece::Literal("reset".into())],
            vec![Piece::Literal("--on=".into()), Piece::Node, Piece::Literal("/".into()), Piece::GpuPci],
        ];
        let filled = fill(&words, "gpu001", Some("0000:3b:00.0")).unwrap();
        assert_eq!(filled, ["reset", "--on=gpu001/0000:3b:00.0"]);
        assert_eq!(fill(&words, "gpu001", None), None);
        assert_eq!(fill(&words[..1], "gpu001", None).unwrap(), ["reset"]);
    }
}
