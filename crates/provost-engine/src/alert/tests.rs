//! Which condition raises what, when it ends, and what raises nothing.

use std::time::Duration;

use provost_model::body::{Body, Source, SourceState};
use provost_model::fleet::GpuFacts;
use provost_model::input::{AgentReport, Input};
use provost_model::scheduler::JobState;
use provost_model::signal::{SignalKind, Trust};

use super::*;
use crate::testing::{Site, pci, signal};

/// What an Xid on GPU 3 of a node raises: condition, subject, impact, runbook; or nothing.
fn raised(code: u32, with_job: bool) -> Option<String> {
    let mut site = Site::new(8);
    if with_job {
        site.run_job(7, &[("gpu003", &[3])]);
    }
    site.xid("gpu003", code, 3);
    site.state.alerts.values().next().map(|alert| {
        let blocks = alert.classifications.contains(&Classification::BlocksPlacement);
        let subject = alert.subject.name.as_deref().unwrap_or("job");
        let runbook = alert.runbook.as_deref().unwrap_or("-");
        let blocks = if blocks { "blocks" } else { "-" };
        format!("{} {subject} {:?} {blocks} {runbook}", alert.condition, alert.impact)
    })
}

#[test]
fn what_an_xid_raises() {
    let check = |code, with_job, expected: Option<&str>| {
        assert_eq!(raised(code, with_job).as_deref(), expected, "{code} {with_job}");
    };
    check(79, false, Some("xid.79 gpu003/3 Critical blocks gpu-lost"));
    check(79, true, Some("xid.79 gpu003/3 Critical blocks gpu-lost"));
    check(95, false, Some("xid.95 gpu003/3 Critical blocks gpu-memory-uncorrectable"));
    check(119, false, Some("xid.119 gpu003/3 Critical blocks gpu-reset-needed"));
    check(167, false, Some("xid.167 gpu003/3 Critical blocks gpu-fault-unclassified"));
    check(13, true, Some("xid.13 job Minor - application-fault"));
    check(31, true, Some("xid.31 job Minor - application-fault"));
    check(43, true, Some("xid.43 job Info - application-fault"));
    check(45, true, Some("xid.45 job Info - application-fault"));
    for application in [13, 31, 43, 45] {
        check(application, false, None);
    }
    // A code that the catalogue does not know asks for a person and is never critical by itself.
    check(9_999, false, Some("xid.9999 gpu003/3 Major - -"));
}

#[test]
fn an_advice_to_recover_is_critical_and_its_all_clear_is_no_alert() {
    let check = |to, expected| {
        let mut site = Site::new(8);
        let mut advice = signal("gpu003", 154, Some(3));
        advice.fields.recovery_to = Some(to);
        advice.fields.clears = to == 0;
        site.signal(advice);
        assert_eq!(site.state.alerts.values().next().map(|alert| alert.impact), expected, "{to}");
    };
    check(0, None);
    check(1, Some(Impact::Critical));
    check(7, Some(Impact::Critical));
}

#[test]
fn history_and_lines_of_unknown_nodes_raise_nothing() {
    let mut site = Site::new(8);
    let mut old = signal("gpu003", 79, Some(3));
    old.historic = true;
    assert_eq!(site.signal(old), ["episode.opened"]);
    assert_eq!(site.xid("nobody", 79, 3), ["episode.opened"]);
    assert!(site.state.alerts.is_empty() && site.state.holds.is_empty());
}

#[test]
fn a_fault_that_comes_before_its_node_is_known_counts_once_it_is() {
    let mut site = Site::new(8);
    let newcomer = site.nodes["gpu001"].clone();
    // Neighbours on both sides of it, with faults that come before and after its own in any order of keys.
    for (node, code) in [("aaa001", 31), ("late000", 31), ("late001", 79), ("late002", 119), ("zzz001", 119)]
    {
        site.xid(node, code, 3);
    }
    site.nodes.insert("late001".to_owned(), newcomer);
    let kinds = site.poll();
    assert!(kinds.contains(&"incident.opened"), "{kinds:?}");
    assert_eq!(site.alert("xid.79").subject.name.as_deref(), Some("late001/0000:4b:00.0"));
}

#[test]
fn text_files_are_believed_and_marked() {
    let mut site = Site::new(8);
    let mut line = signal("gpu003", 79, Some(3));
    line.trust = Trust::Text;
    site.signal(line);
    assert_eq!(site.alert("xid.79").count, 1);
    assert!(site.state.episodes.values().all(|episode| episode.trust == Trust::Text));
}

/// B01: the driver's lines without a code are the same condition as Xid 79.
#[test]
fn b01_a_gpu_lost_without_an_xid_is_the_same_incident() {
    for codes in [[None, Some(79)], [Some(79), None]] {
        let mut site = Site::new(8);
        for code in codes {
            let mut line = signal("gpu003", 79, Some(3));
            if code.is_none() {
                line.kind = SignalKind::GpuLost;
            }
            site.signal(line);
        }
        let alert = site.alert("xid.79");
        assert_eq!((alert.count, alert.evidence.len(), alert.runbook.as_deref()), (2, 2, Some("gpu-lost")));
        assert_eq!(site.state.alerts.len(), 1);
        assert_eq!(site.state.incidents.len(), 1);
    }
}

