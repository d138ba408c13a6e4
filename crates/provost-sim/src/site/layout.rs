//! What the site is made of: names, devices, places, and the configuration of the controller over it.

use std::collections::BTreeMap;
use std::time::Duration;

use provost_model::fleet::{GpuFacts, NodeFacts};
use provost_model::policy::{ClusterPolicy, EngineConfig, GovernorLimits, Mode, Timers};
use provost_model::signal::PciAddress;
use provost_model::time::{Span, Timestamp};

/// When every story begins: 2026-11-30T19:00:00Z.
pub const BEGIN: Timestamp = Timestamp::from_millis(1_796_065_200_000);
/// The only cluster.
pub const CLUSTER: &str = "main";
/// Partition of services, a part of the nodes of [`BATCH`].
pub const SERVING: &str = "serving";
/// Partition of all other work: every production node.
pub const BATCH: &str = "batch";
/// Partition that lists the spares.
pub const SPARE: &str = "spare";
/// GPUs of a node.
pub const GPUS: u32 = 8;

const BUSES: [u8; GPUS as usize] = [0x1b, 0x2b, 0x3b, 0x4b, 0x9b, 0xab, 0xbb, 0xcb];
const NODES_PER_RACK: u32 = 4;
const NODES_PER_LEAF: u32 = 16;

/// Size of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Production nodes, `gpu001`….
    pub nodes: u32,
    /// Spares, `spare01`….
    pub spares: u32,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout { nodes: 64, spares: 4 }
    }
}

/// The address of the GPU with this index on every node; a ninth has that of the first.
pub fn pci(gpu: u32) -> PciAddress {
    PciAddress { domain: 0, bus: BUSES[gpu as usize % BUSES.len()], device: 0, function: 0 }
}

impl Layout {
    /// Names of the production nodes, wide enough that they sort by number.
    pub fn production(&self) -> Vec<String> {
        let width = self.nodes.to_string().len().max(3);
        (1..=self.nodes).map(|i| format!("gpu{i:0width$}")).collect()
    }

    /// Names of the spares.
    pub fn spares(&self) -> Vec<String> {
        (1..=self.spares).map(|i| format!("spare{i:02}")).collect()
    }

    /// All names, production first.
    pub fn names(&self) -> Vec<String> {
        self.production().into_iter().chain(self.spares()).collect()
    }

    /// Nodes of each partition. A quarter of the production nodes serve.
    pub fn partitions(&self) -> BTreeMap<String, Vec<String>> {
        let batch = self.production();
        let serving = batch.iter().take(self.nodes.div_ceil(4) as usize).cloned().collect();
        BTreeMap::from([
            (SERVING.to_owned(), serving),
            (BATCH.to_owned(), batch),
            (SPARE.to_owned(), self.spares()),
        ])
    }

    /// The inventory file's nodes.
    pub fn inventory(&self) -> Vec<NodeFacts> {
        (0..).zip(self.names()).map(|(i, name)| facts(i, name)).collect()
    }

    /// A configuration that acts, with waits short enough for a story of minutes.
    pub fn config(&self) -> EngineConfig {
        let seconds = |s| Span(Duration::from_secs(s));
        let policy = ClusterPolicy {
            mode: None,
            partitions: vec![SERVING.to_owned(), BATCH.to_owned()],
            spare_partition: Some(SPARE.to_owned()),
        };
        EngineConfig {
            site: "sim".to_owned(),
            mode: Mode::Act,
            clusters: BTreeMap::from([(CLUSTER.to_owned(), policy)]),
            node_modes: BTreeMap::new(),
            timers: Timers {
                clear_hold: seconds(5),
                resolve_hold: seconds(10),
                soak: seconds(5),
                probation: seconds(20),
                blind_after: seconds(15),
                effect: seconds(10),
                retry: seconds(1),
                drain: seconds(30),
                ..Timers::default()
            },
            governor: GovernorLimits { window: seconds(60), ..GovernorLimits::default() },
            inventory: self.inventory(),
        }
    }
}

fn facts(i: u32, name: String) -> NodeFacts {
    let gpu = |index| GpuFacts {
        index,
        pci: pci(index),
        uuid: Some(format!("GPU-00000000-0000-4000-8000-{:06}{index:06}", i + 1)),
        model: Some("H100-SXM5-80GB".to_owned()),
        serial: None,
    };
    NodeFacts {
        serial: Some(format!("SN-{:04}", i + 1)),
        rack: Some(format!("r{}", i / NODES_PER_RACK + 1)),
        leaf: Some(format!("leaf-{}", i / NODES_PER_LEAF + 1)),
        slurm: Some(format!("{CLUSTER}/{name}")),
        gpus: (0..GPUS).map(gpu).collect(),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_has_the_names_that_people_expect() {
        let layout = Layout::default();
        assert_eq!(layout.names().len(), 68);
        assert_eq!(layout.production()[6], "gpu007");
        assert_eq!(layout.spares(), ["spare01", "spare02", "spare03", "spare04"]);
        assert_eq!(layout.partitions()[SERVING].len(), 16);
        let large = Layout { nodes: 1_250, spares: 30 };
        assert_eq!(large.production()[6], "gpu0007");
        let inventory = large.inventory();
        assert_eq!(inventory[1_249].gpus[7].pci.to_string(), "0000:cb:00.0");
        assert_eq!(inventory[16].leaf.as_deref(), Some("leaf-2"));
        assert_ne!(inventory[0].gpus[1].uuid, inventory[1].gpus[1].uuid);
    }
}
