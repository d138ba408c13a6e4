//! A controller beside the cluster, configured by the project's own example.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use crate::daemon::{Daemon, Paused};
use crate::programs::{program, project_root};
use crate::testbed::{EXAMPLE_NODES, Testbed};

/// From its start to `ready`.
const START: Duration = Duration::from_secs(20);
/// The folder that the example files name.
pub(crate) const EXAMPLE_DIR: &str = "/tmp/provost-testbed";

static SITES: AtomicU16 = AtomicU16::new(0);

/// A data directory, a configuration, and the controller that runs on them.
#[derive(Debug)]
pub struct Site {
    dir: PathBuf,
    /// Production nodes of its inventory.
    nodes: u16,
    testbed: PathBuf,
    address: String,
    data: PathBuf,
    config: String,
    daemon: Option<Daemon>,
}

impl Site {
    /// A site of the example beside this cluster; not started yet.
    ///
    /// # Panics
    /// Where its files can't be written.
    pub fn of_example(testbed: &Testbed) -> Site {
        let number = SITES.fetch_add(1, Ordering::SeqCst);
        let address = format!("127.0.0.1:{}", testbed.port(number % 8));
        let config = example("provost.toml")
            .replace(EXAMPLE_DIR, &testbed.dir().display().to_string())
            .replace("127.0.0.1:8443", &address);
        let config = match testbed.tools() {
            Some(bin) => {
                config.replace("[[slurm]]\n", &format!("[[slurm]]\nbin = {:?}\n", bin.display().to_string()))
            }
            None => config,
        };
        Site::new(testbed.dir(), number, testbed.nodes(), address, config)
    }

    /// A site that has a configuration of its own and no cluster, below `dir`.
    ///
    /// # Panics
    /// Where its files can't be written.
    pub fn alone(dir: &Path, config: &str) -> Site {
        let number = SITES.fetch_add(1, Ordering::SeqCst);
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a free port").to_string();
        Site::new(dir, number, EXAMPLE_NODES, address, config.to_owned())
    }

    fn new(testbed: &Path, number: u16, nodes: u16, address: String, config: String) -> Site {
        let dir = testbed.join(format!("site{number}"));
        fs::create_dir_all(&dir).expect("a folder for the site");
        fs::write(dir.join("inventory.toml"), more(&example("inventory.toml"), nodes))
            .expect("the inventory can be written");
        Site {
            data: dir.join("data"),
            dir,
            nodes,
            testbed: testbed.to_owned(),
            address,
            config,
            daemon: None,
        }
    }

    /// Changes the configuration.
    ///
    /// # Panics
    /// Where `from` is not in it: a change that changes nothing is a mistake of the test.
    #[track_caller]
    #[must_use]
    pub fn with(mut self, from: &str, to: &str) -> Site {
        assert!(self.config.contains(from), "`{from}` is not in:\n{}", self.config);
        self.config = self.config.replace(from, to);
        self
    }

    /// Puts the data directory elsewhere.
    #[must_use]
    pub fn with_data(mut self, data: &Path) -> Site {
        data.clone_into(&mut self.data);
        self
    }

    /// Listens on another address of this machine.
    #[must_use]
    pub fn on_address(mut self, host: &str) -> Site {
        let port = self.address.rsplit_once(':').map_or("0", |(_, port)| port).to_owned();
        let address = format!("{host}:{port}");
        self.config = self.config.replace(&self.address, &address);
        self.address = address;
        self
    }

    /// Folder of the site's files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Folder of the cluster that the site is beside.
    pub(crate) fn testbed_dir(&self) -> &Path {
        &self.testbed
    }

    /// Production nodes of its inventory.
    pub(crate) fn nodes(&self) -> u16 {
        self.nodes
    }

    /// Data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// `127.0.0.1:8443`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The log of the controller.
    pub fn log(&self) -> PathBuf {
        self.dir.join("provost.log")
    }

    /// Writes the configuration and starts the controller; does not wait.
    ///
    /// # Panics
    /// Where it can't be started.
    #[track_caller]
    pub fn launch(&self) -> Daemon {
        let file = self.dir.join("provost.toml");
        fs::write(&file, &self.config).expect("the configuration can be written");
        let args = [
            "up",
            "--config",
            file.to_str().expect("a path of text"),
            "--data",
            self.data.to_str().expect("a path of text"),
            "--listen",
            &self.address,
        ];
        Daemon::start("provost up", &program("provost"), &args, &self.log())
    }

    /// Starts the controller and waits until it is ready.
    ///
    /// # Panics
    /// Where it is not ready in time.
    #[track_caller]
    pub fn start(&mut self) {
        let mut daemon = self.launch();
        daemon.wait_for_line("ready https://", START);
        self.daemon = Some(daemon);
    }

    /// A site that runs.
    #[track_caller]
    #[must_use]
    pub fn started(mut self) -> Site {
        self.start();
        self
    }

    /// The controller stands still for as long as the guard lives.
    ///
    /// # Panics
    /// Where it does not run.
    #[track_caller]
    #[must_use]
    pub fn paused(&self) -> Paused<'_> {
        self.daemon.as_ref().expect("the controller runs").paused()
    }

    /// Ends the controller at once, as a crash would.
    ///
    /// # Panics
    /// Where it does not run.
    #[track_caller]
    pub fn kill9(&mut self) {
        self.daemon.take().expect("the controller runs").kill9();
    }

    /// Ends the controller as an operator does; gives the exit code.
    ///
    /// # Panics
    /// Where it does not run, or does not end.
    #[track_caller]
    pub fn stop(&mut self) -> i32 {
        self.daemon.take().expect("the controller runs").stop()
    }

    /// Verifies the whole record, three times: by `provost`, with the replay, and by the small verifier alone.
    ///
    /// # Panics
    /// Where anything is wrong with it.
    #[track_caller]
    pub fn verify(&self) {
        let data = self.data.to_str().expect("a path of text");
        let proved = crate::cli::Answer::of("provost", &["verify", data, "--replay", "--strict"]).ok();
        assert!(proved.out.contains("replayed"), "{}", proved.out);
        crate::cli::Answer::of("provost-verify", &[data, "--strict"]).ok();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the site's files: {}", self.dir.display());
        }
    }
}

/// How the example begins each of its nodes.
pub(crate) const NODE: &str = "\n[[node]]\n";

/// A file of the example with more nodes: each as the last one of production, under its own name and numbers.
pub(crate) fn more(text: &str, nodes: u16) -> String {
    let last =
        text.split(NODE).find(|node| node.contains("name = \"gpu008\"")).expect("the example has gpu008");
    let copies = (EXAMPLE_NODES + 1..=nodes).map(|n| {
        let renamed = last.replace("gpu008", &format!("gpu{n:03}"));
        let renumbered =
            renamed.replace("SN-0008", &format!("SN-1{n:03}")).replace("-000008", &format!("-100{n:03}"));
        format!("{NODE}{renumbered}")
    });
    text.replacen(&format!("{NODE}{last}"), &format!("{NODE}{last}{}", copies.collect::<String>()), 1)
}

/// A file of the example.
pub(crate) fn example(name: &str) -> String {
    let path = project_root().join("examples/testbed").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
