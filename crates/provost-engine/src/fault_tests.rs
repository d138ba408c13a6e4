//! Every fault its right answer: what is held, how grave it is, which runbook deals with it. One line a case.

use std::collections::BTreeSet;
use std::time::Duration;

use provost_model::body::Body;
use provost_model::catalogue::{Answer, Catalogue};
use provost_model::effect::Effect;
use provost_model::response::AlertState;
use provost_model::runbook::ExecutionState;
use provost_model::scheduler::{JobKey, JobState};
use provost_model::signal::{Impact, PciAddress, Signal, SignalFields, SignalKind};

use crate::testing::{Site, signal};

/// A line as a test writes it: `48`, `154 1`, `149 fatal`, `149 mild`, `45 by 79`, `13 at 2 5`, `sxid 20034 fatal`,
/// `panic critical`.
fn line(node: &str, text: &str) -> Signal {
    let words: Vec<&str> = text.split(' ').collect();
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let (kind, code, rest) = match words.as_slice() {
        ["sxid", code, rest @ ..] => (SignalKind::Sxid, Some(number(code)), rest),
        [code, rest @ ..] if code.parse::<u32>().is_ok() => (SignalKind::Xid, Some(number(code)), rest),
        [name, rest @ ..] => {
            let kind = serde_json::from_value(serde_json::json!(name)).expect("a kind");
            (kind, None, rest)
        }
        [] => panic!("an empty line"),
    };
    let mut line = Signal { kind, code, ..signal(node, 0, Some(3)) };
    match rest {
        [] => {}
        ["fatal"] => line.fields.fatal = Some(true),
        ["mild"] => line.fields.fatal = Some(false),
        ["critical"] => line.impact = Impact::Critical,
        ["major"] => line.impact = Impact::Major,
        ["minor"] => line.impact = Impact::Minor,
        ["by", cause] => line.fields.caused_by = Some(number(cause)),
        ["at", gpc, tpc] => {
            line.fields.gpc = Some(number(gpc));
            line.fields.tpc = Some(number(tpc));
        }
        [advice] => {
            line.fields.recovery_to = Some(number(advice));
            line.fields.clears = *advice == "0";
        }
        other => panic!("{other:?}"),
    }
    line
}

fn say(site: &mut Site, text: &str) {
    site.signal(line("gpu001", text));
}

fn site() -> Site {
    let mut site = Site::new(20);
    site.with_runbooks();
    site
}

/// How things stand on gpu001: `held SEV2 gpu-lost`.
fn stand(site: &Site) -> String {
    let held = site.state.holds_on(site.node("gpu001").id).next().is_some();
    let severity = site.state.incidents.values().map(|incident| incident.severity.to_string()).min();
    let open = site.state.executions.values().filter(|run| run.state != ExecutionState::Cancelled);
    let runbooks: Vec<&str> = open.map(|run| run.runbook.as_str()).collect();
    let runbooks = if runbooks.is_empty() { "-".to_owned() } else { runbooks.join("+") };
    format!("{} {} {runbooks}", if held { "held" } else { "free" }, severity.as_deref().unwrap_or("-"))
}

/// What becomes of lines that come 100 ms apart, two seconds later.
fn check(busy: bool, lines: &[&str], expected: &str) {
    let mut site = site();
    if busy {
        site.run_job(1, &[("gpu001", &[3])]);
    }
    for text in lines {
        say(&mut site, text);
        site.wait(Duration::from_millis(100));
    }
    site.wait(Duration::from_secs(2));
    assert_eq!(stand(&site), expected, "{lines:?} busy: {busy}");
    assert!(site.state.incidents.len() <= 1, "{lines:?} is one fault");
}

