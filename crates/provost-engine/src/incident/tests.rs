//! Number, severity and clocks of an incident, what belongs to it, and when it ends or comes back.

use std::time::Duration;

use provost_model::body::{Body, Source, SourceState};
use provost_model::effect::{Effect, EffectResult};
use provost_model::input::{Action, Input, Reply};
use provost_model::policy::Role;
use provost_model::record::Class;
use provost_model::response::Severity;
use provost_model::scheduler::JobState;
use provost_model::signal::{Impact, SignalKind};

use super::*;
use crate::testing::{Site, T0, signal};

#[test]
fn severity_at_opening() {
    let check = |code, busy, expected: Option<Severity>| {
        let mut site = Site::new(8);
        if busy {
            site.run_job(1, &[("gpu003", &[0])]);
        }
        site.xid("gpu003", code, 3);
        assert_eq!(
            site.state.incidents.values().next().map(|incident| incident.severity),
            expected,
            "{code}"
        );
    };
    check(79, true, Some(Severity::Sev2));
    check(79, false, Some(Severity::Sev3));
    check(92, true, Some(Severity::Sev3));
    check(63, true, Some(Severity::Sev4));
    check(45, true, None);
}

#[test]
fn titles() {
    let check = |code, expected: &str| {
        let mut site = Site::new(8);
        site.xid("gpu003", code, 3);
        assert_eq!(site.incident(1).title, expected);
    };
    check(79, "GPU 3 of gpu003 lost (Xid 79)");
    check(
        95,
        "GPU 3 of gpu003: A memory error that cannot be corrected may have reached any program on the GPU (Xid 95)",
    );
    let mut site = Site::new(8);
    for (source, title) in [
        (Source::Agent("gpu003".to_owned()), "Agent of gpu003 is silent"),
        (Source::KernelLog("gpu003".to_owned()), "Kernel log of gpu003 is silent"),
        (Source::Scheduler("main".to_owned()), "Scheduler main is silent"),
    ] {
        site.feed(Input::Source { source, state: SourceState::Silent });
        let incident = site.state.incidents.values().next_back().expect("opened");
        assert_eq!((incident.title.as_str(), incident.severity), (title, Severity::Sev3));
    }
}

#[test]
fn what_is_not_about_a_gpu_opens_an_incident_and_touches_nothing() {
    let mut site = Site::new(8);
    let mut panic = signal("gpu003", 0, None);
    (panic.kind, panic.code, panic.impact) = (SignalKind::Panic, None, Impact::Critical);
    site.signal(panic);
    assert_eq!(site.incident(1).severity, Severity::Sev3);
    assert!(site.state.holds.is_empty() && site.state.effects.is_empty());
}

#[test]
fn numbers_count_within_a_year() {
    let mut site = Site::new(8);
    site.xid("gpu001", 79, 0);
    site.xid("gpu002", 79, 0);
    site.now = "2027-01-01T00:00:00Z".parse().expect("a time");
    site.xid("gpu003", 79, 0);
    let numbers: Vec<&str> = site.state.incident_numbers.keys().map(String::as_str).collect();
    assert_eq!(numbers, ["INC-2026-000001", "INC-2026-000002", "INC-2027-000001"]);
}

#[test]
fn alerts_of_one_gpu_are_one_incident() {
    let mut site = Site::new(8);
    site.xid("gpu003", 79, 3);
    assert!(site.xid("gpu003", 119, 3).contains(&"incident.attached"));
    site.xid("gpu003", 79, 4);
    site.xid("gpu004", 79, 3);
    assert_eq!(site.state.incidents.len(), 3);
    assert_eq!(site.incident(1).alerts.len(), 2);
}