/// B04: programs that end leave thousands of Xid 45; nodes and GPUs are well.
#[test]
fn b04_an_application_teardown_burst_isolates_nothing() {
    let mut site = Site::new(77);
    let names: Vec<String> = (1..=77).map(|n| format!("gpu{n:03}")).collect();
    let all: Vec<u32> = (0..8).collect();
    let on: Vec<(&str, &[u32])> = names.iter().map(|name| (name.as_str(), all.as_slice())).collect();
    site.run_job(7, &on);
    let mut records = 0;
    for name in &names {
        for gpu in 0..8 {
            records += site.xid(name, 45, gpu).iter().filter(|kind| !kind.starts_with("execution")).count();
        }
    }
    assert!(records <= 77 * 8 * 12 / 10, "{records}");
    assert!(site.state.incidents.is_empty() && site.state.holds.is_empty());
    let alerts: Vec<&Alert> = site.state.alerts.values().collect();
    assert_eq!(alerts.len(), 1);
    assert_eq!(
        (alerts[0].subject.kind, alerts[0].runbook.as_deref()),
        (SubjectKind::Job, Some("application-fault"))
    );
}

#[test]
fn a_harmless_signal_costs_one_record() {
    let mut site = Site::new(2);
    let mut noise = signal("gpu001", 0, None);
    noise.kind = SignalKind::Oom;
    noise.code = None;
    assert_eq!(site.signal(noise), ["episode.opened"]);
}

#[test]
fn repeats_raise_the_count_of_the_open_alert_only() {
    let mut site = Site::new(8);
    site.xid("gpu003", 79, 3);
    let key = site.state.episodes.keys().next().expect("one episode").clone();
    site.now = site.now + Duration::from_secs(1);
    let repeats = Input::Repeats { key: key.clone(), count: 41, last_at: site.now };
    assert_eq!(site.feed(repeats.clone()), ["episode.repeated", "alert.changed"]);
    assert_eq!((site.alert("xid.79").count, site.alert("xid.79").last_at), (42, site.now));
    let unknown = Input::Repeats {
        key: provost_model::body::EpisodeKey { node: "nobody".into(), ..key },
        count: 1,
        last_at: site.now,
    };
    assert!(site.feed(unknown).is_empty());
}

fn verify(site: &mut Site, gpu: Option<u32>) -> usize {
    let node = site.node("gpu003").id;
    let mut out = Decisions::new("test", site.state.seq);
    resolve_verified(&site.state, node, gpu, site.now, &mut out);
    out.into_events().len()
}

#[test]
fn only_a_step_newer_than_the_last_occurrence_verifies() {
    let mut site = Site::new(8);
    site.xid("gpu003", 79, 3);
    assert_eq!(verify(&mut site, None), 0, "as old as the fault");
    site.now = site.now + Duration::from_secs(60);
    assert_eq!(verify(&mut site, None), 1);
    assert_eq!(verify(&mut site, Some(3)), 1);
    assert_eq!(verify(&mut site, Some(4)), 0);
    let key = site.state.episodes.keys().next().expect("one episode").clone();
    site.feed(Input::Repeats { key, count: 1, last_at: site.now });
    assert_eq!(verify(&mut site, None), 0, "seen again since");
}

/// B23 (b): what comes just after a recovery is new.
#[test]
fn b23_a_new_fault_just_after_the_recovery_raises_anew() {
    let mut site = Site::new(8);
    site.xid("gpu003", 79, 3);
    let first = site.alert("xid.79").id;
    let number = site.incident(1).number.clone();
    site.now = site.now + Duration::from_secs(60);
    let resolve = provost_model::input::Action::IncidentResolve { incident: number };
    site.ask(provost_model::policy::Role::Operator, resolve);
    assert_eq!(site.state.alerts[&first].state, AlertState::Resolved);
    // Neither a poll nor a start brings the old fault back.
    site.poll();
    site.start();
    assert!(site.state.open_alerts.is_empty());
    site.now = site.now + Duration::from_secs(1);
    site.xid("gpu003", 79, 3);
    let second = site.alert("xid.79");
    assert!(second.id != first && second.state == AlertState::Firing);
    assert_eq!(second.incident, Some(site.incident(1).id));
}

