//! What an agent is told: where its controller is, which kernel logs it reads, what it may do.
//!
//! [`Config::load`] reads the whole file and reports everything that is wrong with it at once. What it returns is
//! checked; nothing later looks at the text again.

mod document;
pub mod reference;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls::pki_types::ServerName;

use document::{Document, Table};

/// A configuration file of more bytes than this is a mistake.
const MAX_FILE: u64 = 1 << 20;
/// Where the state is kept unless the configuration says otherwise.
pub const DEFAULT_STATE_DIR: &str = "/var/lib/provost-agent";
const DEFAULT_KERNEL_LOG: &str = "/dev/kmsg";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The controller.
    pub server: Server,
    /// Certificates of the authorities that may have signed the controller's, PEM.
    pub ca_file: PathBuf,
    /// Token for the first certificate.
    pub enrol_token_file: Option<PathBuf>,
    /// Where the agent keeps certificates, positions and the order log, one folder a node.
    pub state_dir: PathBuf,
    /// The nodes that this process speaks for; at least one.
    pub nodes: Vec<NodeConfig>,
    /// All that it will ever do.
    pub actions: Vec<ActionConfig>,
}

/// Where the controller listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Host name or address, as its certificate must have it.
    pub name: ServerName<'static>,
    /// Port.
    pub port: u16,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Name; the controller's inventory has the same.
    pub name: String,
    /// Device, file or FIFO.
    pub kernel_log: PathBuf,
    /// How it is written.
    pub format: LogFormat,
}

/// How a kernel log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Records of `/dev/kmsg`.
    Kmsg,
    /// Lines of `dmesg`; nobody vouches for them.
    Text,
}

/// One thing that may be done on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionConfig {
    /// Name.
    pub name: String,
    /// What to run; no shell.
    pub argv: Vec<Word>,
    /// Killed after this.
    pub timeout: Duration,
    /// Asks whether it is done, without doing it: exit code 0 yes, 1 no, any other unknown.
    pub probe: Option<Vec<Word>>,
}

/// One word of a command line: pieces that are put together.
pub type Word = Vec<Piece>;

/// A part of a [`Word`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// As written.
    Literal(String),
    /// `{node}`: the node's name.
    Node,
    /// `{gpu.pci}`: the device that the order names.
    GpuPci,
}

/// Everything that is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[error("{}", Lines(.errors))]
pub struct ConfigErrors {
    /// In the order of the file.
    pub errors: Vec<ConfigError>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Line, from 1; none where the file can't be read.
    pub line: Option<usize>,
    /// Key, such as `node[0].kernel_log`; empty where the text is no TOML.
    pub key: String,
    /// What is so, and what to do.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

struct Lines<'a>(&'a [ConfigError]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl Config {
    /// Reads and checks a file. Relative paths in it start at its folder.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn load(path: &Path) -> Result<Config, ConfigErrors> {
        let mut text = String::new();
        fs::File::open(path)
            .and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text))
            .and_then(|_| {
                let too_long = text.len() as u64 > MAX_FILE;
                if too_long { Err(std::io::Error::other("it is longer than 1 MiB")) } else { Ok(()) }
            })
            .map_err(|error| {
                let message = format!("can't read `{}`: {error}", path.display());
                ConfigErrors { errors: vec![ConfigError { line: None, key: String::new(), message }] }
            })?;
        Config::read(&text, path.parent().unwrap_or(Path::new("")), |ca_file| {
            crate::agent::read_roots(ca_file).map(drop).map_err(|error| {
                let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
                causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
            })
        })
    }

    /// Checks a text and looks at no file; relative paths in it start at `base`.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn parse(text: &str, base: &Path) -> Result<Config, ConfigErrors> {
        Config::read(text, base, |_| Ok(()))
    }

    fn read(
        text: &str,
        base: &Path,
        usable: impl Fn(&Path) -> Result<(), String>,
    ) -> Result<Config, ConfigErrors> {
        let mut document = Document::new(text);
        let mut root = document.root();
        let server = root.required(&mut document, "server", parse_server);
        let ca_file = root.required(&mut document, "ca_file", |text| {
            let path = base.join(text);
            usable(&path).map(|()| path)
        });
        let enrol_token_file = root.optional(&mut document, "enrol_token_file", |text| Ok(base.join(text)));
        let state_dir = root.optional(&mut document, "state_dir", |text| Ok(base.join(text)));
        let mut nodes = Nodes::default();
        for table in root.tables(&mut document, "node") {
            nodes.read(table, base, &mut document);
        }
        if root.is_absent("node") {
            nodes.read(document.empty_table("node[0]"), base, &mut document);
        }
        let actions = actions(&mut root, &mut document);
        root.finish(&mut document);
        let errors = document.into_errors();
        let (Some(server), Some(ca_file), true) = (server, ca_file, errors.is_empty()) else {
            return Err(ConfigErrors { errors });
        };
        let state_dir = state_dir.unwrap_or_else(|| PathBuf::from(DEFAULT_STATE_DIR));
        Ok(Config { server, ca_file, enrol_token_file, state_dir, nodes: nodes.nodes, actions })
    }
}

fn parse_server(text: &str) -> Result<Server, String> {
    let help = || format!("`{text}` is not an address such as https://controller.example:8443");
    let address = text.strip_prefix("https://").ok_or_else(help)?;
    let address = address.strip_suffix('/').unwrap_or(address);
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| help())?),
        _ => (address, 443),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = ServerName::try_from(host.to_owned()).map_err(|_| help())?;
    Ok(Server { name, port })
}