#[test]
fn every_fault_has_its_right_answer() {
    let check = |lines: &[&str], expected: &str| check(true, lines, expected);
    // Memory (ruling 8).
    check(&["48"], "held SEV2 gpu-memory-uncorrectable");
    check(&["171"], "held SEV2 gpu-memory-uncorrectable");
    check(&["48", "63"], "free SEV3 row-remap-pending");
    check(&["48", "94"], "free SEV3 row-remap-pending");
    check(&["63", "48"], "free SEV3 row-remap-pending");
    check(&["48", "171", "63", "94"], "free SEV3 row-remap-pending");
    check(&["48", "64"], "held SEV2 gpu-memory-uncorrectable");
    check(&["48", "63", "95"], "held SEV2 gpu-memory-uncorrectable");
    check(&["63", "64"], "held SEV2 gpu-memory-uncorrectable");
    check(&["63"], "free SEV4 row-remap-pending");
    check(&["64"], "held SEV2 gpu-memory-uncorrectable");
    check(&["94"], "free SEV3 row-remap-pending");
    check(&["95"], "held SEV2 gpu-memory-uncorrectable");
    check(&["92"], "free SEV3 -");
    // Links and switches.
    check(&["74"], "held SEV2 nvlink-fatal");
    check(&["149 fatal"], "held SEV2 nvlink-fatal");
    check(&["149 mild"], "free SEV4 -");
    check(&["145 fatal"], "held SEV2 nvlink-fatal");
    check(&["145 mild", "145 fatal"], "held SEV2 nvlink-fatal");
    check(&["145 major"], "free SEV3 -");
    check(&["sxid 20034"], "held SEV2 nvlink-fatal");
    check(&["sxid 20034 fatal"], "held SEV2 nvlink-fatal");
    check(&["sxid 20034 mild"], "free SEV4 -");
    check(&["sxid 10003 fatal"], "held SEV2 nvlink-fatal");
    check(&["sxid 99999"], "free SEV3 -");
    check(&["74", "sxid 20034 fatal"], "held SEV2 nvlink-fatal");
    check(&["sxid 20034 fatal", "149 fatal"], "held SEV2 nvlink-fatal");
    // The GPU's own processors, and the driver's advice.
    check(&["119"], "held SEV2 gpu-reset-needed");
    check(&["120"], "held SEV2 gpu-reset-needed");
    check(&["109"], "held SEV2 gpu-reset-needed");
    check(&["154 0"], "free - -");
    for advice in ["154 1", "154 2", "154 3", "154 4", "154 5", "154 6", "154 7"] {
        check(&[advice], "held SEV2 gpu-reset-needed");
    }
    check(&["154"], "free SEV3 -");
    check(&["48", "154 1"], "held SEV2 gpu-memory-uncorrectable");
    check(&["79", "154 2"], "held SEV2 gpu-lost");
    check(&["154 2", "79"], "held SEV2 gpu-lost");
    check(&["119", "154 1"], "held SEV2 gpu-reset-needed");
    check(&["167"], "held SEV2 gpu-fault-unclassified");
    // Programs.
    check(&["13 at 1 2"], "free - application-fault");
    check(&["31"], "free - application-fault");
    check(&["43"], "free - application-fault");
    check(&["45"], "free - application-fault");
    check(&["45 by 79"], "free - -");
    check(&["79", "45"], "held SEV2 gpu-lost");
    check(&["79", "45 by 79"], "held SEV2 gpu-lost");
    check(&["48", "45"], "held SEV2 gpu-memory-uncorrectable");
    check(&["94", "45"], "free SEV3 row-remap-pending");
    // What nobody knows asks for a person.
    check(&["999"], "free SEV3 -");
    // Conditions of the node that are not about a GPU touch nothing (ruling 5).
    check(&["panic critical"], "free SEV2 -");
    check(&["pcie_aer critical"], "free SEV2 -");
    check(&["pcie_aer minor"], "free SEV4 -");
    check(&["mce minor"], "free SEV4 -");
    check(&["edac minor"], "free SEV4 -");
    check(&["hung_task major"], "free SEV3 -");
    check(&["soft_lockup major"], "free SEV3 -");
    check(&["disk major"], "free SEV3 -");
    check(&["storage_stall major"], "free SEV3 -");
    check(&["nic_link major"], "free SEV3 -");
    check(&["oom"], "free - -");
}

