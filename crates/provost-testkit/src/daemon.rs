//! A program that runs until it is told to end. Its output goes to a file; it never outlives the test.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::wait_until;

/// Ends within this time after SIGTERM.
const END: Duration = Duration::from_secs(10);

/// A running program.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
    /// Where this run's output begins in the log.
    from: u64,
}

impl Daemon {
    /// Starts it, with standard output and error appended to `log`. The kernel kills it when the thread that
    /// started it ends, so it has to be started by the test's own thread.
    ///
    /// # Panics
    /// Where it can't be started.
    #[track_caller]
    pub fn start(name: &str, program: &Path, args: &[&str], log: &Path) -> Daemon {
        let out = File::options().create(true).append(true).open(log).expect("the log can be written");
        let from = out.metadata().expect("the log is there").len();
        let err = out.try_clone().expect("the log can be written");
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} can't be started: {error}"));
        Daemon { name: name.to_owned(), child, log: log.to_owned(), from }
    }

    /// What this run has written.
    pub fn output(&self) -> String {
        let mut text = String::new();
        let read = File::open(&self.log).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.from))?;
            file.read_to_string(&mut text)
        });
        read.map_or_else(|error| format!("{}: {error}", self.log.display()), |_| text)
    }

    /// Waits for a line that starts with `prefix`; gives the rest of it.
    ///
    /// # Panics
    /// Where it does not come, or the program ends before.
    #[track_caller]
    pub fn wait_for_line(&mut self, prefix: &str, limit: Duration) -> String {
        wait_until(&format!("`{prefix}` of {}", self.name), limit, || {
            let output = self.output();
            if let Some(rest) = output.lines().find_map(|line| line.strip_prefix(prefix)) {
                return Ok(rest.trim().to_owned());
            }
            if let Some(status) = self.ended() {
                panic!("{} ended with {status} before `{prefix}`:\n{output}", self.name);
            }
            Err(output)
        })
    }

    /// Its exit status, where it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the child is ours")
    }

    /// Waits for its end; gives the exit code.
    ///
    /// # Panics
    /// Where it does not end, or by a signal.
    #[track_caller]
    pub fn wait_end(&mut self, limit: Duration) -> i32 {
        let what = format!("the end of {}", self.name);
        let status = wait_until(&what, limit, || self.ended().ok_or_else(|| "it runs".to_owned()));
        let by_signal = || panic!("{} ended by signal {:?}:\n{}", self.name, status.signal(), self.output());
        status.code().unwrap_or_else(by_signal)
    }

    /// Sends SIGTERM and waits; gives the exit code.
    ///
    /// # Panics
    /// Where it does not end in time.
    #[track_caller]
    pub fn stop(&mut self) -> i32 {
        self.signal(Signal::TERM);
        self.wait_end(END)
    }

    /// Ends it at once, as a crash would.
    ///
    /// # Panics
    /// Where it is not ours to end.
    pub fn kill9(&mut self) {
        self.child.kill().expect("the child is ours");
        self.child.wait().expect("the child is ours");
    }

    /// Stops it where it stands, as a debugger or a hypervisor would, for as long as the guard lives.
    #[must_use]
    pub fn paused(&self) -> Paused<'_> {
        self.signal(Signal::STOP);
        Paused(self)
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        // It may have ended by itself, which the wait that follows will see.
        kill_process(pid, signal).ok();
    }
}

/// A program that stands still.
#[derive(Debug)]
pub struct Paused<'a>(&'a Daemon);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.signal(Signal::CONT);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            eprintln!("log of {}: {}", self.name, self.log.display());
        }
    }
}
