//! The whole way of a line: bytes in, [`Line`] or signal out.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use provost_model::catalogue::Catalogue;
use provost_model::signal::{Impact, Signal, SignalKind, Trust};
use provost_model::time::Timestamp;
use serde_json::{Value, json};

use super::*;

fn fixture(name: &str) -> Option<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/kmsg").join(name);
    if !path.exists() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{} is missing", path.display());
        eprintln!("skipped: {} is missing", path.display());
        return None;
    }
    Some(std::fs::read(path).unwrap())
}

/// Built once: some tests read thousands of logs.
static CATALOGUE: LazyLock<Arc<Catalogue>> = LazyLock::new(|| Arc::new(Catalogue::embedded()));

fn parser() -> Parser {
    Parser::new(Arc::clone(&CATALOGUE), None)
}

fn explained(log: &[u8], format: Format) -> Vec<Line> {
    Explain::new(log, format, parser()).map(Result::unwrap).collect()
}

/// What is told of a log in pieces of `capacity` where only reports are wanted.
fn reports(log: &[u8], format: Format, capacity: usize) -> Vec<Line> {
    let reader = std::io::BufReader::with_capacity(capacity, log);
    Explain::new(reader, format, parser()).reports().map(Result::unwrap).collect()
}

/// The quick way through a log tells the same as the whole one.
fn check_reports(log: &[u8], format: Format) {
    let whole: Vec<Line> = explained(log, format).into_iter().filter(|line| line.parses).collect();
    for capacity in [1, 100, log.len() + 1] {
        assert_eq!(reports(log, format, capacity), whole, "{}", String::from_utf8_lossy(log));
    }
}

/// The one line that a text makes.
fn one(text: &str) -> Line {
    let mut lines = explained(text.as_bytes(), Format::Any);
    assert_eq!(lines.len(), 1, "{text}");
    lines.remove(0)
}

/// The signals that an agent would send for a log.
fn signals(log: &[u8], format: Format) -> Vec<Signal> {
    let mut parser = parser();
    let mut splitter = Splitter::new(format);
    let origin = Origin {
        node: "gpu001".to_owned(),
        at: Timestamp::from_millis(1),
        boot_id: None,
        sequence: None,
        historic: false,
        trust: Trust::Kernel,
    };
    let lines = log.split(|b| *b == b'\n').zip(1..);
    lines.filter_map(|(line, n)| parser.parse(n, &splitter.split(line)).into_signal(origin.clone())).collect()
}

#[test]
fn fixtures_kmsg_all_94_lines() {
    let (Some(samples), Some(expected)) = (fixture("samples.txt"), fixture("expected.jsonl")) else { return };
    let expected: Vec<Value> =
        serde_json::Deserializer::from_slice(&expected).into_iter().map(Result::unwrap).collect();
    let lines = explained(&samples, Format::Any);
    assert_eq!((lines.len(), expected.len()), (94, 94));
    // Remarks for people who read the file, and joins over several lines, which are the engine's.
    let remarks = ["note", "group_with", "correlate_with"];
    for (line, expected) in lines.iter().zip(&expected) {
        let found = serde_json::to_value(line).unwrap();
        let names =
            [("line", "line"), ("kind", "kind"), ("pci", "pci"), ("code", "code"), ("severity", "severity")];
        for (ours, theirs) in names.into_iter().chain([("parses", "parse_event"), ("raises", "raise_event")])
        {
            assert_eq!(found[ours], expected[theirs], "line {}: {ours}\n{found:#}", line.line);
        }
        let fields = expected["fields"].as_object().into_iter().flatten();
        for (name, value) in fields.filter(|(name, _)| !remarks.contains(&name.as_str())) {
            assert_eq!(line.fields.get(name), Some(value), "line {}: {name}\n{found:#}", line.line);
        }
        assert_eq!(line.parses, line.meaning.is_some() && line.action.is_some(), "line {}", line.line);
    }
}

const LOST: [&str; 3] = [
    "NVRM: The NVIDIA GPU 0000:b3:00.0",
    "NVRM: (PCI ID: 10de:26b5) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
];

