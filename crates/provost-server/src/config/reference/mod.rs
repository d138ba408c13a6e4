//! The keys of `provost.toml` and `inventory.toml`, described for people.

mod governor;

use governor::{GOVERNOR, LEAF, PROJECT, RACK};
use provost_model::reference::Default::{Absent, Required, Told, Written};
use provost_model::reference::{File, Key, Table};

const SPAN: &str = "length of time";
const NODES: &str = "whole number of nodes";
const PERCENT: &str = "percent, 0 to 100";
const MODE: &str = "`observe`, `advise` or `act`";

/// `provost.toml`.
pub const FILE: File = File {
    name: "provost.toml",
    about: "Read by `provost up` at its start. Relative paths begin at the folder of the file. A key that is not listed \
            here is an error, and all errors are told at once: `provost config check provost.toml`. Secrets never \
            stand in it, only the names of files that hold them.",
    tables: &[
        SITE, LISTEN, TLS, JOURNAL, SLURM, BMC, GOVERNOR, RACK, LEAF, PROJECT, TIMERS, INVENTORY, NODE_MODES,
        RUNBOOKS,
    ],
};

const SITE: Table = Table {
    header: "[site]",
    about: "Which site this is.",
    keys: &[
        Key::new(
            "name",
            "name",
            Told("`site`, where the whole table is left out"),
            "\"hel-1\"",
            "Name of the site: letters, digits, `-`, `_`, `.`. It is in the name of the journal's log and can't be changed later.",
        ),
        Key::new("jurisdiction", "code of ISO 3166-2", Absent, "\"FI-18\"", "Where the machines stand."),
        Key::new(
            "time_zone",
            "zone of the tz database",
            Absent,
            "\"Europe/Helsinki\"",
            "Zone of the people who run it. Records are in UTC.",
        ),
        Key::new(
            "mode",
            MODE,
            Written("\"observe\""),
            "\"observe\"",
            "How far Provost may go. In `observe` and `advise` nothing is written to a scheduler; what would have been done is recorded. A mode that a person has set with `provost mode set` stays until this line changes.",
        ),
    ],
};

const LISTEN: Table = Table {
    header: "[listen]",
    about: "The one port, for people, programs and agents. TLS always.",
    keys: &[Key::new(
        "address",
        "address and port",
        Written("\"127.0.0.1:8443\""),
        "\"10.0.0.5:8443\"",
        "Where to listen; `--listen` goes before it.",
    )],
};

const TLS: Table = Table {
    header: "[tls]",
    about: "A certificate of your own. Without this table the authority in the data directory makes one at each start.",
    keys: &[
        Key::new(
            "cert_file",
            "file, PEM",
            Absent,
            "\"server.pem\"",
            "The certificate and those between it and its authority. Needs `key_file`.",
        ),
        Key::new("key_file", "file, PEM", Absent, "\"server.key\"", "Its private key. Needs `cert_file`."),
    ],
};

const JOURNAL: Table = Table {
    header: "[journal]",
    about: "Where the record lies; the data directory itself is given with `--data`.",
    keys: &[
        Key::new(
            "store",
            "`sqlite`",
            Written("\"sqlite\""),
            "\"sqlite\"",
            "The database. There is one kind.",
        ),
        Key::new(
            "emergency_file",
            "file",
            Told("`emergency.journal` beside the journal"),
            "\"/srv/other-disk/emergency.journal\"",
            "Takes records of containment while the journal can't be written. Best on another device.",
        ),
    ],
};

