//! Runs Slurm's own tools: arguments only, no shell, an environment of our own, bounded time and output.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::error::{Error, first_line, within};

/// Most bytes that are taken from a tool.
pub(super) const MAX_OUTPUT: u64 = 64 << 20;
/// Most bytes of the list of jobs. Newer Slurm spells out every core of every job (about 20 KB a job and node).
pub(super) const MAX_JOBS_OUTPUT: u64 = 256 << 20;
const MAX_MESSAGE: u64 = 64 << 10;

/// Slurm's tools on this host.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) conf: PathBuf,
    pub(super) bin_dir: Option<PathBuf>,
    pub(super) timeout: Duration,
}

impl Tools {
    /// Runs `tool`, which must exit with 0; gives its output.
    ///
    /// The exit status and the message are Slurm's claim about itself: a caller that writes reads back.
    pub(super) async fn run(&self, tool: &'static str, args: &[&str]) -> Result<String, Error> {
        self.run_bounded(tool, args, MAX_OUTPUT).await
    }

    /// [`Tools::run`] with another bound on the output, in bytes.
    pub(super) async fn run_bounded(
        &self,
        tool: &'static str,
        args: &[&str],
        limit: u64,
    ) -> Result<String, Error> {
        // Giving up drops the child, which kills it (kill_on_drop).
        let answer = tokio::time::timeout(self.timeout, self.finish(tool, args, limit))
            .await
            .unwrap_or_else(|_| Err(Error::NoAnswer { tool, detail: within(self.timeout) }))?;
        if answer.success {
            return Ok(answer.output);
        }
        // Some messages are on standard output ("Node gpu9 not found").
        let said = if answer.message.trim().is_empty() { &answer.output } else { &answer.message };
        Err(classify(tool, args, said))
    }

    async fn finish(&self, tool: &'static str, args: &[&str], limit: u64) -> Result<Answer, Error> {
        let spawn = |source| Error::Spawn { tool, source };
        let mut child = self.command(tool).args(args).spawn().map_err(spawn)?;
        let (output, message) = tokio::try_join!(
            read_bounded(child.stdout.take(), limit),
            // A long message is cut, not an error: only its first line is used.
            read_bounded(child.stderr.take(), MAX_MESSAGE),
        )
        .map_err(spawn)?;
        if output.len() as u64 > limit {
            return Err(Error::TooLarge { tool, limit });
        }
        let status = child.wait().await.map_err(spawn)?;
        Ok(Answer {
            success: status.success(),
            // A job name may hold any bytes; one such name must not hide the whole list.
            output: into_text(output),
            message: into_text(message),
        })
    }

