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
    let written = std::fs::read_to_string(file)
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

/// Names are unique, and racks and leaves that nodes name exist.
fn check(written: &Written, file: &Path, offset: usize, findings: &mut Findings<'_>) {
    let mut say =
        |text: String| findings.add(offset, "inventory.file", format!("`{}`: {text}", file.display()));
    let racks: BTreeSet<&str> = written.rack.iter().map(|rack| rack.name.as_str()).collect();
    let leaves: BTreeSet<&str> = written.leaf.iter().map(|leaf| leaf.name.as_str()).collect();
    let (mut names, mut serials, mut uuids) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for node in &written.node {
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
        let mut places = BTreeSet::new();
        for gpu in &node.gpus {
            if !places.insert(gpu.index)
                || !places.insert(1_000_000 + u32::from(gpu.pci.bus) * 256 + u32::from(gpu.pci.device))
            {
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