/// Each entry of the catalogue, as its line comes without a word on itself: the engine does what the catalogue, and
/// so the reference, says.
#[test]
fn every_entry_has_a_rule_a_runbook_or_touches_nothing() {
    let catalogue = Catalogue::embedded();
    let codes = catalogue.xids().map(|(code, _)| (SignalKind::Xid, Some(code)));
    let switches = catalogue.sxids().map(|(code, _)| (SignalKind::Sxid, Some(code)));
    let kinds = catalogue.kinds().map(|(kind, _)| (kind, None));
    let unknown = [(SignalKind::Xid, Some(9_999)), (SignalKind::Sxid, Some(9_999))];
    let mut named = BTreeSet::new();
    let mut fresh = site();
    fresh.run_job(1, &[("gpu001", &[3])]);
    for (kind, code) in codes.chain(switches).chain(kinds).chain(unknown) {
        let entry = catalogue.entry(kind, code);
        let line = Signal { kind, code, impact: entry.impact, ..signal("gpu001", 0, Some(3)) };
        let judged = catalogue.assess_signal(&line);
        named.extend(judged.runbook.map(str::to_owned));
        let mut site = fresh.clone();
        site.signal(line.clone());
        site.wait(Duration::from_secs(2));
        let held = !site.state.holds.is_empty();
        let runs: Vec<&str> = site.state.executions.values().map(|run| run.runbook.as_str()).collect();
        let expected: Vec<&str> = judged.runbook.into_iter().collect();
        assert_eq!(runs, expected, "{kind:?} {code:?}");
        let found = match (site.state.incidents.len(), held, runs.as_slice()) {
            (0, false, []) => Answer::Record,
            (0, false, ["application-fault"]) => Answer::Note,
            (1, false, []) => Answer::Incident,
            (1, false, [_]) => Answer::Recover,
            (1, true, [_]) => Answer::Hold,
            other => panic!("{kind:?} {code:?}: {other:?}"),
        };
        assert_eq!(found, judged.answer(), "{kind:?} {code:?}");
        // And where the line says of itself how grave it is.
        for fatal in [false, true] {
            let fields = SignalFields { fatal: Some(fatal), ..SignalFields::default() };
            named.extend(catalogue.assess(kind, code, &fields, None).runbook.map(str::to_owned));
        }
    }
    let built_in: BTreeSet<String> =
        crate::runbook::builtin().iter().map(|(id, _)| (*id).to_owned()).collect();
    assert_eq!(named, built_in, "a runbook that no entry names, or a name without a runbook");
}

#[test]
fn an_idle_node_is_reset_at_once_for_a_row_that_waits() {
    check(false, &["63"], "held SEV4 row-remap-pending");
    check(false, &["48", "63", "94"], "held SEV3 row-remap-pending");
    check(false, &["48"], "held SEV3 gpu-memory-uncorrectable");
}

fn requeued(site: &Site) -> usize {
    let requests = site.bodies(|body| match body {
        Body::EffectRequested(data) => Some(&data.effect),
        _ => None,
    });
    requests.into_iter().filter(|effect| matches!(effect, Effect::JobRequeue { .. })).count()
}

#[test]
fn companions_are_those_of_the_same_gpu_whatever_happens_elsewhere() {
    let mut site = site();
    for (id, node) in (1..).zip(["gpu001", "gpu002", "gpu003", "gpu004"]) {
        site.run_job(id, &[(node, &[3])]);
    }
    for (node, text) in
        [("gpu001", "63"), ("gpu002", "63"), ("gpu003", "63"), ("gpu003", "95"), ("gpu004", "94")]
    {
        site.signal(line(node, text));
    }
    for node in ["gpu001", "gpu002", "gpu003", "gpu004"] {
        site.signal(line(node, "48"));
    }
    site.wait(Duration::from_secs(2));
    let held = ["gpu001", "gpu002", "gpu003", "gpu004"]
        .map(|node| site.state.holds_on(site.node(node).id).next().is_some());
    assert_eq!(held, [false, false, true, false]);
}

#[test]
fn companions_of_a_gpu_that_the_inventory_lacks_count_as_well() {
    let stand_of = |codes: &[u32]| {
        let mut site = site();
        for code in codes {
            let mut line = signal("gpu001", *code, Some(3));
            line.pci = line.pci.map(|pci| PciAddress { domain: 7, ..pci });
            site.signal(line);
        }
        site.wait(Duration::from_secs(2));
        let held = site.state.holds.values().any(|hold| hold.gpu.is_none());
        (held, site.alert("xid.48").impact)
    };
    assert_eq!(stand_of(&[48]), (true, Impact::Critical));
    assert_eq!(stand_of(&[48, 95]), (true, Impact::Critical));
    // Held for the reset of an idle node, and not for the error.
    assert_eq!(stand_of(&[48, 63]).1, Impact::Major);
}