#[test]
fn a_graver_alert_raises_the_incident_until_a_person_has_set_it() {
    let mut site = Site::new(8);
    site.run_job(1, &[("gpu003", &[3])]);
    site.xid("gpu003", 63, 3);
    assert_eq!(site.incident(1).severity, Severity::Sev4);
    site.xid("gpu003", 92, 3);
    assert_eq!(site.incident(1).severity, Severity::Sev3);
    let set = |site: &mut Site, role, severity| {
        let incident = site.incident(1).number.clone();
        site.ask(role, Action::IncidentSeverity { incident, severity })
    };
    assert!(
        matches!(set(&mut site, Role::Operator, Severity::Sev4), Reply::Conflict { code, .. } if code == "lowering_severity")
    );
    assert!(matches!(set(&mut site, Role::Admin, Severity::Sev4), Reply::Accepted { .. }));
    assert_eq!(set(&mut site, Role::Admin, Severity::Sev4), Reply::Already);
    site.xid("gpu003", 79, 3);
    assert_eq!(site.incident(1).severity, Severity::Sev4);
    assert!(matches!(set(&mut site, Role::Operator, Severity::Sev1), Reply::Accepted { .. }));
    let record = site.records.iter().rfind(|record| record.kind() == "incident.severity_changed");
    let change = record.and_then(|record| record.change.clone()).expect("a change");
    assert_eq!((change.from.as_deref(), change.to.as_deref()), (Some("SEV4"), Some("SEV1")));
}

/// Answers every open intent as the scheduler of the test would; gives the names of the effects.
fn carry_out(site: &mut Site) -> Vec<&'static str> {
    let open: Vec<_> = crate::outstanding(&site.state).collect();
    for outstanding in &open {
        if let Effect::SchedulerHold { node, reason, hold, .. } = &outstanding.effect
            && let Some(node) = site.nodes.get_mut(node)
        {
            node.drain = true;
            node.reason.clone_from(reason);
            node.comment = format!("provost:{hold}");
        }
        let result = EffectResult::Done { observed: "IDLE+DRAIN".to_owned(), notes: Vec::new() };
        site.now = site.now + Duration::from_millis(20);
        site.feed(Input::EffectResult { intent: outstanding.intent, result });
    }
    open.iter().map(|outstanding| outstanding.effect.name()).collect()
}

#[test]
fn isolated_is_claimed_when_it_was_read_back() {
    let mut site = Site::new(20);
    let job = site.run_job(1, &[("gpu003", &[3])]);
    let kinds = site.xid("gpu003", 79, 3);
    assert!(kinds.contains(&"hold.placed") && kinds.contains(&"effect.requested"), "{kinds:?}");
    assert!(!kinds.contains(&"incident.clock"));
    assert_eq!(site.incident(1).jobs, [job]);
    assert_eq!(site.incident(1).fault_at, T0);
    assert!(carry_out(&mut site).contains(&"scheduler_hold"));
    assert!(site.incident(1).isolated_at.is_some());
    assert!(site.incident(1).mitigated_at.is_none());
    site.poll();
    assert_eq!(site.records.iter().filter(|record| record.kind() == "incident.clock").count(), 1);
}

#[test]
fn jobs_that_failed_just_after_the_fault_are_attached() {
    let check = |code_after: u64, expected: bool| {
        let mut site = Site::new(20);
        // On another GPU of the node, so that the opening does not name it.
        let job = site.run_job(1, &[("gpu003", &[5])]);
        site.xid("gpu003", 79, 3);
        assert!(site.incident(1).jobs.is_empty());
        site.now = T0 + Duration::from_secs(code_after);
        site.jobs[0].state = JobState::Failed;
        site.jobs[0].ended_at = Some(site.now);
        site.poll();
        assert_eq!(site.incident(1).jobs.contains(&job), expected, "{code_after}");
    };
    check(0, true);
    check(5, true);
    check(600, true);
    check(602, false);
}

fn end_alerts(site: &mut Site) {
    let incident = site.incident(1).number.clone();
    site.ask(Role::Operator, Action::IncidentResolve { incident });
}

#[test]
fn an_incident_ends_after_its_hold_and_comes_back_within_a_day() {
    let mut site = Site::new(8);
    site.xid("gpu003", 92, 3);
    end_alerts(&mut site);
    assert_eq!(site.incident(1).state, IncidentState::Monitoring);
    site.wait(Duration::from_secs(899));
    assert_eq!(site.incident(1).state, IncidentState::Monitoring);
    site.wait(Duration::from_secs(1));
    assert_eq!(site.incident(1).state, IncidentState::Resolved);
    let resolved = site.incident(1).resolved_at;
    assert_eq!(resolved, Some(site.now));

    site.now = site.now + Duration::from_secs(23 * 3_600);
    let kinds = site.xid("gpu003", 92, 3);
    assert!(kinds.contains(&"incident.attached") && !kinds.contains(&"incident.opened"), "{kinds:?}");
    let incident = site.incident(1);
    assert_eq!((incident.state, incident.reopened, incident.resolved_at), (IncidentState::Open, 1, None));
    assert_eq!(incident.fault_at, T0, "clocks resume");
}