const SLURM: Table = Table {
    header: "[[slurm]]",
    about: "A Slurm cluster; one table for each.",
    keys: &[
        Key::new(
            "name",
            "name",
            Required,
            "\"main\"",
            "Our name for the cluster, used in ids of jobs and in `provost mode set scheduler:NAME`.",
        ),
        Key::new(
            "conf",
            "file",
            Required,
            "\"/etc/slurm/slurm.conf\"",
            "`slurm.conf` for the command line tools.",
        ),
        Key::new(
            "bin",
            "folder",
            Told("the tools on `PATH`"),
            "\"/opt/slurm/bin\"",
            "Where `scontrol` and the other tools are.",
        ),
        Key::new(
            "rest",
            "`unix:///…`, `https://HOST:PORT`, or `http://` on loopback",
            Absent,
            "\"https://slurm.example:6820\"",
            "slurmrestd, for reading only. Without it, and while it does not answer, the tools are used.",
        ),
        Key::new(
            "rest_ca_file",
            "file, PEM",
            Told("the authorities that the system trusts"),
            "\"slurm-ca.pem\"",
            "Authority of slurmrestd's certificate. Only with `https://`.",
        ),
        Key::new(
            "rest_user",
            "user of Slurm",
            Absent,
            "\"provost\"",
            "Sent to slurmrestd beside the token. An operator of Slurm; never root.",
        ),
        Key::new(
            "rest_token_file",
            "file",
            Absent,
            "\"/run/provost/slurm.jwt\"",
            "Token for slurmrestd; read at each poll, so that it can be renewed.",
        ),
        Key::new(
            "partitions",
            "list of partitions",
            Written("[]"),
            "[\"serving\", \"batch\"]",
            "Partitions of production. Their nodes are watched and, in mode `act`, contained.",
        ),
        Key::new("spare_partition", "partition", Absent, "\"spare\"", "The partition that spares wait in."),
        Key::new("mode", MODE, Told("the site's"), "\"observe\"", "Mode of this cluster, where it differs."),
    ],
};

const BMC: Table = Table {
    header: "[[bmc]]",
    about: "Management controllers (BMCs) that speak Redfish; one table for each set of nodes that is reached alike. Their \
            power is a second witness of a node that is not heard. See [the page for people](../operate/bmc.md).",
    keys: &[
        Key::new(
            "nodes",
            "list of nodes",
            Required,
            "\"gpu[001-008]\"",
            "Nodes that this table is for. A node has one BMC.",
        ),
        Key::new(
            "address",
            "`https://HOST`, `https://HOST:PORT`, or `http://` on loopback",
            Required,
            "\"https://{node}-bmc.example\"",
            "Where the BMC listens; `{node}` stands for the name of the node.",
        ),
        Key::new(
            "user",
            "user of the BMC",
            Absent,
            "\"provost\"",
            "To read, any role does; a runbook that cycles power needs one that may switch it. Needs `password_file`.",
        ),
        Key::new(
            "password_file",
            "file",
            Absent,
            "\"/run/credentials/provost.service/bmc\"",
            "Its first line is the password; read at each reading, so that it can be changed. Needs `user`.",
        ),
        Key::new(
            "login",
            "`basic` or `session`",
            Written("\"basic\""),
            "\"session\"",
            "With each request, or by a session that is ended after each reading, for BMCs that refuse the other.",
        ),
        Key::new(
            "ca_file",
            "file, PEM",
            Told("the authorities that the system trusts"),
            "\"bmc-ca.pem\"",
            "Authority of their certificates. Not with `fingerprints`.",
        ),
        Key::new(
            "fingerprints",
            "list of SHA-256 fingerprints",
            Written("[]"),
            "[]",
            "Certificates that are trusted one by one, whatever name and dates stand in them: what BMCs have that made their \
             own. As `openssl x509 -noout -fingerprint -sha256` prints them.",
        ),
        Key::new(
            "system",
            "id",
            Told("the only one, or the only one that can be switched"),
            "\"System_0\"",
            "The system that is the node, for a BMC that shows several.",
        ),
        Key::new(
            "every",
            SPAN,
            Written("\"1m\""),
            "\"60s\"",
            "Time between two readings. After three that fail in a row the BMC counts as silent.",
        ),
    ],
};