/// Lets seconds pass, carrying out what is asked for.
fn pass(site: &mut Site, seconds: u64) {
    for _ in 0..seconds {
        site.carry_out();
        site.wait(Duration::from_secs(1));
        site.look();
    }
    site.carry_out();
}

#[test]
fn an_error_alone_holds_after_a_second_and_moves_jobs_after_a_minute_of_quiet() {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[3])]);
    say(&mut site, "48");
    site.wait(Duration::from_millis(999));
    assert_eq!(stand(&site), "free - -", "nothing is decided before the companions had their time");
    site.wait(Duration::from_millis(1));
    assert_eq!(stand(&site), "held SEV2 gpu-memory-uncorrectable");
    pass(&mut site, 30);
    say(&mut site, "48");
    pass(&mut site, 45);
    assert_eq!(requeued(&site), 0, "it came again: the quiet counts anew");
    pass(&mut site, 20);
    assert_eq!(requeued(&site), 1);
}

#[test]
fn a_companion_that_comes_late_still_spares_the_jobs() {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[3])]);
    say(&mut site, "48");
    pass(&mut site, 10);
    say(&mut site, "63");
    pass(&mut site, 70);
    assert_eq!((requeued(&site), stand(&site)), (0, "held SEV2 gpu-memory-uncorrectable".to_owned()));
    // One that is worse does not.
    say(&mut site, "95");
    assert_eq!(site.alert("xid.95").state, AlertState::Firing);
}

#[test]
fn the_drivers_last_word_counts_after_five_seconds() {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[3])]);
    say(&mut site, "154 4");
    pass(&mut site, 3);
    say(&mut site, "154 1");
    assert_eq!(stand(&site), "held SEV2 gpu-reset-needed");
    pass(&mut site, 4);
    assert_eq!(requeued(&site), 0);
    pass(&mut site, 3);
    assert_eq!(requeued(&site), 1);
}

#[test]
fn an_advice_that_is_taken_back_ends_by_itself_and_moves_no_job() {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[3])]);
    say(&mut site, "154 1");
    pass(&mut site, 2);
    say(&mut site, "154 0");
    assert_eq!(site.alert("xid.154").state, AlertState::Clearing);
    pass(&mut site, 60);
    // It comes again, and goes again.
    say(&mut site, "154 1");
    assert_eq!(site.alert("xid.154").state, AlertState::Firing);
    pass(&mut site, 1);
    say(&mut site, "154 0");
    pass(&mut site, 310);
    assert_eq!(site.alert("xid.154").state, AlertState::Resolved);
    pass(&mut site, 910);
    assert_eq!((requeued(&site), stand(&site)), (0, "free SEV2 -".to_owned()));
    assert!(!site.nodes["gpu001"].drain);
}

fn end(site: &mut Site, key: &JobKey) {
    site.jobs.iter_mut().filter(|job| job.key == *key).for_each(|job| {
        job.state = JobState::Failed;
        job.ended_at = Some(site.now);
    });
    site.poll();
}

/// Jobs one after the other on GPU 3 of gpu001, each with its line; whether the GPU becomes suspect.
fn suspect(lines: &[(u32, &str)]) -> bool {
    let mut site = site();
    for (id, text) in lines {
        let key = site.run_job(*id, &[("gpu001", &[3])]);
        say(&mut site, text);
        site.wait(Duration::from_secs(60));
        end(&mut site, &key);
        site.jobs.clear();
    }
    assert!(site.state.holds.is_empty(), "nobody is isolated for a program's fault");
    site.state.alerts.values().any(|alert| alert.condition.ends_with(".repeat"))
}

