//! A throw-away Slurm cluster of `testbed/slurm` in a temporary directory with ports of its own; stopped and
//! removed at the end of the test. Needs root.

use std::collections::HashMap;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// GPU nodes gpu001… and one spare01, with 4 GPUs each.
pub(crate) struct Testbed {
    pub(crate) dir: PathBuf,
    env: HashMap<String, String>,
    settings: Vec<(&'static str, String)>,
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/slurm")
}

/// The first of `count` neighbouring ports that are free now.
fn free_ports(count: u16) -> u16 {
    let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = 20_000 + (std::process::id() % 200) as u16 * 40;
    (first..32_000).step_by(40).find(|port| (*port..port + count).all(free)).expect("a free block of ports")
}

fn succeed(output: Output, what: &str) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} failed: {said}");
    String::from_utf8(output.stdout).unwrap()
}

impl Testbed {
    /// Installs what is missing and starts a cluster with that many GPU nodes.
    pub(crate) fn up(nodes: u16) -> Testbed {
        let dir = std::env::temp_dir().join(format!("provost-slurm-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        // The user slurm must get through.
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        let settings = vec![
            ("SLURM_TESTBED_DIR", dir.display().to_string()),
            ("SLURM_TESTBED_PORT", free_ports(nodes + 12).to_string()),
            ("SLURM_TESTBED_NODES", nodes.to_string()),
            ("SLURM_TESTBED_SPARES", "1".to_owned()),
            ("SLURM_TESTBED_GPUS", "4".to_owned()),
            ("SLURM_TESTBED_WIPE", "1".to_owned()),
        ];
        let mut testbed = Testbed { dir, env: HashMap::new(), settings };
        testbed.script("install");
        testbed.restart();
        testbed
    }

    /// Starts what does not run.
    pub(crate) fn restart(&mut self) {
        let printed = self.script("up");
        let exports = printed.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
        self.env = exports.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    }

    fn script(&self, command: &str) -> String {
        let output =
            Command::new(script()).arg(command).envs(self.settings.iter().cloned()).output().unwrap();
        succeed(output, &format!("testbed/slurm {command} (as root?)"))
    }

    pub(crate) fn setting(&self, key: &str) -> &str {
        &self.env[key]
    }

    pub(crate) fn conf(&self) -> PathBuf {
        self.setting("SLURM_CONF").into()
    }

    /// Where this cluster's tools are.
    pub(crate) fn bin_dir(&self) -> PathBuf {
        let own = self.dir.join("bin");
        if own.is_dir() { own } else { "/usr/bin".into() }
    }

    /// What an operator or user does: runs one of Slurm's tools, which must succeed.
    pub(crate) fn run(&self, tool: &str, args: &[&str]) -> String {
        let mut command = Command::new(self.bin_dir().join(tool));
        let output = command.args(args).env("SLURM_CONF", self.conf()).env("TZ", "UTC").output().unwrap();
        succeed(output, &format!("{tool} {args:?}"))
    }

    /// Kills slurmctld as a crash would.
    pub(crate) fn kill_controller(&self) {
        let pid = std::fs::read_to_string(self.dir.join("run/slurmctld.pid")).unwrap();
        succeed(Command::new("kill").args(["-KILL", pid.trim()]).output().unwrap(), "kill");
    }

    /// Tools that behave as Slurm's but for `scontrol`, which first runs `script` (its arguments are in `$*`, and
    /// `real` is Slurm's own).
    pub(crate) fn tools_with(&self, name: &str, script: &str) -> PathBuf {
        let dir = self.dir.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let real = self.bin_dir();
        for tool in ["squeue", "sacctmgr"] {
            std::os::unix::fs::symlink(real.join(tool), dir.join(tool)).unwrap();
        }
        let path = dir.join("scontrol");
        let real = real.join("scontrol").display().to_string();
        std::fs::write(&path, format!("#!/bin/sh\nreal={real}\n{script}\nexec $real \"$@\"\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        dir
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        let mut down = Command::new(script());
        match down.arg("down").envs(self.settings.iter().cloned()).output() {
            Ok(output) if output.status.success() => {}
            other => eprintln!("testbed/slurm down failed, look at {}: {other:?}", self.dir.display()),
        }
    }
}
