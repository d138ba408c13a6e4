//! `inventory.toml`: what the customer says there is. What agents and schedulers report is compared with it.

use std::collections::BTreeSet;
use std::path::Path;

use provost_model::fleet::NodeFacts;
use serde::Deserialize;

use super::reader::Findings;

/// The file as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    leaf: Vec<Leaf>,
    #[serde(default)]
    rack: Vec<Rack>,
    #[serde(default)]
    node: Vec<NodeFacts>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Leaf {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rack {
    name: String,
    #[serde(default)]
    #[expect(dead_code, reason = "checked for its type; used by correlation later")]
    power_feeds: Vec<String>,
    #[serde(default)]
    #[expect(dead_code, reason = "checked for its type; used by correlation later")]
    cooling_loop: Option<String>,
}

/// Reads the inventory; errors are reported at `offset` of the configuration that names it, with the line of
/// the inventory in their text.
pub(super) fn load(file: &Path, offset: usize, findings: &mut Findings<'_>) -> Vec<NodeFacts> {
    let written = super::read_bounded(file)
        .map_err(|error| error.to_string())
        .and_then(|text| toml::from_str::<Written>(&text).map_err(|error| error.to_string()));
    match written {
        Ok(written) => {
            check(&written, file, offset, findings);
            written.node
        }
        Err(error) => {
            findings.add(offset, "inventory.file", format!("`{}`: {}", file.display(), error.trim_end()));
            Vec::new()
        }
    }
}

/// What names the node here and in its scheduler; each goes into paths of the API and into commands.
fn node_names(node: &NodeFacts) -> impl Iterator<Item = &str> {
    let there = node.slurm.as_deref().map(|slurm| slurm.split_once('/').map_or(slurm, |(_, name)| name));
    std::iter::once(node.name.as_str()).chain(there)
}

/// Texts that are only shown and compared.
fn device_texts(node: &NodeFacts) -> impl Iterator<Item = &str> {
    let gpus = node.gpus.iter().flat_map(|gpu| [&gpu.uuid, &gpu.model, &gpu.serial]);
    [&node.serial, &node.rack, &node.leaf].into_iter().chain(gpus).filter_map(Option::as_deref)
}

/// Names are unique, and racks and leaves that nodes name exist.
fn check(written: &Written, file: &Path, offset: usize, findings: &mut Findings<'_>) {
    let mut say =
        |text: String| findings.add(offset, "inventory.file", format!("`{}`: {text}", file.display()));
    let racks: BTreeSet<&str> = written.rack.iter().map(|rack| rack.name.as_str()).collect();
    let leaves: BTreeSet<&str> = written.leaf.iter().map(|leaf| leaf.name.as_str()).collect();
    let (mut names, mut serials, mut uuids) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for node in &written.node {
        for name in node_names(node) {
            if !super::is_name(name) {
                let shown: String = name.chars().take(64).collect();
                say(format!("node name {shown:?} may hold letters, digits, `-`, `_` and `.`, 63 at most"));
            }
        }
        for text in device_texts(node) {
            if !(1..=128).contains(&text.len()) || text.chars().any(char::is_control) {
                let shown: String = text.chars().take(64).collect();
                say(format!("node `{}`: {shown:?} must be 1 to 128 characters of plain text", node.name));
            }
        }
        if !names.insert(&node.name) {
            say(format!("node `{}` stands there twice", node.name));
        }
        if let Some(serial) = &node.serial
            && !serials.insert(serial)
        {
            say(format!("serial `{serial}` stands there twice"));
        }
        if let Some(rack) = node.rack.as_deref().filter(|rack| !racks.contains(rack)) {
            say(format!("node `{}` is in rack `{rack}`, which has no [[rack]]", node.name));
        }
        if let Some(leaf) = node.leaf.as_deref().filter(|leaf| !leaves.contains(leaf)) {
            say(format!("node `{}` is on leaf `{leaf}`, which has no [[leaf]]", node.name));
        }
        let (mut indexes, mut places) = (BTreeSet::new(), BTreeSet::new());
        for gpu in &node.gpus {
            if !indexes.insert(gpu.index) || !places.insert(gpu.pci) {
                say(format!("node `{}` has two gpus at index {} or {}", node.name, gpu.index, gpu.pci));
            }
            if let Some(uuid) = &gpu.uuid
                && !uuids.insert(uuid)
            {
                say(format!("gpu `{uuid}` stands there twice"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let written: Written = toml::from_str(text).unwrap();
        let mut findings = Findings::new("");
        super::check(&written, Path::new("inv"), 0, &mut findings);
        let found: Vec<String> = findings.into_sorted().into_iter().map(|f| f.message).collect();
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                found.starts_with(&format!("`inv`: {expected}")),
                "{found} does not start with {expected}"
            );
        }
    }

    #[test]
    fn names_are_plain() {
        check("[[node]]\nname = \"gpu-1.a_b\"\nslurm = \"main/gpu001\"\n", &[]);
        check("[[node]]\nname = \"\"\n", &["node name \"\" may hold"]);
        check("[[node]]\nname = \"../../etc\"\n", &["node name \"../../etc\" may hold"]);
        check("[[node]]\nname = \"a\\nb\"\n", &["node name \"a\\nb\" may hold"]);
        check("[[node]]\nname = \"a\"\nslurm = \"main/x y\"\n", &["node name \"x y\" may hold"]);
        check(
            "[[node]]\nname = \"a\"\nserial = \"s\\u001b\"\n",
            &["node `a`: \"s\\u{1b}\" must be 1 to 128"],
        );
        let long = format!("[[node]]\nname = \"{}\"\n", "x".repeat(100_000));
        check(&long, &["node name \"xxxx"]);
    }

    #[test]
    fn gpus_differ_by_their_whole_address() {
        let node = |a: &str, b: &str| {
            format!(
                "[[node]]\nname = \"a\"\ngpus = [{{ index = 0, pci = \"{a}\" }}, {{ index = 1, pci = \"{b}\" }}]\n"
            )
        };
        check(&node("0008:01:00.0", "0009:01:00.0"), &[]);
        check(&node("0000:1b:00.0", "0000:1b:00.0"), &["node `a` has two gpus"]);
    }
}