#[test]
fn a_programs_fault_is_the_gpus_only_in_two_jobs_and_in_one_place() {
    let check = |lines: &[(u32, &str)], expected| assert_eq!(suspect(lines), expected, "{lines:?}");
    check(&[(1, "31"), (1, "31")], false);
    check(&[(1, "31"), (2, "31")], true);
    check(&[(1, "31"), (2, "32")], false);
    check(&[(1, "69"), (2, "69")], true);
    check(&[(1, "13 at 1 2"), (2, "13 at 1 2")], true);
    check(&[(1, "13 at 1 2"), (1, "13 at 1 2")], false);
    check(&[(1, "13 at 1 2"), (2, "13 at 1 3")], false);
    check(&[(1, "13 at 1 2"), (2, "13 at 0 5"), (3, "13 at 1 2")], true);
    // Without a place nothing can be said about one.
    check(&[(1, "13"), (2, "13")], false);
    // What only echoes another error says nothing, however often.
    check(&[(1, "43"), (2, "43")], false);
    check(&[(1, "45"), (2, "45")], false);
}

#[test]
fn a_fault_that_follows_a_job_from_node_to_node_is_the_jobs() {
    const GPU: &[u32] = &[3];
    let check = |nodes: u32, expected: bool| {
        let mut site = site();
        let names: Vec<String> = (1..=nodes).map(|n| format!("gpu{n:03}")).collect();
        let on: Vec<(&str, &[u32])> = names.iter().map(|name| (name.as_str(), GPU)).collect();
        let first = site.run_job(1, &[("gpu001", &[3])]);
        say(&mut site, "31");
        end(&mut site, &first);
        site.wait(Duration::from_secs(60));
        site.run_job(2, &on);
        for name in names.iter().rev() {
            site.signal(line(name, "31"));
        }
        let suspect = site.state.alerts.values().any(|alert| alert.condition == "xid.31.repeat");
        assert_eq!(suspect, expected, "on {nodes} nodes");
    };
    check(1, true);
    check(2, true);
    check(3, false);
}

/// B02: what came while the monitor was not up yet is news on a new boot, and history on the first install.
#[test]
fn b02_faults_of_the_first_seconds_after_a_boot_are_not_missed() {
    let check = |historic: bool, expected: &str| {
        let mut site = site();
        for text in ["79", "154 1"] {
            let line = Signal { historic, boot_id: Some("boot-2".to_owned()), ..line("gpu001", text) };
            site.signal(line);
        }
        site.wait(Duration::from_secs(2));
        assert_eq!(stand(&site), expected);
    };
    check(false, "held SEV3 gpu-lost");
    check(true, "free - -");
}

/// B05: a tool calls it fatal; the line's own subcode says it is not.
#[test]
fn b05_a_non_fatal_subcode_isolates_nothing_and_is_one_incident() {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[3])]);
    for _ in 0..3 {
        say(&mut site, "145 mild");
        site.wait(Duration::from_secs(6));
    }
    assert_eq!(stand(&site), "free SEV4 -");
    assert_eq!((site.state.incidents.len(), site.alert("xid.145").count), (1, 3));
}

/// B06: 800,000 equal lines of a GPU that is broken: one incident, still fatal.
#[test]
fn b06_a_flood_of_one_code_is_one_incident() {
    let mut site = site();
    let (flood, before) = (line("gpu001", "95"), site.records.len());
    let mut merger = crate::detect::Merger::new(Duration::from_secs(5));
    for n in 0..800_000_u64 {
        let now = site.now;
        let inputs = if n % 1_000 == 0 { merger.due(now) } else { Vec::new() };
        for input in inputs.into_iter().chain(merger.offer(flood.clone(), now)) {
            site.feed(input);
        }
        if n % 100 == 99 {
            site.now = site.now + Duration::from_millis(10);
        }
    }
    assert_eq!(stand(&site), "held SEV3 gpu-memory-uncorrectable");
    assert_eq!(site.state.incidents.len(), 1);
    assert!(site.records.len() - before <= 200, "{}", site.records.len() - before);
}

/// B25: 94 is the program's, 109 wants a reset, and a code that nobody knows asks for a person.
#[test]
fn b25_a_program_error_takes_no_gpu_away() {
    check(true, &["94"], "free SEV3 row-remap-pending");
    check(true, &["69"], "free - application-fault");
    check(true, &["109"], "held SEV2 gpu-reset-needed");
    check(true, &["999"], "free SEV3 -");
}
