//! Configurations as people write them, and everything that can be wrong with one.

use super::*;

const FULL: &str = r#"
server = "https://127.0.0.1:8443"
ca_file = "ca.pem"
enrol_token_file = "/etc/token"
state_dir = "state"

[[node]]
name = "gpu001"
kernel_log = "kmsg-001"
kernel_log_format = "text"
nvml = "auto"

[[node]]
name = "gpu002"

[[action]]
name = "gpu_reset"
argv = ["nvidia-smi", "--gpu-reset", "-i", "{gpu.pci}"]
timeout = "5s"
probe = ["/usr/bin/probe", "--node={node}:{gpu.pci}!"]

[[action]]
name = "fence"
argv = ["fence"]
"#;

#[test]
fn a_whole_file() {
    let config = Config::parse(FULL, Path::new("/etc/provost")).unwrap();
    assert_eq!(config.server.port, 8443);
    assert_eq!(config.server.name.to_str(), "127.0.0.1");
    assert_eq!(config.ca_file, Path::new("/etc/provost/ca.pem"));
    assert_eq!(config.enrol_token_file.as_deref(), Some(Path::new("/etc/token")));
    assert_eq!(config.state_dir, Path::new("/etc/provost/state"));
    assert_eq!(config.nodes.len(), 2);
    assert_eq!(config.nodes[0].format, LogFormat::Text);
    assert_eq!(config.nodes[0].kernel_log, Path::new("/etc/provost/kmsg-001"));
    assert_eq!(config.nodes[1].kernel_log, Path::new("/dev/kmsg"));
    let literal = |text: &str| Piece::Literal(text.to_owned());
    let reset = &config.actions[0];
    assert_eq!(reset.argv[3], vec![Piece::GpuPci]);
    assert_eq!(reset.timeout, Duration::from_secs(5));
    let word = vec![literal("--node="), Piece::Node, literal(":"), Piece::GpuPci, literal("!")];
    assert_eq!(reset.probe.as_ref().unwrap()[1], word);
    assert_eq!((config.actions[1].timeout, &config.actions[1].probe), (Duration::from_secs(60), &None));
}

#[test]
fn the_least() {
    let config = Config::parse("server = \"https://[::1]\"\nca_file = \"/ca\"", Path::new("")).unwrap();
    assert_eq!((config.server.name.to_str().as_ref(), config.server.port), ("::1", 443));
    assert_eq!(config.state_dir, Path::new("/var/lib/provost-agent"));
    assert_eq!((config.nodes.len(), config.nodes[0].format), (1, LogFormat::Kmsg));
    assert!(!config.nodes[0].name.is_empty());
}

fn check(text: &str, expected: &[&str]) {
    let errors = Config::parse(text, Path::new("")).unwrap_err().errors;
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, expected, "{text}");
}

#[test]
fn all_errors_come_at_once_with_line_and_key() {
    check(
        r#"
server = "http://x"
servre = 1
enrol_token_file = ""
[[node]]
name = "../x"
kernel_log = 7
kernel_log_format = "dmesg"
nvml = "/usr/lib/libnvidia-ml.so.1"
[[node]]
name = "gpu001"
[[node]]
name = "gpu001"
kernel_log = "/dev/null"
kernel_log_format = "text"
[[action]]
argv = []
timeout = "soon"
[[action]]
name = "reset"
argv = ["a", "{gpu.uuid}", "{node"]
probe = "sh"
timeout = "0s"
shell = true
[[action]]
name = "reset"
argv = ["a", 1]
"#,
        &[
            "line 1: ca_file: is missing",
            "line 2: server: `http://x` is not an address such as https://controller.example:8443",
            "line 3: servre: is not a key; there are: action, ca_file, enrol_token_file, node, server, state_dir",
            "line 4: enrol_token_file: is empty",
            "line 6: node[0].name: `../x` is not a name: up to 63 of a-z, 0-9, `-`, `_`, `.`, a letter or digit first",
            "line 7: node[0].kernel_log: is a value of type integer, not a text in quotes",
            "line 8: node[0].kernel_log_format: `dmesg` is no format; write \"kmsg\" or \"text\"",
            "line 9: node[0].nvml: this version does not load NVML; write \"off\", or leave the key out",
            "line 13: node[2].name: `gpu001` has an entry already",
            "line 15: node[2].kernel_log_format: `/dev/null` is a device and writes records; write \"kmsg\"",
            "line 16: action[0].name: is missing",
            "line 17: action[0].argv: is empty; the first word is the program",
            "line 18: action[0].timeout: `soon` is not a length of time; write a whole number and a unit: 250ms, 5s, 10m, 24h, 3d",
            "line 21: action[1].argv: `{gpu.uuid}` is not known; there are {node} and {gpu.pci}",
            "line 21: action[1].argv: `{node` has a `{` without a `}`",
            "line 22: action[1].probe: is a value of type string, not a list of texts",
            "line 23: action[1].timeout: `0s` is not between 1ms and 1d",
            "line 24: action[1].shell: is not a key; there are: argv, name, probe, timeout",
            "line 27: action[2].argv: holds a value of type integer, not a text",
        ],
    );
}

#[test]
fn what_is_no_toml() {
    let errors = Config::parse("server = \n[[node]\n", Path::new("")).unwrap_err().errors;
    assert_eq!(errors[0].line, Some(1), "{errors:?}");
    assert!(
        Config::load(Path::new("/nonexistent/agent.toml")).unwrap_err().to_string().contains("can't read")
    );
}

#[test]
fn a_file_of_authorities_that_cannot_be_used_is_told_with_the_rest() {
    let dir = std::env::temp_dir().join(format!("provost-agent-config-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let check = |ca_file: &str, expected: &str| {
        let path = dir.join("agent.toml");
        std::fs::write(&path, format!("server = \"http://x\"\nca_file = \"{ca_file}\"\n")).unwrap();
        let errors = Config::load(&path).unwrap_err().errors;
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(errors.len() == 2 && errors[0].starts_with("line 1: server: "), "{errors:?}");
        assert!(
            errors[1].starts_with("line 2: ca_file: failed to") && errors[1].contains(expected),
            "{errors:?}"
        );
    };
    check("none.pem", "none.pem`; copy ca.pem there");
    check("/dev/null", "use the ca_file `/dev/null`");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn addresses() {
    let check = |text: &str, expected: Option<(&str, u16)>| {
        let server = parse_server(text).ok();
        let server = server.as_ref().map(|server| (server.name.to_str(), server.port));
        assert_eq!(server.as_ref().map(|(name, port)| (name.as_ref(), *port)), expected, "{text}");
    };
    check("https://controller.example:8443", Some(("controller.example", 8443)));
    check("https://controller.example:8443/", Some(("controller.example", 8443)));
    check("https://controller", Some(("controller", 443)));
    check("https://10.0.0.1:1", Some(("10.0.0.1", 1)));
    check("https://[fe80::1]:9", Some(("fe80::1", 9)));
    for bad in
        ["", "https://", "controller:8443", "https://a b", "https://x:0x1", "https://x:65536", "https://x/y"]
    {
        check(bad, None);
    }
}