/// The `[[node]]` entries so far.
#[derive(Default)]
struct Nodes {
    nodes: Vec<NodeConfig>,
    names: BTreeSet<String>,
}

impl Nodes {
    fn read(&mut self, mut table: Table<'_>, base: &Path, document: &mut Document<'_>) {
        let name_span = table.span_of("name");
        let name = table.optional(document, "name", parse_name);
        let name = match (name, table.is_absent("name")) {
            (None, true) => {
                host_name().map_err(|text| document.error(&name_span, &table.key("name"), text)).ok()
            }
            (name, _) => name,
        };
        if let Some(name) = &name
            && !self.names.insert(name.clone())
        {
            document.error(&name_span, &table.key("name"), format!("`{name}` has an entry already"));
        }
        let kernel_log = table.optional(document, "kernel_log", |text| Ok(base.join(text)));
        let format_span = table.span_of("kernel_log_format");
        let format = table.optional(document, "kernel_log_format", |text| match text {
            "kmsg" => Ok(LogFormat::Kmsg),
            "text" => Ok(LogFormat::Text),
            _ => Err(format!("`{text}` is no format; write \"kmsg\" or \"text\"")),
        });
        table.optional(document, "nvml", |text| match text {
            "auto" | "off" => Ok(()),
            _ => Err("this version does not load NVML; write \"off\", or leave the key out".to_owned()),
        });
        table.finish(document);
        let kernel_log = kernel_log.unwrap_or_else(|| PathBuf::from(DEFAULT_KERNEL_LOG));
        let format = format.unwrap_or(LogFormat::Kmsg);
        if format == LogFormat::Text && is_character_device(&kernel_log) {
            let text = format!("`{}` is a device and writes records; write \"kmsg\"", kernel_log.display());
            document.error(&format_span, &table.key("kernel_log_format"), text);
        }
        if let Some(name) = name {
            self.nodes.push(NodeConfig { name, kernel_log, format });
        }
    }
}

fn is_character_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_char_device())
}

/// The host's name up to the first dot, as schedulers use it.
fn host_name() -> Result<String, String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")
        .map_err(|error| format!("the host's name can't be read ({error}); write the node's name"))?;
    let name = name.trim();
    parse_name(name.split('.').next().unwrap_or(name))
}

/// A name becomes a folder and a word of a command line.
fn parse_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let valid = (1..=63).contains(&text.len())
        && text.chars().all(plain)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if valid {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{}` is not a name: up to 63 of a-z, 0-9, `-`, `_`, `.`, a letter or digit first",
        text.escape_debug()
    ))
}

fn actions(root: &mut Table<'_>, document: &mut Document<'_>) -> Vec<ActionConfig> {
    let mut actions: Vec<ActionConfig> = Vec::new();
    for mut table in root.tables(document, "action") {
        let name_span = table.span_of("name");
        let name = table.required(document, "name", parse_name);
        if let Some(name) = &name
            && actions.iter().any(|action| action.name == *name)
        {
            document.error(&name_span, &table.key("name"), format!("`{name}` has an entry already"));
        }
        let argv = argv(&mut table, document, "argv");
        if argv.is_none() && table.is_absent("argv") {
            document.error(&table.span(), &table.key("argv"), "is missing: the command and its arguments");
        }
        let probe = self::argv(&mut table, document, "probe");
        let timeout = table.optional(document, "timeout", parse_timeout).unwrap_or(DEFAULT_TIMEOUT);
        table.finish(document);
        if let (Some(name), Some(argv)) = (name, argv) {
            actions.push(ActionConfig { name, argv, timeout, probe });
        }
    }
    actions
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let span: provost_model::time::Span = text.parse().map_err(|error| format!("{error}"))?;
    let in_range = span.0 > Duration::ZERO && span.0 <= MAX_TIMEOUT;
    if in_range { Ok(span.0) } else { Err(format!("`{text}` is not between 1ms and 1d")) }
}

/// A command line; none where the key is absent or wrong, and then it is reported.
fn argv(table: &mut Table<'_>, document: &mut Document<'_>, key: &'static str) -> Option<Vec<Word>> {
    let strings: Vec<(Range<usize>, String)> = table.strings(document, key)?;
    if strings.is_empty() {
        document.error(&table.span_of(key), &table.key(key), "is empty; the first word is the program");
        return None;
    }
    let mut words = Vec::new();
    for (span, text) in &strings {
        match parse_word(text) {
            Ok(word) => words.push(word),
            Err(message) => document.error(span, &table.key(key), message),
        }
    }
    (words.len() == strings.len()).then_some(words)
}

fn parse_word(text: &str) -> Result<Word, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((literal, after)) = rest.split_once('{') {
        let (name, after) =
            after.split_once('}').ok_or_else(|| format!("`{text}` has a `{{` without a `}}`"))?;
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal.to_owned()));
        }
        pieces.push(match name {
            "node" => Piece::Node,
            "gpu.pci" => Piece::GpuPci,
            _ => return Err(format!("`{{{name}}}` is not known; there are {{node}} and {{gpu.pci}}")),
        });
        rest = after;
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Literal(rest.to_owned()));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests;
