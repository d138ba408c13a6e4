//! `[[bmc]]`: how the management controllers of a set of nodes are reached.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_connect::http::Endpoint;
use provost_connect::redfish::Login;
use provost_connect::tls::{Fingerprint, Trust, Trusted};
use provost_model::time::Span;

use super::Config;
use super::reader::{Findings, Section};

/// What stands for the name of a node in an address.
const NODE: &str = "{node}";
/// How often a BMC is read, where nothing else is written.
const EVERY: Span = Span(Duration::from_secs(60));
const LOGINS: [(&str, Login); 2] = [("basic", Login::Basic), ("session", Login::Session)];

/// One `[[bmc]]`.
#[derive(Clone, Debug)]
pub struct BmcTable {
    /// The nodes as written.
    pub nodes: String,
    /// The address as written.
    pub address: String,
    /// Where the BMC of each node is.
    pub endpoints: Vec<(String, Endpoint)>,
    /// User.
    pub user: Option<String>,
    /// File with the password.
    pub password_file: Option<PathBuf>,
    /// How to log in.
    pub login: Login,
    /// Authority of their certificates.
    pub ca_file: Option<PathBuf>,
    /// Certificates that are theirs.
    pub fingerprints: Vec<Fingerprint>,
    /// Id of the system, for a BMC that has several.
    pub system: Option<String>,
    /// Time between two readings.
    pub every: Span,
}

impl BmcTable {
    /// Whom to trust; none where no BMC speaks TLS.
    pub fn trust(&self) -> Option<Trust> {
        if !self.endpoints.iter().any(|(_, endpoint)| matches!(endpoint, Endpoint::Tls { .. })) {
            return None;
        }
        Some(match &self.ca_file {
            Some(path) => Trust::Authority(path.clone()),
            None if self.fingerprints.is_empty() => Trust::System,
            None => Trust::Pinned(self.fingerprints.clone()),
        })
    }

    /// The word for the way to log in.
    pub fn login_word(&self) -> &'static str {
        LOGINS.iter().find(|(_, login)| *login == self.login).map_or("basic", |(word, _)| word)
    }
}

pub(super) fn read(
    mut section: Section<'_, '_>,
    base: &Path,
    config: &Config,
    findings: &mut Findings<'_>,
) -> BmcTable {
    let nodes = section.required("nodes", findings);
    let address = section.required("address", findings);
    let endpoints = endpoints(&section, &nodes, &address, config, findings);
    let user = section.string("user", findings);
    let password_file = section.path("password_file", base, findings);
    if user.is_some() != password_file.is_some() {
        findings.add(
            section.offset(),
            section.name("user"),
            "needs password_file beside it, and it the user",
        );
    }
    if let Some(path) = &password_file {
        section.usable("password_file", std::fs::File::open(path), findings);
    }
    let table = BmcTable {
        nodes,
        address,
        endpoints,
        user,
        password_file,
        login: section.word("login", &LOGINS, findings).unwrap_or(Login::Basic),
        ca_file: section.path("ca_file", base, findings),
        fingerprints: fingerprints(&mut section, findings),
        system: section.string("system", findings),
        every: section.parsed("every", findings).unwrap_or(EVERY),
    };
    check_trust(&section, &table, findings);
    if table.every.0 < Duration::from_secs(1) {
        findings.add(section.offset(), section.name("every"), "must be at least 1s: BMCs are slow");
    }
    section.finish(findings);
    table
}