const TIMERS: Table = Table {
    header: "[timers]",
    about: "Every wait of a state machine.",
    keys: &[
        Key::new(
            "merge",
            SPAN,
            Written("\"5s\""),
            "\"5s\"",
            "Equal signals inside this time are one episode.",
        ),
        Key::new(
            "clear_hold",
            SPAN,
            Written("\"5m\""),
            "\"5m\"",
            "An alert with a level must be over for so long until it is resolved.",
        ),
        Key::new(
            "resolve_hold",
            SPAN,
            Written("\"15m\""),
            "\"15m\"",
            "All alerts of an incident must be resolved for so long until it is.",
        ),
        Key::new(
            "soak",
            SPAN,
            Written("\"30m\""),
            "\"30m\"",
            "Quiet after a test before a node is released.",
        ),
        Key::new("probation", SPAN, Written("\"1d\""), "\"24h\"", "How long a released node is watched."),
        Key::new("heartbeat", SPAN, Written("\"1s\""), "\"1s\"", "How often an agent says that it lives."),
        Key::new(
            "silent_after",
            SPAN,
            Written("\"5s\""),
            "\"5s\"",
            "An agent that says nothing for so long is silent.",
        ),
        Key::new("poll", SPAN, Written("\"5s\""), "\"5s\"", "How often schedulers are asked."),
        Key::new(
            "blind_after",
            SPAN,
            Written("\"30s\""),
            "\"30s\"",
            "A scheduler that gives no answer for so long is silent.",
        ),
        Key::new(
            "effect",
            SPAN,
            Written("\"1m\""),
            "\"60s\"",
            "What was begun and has no result after this time is unknown, and is probed.",
        ),
        Key::new(
            "retry",
            SPAN,
            Written("\"2s\""),
            "\"2s\"",
            "First wait before something that failed is tried again; doubles up to one minute.",
        ),
        Key::new(
            "drain",
            SPAN,
            Written("\"30m\""),
            "\"30m\"",
            "Batch jobs on a contained node may run on for so long.",
        ),
        Key::new(
            "failed_job",
            SPAN,
            Written("\"10m\""),
            "\"10m\"",
            "A job that failed on a node inside this time after its fault is put back into the queue.",
        ),
        Key::new(
            "repeat",
            SPAN,
            Written("\"1d\""),
            "\"24h\"",
            "Faults of applications inside this time count together.",
        ),
        Key::new(
            "companions",
            SPAN,
            Written("\"1s\""),
            "\"1s\"",
            "An uncorrectable memory error of a GPU waits so long for the codes that say what it hit.",
        ),
        Key::new(
            "quiet",
            SPAN,
            Written("\"1m\""),
            "\"60s\"",
            "Such an error alone moves jobs after so long without another one. The node is held before.",
        ),
        Key::new(
            "advice",
            SPAN,
            Written("\"5s\""),
            "\"5s\"",
            "The driver's advice to recover a GPU is followed after so long without another one.",
        ),
        Key::new(
            "remap",
            SPAN,
            Written("\"1d\""),
            "\"24h\"",
            "A memory row that waits for a reset waits so long for its node to become idle by itself.",
        ),
        Key::new(
            "ack",
            SPAN,
            Written("\"1h\""),
            "\"1h\"",
            "An acknowledgement of a SEV2 ends after this time; of a SEV1 after half, of others after four times of it.",
        ),
    ],
};

const INVENTORY: Table = Table {
    header: "[inventory]",
    about: "What there is.",
    keys: &[Key::new(
        "file",
        "file",
        Absent,
        "\"inventory.toml\"",
        "The inventory; see below. What agents and schedulers report is compared with it.",
    )],
};

const NODE_MODES: Table = Table {
    header: "[node_modes]",
    about: "Modes of single nodes; each key is the name of a node.",
    keys: &[Key::new(
        "NODE",
        MODE,
        Told("the scheduler's, else the site's"),
        "\"act\"",
        "Mode of this node.",
    )],
};

const RUNBOOKS: Table = Table {
    header: "[runbooks]",
    about: "Runbooks of your own.",
    keys: &[Key::new(
        "dir",
        "folder",
        Absent,
        "\"runbooks\"",
        "Its `*.yaml` add to the built-in runbooks, or replace those of the same id. `provost runbook lint FILE` checks one.",
    )],
};

