//! The configuration of `provost up`: what was written is read once, checked once, and only the checked value
//! is passed on.

mod bmc;
mod inventory;
mod reader;
pub mod reference;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_connect::http::{Client, Endpoint};
use provost_model::policy::{ClusterPolicy, EngineConfig, GovernorLimits, Mode, ScopeLimits, Timers};
use provost_model::time::Span;

use crate::certificates::{load_chain, load_key};
pub use bmc::BmcTable;
pub use reader::Finding;
use reader::{Findings, Section};

/// Everything `provost up` is configured with.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the engine obeys.
    pub engine: EngineConfig,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Certificate and key of the server, where people bring their own.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Where the emergency journal lies; beside the journal by default.
    pub emergency: Option<PathBuf>,
    /// Slurm clusters.
    pub slurm: Vec<SlurmCluster>,
    /// Management controllers of nodes.
    pub bmc: Vec<BmcTable>,
    /// A folder whose `*.yaml` add to, or replace, the built-in runbooks.
    pub runbooks: Option<PathBuf>,
}

/// One `[[slurm]]`.
#[derive(Clone, Debug)]
pub struct SlurmCluster {
    /// Name.
    pub name: String,
    /// `slurm.conf` for the command line tools.
    pub conf: PathBuf,
    /// Folder of the command line tools, where it is not on the path.
    pub bin: Option<PathBuf>,
    /// slurmrestd.
    pub rest: Option<SlurmRest>,
    /// Production partitions.
    pub partitions: Vec<String>,
    /// Partition of the spares.
    pub spare_partition: Option<String>,
}

/// How to reach slurmrestd.
#[derive(Clone, Debug)]
pub struct SlurmRest {
    /// `unix:///…`, `https://…`, or `http://` on loopback.
    pub url: String,
    /// Authority of its certificate; those of the system without one.
    pub ca_file: Option<PathBuf>,
    /// Slurm user that the token is for.
    pub user: Option<String>,
    /// File with the token.
    pub token_file: Option<PathBuf>,
}

/// A configuration that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be read.
    #[error("failed to read the configuration `{path}`")]
    Read {
        /// Path.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It has errors.
    #[error("the configuration `{path}` has {} error(s)", findings.len())]
    Findings {
        /// Path.
        path: PathBuf,
        /// All of them.
        findings: Vec<Finding>,
    },
}

/// Bytes of a configuration or an inventory; ten thousand nodes with eight GPUs each are a tenth of it.
const MAX_FILE: u64 = 64 << 20;

/// Reads a file that a person wrote. A path that never ends, such as a device, is refused.
fn read_bounded(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(std::io::Error::other(format!("it is larger than {MAX_FILE} bytes")));
    }
    Ok(text)
}

const MODES: [(&str, Mode); 3] = [("observe", Mode::Observe), ("advise", Mode::Advise), ("act", Mode::Act)];

