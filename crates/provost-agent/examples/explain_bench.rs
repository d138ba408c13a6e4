//! How fast `provost explain` goes through the kernel log of a healthy node, beside `grep -c NVRM` on the same
//! file, and how much memory it takes.
//!
//! The file is written here: what a node says in years, with a report now and then. Both programs read it from the
//! page cache and take turns. `cargo run --release -p provost-agent --example explain_bench -- 1000 10` reads
//! 1,000 MB in ten pairs; the program is looked for in `PROVOST_BIN_DIR`, else beside the folder of this one.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a measurement may fail")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::Folder;

/// Lines of a healthy node; some begin like those that matter.
const BENIGN: [&str; 16] = [
    "usb 1-1: new high-speed USB device number 4 using xhci_hcd",
    "nvidia-nvlink: Nvlink Core is being initialized, major device number 509",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.10  Thu Jan  1 00:00:00 UTC 2026",
    "audit: type=1400 audit(1790000000.123:45): apparmor=\"STATUS\" operation=\"profile_load\" name=\"snap.x\"",
    "docker0: port 1(veth12ab34c) entered forwarding state",
    "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
    "pci 0000:3b:00.0: BAR 1: assigned [mem 0x21fff0000000-0x21ffffffffff 64bit pref]",
    "mlx5_core 0000:ab:00.0: firmware version: 28.39.1002",
    "ACPI: PCI Interrupt Link [LNKD] enabled at IRQ 10",
    "perf: interrupt took too long (2506 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
    "systemd[1]: Started Journal Service.",
    "CPU features: detected: Spectre-v2",
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Opts: (null)",
    "nvme nvme0: 32/0/0 default/read/poll queues",
    "br-1f2e3d4c5b6a: port 7(veth0a1b2c3) entered blocking state",
    "TCP: request_sock_TCP: Possible SYN flooding on port 8080. Sending cookies.  Check SNMP counters.",
];
const REPORTS: [&str; 4] = [
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=1234, name=python3, Ch 00000008, intr 00000000. MMU Fault",
    "NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "Memory cgroup out of memory: Killed process 4711 (python3) total-vm:1234kB, anon-rss:12kB",
    "pcieport 0000:00:02.0: AER: Corrected error received: 0000:3b:00.0",
];
/// One line in so many reports something.
const REPORT_EVERY: u64 = 2_000;
/// How often a running program's memory is looked at.
const LOOK: Duration = Duration::from_millis(20);

struct Ran {
    seconds: f64,
    rss_kib: u64,
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().unwrap());
    let (megabytes, pairs) = (arguments.next().unwrap_or(1_000), arguments.next().unwrap_or(10));
    let folder = Folder::new();
    let log = folder.path().join("dmesg");
    write_log(&log, megabytes * 1_000_000);
    let megabytes = fs::metadata(&log).unwrap().len() as f64 / 1e6;
    let (mut grep, provost) = (Command::new("grep"), program("provost"));
    // Told to write to /dev/null it stops at the first line that it finds.
    let counted = File::create(folder.path().join("counted")).unwrap();
    grep.args(["-c", "NVRM"]).arg(&log).stdout(counted);
    for output in ["table", "jsonl"] {
        let mut explain = Command::new(&provost);
        explain.args(["explain", "-o", output]).arg(&log).stdout(Stdio::null());
        let (mut ours, mut peers, mut ratios, mut rss_kib) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for pair in 0..pairs {
            // A B B A: neither always pays for what the other left behind.
            let first_is_ours = pair % 2 == 0;
            let first = run(if first_is_ours { &mut explain } else { &mut grep });
            let second = run(if first_is_ours { &mut grep } else { &mut explain });
            let (explained, grepped) = if first_is_ours { (first, second) } else { (second, first) };
            rss_kib = rss_kib.max(explained.rss_kib);
            ratios.push(explained.seconds / grepped.seconds);
            ours.push(megabytes / explained.seconds);
            peers.push(megabytes / grepped.seconds);
        }
        println!(
            "bench: output={output} file_mb={megabytes:.0} explain_mb_per_s={:.0} grep_mb_per_s={:.0} \
             times_grep={:.1} explain_rss_kib={rss_kib}",
            median(ours),
            median(peers),
            median(ratios)
        );
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn write_log(path: &Path, bytes: u64) {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    let (mut written, mut random) = (0, 4_711_u64);
    for line in 0_u64.. {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = usize::try_from(random >> 40).unwrap();
        let is_report = line % REPORT_EVERY == REPORT_EVERY - 1;
        let text = if is_report { REPORTS[pick % REPORTS.len()] } else { BENIGN[pick % BENIGN.len()] };
        let stamp = format!("[{:5}.{:06}] ", line / 1_000, line % 1_000 * 1_000 + line % 997);
        writeln!(out, "{stamp}{text}").unwrap();
        written += (stamp.len() + text.len() + 1) as u64;
        if written >= bytes {
            break;
        }
    }
    out.flush().unwrap();
}

fn run(command: &mut Command) -> Ran {
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut rss_kib = 0;
    let exit = loop {
        if let Some(exit) = child.try_wait().unwrap() {
            break exit;
        }
        rss_kib = rss_kib.max(peak(&fs::read_to_string(&status).unwrap_or_default()));
        std::thread::sleep(LOOK);
    };
    assert!(exit.success(), "{command:?}: {exit}");
    Ran { seconds: started.elapsed().as_secs_f64(), rss_kib }
}

/// Zero where the program has just ended.
fn peak(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn program(name: &str) -> PathBuf {
    let beside = || std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
    std::env::var_os("PROVOST_BIN_DIR").map_or_else(beside, PathBuf::from).join(name)
}
