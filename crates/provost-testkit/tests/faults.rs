//! Every fault its right answer, on a real Slurm: what happens to a node, and what the reference says of it, one row
//! each. All rows at once, each on a node of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use provost_testkit::{Agents, Site, Testbed, XID_79, project_root, wait_until};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(15);
/// All of it: a runbook to its end, and a slurmd that Slurm gives up after 15 s and a third.
const LONG: Duration = Duration::from_secs(120);
const NODES: u16 = 16;
/// The node whose kernel log has facilities, so that a program's line can be told from the kernel's.
const FORGED: &str = "gpu013";
const SILENT: &str = "gpu014";

/// What happens, in the words of the reference, and the kernel's lines of it.
const ROWS: [(&str, &[&str]); NODES as usize] = [
    ("79 under a job", &[XID_79]),
    ("95", &["95, pid=1420, name=robin, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No"]),
    ("64", &["64, pid=1852, Row Remapper: Failed to remap row"]),
    (
        "48 alone",
        &["48, pid=77, name=robin, An uncorrectable double bit error (DBE) has been detected on GPU"],
    ),
    (
        "48, 63 and 94 under a job",
        &[
            "48, pid=77, name=robin, An uncorrectable double bit error (DBE) has been detected on GPU",
            "63, pid=77, name=robin, Row Remapper: New row marked for remapping, reset gpu to activate",
            "94, pid=77, name=robin, Contained: SM (0x1). RST: No, D-RST: No",
        ],
    ),
    (
        "63 under a job",
        &["63, pid=5, name=raven, Row Remapper: New row marked for remapping, reset gpu to activate"],
    ),
    (
        "74",
        &[
            "74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
        ],
    ),
    ("119", &["119, pid=5120, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU3 GSP!"]),
    (
        "149, fatal",
        &[
            "149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)",
        ],
    ),
    (
        "149, bit errors",
        &[
            "149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 04 (0x00000a46 0x00000001 0x00000000 0x00000000 0x00000000 0x00000000)",
        ],
    ),
    ("154 to 1", &["154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"]),
    ("154 to 0", &["154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"]),
    ("79, written by a program", &[]),
    ("the agent falls silent", &[]),
    ("slurmd dies", &[]),
    ("999", &["999, pid=1234, name=linnet"]),
];

/// What can be seen of a node: Slurm, incident, runbook.
type Seen = [String; 3];

fn name(row: usize) -> String {
    format!("gpu{:03}", row + 1)
}

/// The rows of the reference's table of examples.
fn expected() -> BTreeMap<String, Seen> {
    let path = project_root().join("docs/reference/faults.md");
    let page = fs::read_to_string(&path).expect("the reference is there");
    let examples =
        page.split("\n## ").find_map(|part| part.strip_prefix("Examples\n")).expect("its examples");
    let rows = examples.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = rows.skip(1).map(|row| row.split(" | ").map(str::to_owned).collect::<Vec<String>>());
    rows.map(|mut cells| {
        let what = cells.remove(0);
        (what, cells.try_into().expect("four columns"))
    })
    .collect()
}

/// Lets everything happen.
fn strike(testbed: &Testbed, agents: &mut Agents) {
    for (row, (what, lines)) in ROWS.iter().enumerate() {
        let node = name(row);
        let full = |line: &&str| {
            if line.starts_with("NVRM") {
                (**line).to_owned()
            } else {
                format!("NVRM: Xid (PCI:0000:3b:00): {line}")
            }
        };
        match *what {
            "79, written by a program" => agents.kernel(&node, &format!("12,100,5000000,-;{XID_79}")),
            "the agent falls silent" => agents.kill9(&node),
            "slurmd dies" => testbed.kill_node(&node),
            _ => agents.kernel_burst(&node, lines.iter().map(full)),
        }
    }
}

/// What Slurm and the controller show of every node; `drained` remembers who ever was.
fn look(testbed: &Testbed, site: &Site, drained: &mut BTreeSet<String>) -> BTreeMap<String, Seen> {
    let states = states(testbed);
    drained.extend(states.iter().filter(|(_, state)| state.contains("DRAIN")).map(|(node, _)| node.clone()));
    let incidents = site.items(&["incident", "list", "--all"]);
    let runs = site.items(&["run", "list", "--all"]);
    let of_row = |(row, (what, _)): (usize, &(&str, &[&str]))| {
        let node = name(row);
        let state = states.get(&node).map(String::as_str).unwrap_or_default();
        let slurm = match (state.contains("DRAIN"), drained.contains(&node), state.contains("DOWN")) {
            (true, _, _) => "drained",
            (false, true, _) => "drained, then free",
            (false, false, true) => "down",
            (false, false, false) => "untouched",
        };
        let about = |incident: &&Value| {
            incident["subjects"]
                .as_array()
                .is_some_and(|all| all.iter().any(|subject| subject["node"] == *node))
        };
        let about: Vec<&Value> = incidents.iter().filter(about).collect();
        assert!(about.len() <= 1, "{what} is one incident: {about:?}");
        let severity = about.first().and_then(|incident| incident["severity"].as_str()).unwrap_or("-");
        let numbers: Vec<&Value> = about.iter().map(|incident| &incident["number"]).collect();
        let positions: Vec<String> =
            runs.iter().filter(|run| numbers.contains(&&run["incident"])).map(position).collect();
        let runbook = if positions.is_empty() { "-".to_owned() } else { positions.join(" + ") };
        ((*what).to_owned(), [slurm.to_owned(), severity.to_owned(), runbook])
    };
    ROWS.iter().enumerate().map(of_row).collect()
}