#[test]
fn two_jobs_with_one_fault_on_one_gpu_make_the_gpu_suspect() {
    let mut site = Site::new(8);
    let first = site.run_job(1, &[("gpu003", &[3])]);
    site.xid("gpu003", 31, 3);
    site.xid("gpu003", 31, 3);
    assert!(site.state.incidents.is_empty(), "one job that fails in a loop is not the GPU's fault");
    end_job(&mut site, &first);
    site.run_job(2, &[("gpu003", &[3])]);
    site.xid("gpu003", 31, 3);
    let alert = site.alert("xid.31.repeat");
    assert_eq!((alert.subject.name.as_deref(), alert.impact), (Some("gpu003/3"), Impact::Minor));
    let incident = site.incident(1);
    assert_eq!(incident.severity.to_string(), "SEV4");
    assert!(incident.title.contains("in different jobs (Xid 31)"), "{}", incident.title);
    assert!(site.state.holds.is_empty());
}

fn end_job(site: &mut Site, key: &provost_model::scheduler::JobKey) {
    for job in &mut site.jobs {
        if job.key == *key {
            job.state = JobState::Failed;
            job.ended_at = Some(site.now);
        }
    }
    site.poll();
}

#[test]
fn a_job_that_ends_takes_its_alerts_with_it() {
    let mut site = Site::new(8);
    let job = site.run_job(1, &[("gpu003", &[3])]);
    site.xid("gpu003", 45, 3);
    end_job(&mut site, &job);
    assert_eq!(site.alert("xid.45").state, AlertState::Resolved);
    assert!(site.state.open_alerts.is_empty());
}

#[test]
fn a_gpu_that_gets_its_name_keeps_its_alert() {
    let mut site = Site::new(8);
    for node in &mut site.config.inventory {
        node.gpus.iter_mut().for_each(|gpu| gpu.uuid = None);
    }
    site.state = State::new("test");
    site.start();
    site.poll();
    site.xid("gpu003", 79, 3);
    assert_eq!(site.alert("xid.79").subject.id, "pci:SN-gpu003/0000:4b:00.0");
    let gpu = GpuFacts { index: 3, pci: pci(3), uuid: Some("GPU-3".to_owned()), model: None, serial: None };
    let report = AgentReport {
        node: "gpu003".to_owned(),
        boot_id: None,
        actions: BTreeSet::new(),
        gpus: Some(vec![gpu]),
        version: "1".to_owned(),
    };
    assert_eq!(site.feed(Input::AgentReport(Box::new(report))), ["agent.reported", "gpu.identified"]);
    site.now = site.now + Duration::from_secs(10);
    site.xid("gpu003", 79, 3);
    assert_eq!((site.state.alerts.len(), site.alert("xid.79").count), (1, 2));
}

#[test]
fn the_silence_of_a_source_is_an_alert_on_the_source_and_ends_by_its_level() {
    let mut site = Site::new(8);
    site.xid("gpu003", 79, 3);
    let agent = Source::Agent("gpu003".to_owned());
    let say = |site: &mut Site, state| site.feed(Input::Source { source: agent.clone(), state });
    say(&mut site, SourceState::Fresh);
    assert!(say(&mut site, SourceState::Silent).contains(&"alert.raised"));
    let silent = site.alert("source.silent");
    assert_eq!(silent.classifications, BTreeSet::from([Classification::Pages]));
    assert_eq!(site.alert("xid.79").state, AlertState::Firing);
    say(&mut site, SourceState::Fresh);
    assert_eq!(site.alert("source.silent").state, AlertState::Clearing);
    say(&mut site, SourceState::Silent);
    assert_eq!(
        (site.alert("source.silent").state, site.alert("source.silent").count),
        (AlertState::Firing, 2)
    );
    say(&mut site, SourceState::Fresh);
    site.wait(Duration::from_secs(299));
    assert_eq!(site.alert("source.silent").state, AlertState::Clearing);
    site.wait(Duration::from_secs(1));
    assert_eq!(site.alert("source.silent").state, AlertState::Resolved);
    assert_eq!(site.alert("xid.79").state, AlertState::Firing);
}

#[test]
fn no_line_of_a_program_reaches_a_plain_field() {
    let mut site = Site::new(8);
    let mut line = signal("gpu003", 79, Some(3));
    line.line = "NVRM: Xid ... name=/home/secret-user/train".to_owned();
    site.signal(line);
    for record in &site.records {
        let text = String::from_utf8(record.canonical().expect("canonical")).expect("UTF-8");
        assert!(!text.contains("secret-user"), "{text}");
    }
    let opened = site.records.iter().find(|record| matches!(record.body, Body::EpisodeOpened(_)));
    assert_eq!(opened.map(|record| record.sealed[0].field.as_str()), Some("kernel_line"));
}

#[test]
fn codes_and_devices_that_nobody_knows_do_not_raise_without_end() {
    let mut site = Site::new(8);
    for n in 0..500 {
        let mut line = signal("gpu003", 79, None);
        line.pci = Some(provost_model::signal::PciAddress { domain: n, bus: 1, device: 0, function: 0 });
        site.signal(line);
        site.xid("gpu003", 10_000 + n, 3);
    }
    assert_eq!(site.state.open_alerts.len(), 64);
    // What is known still is.
    site.xid("gpu003", 79, 3);
    assert_eq!(site.alert("xid.79").gpu, Some(3));
}