#[test]
fn case_b01_a_gpu_lost_without_an_xid_in_three_lines() {
    let check = |log: String, format, expected: &[&str]| {
        let signals = signals(log.as_bytes(), format);
        let lost = signals.iter().filter(|signal| signal.kind == SignalKind::GpuLost);
        let pcis: Vec<String> = lost.clone().map(|signal| signal.pci.unwrap().to_string()).collect();
        assert_eq!(pcis, expected, "{log}");
        for signal in lost {
            assert_eq!((signal.code, signal.impact), (Some(79), Impact::Critical), "{log}");
            assert!(signal.line.contains("0000:") && signal.line.contains("fallen off"), "{}", signal.line);
        }
    };
    let records = |lines: &[&str]| -> String {
        lines.iter().zip(1..).map(|(line, n)| format!("4,{n},1000,-;{line}\n SUBSYSTEM=pci\n")).collect()
    };
    check(LOST.join("\n"), Format::Text, &["0000:b3:00.0"]);
    check(
        format!("[ 1.000000] {}\n   {}\n   {}", LOST[0], LOST[1], LOST[2]),
        Format::Text,
        &["0000:b3:00.0"],
    );
    check(records(&LOST), Format::Kmsg, &["0000:b3:00.0"]);
    check(
        records(&["eth0: up", LOST[0], "eth0: down", LOST[1], "eth0: up", LOST[2]]),
        Format::Kmsg,
        &["0000:b3:00.0"],
    );
    // Two at once, their lines mixed.
    let other = "NVRM: The NVIDIA GPU 0000:1b:00.0";
    let mixed = [LOST[0], other, LOST[1], LOST[1], LOST[2], LOST[2]];
    check(records(&mixed), Format::Kmsg, &["0000:b3:00.0", "0000:1b:00.0"]);
    // Not complete, too late, of another message, or not by the kernel.
    check(records(&LOST[..2]), Format::Kmsg, &[]);
    check(records(&LOST[1..]), Format::Kmsg, &[]);
    check(records(&[&LOST[..2], &["x"; 9], &LOST[2..]].concat()), Format::Kmsg, &[]);
    check(records(&[LOST[0], "NVRM: installed in this system is not supported"]), Format::Kmsg, &[]);
    check(records(&LOST).replace("4,", "12,"), Format::Kmsg, &[]);
    check(records(&[LOST[0].trim_end_matches(".0"), LOST[1], LOST[2]]), Format::Kmsg, &[]);
}

#[test]
fn case_b01_a_gpu_lost_without_an_xid_in_one_line() {
    let check = |text: String, lost| {
        let line = one(&text);
        assert_eq!(line.kind == "gpu_lost", lost, "{text}: {line:?}");
        if lost {
            assert_eq!(line.pci.unwrap().to_string(), "0000:b3:00.0");
            assert_eq!((line.code, line.severity, line.raises), (Some(79), Impact::Critical, true));
        }
    };
    check(format!("4,7,1000,-;{}", LOST.join("\\x0a")), true);
    check(LOST.join(" "), true);
    check(LOST.join(" / "), true);
    check(LOST.join(" ").replace(" NVRM:", ""), true);
    check("NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.".to_owned(), true);
    check("NVRM: GPU at PCI:0000:b3:00: GPU has fallen off the bus.".to_owned(), true);
    check("NVRM: GPU at PCI:0000:b3:00: GPU-12345678-1234-5678-9abc-def012345678".to_owned(), false);
    check(format!("12,7,1000,-;{}", LOST.join("\\x0a")), false);
    check(format!("{} (PCI ID: 10de:26b5) installed in this system is not supported", LOST[0]), false);
}

#[test]
fn explain_tells_a_report_of_several_lines_at_its_first() {
    let log = format!("a\n{}\nb\n{}\n{}\nc\n", LOST[0], LOST[1], LOST[2]);
    let lines = explained(log.as_bytes(), Format::Any);
    let kinds: Vec<(u64, &str)> = lines.iter().map(|line| (line.line, line.kind)).collect();
    let expected =
        [(1, "none"), (2, "gpu_lost"), (3, "none"), (4, "continuation"), (5, "continuation"), (6, "none")];
    assert_eq!(kinds, expected);
    assert_eq!((&lines[1].fields["spans"], &lines[4].fields["of"]), (&json!([2, 5]), &json!(2)));
    check_reports(log.as_bytes(), Format::Any);
    // One that is never completed holds nothing back for long.
    let mut lines = explain(std::io::repeat(b'\n').chain_first(LOST[0]), Format::Any, None);
    assert_eq!(lines.next().unwrap().unwrap().kind, "none");
}