#[test]
fn what_comes_back_later_or_is_another_condition_is_another_incident() {
    for (hours, code) in [(25, 92), (1, 63)] {
        let mut site = Site::new(8);
        site.xid("gpu003", 92, 3);
        end_alerts(&mut site);
        site.wait(Duration::from_secs(900));
        site.now = site.now + Duration::from_secs(hours * 3_600);
        site.xid("gpu003", code, 3);
        assert_eq!(site.incident(2).state, IncidentState::Open);
    }
}

#[test]
fn the_unreviewed_is_closed_after_three_days() {
    let check = |busy, expected| {
        let mut site = Site::new(8);
        if busy {
            site.run_job(1, &[("gpu003", &[0])]);
        }
        // In observe nothing is written, so nothing but the incident's own clock runs.
        site.config.mode = provost_model::policy::Mode::Observe;
        site.start();
        site.xid("gpu003", 119, 3);
        end_alerts(&mut site);
        site.wait(Duration::from_secs(900));
        site.wait(Duration::from_secs(72 * 3_600));
        assert_eq!(site.incident(1).state, expected);
    };
    check(false, IncidentState::Closed);
    check(true, IncidentState::Resolved);
}

#[test]
fn an_acknowledgement_expires_unless_its_owner_says_something() {
    let mut site = Site::new(8);
    site.xid("gpu003", 92, 3);
    let number = || "INC-2026-000001".to_owned();
    site.ask(Role::Operator, Action::IncidentAck { incident: number() });
    let incident = site.incident(1);
    assert_eq!(
        (incident.state, incident.owner.as_deref()),
        (IncidentState::Acknowledged, Some("local:operator"))
    );
    assert_eq!(incident.acked_at, Some(T0));
    // SEV3: four times `timers.ack`.
    site.wait(Duration::from_secs(3 * 3_600));
    site.ask(Role::Operator, Action::IncidentNote { incident: number() });
    let note = site.records.iter().rfind(|record| record.kind() == "incident.noted").expect("a note");
    assert_eq!(note.sealed.iter().map(|sealed| sealed.field.as_str()).collect::<Vec<_>>(), ["note"]);
    site.wait(Duration::from_secs(4 * 3_600 - 1));
    assert_eq!(site.incident(1).state, IncidentState::Acknowledged);
    site.wait(Duration::from_secs(1));
    let incident = site.incident(1);
    assert_eq!((incident.state, incident.acked_at), (IncidentState::Open, Some(T0)));
}

#[test]
fn an_agent_that_is_gone_for_good_is_forgotten_until_it_reports() {
    let mut site = Site::new(8);
    let agent = Source::Agent("gpu003".to_owned());
    let log = Source::KernelLog("gpu003".to_owned());
    let say =
        |site: &mut Site, source: &Source, state| site.feed(Input::Source { source: source.clone(), state });
    let forget = || Action::NodeForget { node: "gpu003".to_owned() };
    let resolve = || Action::IncidentResolve { incident: "INC-2026-000001".to_owned() };
    assert!(matches!(site.ask(Role::Operator, forget()), Reply::NotFound { .. }), "no agent was ever heard");
    say(&mut site, &agent, SourceState::Fresh);
    let reply = site.ask(Role::Operator, forget());
    assert!(matches!(&reply, Reply::Conflict { code, .. } if code == "agent_reports"), "{reply:?}");
    say(&mut site, &log, SourceState::Blind);
    say(&mut site, &agent, SourceState::Silent);
    let reply = site.ask(Role::Operator, resolve());
    let told = |detail: &str| detail.contains("provost node forget gpu003");
    assert!(
        matches!(&reply, Reply::Conflict { code, detail } if code == "still_true" && told(detail)),
        "{reply:?}"
    );
    assert!(matches!(site.ask(Role::Operator, forget()), Reply::Accepted { .. }));
    let record =
        site.records.iter().rfind(|record| record.kind() == "source.changed").expect("it is recorded");
    assert_eq!((record.actor.sub.as_str(), record.class), ("local:operator", Class::Administration));
    assert!(record.sealed.iter().any(|sealed| sealed.field == "reason"));
    for condition in ["source.silent", "source.blind"] {
        assert_eq!(site.alert(condition).state, AlertState::Resolved, "{condition}");
    }
    assert!(matches!(site.ask(Role::Operator, resolve()), Reply::Accepted { .. }));
    assert_eq!(site.incident(1).state, IncidentState::Resolved);
    assert_eq!(site.ask(Role::Operator, forget()), Reply::Already);
    assert!(say(&mut site, &agent, SourceState::Silent).is_empty(), "nobody misses it");
    // It reports again, and from then on its silence matters.
    say(&mut site, &agent, SourceState::Fresh);
    assert!(say(&mut site, &agent, SourceState::Silent).contains(&"alert.raised"));
}