/// The endpoint of each node, and whatever is wrong with the two keys that they come from.
fn endpoints(
    section: &Section<'_, '_>,
    nodes: &str,
    address: &str,
    config: &Config,
    findings: &mut Findings<'_>,
) -> Vec<(String, Endpoint)> {
    if nodes.is_empty() || address.is_empty() {
        return Vec::new();
    }
    let Some(names) = provost_connect::slurm::expand(nodes) else {
        findings.add(
            section.offset(),
            section.name("nodes"),
            "must be a list of nodes such as gpu[001-008],gpu010",
        );
        return Vec::new();
    };
    check_nodes(section, &names, config, findings);
    if names.len() > 1 && !address.contains(NODE) {
        let message =
            format!("is the same for {} nodes; write {NODE} where the name of the node belongs", names.len());
        findings.add(section.offset(), section.name("address"), message);
        return Vec::new();
    }
    let mut endpoints = Vec::new();
    for name in names {
        match address.replace(NODE, &name).parse() {
            Ok(endpoint @ (Endpoint::Tls { .. } | Endpoint::Loopback(_))) => endpoints.push((name, endpoint)),
            _ => {
                let message = "must be https://HOST or https://HOST:PORT, or http:// on loopback";
                findings.add(section.offset(), section.name("address"), message);
                return Vec::new();
            }
        }
    }
    endpoints
}

/// A node has one BMC, and a name that nobody knows is a mistake that would stay unnoticed.
fn check_nodes(section: &Section<'_, '_>, names: &[String], config: &Config, findings: &mut Findings<'_>) {
    let mut known: BTreeSet<&str> =
        config.bmc.iter().flat_map(|table| &table.endpoints).map(|(name, _)| name.as_str()).collect();
    let inventory: BTreeSet<&str> = config.engine.inventory.iter().map(|node| node.name.as_str()).collect();
    for name in names {
        if !known.insert(name) {
            findings.add(section.offset(), section.name("nodes"), format!("`{name}` has a BMC already"));
        }
        if !inventory.is_empty() && !inventory.contains(name.as_str()) {
            findings.add(
                section.offset(),
                section.name("nodes"),
                format!("`{name}` is not in the inventory"),
            );
        }
    }
}

fn fingerprints(section: &mut Section<'_, '_>, findings: &mut Findings<'_>) -> Vec<Fingerprint> {
    let mut read = Vec::new();
    for text in section.strings("fingerprints", findings).unwrap_or_default() {
        match text.parse() {
            Ok(fingerprint) => read.push(fingerprint),
            Err(error) => findings.add(section.offset(), section.name("fingerprints"), format!("{error}")),
        }
    }
    read
}