/// State of every node in the words of Slurm.
fn states(testbed: &Testbed) -> BTreeMap<String, String> {
    let printed = testbed.slurm("scontrol", &["-o", "show", "node"]);
    let field = |line: &str, name: &str| {
        line.split_whitespace().find_map(|word| word.strip_prefix(name)).unwrap_or_default().to_owned()
    };
    printed.lines().map(|line| (field(line, "NodeName="), field(line, "State="))).collect()
}

/// Runbook, and the step at which it stands, or how it ended and without what. There are two spares for all rows.
fn position(run: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let steps = || run["steps"].as_array().into_iter().flatten();
    let open = |step: &&Value| !matches!(step["state"].as_str(), Some("succeeded" | "skipped" | "failed"));
    let failed = |step: &&Value| step["state"] == "failed" && step["id"] != "spare";
    let at = steps().find(open).map_or_else(|| text(&run["state"]), |step| text(&step["id"]));
    let failed: String =
        steps().filter(failed).map(|step| format!(", without {}", text(&step["id"]))).collect();
    format!("{}: {at}{failed}", text(&run["runbook"]))
}

fn table(rows: &BTreeMap<String, Seen>) -> String {
    let line = |what: &str, seen: &Seen| format!("{what:26} {:20} {:10} {}\n", seen[0], seen[1], seen[2]);
    let order = ROWS.iter().filter_map(|(what, _)| Some(line(what, rows.get(*what)?)));
    let head = ["Slurm", "incident", "runbook"].map(str::to_owned);
    line("what happens", &head) + &order.collect::<String>()
}

#[test]
fn faults() {
    let expected = expected();
    let testbed = Testbed::lease_of(NODES);
    let site = Site::of_example(&testbed)
        .with("max_unavailable = 6", "max_unavailable = 18")
        .with("isolations_per_window = 6", "isolations_per_window = 18")
        .with("concurrent_disruptions = 4", "concurrent_disruptions = 18")
        .with("breaker_percent = 90", "breaker_percent = 100")
        .with("effect = \"15s\"", "effect = \"15s\"\nquiet = \"3s\"\nadvice = \"1s\"")
        .started();
    let mut agents = Agents::enrol(&site, &[SILENT], &[FORGED]);
    for (row, (what, _)) in ROWS.iter().enumerate().filter(|(_, (what, _))| what.ends_with("under a job")) {
        let job = testbed.submit(&["-p", "batch", "--gres=gpu:8", "-w", &name(row), "--wrap", "sleep 600"]);
        testbed.wait_running(job, SOON);
        wait_until(&format!("the job of `{what}` is known"), SOON, || {
            let jobs = site.items(&["job", "list", "--node", &name(row)]);
            if jobs.is_empty() { Err("no job".to_owned()) } else { Ok(()) }
        });
    }
    strike(&testbed, &mut agents);
    let mut drained = BTreeSet::new();
    let mut seen = BTreeMap::new();
    let begun = std::time::Instant::now();
    while seen != expected && begun.elapsed() < LONG {
        seen = look(&testbed, &site, &mut drained);
    }
    println!("{}{}", testbed.slurm("scontrol", &["--version"]), table(&seen));
    assert!(seen == expected, "the reference says:\n{}", table(&expected));
    let resets = fs::read_to_string(testbed.dir().join("resets")).expect("resets were done");
    let resets: BTreeSet<&str> = resets.lines().collect();
    let (gpu, all) = ("0000:3b:00.0", "all");
    let wanted = [(1, gpu), (2, gpu), (3, gpu), (6, all), (7, gpu), (8, all), (10, gpu)];
    let wanted: BTreeSet<String> =
        wanted.iter().map(|(row, what)| format!("{} {what}", name(*row))).collect();
    assert_eq!(resets, wanted.iter().map(String::as_str).collect());
    testbed.start_node(&name(14));
    site.verify();
}
