//! `provost config show --effective`.

use std::fmt::Write;

use super::Config;

/// Writes every value in force.
pub(super) fn write(config: &Config) -> String {
    let mut out = String::new();
    let result = write_all(config, &mut out);
    debug_assert!(result.is_ok(), "writing to a text does not fail");
    out
}

fn write_all(config: &Config, out: &mut String) -> std::fmt::Result {
    let engine = &config.engine;
    writeln!(out, "[site]\nname = {:?}\nmode = \"{}\"\n", engine.site, engine.mode.name())?;
    writeln!(out, "[listen]\naddress = \"{}\"\n", config.listen)?;
    if let Some((cert, key)) = &config.tls {
        writeln!(
            out,
            "[tls]\ncert_file = {:?}\nkey_file = {:?}\n",
            cert.display().to_string(),
            key.display().to_string()
        )?;
    }
    writeln!(out, "[journal]\nstore = \"sqlite\"")?;
    if let Some(path) = &config.emergency {
        writeln!(out, "emergency_file = {:?}", path.display().to_string())?;
    }
    for cluster in &config.slurm {
        write_slurm(cluster, config, out)?;
    }
    for table in &config.bmc {
        write_bmc(table, out)?;
    }
    if let Some(dir) = &config.runbooks {
        writeln!(out, "\n[runbooks]\ndir = {:?}", dir.display().to_string())?;
    }
    write_flat("governor", &engine.governor, out)?;
    for (name, limits) in [("rack", &engine.governor.rack), ("leaf", &engine.governor.leaf)] {
        if !limits.is_empty() {
            write_flat(&format!("governor.{name}"), limits, out)?;
        }
    }
    for (project, limits) in &engine.governor.project {
        write_flat(&format!("governor.project.{project:?}"), limits, out)?;
    }
    write_flat("timers", &engine.timers, out)?;
    if !engine.node_modes.is_empty() {
        writeln!(out, "\n[node_modes]")?;
        for (node, mode) in &engine.node_modes {
            writeln!(out, "{node:?} = \"{}\"", mode.name())?;
        }
    }
    writeln!(out, "\n# {} node(s) in the inventory", engine.inventory.len())
}

fn write_slurm(cluster: &super::SlurmCluster, config: &Config, out: &mut String) -> std::fmt::Result {
    writeln!(out, "\n[[slurm]]\nname = {:?}\nconf = {:?}", cluster.name, cluster.conf.display().to_string())?;
    if let Some(bin) = &cluster.bin {
        writeln!(out, "bin = {:?}", bin.display().to_string())?;
    }
    if let Some(rest) = &cluster.rest {
        writeln!(out, "rest = {:?}", rest.url)?;
        if let Some(file) = &rest.ca_file {
            writeln!(out, "rest_ca_file = {:?}", file.display().to_string())?;
        }
        if let Some(user) = &rest.user {
            writeln!(out, "rest_user = {user:?}")?;
        }
        if let Some(file) = &rest.token_file {
            writeln!(out, "rest_token_file = {:?}", file.display().to_string())?;
        }
    }
    writeln!(out, "partitions = {:?}", cluster.partitions)?;
    if let Some(spare) = &cluster.spare_partition {
        writeln!(out, "spare_partition = {spare:?}")?;
    }
    let mode = config.engine.clusters.get(&cluster.name).and_then(|policy| policy.mode);
    writeln!(out, "mode = \"{}\"", mode.unwrap_or(config.engine.mode).name())
}

fn write_bmc(table: &super::BmcTable, out: &mut String) -> std::fmt::Result {
    writeln!(out, "\n[[bmc]]\nnodes = {:?}\naddress = {:?}", table.nodes, table.address)?;
    if let Some(user) = &table.user {
        writeln!(out, "user = {user:?}")?;
    }
    if let Some(file) = &table.password_file {
        writeln!(out, "password_file = {:?}", file.display().to_string())?;
    }
    writeln!(out, "login = \"{}\"", table.login_word())?;
    if let Some(file) = &table.ca_file {
        writeln!(out, "ca_file = {:?}", file.display().to_string())?;
    }
    if !table.fingerprints.is_empty() {
        let fingerprints: Vec<String> = table.fingerprints.iter().map(ToString::to_string).collect();
        writeln!(out, "fingerprints = {fingerprints:?}")?;
    }
    if let Some(system) = &table.system {
        writeln!(out, "system = {system:?}")?;
    }
    writeln!(out, "every = \"{}\"", table.every)
}

/// A table of plain values, by its serialised fields. A table inside it is not written.
fn write_flat(name: &str, value: &impl serde::Serialize, out: &mut String) -> std::fmt::Result {
    writeln!(out, "\n[{name}]")?;
    let fields = serde_json::to_value(value).unwrap_or_default();
    for (key, value) in fields.as_object().into_iter().flatten().filter(|(_, value)| !value.is_object()) {
        writeln!(out, "{key} = {value}")?;
    }
    Ok(())
}