fn check_trust(section: &Section<'_, '_>, table: &BmcTable, findings: &mut Findings<'_>) {
    let key = if table.ca_file.is_some() { "ca_file" } else { "fingerprints" };
    let named = table.ca_file.is_some() || !table.fingerprints.is_empty();
    if table.ca_file.is_some() && !table.fingerprints.is_empty() {
        findings.add(
            section.offset(),
            section.name(key),
            "is one way to trust a BMC, fingerprints another; write one",
        );
    } else if let Some(trust) = table.trust() {
        let key = if named { key } else { "address" };
        section.usable(key, Trusted::new(&trust), findings);
    } else if named && !table.endpoints.is_empty() {
        findings.add(section.offset(), section.name(key), "is for https:// only");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(table: &str, expected: &[&str]) {
        let text = format!("[[bmc]]\n{table}");
        let findings = Config::parse(&text, Path::new("/base")).err().unwrap_or_default();
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{table}: {found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found} does not contain {expected}");
        }
    }

    const PRINT: &str = "00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF";

    #[test]
    fn what_is_wrong_is_told() {
        check(
            "nodes = \"gpu[001-002]\"\naddress = \"http://127.0.0.1:80{node}\"\n",
            &["bmc[0].address: must be https://"],
        );
        check("", &["bmc[0].address: is missing", "bmc[0].nodes: is missing"]);
        check("nodes = \"gpu[\"\naddress = \"https://a\"\n", &["bmc[0].nodes: must be a list of nodes"]);
        check("nodes = \"a,b\"\naddress = \"https://bmc\"\n", &["bmc[0].address: is the same for 2 nodes"]);
        check("nodes = \"a\"\naddress = \"http://bmc.example\"\n", &["bmc[0].address: must be https://"]);
        check("nodes = \"a\"\naddress = \"unix:///run/bmc\"\n", &["bmc[0].address: must be https://"]);
        check(
            "nodes = \"a,a\"\naddress = \"https://{node}\"\nfingerprints = [\"x\"]\n",
            &["bmc[0].fingerprints: `x` is no SHA-256 fingerprint", "bmc[0].nodes: `a` has a BMC already"],
        );
        check(
            "nodes = \"a\"\naddress = \"https://a\"\nca_file = \"ca.pem\"\n",
            &["line 4: bmc[0].ca_file: failed to read the authorities in `/base/ca.pem`"],
        );
        check(
            &format!("nodes = \"a\"\naddress = \"http://127.0.0.1:1\"\nfingerprints = [\"{PRINT}\"]\n"),
            &["bmc[0].fingerprints: is for https:// only"],
        );
        check(
            &format!(
                "nodes = \"a\"\naddress = \"https://a\"\nca_file = \"ca.pem\"\nfingerprints = [\"{PRINT}\"]\n"
            ),
            &["bmc[0].ca_file: is one way to trust a BMC"],
        );
        check(
            "nodes = \"a\"\naddress = \"http://127.0.0.1:1\"\nuser = \"u\"\n",
            &["bmc[0].user: needs password_file"],
        );
        check(
            "nodes = \"a\"\naddress = \"http://127.0.0.1:1\"\nuser = \"u\"\npassword_file = \"p\"\n",
            &["line 5: bmc[0].password_file: No such file"],
        );
        check(
            "nodes = \"a\"\naddress = \"http://127.0.0.1:1\"\nevery = \"10ms\"\nlogin = \"magic\"\n",
            &["bmc[0].every: must be at least 1s", "bmc[0].login: `magic` is none of: basic, session"],
        );
    }

    #[test]
    fn each_node_has_its_endpoint() {
        let text = format!(
            "[[bmc]]\nnodes = \"gpu[001-002]\"\naddress = \"https://{{node}}-bmc.example\"\nfingerprints = [\"{PRINT}\"]\n\
             [[bmc]]\nnodes = \"login\"\naddress = \"http://127.0.0.1:8000\"\nevery = \"5m\"\n"
        );
        let config = Config::parse(&text, Path::new("/")).unwrap();
        let addresses: Vec<(String, String)> = config
            .bmc
            .iter()
            .flat_map(|table| &table.endpoints)
            .map(|(node, endpoint)| (node.clone(), endpoint.to_string()))
            .collect();
        let pair = |node: &str, address: &str| (node.to_owned(), address.to_owned());
        assert_eq!(
            addresses,
            [
                pair("gpu001", "https://gpu001-bmc.example:443"),
                pair("gpu002", "https://gpu002-bmc.example:443"),
                pair("login", "http://127.0.0.1:8000"),
            ]
        );
        assert!(matches!(config.bmc[0].trust(), Some(Trust::Pinned(prints)) if prints.len() == 1));
        assert_eq!((config.bmc[1].trust(), config.bmc[1].every), (None, Span(Duration::from_secs(300))));
        let again = Config::parse(&config.effective(), Path::new("/")).unwrap();
        assert_eq!(format!("{:?}", again.bmc), format!("{:?}", config.bmc));
    }

    #[test]
    fn a_node_of_another_inventory_is_no_node() {
        let dir = std::env::temp_dir().join(format!("provost-bmc-config-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("i.toml"), "[[node]]\nname = \"gpu001\"\n").unwrap();
        let text = "[inventory]\nfile = \"i.toml\"\n[[bmc]]\nnodes = \"gpu[001-002]\"\naddress = \"https://{node}\"\n";
        let found = Config::parse(text, &dir).unwrap_err();
        std::fs::remove_dir_all(&dir).unwrap();
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|found| found.contains("`gpu002` is not in the inventory")), "{found:?}");
    }
}
