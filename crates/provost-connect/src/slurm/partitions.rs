//! Puts a node into partitions and takes it out: how a spare serves and goes back.
//!
//! What is written here is in slurmctld's memory only: `scontrol reconfigure` (without KeepPartInfo) and a restart
//! (without -R) bring slurm.conf's partitions back. The next poll shows it, and the write is repeated.

use std::collections::BTreeMap;

use super::error::{Error, Probe, WriteError, settle};
use super::{Cluster, checked, compress};

/// A partition as it was read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionReadback {
    /// Its name.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<String>,
}

/// Longest list of nodes that is put into one argument; Linux takes 128 KiB.
const MAX_ARGUMENT: usize = 100 << 10;
/// How often a change that somebody else's change swept away is made again.
const TRIES: u32 = 3;

impl Cluster {
    /// Puts `node` into each of `partitions`; those that list it already stay as they are.
    pub async fn add_to_partitions(
        &self,
        node: &str,
        partitions: &[String],
    ) -> Result<Vec<PartitionReadback>, WriteError> {
        self.set_membership(node, partitions, true).await
    }

    /// Takes `node` out of each of `partitions`. Jobs that run on it there go on.
    pub async fn remove_from_partitions(
        &self,
        node: &str,
        partitions: &[String],
    ) -> Result<Vec<PartitionReadback>, WriteError> {
        self.set_membership(node, partitions, false).await
    }

    /// Whether `node` is in each of `partitions` (or, with `member` false, in none of them).
    pub async fn probe_partitions(&self, node: &str, partitions: &[String], member: bool) -> Probe {
        Probe::shown(self.find_partitions(partitions).await.map(|found| is_settled(&found, node, member)))
    }

    async fn set_membership(
        &self,
        node: &str,
        partitions: &[String],
        member: bool,
    ) -> Result<Vec<PartitionReadback>, WriteError> {
        checked("node", node).map_err(WriteError::before)?;
        // A read and a write: two of ours at once would undo each other.
        let _one_at_a_time = self.partition_edits.lock().await;
        let mut found = self.find_partitions(partitions).await.map_err(WriteError::before)?;
        let mut sent = Ok(());
        for _ in 0..TRIES {
            if is_settled(&found, node, member) {
                break;
            }
            sent = self.change(&found, node, member).await;
            found = match self.find_partitions(partitions).await {
                Ok(found) => found,
                Err(read) => return Err(WriteError::unread(sent, read)),
            };
            if sent.is_err() {
                break;
            }
        }
        let what = || format!("{node} {} {}", if member { "in" } else { "out of" }, partitions.join(","));
        settle(sent, is_settled(&found, node, member), what)?;
        Ok(found.into_iter().map(|(name, nodes)| PartitionReadback { name, nodes }).collect())
    }

    /// The named partitions; all of them must exist and be readable.
    async fn find_partitions(&self, names: &[String]) -> Result<BTreeMap<String, Vec<String>>, Error> {
        let mut all = self.read_partitions().await?;
        let mut found = BTreeMap::new();
        for name in names {
            checked("partition", name)?;
            let nodes = all.items.remove(name).or_else(|| found.get(name).cloned());
            let nodes = nodes.ok_or_else(|| match all.unparsed {
                0 => Error::NotFound { what: format!("partition {name}") },
                _ => {
                    Error::Unparsable { tool: "scontrol", detail: format!("partition {name} or another one") }
                }
            })?;
            found.insert(name.clone(), nodes);
        }
        Ok(found)
    }

    async fn change(
        &self,
        found: &BTreeMap<String, Vec<String>>,
        node: &str,
        member: bool,
    ) -> Result<(), Error> {
        let relative = self.version().await? >= (24, 11);
        for (partition, nodes) in found {
            if nodes.iter().any(|n| n == node) == member {
                continue;
            }
            let change = match (relative, member) {
                // Relative where Slurm can (seen on 24.11): it can't undo what somebody else changes meanwhile.
                (true, true) => format!("Nodes+={node}"),
                (true, false) if nodes.len() > 1 => format!("Nodes-={node}"),
                _ => format!("Nodes={}", changed_list(partition, nodes, node, member)?),
            };
            self.update(&[&format!("PartitionName={partition}"), &change]).await?;
        }
        Ok(())
    }
}

/// The whole new list of nodes, as 22.05 wants it.
fn changed_list(partition: &str, nodes: &[String], node: &str, member: bool) -> Result<String, Error> {
    let list = nodes.iter().map(String::as_str).filter(|n| *n != node).chain(member.then_some(node));
    let list = compress(list);
    if list.is_empty() {
        return Err(Error::WouldEmpty { partition: partition.to_owned() });
    }
    if list.len() > MAX_ARGUMENT {
        return Err(Error::BadInput { what: "list of nodes of", text: partition.to_owned() });
    }
    Ok(list)
}

fn is_settled(found: &BTreeMap<String, Vec<String>>, node: &str, member: bool) -> bool {
    found.values().all(|nodes| nodes.iter().any(|n| n == node) == member)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nodes_are_changed() {
        let check = |nodes: &str, member: bool, expected: Option<&str>| {
            let nodes: Vec<String> = nodes.split_whitespace().map(str::to_owned).collect();
            assert_eq!(
                changed_list("batch", &nodes, "spare01", member).ok().as_deref(),
                expected,
                "{nodes:?}"
            );
        };
        check("gpu001 gpu002", true, Some("gpu[001-002],spare01"));
        check("gpu001 spare01 gpu002", true, Some("gpu[001-002],spare01"));
        check("gpu001 spare01 gpu002", false, Some("gpu[001-002]"));
        check("", true, Some("spare01"));
        check("spare01", false, None);
    }
}