impl Config {
    /// Embedded defaults: nothing outside is attached.
    pub fn embedded() -> Config {
        Config {
            engine: EngineConfig::default(),
            listen: SocketAddr::from(([127, 0, 0, 1], 8443)),
            tls: None,
            emergency: None,
            slurm: Vec::new(),
            bmc: Vec::new(),
            runbooks: None,
        }
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// Where it can't be read, or with every error that it has.
    pub fn load(path: &Path) -> Result<Config, Error> {
        let text = read_bounded(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let base = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Config::parse(&text, base).map_err(|findings| Error::Findings { path: path.to_owned(), findings })
    }

    /// Checks the text of a configuration; relative paths in it are below `base`.
    ///
    /// # Errors
    /// Every error that it has.
    pub fn parse(text: &str, base: &Path) -> Result<Config, Vec<Finding>> {
        let mut findings = Findings::new(text);
        let (document, syntax) = toml::de::DeTable::parse_recoverable(text);
        for error in syntax {
            findings.add(error.span().map_or(0, |span| span.start), "", error.message());
        }
        if !findings.is_empty() {
            return Err(findings.into_sorted());
        }
        let config = read(&mut Section::root(&document), base, &mut findings);
        if findings.is_empty() { Ok(config) } else { Err(findings.into_sorted()) }
    }

    /// The configuration as TOML, with every default written out; no secret is in it, only paths to files.
    pub fn effective(&self) -> String {
        effective::write(self)
    }
}

mod effective;

fn read(root: &mut Section<'_, '_>, base: &Path, findings: &mut Findings<'_>) -> Config {
    let mut config = Config::embedded();
    if let Some(mut site) = root.section("site", findings) {
        config.engine.site = site.required("name", findings);
        check_name(&config.engine.site, site.offset(), &site.name("name"), findings);
        check_jurisdiction(&mut site, findings);
        check_time_zone(&mut site, findings);
        config.engine.mode = site.word("mode", &MODES, findings).unwrap_or_default();
        site.finish(findings);
    }
    if let Some(mut listen) = root.section("listen", findings) {
        config.listen = listen.parsed("address", findings).unwrap_or(config.listen);
        listen.finish(findings);
    }
    if let Some(section) = root.section("tls", findings) {
        config.tls = read_tls(section, base, findings);
    }
    if let Some(mut journal) = root.section("journal", findings) {
        journal.word("store", &[("sqlite", ())], findings);
        config.emergency = journal.path("emergency_file", base, findings);
        journal.finish(findings);
    }
    for (i, section) in root.sections("slurm", findings).into_iter().enumerate() {
        read_slurm(i, section, base, &mut config, findings);
    }
    if let Some(section) = root.section("governor", findings) {
        config.engine.governor = read_governor(section, findings);
    }
    if let Some(section) = root.section("timers", findings) {
        config.engine.timers = read_timers(section, findings);
    }
    if let Some(mut inventory) = root.section("inventory", findings) {
        if let Some(file) = inventory.path("file", base, findings) {
            config.engine.inventory = inventory::load(&file, inventory.offset(), findings);
        }
        inventory.finish(findings);
    }
    for section in root.sections("bmc", findings) {
        let table = bmc::read(section, base, &config, findings);
        config.bmc.push(table);
    }
    if let Some(section) = root.section("node_modes", findings) {
        config.engine.node_modes = read_node_modes(&section, findings);
    }
    if let Some(mut runbooks) = root.section("runbooks", findings) {
        config.runbooks = runbooks.path("dir", base, findings);
        if let Some(dir) = &config.runbooks {
            runbooks.usable("dir", crate::runbooks::load(Some(dir)), findings);
        }
        runbooks.finish(findings);
    }
    finish_root(root, findings);
    config
}

/// The document's own keys; a section is consumed by `finish`, so the root gets one of its own.
fn finish_root(root: &mut Section<'_, '_>, findings: &mut Findings<'_>) {
    let known = [
        "site",
        "listen",
        "tls",
        "journal",
        "slurm",
        "bmc",
        "governor",
        "timers",
        "inventory",
        "node_modes",
        "runbooks",
    ];
    for (key, offset) in root.open_keys() {
        if !known.contains(&key) {
            findings.add(offset, key, format!("is not known here; known are: {}", known.join(", ")));
        }
    }
}

/// Names go into file names, origins of the journal and ids: letters, digits, `-`, `_`, `.`; 1–63 of them.
fn check_name(name: &str, offset: usize, key: &str, findings: &mut Findings<'_>) {
    if !is_name(name) && !name.is_empty() {
        findings.add(offset, key, "may hold letters, digits, `-`, `_` and `.`, 63 at most");
    }
}

/// The rule of [`check_name`].
fn is_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn check_jurisdiction(site: &mut Section<'_, '_>, findings: &mut Findings<'_>) {
    let Some(code) = site.string("jurisdiction", findings) else { return };
    let (country, rest) = code.split_once('-').unwrap_or((&code, "A"));
    let valid = country.len() == 2
        && country.bytes().all(|b| b.is_ascii_uppercase())
        && (1..=3).contains(&rest.len())
        && rest.bytes().all(|b| b.is_ascii_alphanumeric());
    if !valid {
        findings.add(site.offset(), site.name("jurisdiction"), "must be a code of ISO 3166-2 such as FI-18");
    }
}

fn check_time_zone(site: &mut Section<'_, '_>, findings: &mut Findings<'_>) {
    if let Some(zone) = site.string("time_zone", findings)
        && jiff::tz::TimeZone::get(&zone).is_err()
    {
        findings.add(
            site.offset(),
            site.name("time_zone"),
            format!("`{zone}` is no zone of the tz database; write one such as Europe/Helsinki"),
        );
    }
}

fn read_tls(
    mut tls: Section<'_, '_>,
    base: &Path,
    findings: &mut Findings<'_>,
) -> Option<(PathBuf, PathBuf)> {
    let pair = (tls.path("cert_file", base, findings), tls.path("key_file", base, findings));
    let own = match pair {
        (Some(cert), Some(key)) => {
            tls.usable("cert_file", load_chain(&cert), findings);
            tls.usable("key_file", load_key(&key), findings);
            Some((cert, key))
        }
        (None, None) => None,
        _ => {
            findings.add(tls.offset(), "tls", "needs both cert_file and key_file");
            None
        }
    };
    tls.finish(findings);
    own
}

fn read_slurm(
    i: usize,
    mut section: Section<'_, '_>,
    base: &Path,
    config: &mut Config,
    findings: &mut Findings<'_>,
) {
    let name = section.required("name", findings);
    check_name(&name, section.offset(), &section.name("name"), findings);
    if config.slurm.iter().any(|other| other.name == name) {
        findings.add(section.offset(), section.name("name"), format!("`{name}` is used twice"));
    }
    let conf = base.join(section.required("conf", findings));
    let rest_url = section.string("rest", findings);
    let ca_file = section.path("rest_ca_file", base, findings);
    if let Some(url) = &rest_url {
        check_rest(&section, url, ca_file.as_deref(), findings);
    }
    let user = section.string("rest_user", findings);
    if user.as_deref() == Some("root") {
        findings.add(
            section.offset(),
            section.name("rest_user"),
            "must not be root: a Slurm user with AdminLevel=Operator",
        );
    }
    let token_file = section.path("rest_token_file", base, findings);
    let partitions = section.strings("partitions", findings).unwrap_or_default();
    let spare_partition = section.string("spare_partition", findings);
    let mode = section.word("mode", &MODES, findings);
    let bin = section.path("bin", base, findings);
    section.finish(findings);
    config.engine.clusters.insert(
        name.clone(),
        ClusterPolicy { mode, partitions: partitions.clone(), spare_partition: spare_partition.clone() },
    );
    debug_assert_eq!(i, config.slurm.len());
    let rest = rest_url.map(|url| SlurmRest { url, ca_file, user, token_file });
    config.slurm.push(SlurmCluster { name, conf, bin, rest, partitions, spare_partition });
}

/// slurmrestd must be reachable without a secret in plain text, and its certificate must be one that can be checked.
fn check_rest(section: &Section<'_, '_>, url: &str, ca_file: Option<&Path>, findings: &mut Findings<'_>) {
    match url.parse::<Endpoint>() {
        Ok(endpoint @ Endpoint::Tls { .. }) => {
            let key = if ca_file.is_some() { "rest_ca_file" } else { "rest" };
            section.usable(key, Client::new(endpoint, ca_file), findings);
        }
        Ok(_) if ca_file.is_some() => {
            findings.add(section.offset(), section.name("rest_ca_file"), "is for https:// only");
        }
        Ok(_) => {}
        Err(_) => findings.add(
            section.offset(),
            section.name("rest"),
            "must be unix:///…, https://HOST:PORT, or http:// on loopback",
        ),
    }
}

fn read_governor(mut section: Section<'_, '_>, findings: &mut Findings<'_>) -> GovernorLimits {
    let mut limits = GovernorLimits::default();
    let numbers: [(&'static str, &mut u32); 6] = [
        ("max_unavailable", &mut limits.max_unavailable),
        ("max_unavailable_percent", &mut limits.max_unavailable_percent),
        ("isolations_per_window", &mut limits.isolations_per_window),
        ("isolations_percent", &mut limits.isolations_percent),
        ("concurrent_disruptions", &mut limits.concurrent_disruptions),
        ("breaker_percent", &mut limits.breaker_percent),
    ];
    for (key, field) in numbers {
        if let Some(number) = read_limit(&mut section, key, findings) {
            *field = number;
        }
    }
    if let Some(window) = section.parsed::<Span>("window", findings) {
        limits.window = window;
    }
    if let Some(rack) = section.section("rack", findings) {
        limits.rack = read_scope(rack, findings);
    }
    if let Some(leaf) = section.section("leaf", findings) {
        limits.leaf = read_scope(leaf, findings);
    }
    if let Some(projects) = section.section("project", findings) {
        for (name, project) in projects.open_sections(findings) {
            limits.project.insert(name, read_scope(project, findings));
        }
    }
    section.finish(findings);
    limits
}

fn read_scope(mut section: Section<'_, '_>, findings: &mut Findings<'_>) -> ScopeLimits {
    let mut limits = ScopeLimits::default();
    let numbers: [(&'static str, &mut Option<u32>); 5] = [
        ("max_unavailable", &mut limits.max_unavailable),
        ("max_unavailable_percent", &mut limits.max_unavailable_percent),
        ("isolations_per_window", &mut limits.isolations_per_window),
        ("isolations_percent", &mut limits.isolations_percent),
        ("concurrent_disruptions", &mut limits.concurrent_disruptions),
    ];
    for (key, field) in numbers {
        *field = read_limit(&mut section, key, findings);
    }
    section.finish(findings);
    limits
}

fn read_limit(section: &mut Section<'_, '_>, key: &'static str, findings: &mut Findings<'_>) -> Option<u32> {
    let number = section.number(key, findings)?;
    if key.ends_with("percent") && number > 100 {
        findings.add(section.offset(), section.name(key), "must be from 0 to 100");
    }
    Some(number)
}

fn read_timers(mut section: Section<'_, '_>, findings: &mut Findings<'_>) -> Timers {
    let mut timers = Timers::default();
    let fields: [(&'static str, &mut Span); 19] = [
        ("merge", &mut timers.merge),
        ("clear_hold", &mut timers.clear_hold),
        ("resolve_hold", &mut timers.resolve_hold),
        ("soak", &mut timers.soak),
        ("probation", &mut timers.probation),
        ("heartbeat", &mut timers.heartbeat),
        ("silent_after", &mut timers.silent_after),
        ("poll", &mut timers.poll),
        ("blind_after", &mut timers.blind_after),
        ("effect", &mut timers.effect),
        ("retry", &mut timers.retry),
        ("drain", &mut timers.drain),
        ("failed_job", &mut timers.failed_job),
        ("repeat", &mut timers.repeat),
        ("companions", &mut timers.companions),
        ("quiet", &mut timers.quiet),
        ("advice", &mut timers.advice),
        ("remap", &mut timers.remap),
        ("ack", &mut timers.ack),
    ];
    for (key, field) in fields {
        if let Some(span) = section.parsed::<Span>(key, findings) {
            *field = span;
            if span.0 < Duration::from_millis(10) {
                findings.add(section.offset(), section.name(key), "must be at least 10ms");
            }
        }
    }
    section.finish(findings);
    timers
}

fn read_node_modes(section: &Section<'_, '_>, findings: &mut Findings<'_>) -> BTreeMap<String, Mode> {
    let mut modes = BTreeMap::new();
    for (node, offset, text) in section.open_strings(findings) {
        match MODES.iter().find(|(word, _)| *word == text) {
            Some((_, mode)) => drop(modes.insert(node, *mode)),
            None => findings.add(
                offset,
                section.name(&node),
                format!("`{text}` is none of: observe, advise, act"),
            ),
        }
    }
    modes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let findings = Config::parse(text, Path::new("/base")).err().unwrap_or_default();
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found} does not start with {expected}");
        }
    }

    #[test]
    fn every_error_is_told_at_once_with_line_and_key() {
        check("", &[]);
        check("[site]\nname = \"hel-1\"\n", &[]);
        check("[site]\nname = 3\n", &["line 2: site.name: must be a text"]);
        check("[site]\n", &["line 1: site.name: is missing"]);
        check("[sites]\n", &["line 1: sites: is not known here"]);
        check(
            "[site]\nname = \"a b\"\nmode = \"go\"\ncolour = 1\n",
            &[
                "line 1: site.name: may hold letters",
                "line 3: site.mode: `go` is none of: observe, advise, act",
                "line 4: site.colour: is not known here; known are:",
            ],
        );
        check(
            "[listen]\naddress = \"here\"\n[timers]\npoll = \"1 second\"\nheartbeat = 5\n",
            &[
                "line 2: listen.address: ",
                "line 4: timers.poll: `1 second` is not a length of time",
                "line 5: timers.heartbeat: must be a text",
            ],
        );
        check(
            "[governor]\nmax_unavailable = -1\nbreaker_percent = 101\n",
            &[
                "line 1: governor.breaker_percent: must be from 0 to 100",
                "line 2: governor.max_unavailable: must be a whole number",
            ],
        );
        check(
            "[governor]\nleaf = 1\n[governor.rack]\nbreaker_percent = 1\nisolations_percent = 101\n[governor.project]\nllm = 2\n\
             [governor.project.vision]\nmax_unavailable = \"1\"\n",
            &[
                "line 2: governor.leaf: must be a table: [governor.leaf]",
                "line 3: governor.rack.isolations_percent: must be from 0 to 100",
                "line 4: governor.rack.breaker_percent: is not known here; known are: concurrent_disruptions,",
                "line 7: governor.project.llm: must be a table: [governor.project.llm]",
                "line 9: governor.project.vision.max_unavailable: must be a whole number",
            ],
        );
        check(
            "[[slurm]]\nname = \"main\"\n[[slurm]]\nname = \"main\"\nconf = \"c\"\nrest = \"http://slurm:6820\"\nrest_user = \"root\"\n",
            &[
                "line 1: slurm[0].conf: is missing",
                "line 3: slurm[1].name: `main` is used twice",
                "line 3: slurm[1].rest: must be unix:///",
                "line 3: slurm[1].rest_user: must not be root",
            ],
        );
        check(
            "[[slurm]]\nname = \"main\"\nconf = \"c\"\nrest = \"https://slurm:6820\"\nrest_ca_file = \"ca.pem\"\n",
            &[
                "line 5: slurm[0].rest_ca_file: failed to read the authorities in `/base/ca.pem`: No such file",
            ],
        );
        check(
            "[[slurm]]\nname = \"main\"\nconf = \"c\"\nrest = \"unix:///s\"\nrest_ca_file = \"ca.pem\"\n",
            &["line 1: slurm[0].rest_ca_file: is for https:// only"],
        );
        check("[node_modes]\ngpu001 = \"off\"\n", &["line 2: node_modes.gpu001: `off` is none of"]);
    }

    #[test]
    fn what_a_value_names_is_looked_at_too() {
        check("[journal]\nstore = \"mongo\"\n", &["line 2: journal.store: `mongo` is none of: sqlite"]);
        check("[tls]\ncert_file = \"c.pem\"\n", &["line 1: tls: needs both"]);
        check(
            "[tls]\ncert_file = \"c.pem\"\nkey_file = \"k.pem\"\n[runbooks]\ndir = \"books\"\n",
            &[
                "line 2: tls.cert_file: failed to read `/base/c.pem`",
                "line 3: tls.key_file: failed to read `/base/k.pem`",
                "line 5: runbooks.dir: failed to read runbooks from `/base/books`: No such file",
            ],
        );
        check(
            "[tls]\ncert_file = \"/dev/null\"\nkey_file = \"/dev/null\"\n",
            &[
                "line 2: tls.cert_file: `/dev/null` holds no usable",
                "line 3: tls.key_file: `/dev/null` holds no",
            ],
        );
        check(
            "[site]\nname = \"x\"\njurisdiction = \"Finland\"\ntime_zone = \"Mars/Base\"\n",
            &[
                "line 1: site.jurisdiction: must be a code of ISO 3166-2",
                "line 1: site.time_zone: `Mars/Base` is no zone",
            ],
        );
        check("[inventory]\nfile = \"missing.toml\"\n", &["line 1: inventory.file: `/base/missing.toml`"]);
        check(
            "[inventory]\nfile = \"/dev/zero\"\n",
            &["line 1: inventory.file: `/dev/zero`: it is larger than"],
        );
    }

    #[test]
    fn broken_text_is_told_with_its_lines() {
        let findings =
            Config::parse("[site\nname = \"x\"\n[listen]\naddress = \n", Path::new(".")).unwrap_err();
        assert!(findings.iter().any(|f| f.line == 1), "{findings:?}");
        assert!(findings.iter().any(|f| f.line == 4), "{findings:?}");
    }

    #[test]
    fn limits_of_parts_survive_being_written_out() {
        let text = "[governor.rack]\nmax_unavailable = 1\n[governor.leaf]\nisolations_percent = 20\n\
                    [governor.project.\"a b\"]\nconcurrent_disruptions = 0\n";
        let config = Config::parse(text, Path::new("/")).unwrap();
        let governor = &config.engine.governor;
        assert_eq!(governor.rack.max_unavailable, Some(1));
        assert_eq!(governor.leaf.isolations_percent, Some(20));
        assert_eq!(governor.project["a b"].concurrent_disruptions, Some(0));
        let again = Config::parse(&config.effective(), Path::new("/")).unwrap();
        assert_eq!(again.engine.governor, config.engine.governor);
    }

    #[test]
    fn the_examples_are_valid_and_survive_being_written_out() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/testbed/provost.toml");
        let config = Config::load(&example).unwrap();
        assert_eq!(config.engine.inventory.len(), 10);
        assert_eq!(config.engine.clusters["main"].spare_partition.as_deref(), Some("spare"));
        let again = Config::parse(&config.effective(), Path::new("/")).unwrap();
        assert_eq!(again.engine.timers, config.engine.timers);
        assert_eq!(again.engine.governor, config.engine.governor);
        assert_eq!(again.engine.clusters.keys().collect::<Vec<_>>(), ["main"]);
    }
}
