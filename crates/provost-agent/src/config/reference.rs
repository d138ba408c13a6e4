//! The keys of `agent.toml`, described for people.

use provost_model::reference::Default::{Absent, Required, Told, Written};
use provost_model::reference::{File, Key, Table};

/// `agent.toml`.
pub const FILE: File = File {
    name: "agent.toml",
    about: "Read by `provost-agent` at its start. Relative paths begin at the folder of the file. A key that is not listed \
            here is an error, and all errors are told at once.",
    tables: &[
        Table {
            header: "",
            about: "Above all tables.",
            keys: &[
                Key::new(
                    "server",
                    "`https://HOST:PORT`",
                    Required,
                    "\"https://10.0.0.5:8443\"",
                    "The controller.",
                ),
                Key::new(
                    "ca_file",
                    "file, PEM",
                    Required,
                    "\"ca.pem\"",
                    "Authority of the controller's certificate: `ca.pem` of its data directory.",
                ),
                Key::new(
                    "enrol_token_file",
                    "file",
                    Absent,
                    "\"token\"",
                    "Token for the first certificate; not read again once there is one. Make it with `provost agent token create`.",
                ),
                Key::new(
                    "state_dir",
                    "folder",
                    Written("\"/var/lib/provost-agent\""),
                    "\"/var/lib/provost-agent\"",
                    "Where the agent keeps its certificate, its place in the kernel log and what it has done.",
                ),
            ],
        },
        Table {
            header: "[[node]]",
            about: "A node that this process speaks for; without such a table it is the host itself.",
            keys: &[
                Key::new(
                    "name",
                    "name",
                    Told("the host's name up to its first dot"),
                    "\"gpu001\"",
                    "Name of the node, as in the inventory.",
                ),
                Key::new(
                    "kernel_log",
                    "device, file or FIFO",
                    Written("\"/dev/kmsg\""),
                    "\"/dev/kmsg\"",
                    "What is read.",
                ),
                Key::new(
                    "kernel_log_format",
                    "`kmsg` or `text`",
                    Written("\"kmsg\""),
                    "\"kmsg\"",
                    "`text` is for files with lines of dmesg: nobody vouches for them, and the evidence is marked so. Refused for a device.",
                ),
                Key::new(
                    "nvml",
                    "`auto` or `off`",
                    Written("\"auto\""),
                    "\"off\"",
                    "Whether to ask the driver about GPUs. This version does not.",
                ),
            ],
        },
        Table {
            header: "[[action]]",
            about: "What the agent may be told to do, and nothing else. No shell is involved. `{node}` stands for the node's \
                    name and `{gpu.pci}` for the device that the order names.",
            keys: &[
                Key::new("name", "name", Required, "\"gpu_reset\"", "Name, as runbooks use it."),
                Key::new(
                    "argv",
                    "list of texts",
                    Required,
                    "[\"nvidia-smi\", \"--gpu-reset\", \"-i\", \"{gpu.pci}\"]",
                    "The program and its arguments.",
                ),
                Key::new(
                    "timeout",
                    "length of time, up to 1d",
                    Written("\"1m\""),
                    "\"60s\"",
                    "Killed after this time.",
                ),
                Key::new(
                    "probe",
                    "list of texts",
                    Absent,
                    "[\"/usr/local/bin/was-reset\", \"{gpu.pci}\"]",
                    "Asks whether it is done, without doing it: exit code 0 yes, 1 no, any other unknown.",
                ),
            ],
        },
    ],
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    const LEAST: &str = "server = \"https://c\"\nca_file = \"ca\"\n";

    #[test]
    fn every_key_that_is_read_is_described_and_no_other() {
        for table in FILE.tables {
            let text = match table.header {
                "" => format!("nobody = 1\n{LEAST}"),
                header => format!("{LEAST}{header}\nnobody = 1\n"),
            };
            let found = Config::parse(&text, Path::new("")).unwrap_err().errors;
            let told = found.iter().find_map(|error| error.message.split_once("there are: ")).unwrap();
            let known: BTreeSet<&str> = told.1.split(", ").collect();
            let tables = FILE.tables.iter().map(|table| table.header.trim_matches(['[', ']']));
            let above = tables.filter(|name| table.header.is_empty() && !name.is_empty());
            let described: BTreeSet<&str> = table.keys.iter().map(|key| key.name).chain(above).collect();
            assert_eq!(known, described, "{}", table.header);
        }
    }

    #[test]
    fn the_example_is_valid_and_the_defaults_are_those_in_force() {
        Config::parse(&FILE.example(), Path::new("/x")).unwrap();
        let required = |key: &Key| match key.default {
            Required => Some(key.example),
            _ => None,
        };
        let with = FILE.toml(|key| match key.default {
            Written(value) => Some(value),
            _ => required(key),
        });
        let without = FILE.toml(required).replace("[[action]]", "[[node]]\n[[action]]");
        let parse = |text: &str| Config::parse(text, Path::new("/x")).unwrap();
        // The reader takes /dev/kmsg for a device, so that its format is the only right one.
        assert_eq!(parse(&with), parse(&without), "{with}\n{without}");
    }
}