/// `inventory.toml`.
pub const INVENTORY_FILE: File = File {
    name: "inventory.toml",
    about: "Named by `inventory.file`. A rack or a leaf that a node names has a table of its own.",
    tables: &[
        Table {
            header: "[[leaf]]",
            about: "A leaf switch.",
            keys: &[Key::new("name", "name", Required, "\"leaf-1\"", "Name.")],
        },
        Table {
            header: "[[rack]]",
            about: "A rack.",
            keys: &[
                Key::new("name", "name", Required, "\"r1\"", "Name."),
                Key::new(
                    "power_feeds",
                    "list of names",
                    Written("[]"),
                    "[\"A1\", \"B1\"]",
                    "What feeds it with power.",
                ),
                Key::new("cooling_loop", "name", Absent, "\"cdu-1\"", "What cools it."),
            ],
        },
        Table {
            header: "[[node]]",
            about: "A node.",
            keys: &[
                Key::new(
                    "name",
                    "name",
                    Required,
                    "\"gpu001\"",
                    "Name of the node, which its agent uses too.",
                ),
                Key::new("serial", "text", Absent, "\"SN-0001\"", "Serial number of the machine."),
                Key::new("rack", "name", Absent, "\"r1\"", "Its rack."),
                Key::new("leaf", "name", Absent, "\"leaf-1\"", "Its leaf switch."),
                Key::new(
                    "slurm",
                    "cluster/name",
                    Absent,
                    "\"main/gpu001\"",
                    "The cluster that serves it, and its name there.",
                ),
                Key::new(
                    "gpus",
                    "list of tables",
                    Written("[]"),
                    "[{ index = 0, pci = \"0000:1b:00.0\", uuid = \"GPU-5f1c\", model = \"H100-SXM5-80GB\" }]",
                    "Its GPUs: `index` and `pci` must be there, `uuid`, `model` and `serial` where they are known.",
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
    use crate::config::{Config, Finding};

    fn findings(text: &str) -> Vec<Finding> {
        Config::parse(text, Path::new("/nowhere")).err().unwrap_or_default()
    }

    fn names(table: &Table) -> BTreeSet<String> {
        table.keys.iter().map(|key| key.name.to_owned()).collect()
    }

    /// What the reader says that it knows, where it is given a key that nobody knows.
    fn known(text: &str) -> BTreeSet<String> {
        let found = findings(text);
        let told = found.iter().find_map(|finding| finding.message.split_once("known are: "));
        told.unwrap_or_else(|| panic!("{text}: {found:?}")).1.split(", ").map(str::to_owned).collect()
    }

    #[test]
    fn every_key_that_is_read_is_described_and_no_other() {
        let headers: Vec<&str> =
            FILE.tables.iter().map(|table| table.header.trim_matches(['[', ']'])).collect();
        let of_file =
            headers.iter().filter(|header| !header.contains('.')).map(|header| (*header).to_owned());
        assert_eq!(known("nobody = 1\n"), of_file.collect());
        let inner = |table: &Table| -> BTreeSet<String> {
            let within = format!("{}.", table.header.trim_matches(['[', ']']));
            let names = headers.iter().filter_map(|header| header.strip_prefix(&within));
            names.map(|name| name.split('.').next().unwrap().to_owned()).collect()
        };
        for table in FILE.tables.iter().filter(|table| table.header != NODE_MODES.header) {
            let all = &names(table) | &inner(table);
            assert_eq!(known(&format!("{}\nnobody = 1\n", table.header)), all, "{}", table.header);
        }
        let dir = std::env::temp_dir().join(format!("provost-reference-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for table in INVENTORY_FILE.tables {
            std::fs::write(dir.join("i.toml"), format!("{}\nnobody = 1\n", table.header)).unwrap();
            let found = Config::parse("[inventory]\nfile = \"i.toml\"\n", &dir).unwrap_err();
            let told = found[0].message.split("expected").nth(1).unwrap();
            let known = told.split('`').skip(1).step_by(2).map(str::to_owned);
            assert_eq!(known.collect::<BTreeSet<_>>(), names(table), "{}", found[0].message);
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_example_has_no_error_but_files_that_are_missing_here() {
        for finding in findings(&FILE.example()) {
            let files = [
                "tls.",
                "slurm[0].rest_ca_file",
                "bmc[0].password_file",
                "bmc[0].ca_file",
                "inventory.file",
                "runbooks.dir",
            ];
            let missing = finding.message.contains("No such file");
            assert!(missing && files.iter().any(|key| finding.key.starts_with(key)), "{finding}");
        }
        let dir = std::env::temp_dir().join(format!("provost-example-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("i.toml"), INVENTORY_FILE.example()).unwrap();
        let config = Config::parse("[inventory]\nfile = \"i.toml\"\n", &dir).unwrap();
        assert_eq!(config.engine.inventory[0].gpus.len(), 1);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_defaults_are_those_in_force() {
        let slurm = "[[slurm]]\nname = \"main\"\nconf = \"c\"\n";
        let bmc = "[[bmc]]\nnodes = \"gpu001\"\naddress = \"http://127.0.0.1:8000\"\n";
        let required = format!("{slurm}{bmc}");
        let defaults = FILE.toml(|key| match key.default {
            Written(value) => Some(value),
            _ => None,
        });
        let (site, rest) = defaults.split_once("[site]\n").unwrap();
        let defaults = format!("{site}[site]\nname = \"site\"\n{rest}").replace("[[slurm]]\n", slurm);
        let defaults = defaults.replace("[[bmc]]\n", bmc);
        let with =
            Config::parse(&defaults, Path::new("/x")).unwrap_or_else(|found| panic!("{defaults}\n{found:?}"));
        let without = Config::parse(&required, Path::new("/x")).unwrap();
        assert_eq!(with.effective(), without.effective());
    }
}