#[test]
fn a_source_that_left_the_configuration_is_not_expected() {
    let mut site = Site::new(8);
    let agent = |node: &str| Source::Agent(node.to_owned());
    let scheduler = Source::Scheduler("main".to_owned());
    for source in [agent("gpu003"), agent("gpu004"), agent("unlisted"), scheduler.clone()] {
        site.feed(Input::Source { source: source.clone(), state: SourceState::Fresh });
        site.feed(Input::Source { source, state: SourceState::Silent });
    }
    site.config.inventory.retain(|node| node.name != "gpu003");
    site.start();
    let state = |site: &Site, source: &Source| site.state.sources[source].state;
    assert_eq!(state(&site, &agent("gpu003")), SourceState::Gone);
    for source in [agent("gpu004"), agent("unlisted"), scheduler.clone()] {
        assert_eq!(state(&site, &source), SourceState::Silent, "{source:?}");
    }
    assert_eq!(site.start(), ["controller.started"]);
    let clusters = std::mem::take(&mut site.config.clusters);
    site.start();
    let silent = || Input::Source { source: scheduler.clone(), state: SourceState::Silent };
    assert_eq!(state(&site, &scheduler), SourceState::Gone);
    assert!(site.feed(silent()).is_empty(), "nobody misses it");
    // Configured again, and away from the start.
    site.config.clusters = clusters;
    site.start();
    assert!(site.feed(silent()).contains(&"alert.raised"));
    assert_eq!(state(&site, &scheduler), SourceState::Silent);
}

#[test]
fn a_level_is_not_talked_away() {
    let mut site = Site::new(8);
    let source = Source::Agent("gpu003".to_owned());
    site.feed(Input::Source { source: source.clone(), state: SourceState::Silent });
    let resolve = || Action::IncidentResolve { incident: "INC-2026-000001".to_owned() };
    assert!(
        matches!(site.ask(Role::Operator, resolve()), Reply::Conflict { code, .. } if code == "still_true")
    );
    site.feed(Input::Source { source, state: SourceState::Fresh });
    site.wait(Duration::from_secs(300));
    assert_eq!(site.incident(1).state, IncidentState::Monitoring);
    // All over: a person need not wait.
    assert!(matches!(site.ask(Role::Operator, resolve()), Reply::Accepted { .. }));
    assert_eq!(site.incident(1).state, IncidentState::Resolved);
    assert_eq!(site.ask(Role::Operator, resolve()), Reply::Already);
    let ack = Action::IncidentAck { incident: "INC-2026-000001".to_owned() };
    assert!(
        matches!(site.ask(Role::Operator, ack), Reply::Conflict { code, .. } if code == "incident_ended")
    );
}

#[test]
fn old_incidents_make_room() {
    let mut site = Site::new(1);
    for day in 0..1_005_u64 {
        site.now = T0 + Duration::from_secs(day * 2 * 86_400);
        site.xid("gpu001", 92, 3);
        let number = site.state.incidents.values().next_back().expect("opened").number.clone();
        for _ in 0..2 {
            site.ask(Role::Operator, Action::IncidentResolve { incident: number.clone() });
        }
    }
    assert_eq!(site.state.incidents.len(), MAX_ENDED);
    assert_eq!(site.state.incident_numbers.len(), MAX_ENDED);
    assert_eq!(site.state.alerts.len(), MAX_ENDED);
    assert!(site.state.ended_alerts.len() <= MAX_ENDED);
    let opened = site.bodies(|body| match body {
        Body::IncidentOpened(data) => Some(data),
        _ => None,
    });
    assert_eq!(opened.len(), 1_005);
}