/// A reader that starts with a line and then goes on for ever.
trait ChainFirst {
    fn chain_first(self, line: &'static str) -> impl std::io::BufRead;
}

impl ChainFirst for std::io::Repeat {
    fn chain_first(self, line: &'static str) -> impl std::io::BufRead {
        std::io::BufReader::new(std::io::Read::chain(line.as_bytes(), self))
    }
}

#[test]
fn xids_in_all_their_forms() {
    let check = |text: &str, code: u32, pci: &str, severity, raises| {
        let line = one(text);
        let found = (line.kind, line.code, line.pci.map(|pci| pci.to_string()), line.severity, line.raises);
        assert_eq!(found, ("xid", Some(code), Some(pci.to_owned()), severity, raises), "{text}");
    };
    use Impact::{Critical, Info, Major, Minor};
    check("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", 79, "0000:3b:00.0", Critical, true);
    check("NVRM: Xid (0000:3b:00): 79, GPU has fallen off the bus.", 79, "0000:3b:00.0", Critical, true);
    check("NVRM: Xid (PCI:0000:3b:00.1): 79, x", 79, "0000:3b:00.1", Critical, true);
    check("NVRM: Xid (PCI:0000:3b:00): 79,", 79, "0000:3b:00.0", Critical, true);
    check("NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:02): 94, pid=1, x", 94, "0000:01:00.0", Major, true);
    check("NVRM: Xid (PCI:0000:01:00): 45, pid=1, name=a, Ch 00000008", 45, "0000:01:00.0", Info, false);
    check(
        "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x",
        154,
        "0000:01:00.0",
        Major,
        true,
    );
    check(
        "NVRM: Xid (PCI:0000:01:00): 145, pid=1, name=a, RLW_CTRL Fatal XC0 i0 Link -1 (0x1 0x2)",
        145,
        "0000:01:00.0",
        Critical,
        true,
    );
    check("NVRM: Xid (PCI:0000:01:00): 4294967295, x", u32::MAX, "0000:01:00.0", Major, true);
    check("NVRM: Xid (PCI:0000:01:00): 13, \u{fffd}", 13, "0000:01:00.0", Minor, true);
    for bad in [
        "NVRM: Xid (PCI:0000:3b:00): 7",
        "NVRM: Xid (PCI:0000:3b:00): 79",
        "NVRM: Xid (PCI:0000:3b:00): 4294967296, x",
        "NVRM: Xid (PCI:0000:3b:00): 18446744073709551616, x",
        "NVRM: Xid (PCI:0000:3b:00): -1, x",
        "NVRM: Xid (PCI:0000:3b:00): abc, x",
        "NVRM: Xid (PCI:0000:3b): 79, x",
        "NVRM: Xid (PCI:0000:01:00 GPU-I:): 94, x",
        "NVRM: Xid ",
    ] {
        let line = one(bad);
        assert_eq!((line.kind, line.parses, line.raises), ("none", false, false), "{bad}");
        assert!(line.meaning.unwrap().contains("unparsed"), "{bad}");
    }
}

#[test]
fn case_b02_the_first_lines_after_boot_are_understood() {
    let log = b"4,1,15,-;NVRM: Xid (PCI:0001:00:00): 79, GPU has fallen off the bus.\n\
        4,2,16,-;NVRM: Xid (PCI:0001:00:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)\n";
    let signals = signals(log, Format::Kmsg);
    let found: Vec<_> = signals.iter().map(|s| (s.code, s.impact, s.fields.recovery_to)).collect();
    assert_eq!(found, [(Some(79), Impact::Critical, None), (Some(154), Impact::Critical, Some(1))]);
}

#[test]
fn case_b04_a_burst_of_45_is_a_note_that_names_its_cause() {
    let check = |message: &str, caused_by| {
        let text = format!("NVRM: Xid (PCI:0000:01:00): 45, pid=7, name=a, {message}");
        let found = signals(text.as_bytes(), Format::Text);
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!((found[0].impact, found[0].fields.caused_by), (Impact::Info, caused_by), "{text}");
        assert!(!one(&text).raises);
    };
    check("Ch 00000008", None);
    check("Ch 00000008 caused by previous Xid 149", Some(149));
    check("Ch 00000008 (caused by previous Xid 149)", Some(149));
    check("Ch 00000008 caused by previous Xid 149 or so", None);
    check("Ch 00000008 caused by previous Xid 99999999999", None);
}

#[test]
fn case_b05_the_line_decides_between_fatal_and_not() {
    let text = "NVRM: Xid (PCI:0000:c5:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 17 (0x04084507 0x00000004 0x00000000)";
    let line = one(text);
    assert_eq!(
        (line.severity, &line.fields["fatal"], &line.fields["link"]),
        (Impact::Minor, &json!(false), &json!(17))
    );
    assert_eq!(line.fields["decoded_unit"], json!("RLW_SRC_TRACK"));
    assert_eq!(
        (&line.fields["decoded_fatal"], &line.fields["recovery"]),
        (&json!(false), &json!("follow_advice"))
    );
}

#[test]
fn the_driver_chooses_the_layout() {
    let text = "NVRM: Xid (PCI:0000:01:00): 145, RLW_NEW Nonfatal XC0 i0 Link 1 (0x0409a0c2 0x00000008 0x0)";
    let unit = |driver| {
        let line = explain(text.as_bytes(), Format::Any, driver).next().unwrap().unwrap();
        line.fields.get("decoded_unit").cloned()
    };
    assert_eq!((unit(None), unit(Some(575))), (None, None));
    assert_eq!(unit(Some(570)), Some(json!("RLW_RXPIPE")));
}

#[test]
fn case_b25_94_restarts_the_program_109_resets_and_999_is_looked_at() {
    let check = |code: u32, severity, action: &str| {
        let line = one(&format!("NVRM: Xid (PCI:0000:01:00): {code}, pid=1, name=a, x"));
        assert_eq!((line.severity, line.raises), (severity, true));
        assert!(line.action.as_deref().unwrap().contains(action), "{line:?}");
    };
    check(94, Impact::Major, "Restart the program");
    check(109, Impact::Critical, "reset the GPU");
    check(999, Impact::Major, "ask the vendor");
}

#[test]
fn a_forged_line_raises_nothing() {
    let xid = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";
    for facility in [1_u32, 3, 23, 536_870_911] {
        let text = format!("{},3981,240602560,-;{xid}", u64::from(facility) << 3 | 4);
        let line = one(&text);
        assert_eq!((line.kind, line.parses, line.raises), ("none", false, false), "{text}");
        assert_eq!(line.fields["facility"], json!(facility));
        assert!(line.meaning.unwrap().contains("not the kernel"));
        assert!(signals(text.as_bytes(), Format::Kmsg).is_empty());
        let mut parser = parser();
        let outcome = parser.parse(1, &Splitter::new(Format::Kmsg).split(text.as_bytes()));
        assert_eq!(outcome.doubt, Some(Doubt::UserSpace));
    }
    for text in [
        format!("user  :warn  : [ 1.000000] {xid}"),
        format!("<12>[ 1.000000] {xid}"),
        format!("May 15 08:57:36 gpu001 python[9]: {xid}"),
        format!("May 15 08:57:36 gpu001 python[9]: kernel: {xid}"),
        format!("python: kernel: {xid}"),
        format!("a {xid}"),
    ] {
        assert!(!one(&text).raises, "{text}");
    }
    assert!(signals(xid.as_bytes(), Format::Kmsg).is_empty(), "no record of kmsg");
    assert_eq!(signals(xid.as_bytes(), Format::Text).len(), 1);
}

#[test]
fn a_process_name_changes_nothing_but_itself() {
    let names = [
        "train.3",
        "ray::WorkerDict",
        "a'b\"c",
        "a, b",
        "a, pid=9, name=z",
        ", ",
        "Xid (PCI:",
        "NVRM: Xid (PCI:0000:ff:00): 79, ",
        "a\\x0aNVRM: Xid (PCI:0000:ff:00): 79, x",
        "to 0x0 (None)",
        "a, RLW Nonfatal",
        "x Nonfatal XC0 i0 Link 1 (0x0, y",
        "(GPC 9, TPC 9, SM 9)",
        "GPU recovery action changed from 0x1 (x) to 0x0 (None)",
        "caused by previous Xid 79",
        "\u{1f980}",
        "<unknown>",
    ];
    for name in names {
        let xid = |code: u32, message: &str| {
            let line =
                one(&format!("4,1,2,-;NVRM: Xid (PCI:0000:3b:00): {code}, pid=5, name={name}, {message}"));
            assert_eq!(
                (line.code, line.pci.unwrap().to_string().as_str()),
                (Some(code), "0000:3b:00.0"),
                "{name}"
            );
            assert_eq!(line.fields["pid"], json!(5), "{name}");
            line
        };
        let line = xid(145, "RLW_REMAP Fatal XC0 i0 Link 03 (0x00000000 0x00000040 0x0)");
        assert_eq!((line.severity, &line.fields["link"]), (Impact::Critical, &json!(3)), "{name}");
        let line = xid(154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)");
        assert_eq!((line.severity, &line.fields["recovery_to"]), (Impact::Critical, &json!(2)), "{name}");
        let line = xid(13, "Graphics SM Global Exception on (GPC 8, TPC 5, SM 1): Multiple Warp Errors");
        assert_eq!((&line.fields["gpc"], &line.fields["sm"]), (&json!(8), &json!(1)), "{name}");
        let line = xid(45, "Ch 00000008 caused by previous Xid 31");
        assert_eq!(line.fields["caused_by"], json!(31), "{name}");
    }
    let oom = one(
        "oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/job_7/step_0,task=a,pid=1,uid=0,pid=2924364,uid=1000",
    );
    assert_eq!((&oom.fields["pid"], &oom.fields["job"]), (&json!(2_924_364), &json!("7")));
    let hung =
        one("INFO: task a:1 blocked for more than 9 seconds:136986 blocked for more than 120 seconds.");
    assert_eq!((&hung.fields["pid"], &hung.fields["seconds"]), (&json!(136_986), &json!(120)));
}

#[test]
fn lines_beside_the_samples() {
    let check = |text: &str, kind: &str, severity: Impact, raises: bool| {
        let line = one(text);
        assert_eq!((line.kind, line.severity, line.raises), (kind, severity, raises), "{text}");
    };
    use Impact::{Critical, Info, Major, Minor, None};
    check("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1482)", "gpu_driver", Major, true);
    check("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 99999, Fatal, Link 1 x", "sxid", Critical, true);
    check("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 99999, x", "sxid", Major, true);
    check("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 12014, Non-fatal, Link 1 x", "sxid", Minor, true);
    check("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 10005, Thermal", "sxid", Info, false);
    check(
        "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Severity 5 Engine instance 1",
        "sxid_detail",
        None,
        false,
    );
    check("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 2003", "none", None, false);
    check(
        "pcieport 0000:00:02.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0",
        "pcie_aer",
        Critical,
        true,
    );
    check(
        "pcieport 0000:00:02.0: AER: Multiple Correctable error message received from 0000:01:00.0",
        "pcie_aer",
        Minor,
        true,
    );
    check("pcieport 0000:00:02.0: AER: enabled with IRQ 30", "none", None, false);
    check("mlx5_core 0000:9a:00.0: PCIe Bus Error: severity=Corrected", "pcie_aer_detail", None, false);
    check("mlx5_core 0000:9a:00.0 enp154s0np0: Link up", "nic_link", Info, false);
    check("mlx5_core 0000:9a:00.0 mlx5_0: Port: 1 Link DOW", "none", None, false);
    check(
        "mce: CPU4: Core temperature above threshold, cpu clock throttled (total events = 1)",
        "cpu_thermal",
        Major,
        true,
    );
    check("CPU4: Package temperature/speed normal", "cpu_thermal", Info, false);
    check(
        "{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 0",
        "mce",
        Minor,
        true,
    );
    check(
        "Lustre: fs1-OST0003-osc: Connection restored to fs1-OST0003 (at 10.0.0.1@tcp)",
        "storage_stall",
        Info,
        false,
    );
    check("nvme nvme0: I/O 12 QID 3 timeout, aborting", "disk", Major, true);
    check("Buffer I/O error on dev sda1, logical block 0, async page read", "disk", Critical, true);
    check("I/O error, dev sda, sector 2048 op 0x0:(READ)", "disk", Major, true);
    check("XFS (dm-0): Corruption detected. Shutting down filesystem", "disk", Critical, true);
    check("EXT4-fs (md0): mounted filesystem", "none", None, false);
    check("EDAC MC0: 1 XX memory", "none", None, false);
    check("Out of memory: Killed process 5 (a) b) total-vm:1kB", "oom", Major, true);
    check("oom-kill:constraint=CONSTRAINT_NONE,task=a,pid=5,uid=0", "oom", Major, true);
    check("Kernel panic - not syncing", "panic", Critical, true);
}

#[test]
fn a_line_of_10_mib_costs_no_memory() {
    let mut log = b"NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=a, ".to_vec();
    log.resize(10 << 20, b'x');
    log.extend_from_slice(b"\nNVRM: Xid (PCI:0000:3b:00): 79, y\n");
    let codes: Vec<_> = explained(&log, Format::Any).iter().map(|line| line.code).collect();
    assert_eq!(codes, [Some(31), Some(79)]);
    assert!(signals(&log, Format::Text).iter().all(|signal| signal.line.len() <= 1024));
}

/// A cut line may say less than the whole one, never something else.
#[test]
fn a_line_cut_anywhere_invents_nothing() {
    let Some(samples) = fixture("samples.txt") else { return };
    let numbers = [
        "pid",
        "link",
        "nvlink",
        "gpc",
        "tpc",
        "sm",
        "recovery_to",
        "subcode",
        "watts",
        "seconds",
        "cpu",
        "count",
    ];
    for whole in samples.split(|b| *b == b'\n') {
        let expected = explained(whole, Format::Any);
        for end in 0..whole.len() {
            for line in explained(&whole[..end], Format::Any) {
                let text = String::from_utf8_lossy(&whole[..end]);
                if !line.parses {
                    continue;
                }
                let expected = &expected[0];
                assert_eq!((line.code, line.pci), (expected.code, expected.pci), "{text}");
                for name in numbers {
                    let found = line.fields.get(name).filter(|value| !value.is_null());
                    assert!(found.is_none() || found == expected.fields.get(name), "{name}: {text}");
                }
            }
        }
    }
}

#[test]
fn only_the_reports_are_the_same_reports() {
    let Some(samples) = fixture("samples.txt") else { return };
    for format in [Format::Any, Format::Text, Format::Kmsg] {
        check_reports(&samples, format);
        check_reports(&String::from_utf8_lossy(&samples).replace('\n', "\r\n").into_bytes(), format);
    }
    let told = reports(&samples, Format::Any, 4_096);
    assert!(told.len() > 40 && told.iter().all(|line| line.parses && line.meaning.is_some()));
    // Cut at any byte: the last line is another one then.
    for end in 0..samples.len() {
        let start =
            samples[..end.saturating_sub(250)].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        check_reports(&samples[start..end], Format::Any);
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(log in prop::collection::vec(any::<u8>(), 0..400)) {
        for format in [Format::Any, Format::Text, Format::Kmsg] {
            let lines = explained(&log, format);
            prop_assert!(lines.iter().zip(1..).all(|(line, number)| line.line == number));
        }
    }

    /// Pieces of real lines in any order reach deeper than noise does.
    #[test]
    fn shuffled_pieces_never_panic(pieces in prop::collection::vec(0..PIECES.len(), 0..24)) {
        let text: String = pieces.iter().map(|piece| PIECES[*piece]).collect();
        for format in [Format::Any, Format::Text, Format::Kmsg] {
            check_reports(text.as_bytes(), format);
            signals(text.as_bytes(), format);
        }
    }
}

const PIECES: [&str; 44] = [
    "NVRM: ",
    "Xid (PCI:",
    "0000:3b:00",
    "): ",
    "79",
    ", ",
    "pid=",
    "name=",
    "GPU-I:",
    "154",
    "149",
    "13",
    "\n",
    " ",
    "4,1,2,-;",
    "12,1,2,-;",
    "NVRM: The NVIDIA GPU 0000:b3:00.0",
    "NVRM: (PCI ID: ",
    " installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
    "GPU recovery action changed from ",
    "0x4",
    ") to ",
    " Link ",
    "XC0 ",
    "i0",
    " Fatal ",
    "SAW_MVB",
    "(0x00000001 0x2 ",
    "nvidia-nvswitch0: SXid (",
    "Data {",
    "pcieport 0000:00:02.0: ",
    "AER: ",
    "[ 5] ",
    "\\x0a",
    "\\x",
    "é",
    "oom-kill:constraint=",
    "kern  :warn  : ",
    "May 15 08:57:36 h kernel: ",
    "2025-01-21T04:41:44,2 ",
    "LustreError: ",
    " to node ",
    " failed: rc = -9",
];