    fn command(&self, tool: &str) -> Command {
        let program = self.bin_dir.as_ref().map_or_else(|| PathBuf::from(tool), |dir| dir.join(tool));
        let mut command = Command::new(program);
        // Slurm's tools change their ways by some fifty variables (SLURM_JWT alone switches the authentication);
        // none is inherited. Times are printed in TZ, so TZ makes them UTC.
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin")))
            .env("SLURM_CONF", &self.conf)
            .env("TZ", "UTC")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

struct Answer {
    success: bool,
    output: String,
    message: String,
}

/// Reads to the end or to one byte more than `limit`.
async fn read_bounded(pipe: Option<impl AsyncRead + Unpin>, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(limit + 1).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

pub(super) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// What the tools say of a connection that broke while slurmctld was killed, each seen in a few hundred such deaths or
/// among `slurm_strerror`'s texts for its communication errors: before, in and after the exchange of messages.
const BROKEN_CONNECTION: &[&str] = &[
    "timed out",
    "Zero Bytes",
    "Unexpected message",
    "missing socket",
    "communication",
    "Incomplete",
    "Connection reset",
    "Connection aborted",
    "not connected",
    "Broken pipe",
    "Unspecified error",
];

/// Slurm's tools have one exit status for every failure; what failed is in the words (22.05 to 25.11 share them).
fn classify(tool: &'static str, args: &[&str], said: &str) -> Error {
    let detail = first_line(said);
    let has = |words: &[&str]| words.iter().any(|word| detail.contains(word));
    if tool == "sacctmgr" {
        return Error::DatabaseAway { detail };
    }
    if has(&["Unable to contact slurm controller", "connect failure", "Connection refused"]) {
        return Error::ControllerAway { detail };
    }
    if has(BROKEN_CONNECTION) {
        return Error::NoAnswer { tool, detail };
    }
    if has(&["Invalid node name", "Invalid job id", "Invalid partition name", "not found"]) {
        let what = args.iter().find(|arg| arg.contains('=')).or(args.last()).map_or("it", |arg| arg);
        return Error::NotFound { what: what.chars().take(80).collect() };
    }
    Error::Refused { tool, message: detail }
}

/// Slurm's version, from `slurm 22.05.8` or `slurm-wlm 24.11.5`; years and months order as numbers.
pub(super) fn version(text: &str) -> Option<(u16, u16)> {
    let mut numbers = text.split_whitespace().last()?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with a script in place of scontrol.
    fn tools(script: &str) -> (tempdir::Dir, Tools) {
        let dir = tempdir::Dir::new();
        dir.script("scontrol", script);
        let tools = Tools {
            conf: "/nonexistent/slurm.conf".into(),
            bin_dir: Some(dir.path.clone()),
            timeout: Duration::from_secs(5),
        };
        (dir, tools)
    }

    /// A directory that is removed at the end of the test.
    mod tempdir {
        use std::os::unix::fs::PermissionsExt;
        use std::path::PathBuf;
        use std::sync::atomic::{AtomicU32, Ordering};

        static NEXT: AtomicU32 = AtomicU32::new(0);

        pub(super) struct Dir {
            pub(super) path: PathBuf,
        }

        impl Dir {
            pub(super) fn new() -> Dir {
                let n = NEXT.fetch_add(1, Ordering::Relaxed);
                let path = std::env::temp_dir().join(format!("provost-cli-{}-{n}", std::process::id()));
                std::fs::create_dir_all(&path).unwrap();
                Dir { path }
            }

            pub(super) fn script(&self, name: &str, body: &str) {
                let text = self.path.join("text");
                std::fs::write(&text, format!("#!/bin/sh\n{body}\n")).unwrap();
                std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
                // Copied by another process: a child that a neighbouring test starts meanwhile would inherit our
                // open file, and a file that is open for writing can't be run.
                let copied = std::process::Command::new("cp").arg(&text).arg(self.path.join(name)).status();
                assert!(copied.unwrap().success());
            }
        }

        impl Drop for Dir {
            fn drop(&mut self) {
                std::fs::remove_dir_all(&self.path).ok();
            }
        }
    }

    #[tokio::test]
    async fn arguments_and_environment_arrive_as_they_are() {
        let (_dir, tools) =
            tools(r#"printf '%s|' "$@"; env | sort | grep -v -e ^PWD -e ^_= -e ^PATH -e ^SHLVL"#);
        let output = tools.run("scontrol", &["update", "Reason=a b; $(id) \"'*"]).await.unwrap();
        let (args, env) = output.split_once("LC_ALL").unwrap();
        assert_eq!(args, "update|Reason=a b; $(id) \"'*|");
        assert_eq!(env, "=C\nSLURM_CONF=/nonexistent/slurm.conf\nTZ=UTC\n");
    }

    #[tokio::test]
    async fn output_and_time_are_bounded() {
        let (_dir, tools) = tools("while :; do printf 0123456789abcdef; done");
        let error = tools.run_bounded("scontrol", &[], 1 << 20).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge { limit: 0x10_0000, .. }), "{error:?}");
        let (_dir, mut tools) = super::tests::tools("exec sleep 600");
        tools.timeout = Duration::from_millis(100);
        let error = tools.run("scontrol", &[]).await.unwrap_err();
        assert!(matches!(error, Error::NoAnswer { .. }), "{error:?}");
        let missing = Tools { bin_dir: Some("/nonexistent".into()), ..tools };
        let error = missing.run("scontrol", &[]).await.unwrap_err();
        assert!(matches!(error, Error::Spawn { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_are_replaced() {
        let (_dir, tools) = tools(r"printf 'a\377b'");
        assert_eq!(tools.run("scontrol", &[]).await.unwrap(), "a\u{fffd}b");
    }

    #[test]
    fn failures_are_told_apart() {
        let check = |said: &str, expected: &str| {
            let error = classify("scontrol", &["update", "NodeName=gpu9", "State=DRAIN"], said);
            assert_eq!(format!("{error:?}").split_once(' ').unwrap().0, expected, "{said}");
        };
        check("slurm_update error: Unable to contact slurm controller (connect failure)", "ControllerAway");
        check("slurm_update error: Socket timed out on send/recv operation", "NoAnswer");
        check("slurm_update error: Zero Bytes were transmitted or received", "NoAnswer");
        check("Unexpected message received for job 1", "NoAnswer");
        check("slurm_load_node error: Connection reset by peer", "NoAnswer");
        check("slurm_load_node error: Transport endpoint is not connected", "NoAnswer");
        check(
            "scontrol: error: slurm_msg_sendto: address:port=127.0.0.1:29500 msg_type=2007: Unexpected missing socket \
             error\nslurm_load_node error: Unexpected missing socket error\n",
            "NoAnswer",
        );
        check("slurm_update error: Invalid node name specified", "NotFound");
        check("slurm_load_jobs error: Invalid job id specified", "NotFound");
        check("Node gpu9 not found", "NotFound");
        check("slurm_update error: Invalid user id", "Refused");
        check("You must specify a reason when DOWNING or DRAINING a node. Request denied", "Refused");
        check("", "Refused");
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(version("slurm 22.05.8\n"), Some((22, 5)));
        assert_eq!(version("slurm-wlm 24.11.5"), Some((24, 11)));
        assert_eq!(version("slurm 25.05.0-0rc1"), Some((25, 5)));
        for text in ["", "slurm", "slurm x.y", "slurm 99999999.1"] {
            assert_eq!(version(text), None, "{text}");
        }
    }
}
