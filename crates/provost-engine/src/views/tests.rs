//! What people read: the sentence of each type of record, the story of an incident, the verdict, every row.

use std::collections::BTreeSet;

use provost_model::body::{Body, KINDS, Source, SourceState};
use provost_model::ids::IdSource;
use provost_model::input::{Action, Input};
use provost_model::policy::{EngineConfig, FileModes, Mode, ModeScope, Role};
use provost_model::record::{Actor, Class, Corr, Outcome, Record, Subject, SubjectKind, VERSION};
use provost_model::scheduler::ObservedNode;
use serde_json::{Value, json};

use super::{alert, execution, gpu, hold, incident, job, node, spare, status, timeline_text};
use crate::testing::{Site, T0};

fn record(body: Body) -> Record {
    Record {
        v: VERSION,
        seq: 7,
        id: IdSource::new("test", 7).make(),
        at: T0,
        site: "test".to_owned(),
        epoch: 3,
        producer: "controller".to_owned(),
        producer_seq: 7,
        class: Class::System,
        outcome: Outcome::Ok,
        actor: Actor::engine(),
        subject: Some(Subject {
            kind: SubjectKind::Node,
            id: "node_x".to_owned(),
            name: Some("gpu003".to_owned()),
            node: None,
        }),
        decision: None,
        body,
        change: None,
        corr: Corr::default(),
        sealed: Vec::new(),
    }
}

const NODE: &str = "node_00000000-0000-8000-8000-000000000000";
const HOLD: &str = "hold_00000000-0000-8000-8000-000000000000";
const SLOT: &str = "slot_00000000-0000-8000-8000-000000000000";
const ALERT: &str = "alert_00000000-0000-8000-8000-000000000000";
const INC: &str = "inc_00000000-0000-8000-8000-000000000000";
const EXEC: &str = "exec_00000000-0000-8000-8000-000000000000";
const AT: &str = "2026-11-30T21:00:00.000Z";

fn key() -> Value {
    json!({"node": "gpu003", "kind": "xid", "code": 79, "pci": "0000:3b:00.0", "mig": null, "link": null})
}

fn job_key() -> Value {
    json!({"cluster": "main", "id": 7, "submitted_at": AT})
}

fn subject() -> Value {
    json!({"kind": "gpu", "id": "GPU-1", "name": "gpu003/2", "node": "gpu003"})
}

fn drain() -> Value {
    json!({"do": "scheduler_hold", "cluster": "main", "node": "gpu003", "hold": HOLD,
        "reason": "provost INC-2026-000001: GPU 2 lost"})
}

/// The sentences for the controller, its configuration and its sources.
fn system() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("controller.started", json!({"version": "1.2.3"}), "controller 1.2.3 took over, epoch 3"),
        (
            "config.applied",
            json!({"config": EngineConfig::default(), "file_modes": FileModes::default()}),
            "configuration applied, mode observe",
        ),
        (
            "inventory.applied",
            json!({"nodes": [], "removed": ["gpu009"]}),
            "inventory applied: 0 new or changed, 1 removed",
        ),
        (
            "runbook.published",
            json!({"version": "0123456789abcdef", "runbook": {"api_version": "runbook/v1", "id": "gpu-lost",
                "title": "t", "risk": "R2", "steps": []}}),
            "runbook gpu-lost is in force in version 0123456789ab",
        ),
        (
            "mode.changed",
            json!({"scope": {"kind": "node", "name": "gpu003"}, "mode": "act"}),
            "mode of gpu003 set to act",
        ),
        ("guard.stopped", json!({}), "guard stopped: nothing new is done"),
        ("guard.started", json!({}), "guard started: actions are allowed again"),
        (
            "breaker.tripped",
            json!({"unavailable": 30, "nodes": 100}),
            "breaker tripped: 30 of 100 nodes are unavailable, no new automatic disruption",
        ),
        ("breaker.reset", json!({}), "breaker reset"),
        (
            "command.denied",
            json!({"command": "node.hold", "code": "forbidden"}),
            "node.hold refused: forbidden",
        ),
        (
            "journal.emergency_merged",
            json!({"entries": 2, "since": AT}),
            "2 records of the emergency journal taken over, since 2026-11-30T21:00:00.000Z",
        ),
        (
            "signals.not_recorded",
            json!({"count": 5}),
            "5 signals came while the journal could not be written",
        ),
        (
            "agent.token_created",
            json!({"token_sha256": "00", "nodes": ["gpu001"], "uses": 1, "expires_at": AT}),
            "enrolment token for 1 nodes made, until 2026-11-30T21:00:00.000Z",
        ),
        (
            "agent.enrolled",
            json!({"node": "gpu003", "serial": "01", "token_sha256": "00", "expires_at": AT}),
            "agent of gpu003 enrolled",
        ),
        (
            "agent.reported",
            json!({"node": "gpu003", "boot_id": null, "actions": [], "gpus": [], "version": "1"}),
            "agent of gpu003 reported 0 GPUs",
        ),
        (
            "source.changed",
            json!({"source": {"kind": "agent", "name": "gpu003"}, "state": "silent"}),
            "agent:gpu003 fell silent",
        ),
    ]
}

/// The sentences for nodes, slots and jobs.
fn fleet() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        (
            "node.adopted",
            json!({"node": NODE, "name": "gpu003", "serial": null, "rack": null, "leaf": null,
                "scheduler": null, "gpus": [], "phase": "in_service"}),
            "gpu003 adopted as in_service",
        ),
        (
            "node.observed",
            json!({"node": NODE, "observed": {"drain": true, "down": false, "not_responding": false,
                "busy": true, "state": "MIXED+DRAIN", "reason": "foreign", "mark": null, "partitions": []}}),
            "the scheduler shows gpu003 as MIXED+DRAIN, under somebody else's reason",
        ),
        (
            "bmc.observed",
            json!({"node": NODE, "asked_at": AT, "view": {"power": "powering_off", "health": null}}),
            "the BMC of gpu003 says: power powering off, health unknown",
        ),
        (
            "node.phase_changed",
            json!({"node": NODE, "from": "in_service", "to": "suspect", "why": "fault"}),
            "gpu003: in service became suspect: fault",
        ),
        (
            "gpu.identified",
            json!({"node": NODE, "gpu": {"index": 2, "pci": "0000:3b:00.0"}}),
            "GPU 2 of gpu003 identified by its UUID",
        ),
        (
            "slot.created",
            json!({"slot": SLOT, "node": NODE, "partitions": ["batch", "serving"]}),
            "slot of gpu003 made, for batch, serving",
        ),
        ("slot.bound", json!({"slot": SLOT, "spare": NODE}), "a spare serves in the slot of gpu003"),
        ("slot.unbound", json!({"slot": SLOT, "spare": NODE}), "the spare left the slot of gpu003"),
        (
            "job.observed",
            json!({"job": job_key(), "state": "running", "project": "p", "tier": "batch", "partition": "batch",
                "nodes": [NODE], "gpus": {}, "requeue": true, "restarts": 0, "pinned": [], "started_at": AT,
                "ended_at": null}),
            "slurm:main:7@2026-11-30T21:00:00.000Z is running on 1 nodes",
        ),
        (
            "job.forgotten",
            json!({"job": job_key()}),
            "slurm:main:7@2026-11-30T21:00:00.000Z is not followed any more",
        ),
    ]
}

/// The sentences for signals, alerts and incidents.
fn detection() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        (
            "episode.opened",
            json!({"key": key(), "impact": "critical", "fields": {}, "written_at": AT, "historic": false,
                "trust": "kernel", "boot_id": null, "job": null}),
            "xid 79 seen on gpu003 at 0000:3b:00.0, critical",
        ),
        (
            "episode.repeated",
            json!({"key": key(), "count": 12, "last_at": AT}),
            "xid 79 seen 12 more times on gpu003",
        ),
        (
            "alert.raised",
            json!({"alert": ALERT, "condition": "xid.79", "subject": subject(), "node": NODE, "gpu": 2,
                "classifications": ["blocks_placement"], "impact": "critical", "first_at": AT, "event": true,
                "runbook": "gpu-lost", "episode": null}),
            "alert xid.79 on gpu003, critical",
        ),
        (
            "alert.changed",
            json!({"alert": ALERT, "state": "firing", "count": 3, "last_at": AT, "why": "seen_again",
                "impact": "critical", "classifications": [], "episode": null}),
            "alert on gpu003 is firing, seen 3 times: seen again",
        ),
        (
            "incident.opened",
            json!({"incident": INC, "number": "INC-2026-000001", "title": "GPU 2 of gpu003 lost (Xid 79)",
                "severity": "sev2", "alert": ALERT, "subject": subject(), "node": NODE, "jobs": [],
                "fault_at": AT, "detected_at": AT}),
            "INC-2026-000001 opened, SEV2: GPU 2 of gpu003 lost (Xid 79)",
        ),
        (
            "incident.attached",
            json!({"incident": INC, "alert": ALERT, "reason": "same_subject"}),
            "another alert attached: same subject",
        ),
        (
            "incident.changed",
            json!({"incident": INC, "from": "open", "to": "on_hold", "why": "vendor"}),
            "open became on hold: vendor",
        ),
        (
            "incident.severity_changed",
            json!({"incident": INC, "from": "sev2", "to": "sev3"}),
            "severity SEV2 became SEV3",
        ),
        (
            "incident.acknowledged",
            json!({"incident": INC, "owner": "local:alice", "until": AT}),
            "local:alice has it, until 2026-11-30T21:00:00.000Z",
        ),
        ("incident.clock", json!({"incident": INC, "clock": "isolated"}), "isolated: no new work reaches it"),
        ("incident.noted", json!({"incident": INC}), "note"),
        (
            "incident.job_attached",
            json!({"incident": INC, "job": job_key(), "reason": "failed_after_fault"}),
            "slurm:main:7@2026-11-30T21:00:00.000Z was hit: failed after fault",
        ),
    ]
}

/// The sentences for holds, effects and executions.
fn response() -> Vec<(&'static str, Value, &'static str)> {
    let owner = json!({"kind": "incident", "name": "INC-2026-000001"});
    let containment = json!({"kind": "containment", "node": NODE});
    vec![
        (
            "hold.placed",
            json!({"hold": HOLD, "owner": owner, "node": NODE, "gpu": 2, "reason": "GPU 2 lost", "until": null,
                "isolation": true}),
            "incident:INC-2026-000001 holds GPU 2 of gpu003: GPU 2 lost",
        ),
        (
            "hold.released",
            json!({"hold": HOLD, "owner": owner, "why": "verified"}),
            "incident:INC-2026-000001 released gpu003: verified",
        ),
        (
            "isolation.deferred",
            json!({"node": NODE, "incident": INC, "not_before": AT}),
            "isolation of gpu003 waits for its budget, until 2026-11-30T21:00:00.000Z",
        ),
        (
            "effect.requested",
            json!({"effect": drain(), "purpose": containment, "deadline": AT}),
            "to do: drain gpu003 in main (provost INC-2026-000001: GPU 2 lost)",
        ),
        (
            "effect.completed",
            json!({"intent": 4, "effect": drain(), "result": {"result": "done", "observed": "IDLE+DRAIN",
                "notes": ["foreign_reason_kept"]}}),
            "done: drain gpu003 in main (provost INC-2026-000001: GPU 2 lost), read back as IDLE+DRAIN \
             (foreign reason kept)",
        ),
        ("effect.voided", json!({"intent": 4, "why": "step_given_up"}), "given up: step given up"),
        (
            "effect.would_have",
            json!({"effect": drain(), "purpose": containment, "mode": "observe"}),
            "would have: drain gpu003 in main (provost INC-2026-000001: GPU 2 lost) (mode observe)",
        ),
        (
            "execution.created",
            json!({"execution": EXEC, "runbook": "gpu-lost", "version": "v", "incident": INC, "node": NODE,
                "gpu": 2, "job": null, "condition": null, "plan": "p"}),
            "runbook gpu-lost starts",
        ),
        (
            "execution.changed",
            json!({"execution": EXEC, "from": "running", "to": "awaiting_human", "why": "replace"}),
            "runbook awaiting human: replace",
        ),
        (
            "step.changed",
            json!({"execution": EXEC, "step": "reset", "from": "acting", "to": "retrying", "attempt": 2,
                "why": "busy", "result": null, "until": null}),
            "step reset retrying, attempt 2 (busy)",
        ),
        (
            "human.answered",
            json!({"execution": EXEC, "step": "replace", "answers": {"new_serial": "SN-2"}}),
            "step replace answered: new_serial = SN-2",
        ),
        ("approval.decided", json!({"execution": EXEC, "approved": true, "plan": "p"}), "plan approved"),
    ]
}

#[test]
fn every_type_of_event_has_its_sentence() {
    let samples: Vec<_> = [system(), fleet(), detection(), response()].into_iter().flatten().collect();
    let told: BTreeSet<&str> = samples.iter().map(|(kind, _, _)| *kind).collect();
    let all: BTreeSet<&str> = KINDS.iter().copied().collect();
    assert_eq!(told, all, "each type has a sample here");
    for (kind, data, expected) in samples {
        let data = serde_json::value::to_raw_value(&data).expect(kind);
        let body = Body::parse(kind, &data).expect(kind);
        assert_eq!(timeline_text(&record(body)), expected, "{kind}");
    }
}

/// Everything that happened so far, for people.
fn story(site: &Site, number: &str) -> Vec<String> {
    let part = |record: &&Record| record.corr.incident.as_deref() == Some(number);
    site.records.iter().filter(part).map(timeline_text).collect()
}

#[test]
fn an_incident_tells_its_story_in_order() {
    let mut site = Site::new(4);
    site.xid("gpu003", 79, 2);
    site.carry_out();
    let story = story(&site, "INC-2026-000001");
    let expected = [
        "INC-2026-000001 opened, SEV3: GPU 2 of gpu003 lost (Xid 79)",
        "incident:INC-2026-000001 holds GPU 2 of gpu003: GPU 2 lost",
        "to do: drain gpu003 in main (provost INC-2026-000001: GPU 2 lost)",
        "gpu003: in service became suspect: fault",
        "done: drain gpu003 in main (provost INC-2026-000001: GPU 2 lost), read back as IDLE+DRAIN",
    ];
    let mut lines = story.iter();
    for line in expected {
        assert!(lines.any(|told| told == line), "{line:?} is missing or out of order in {story:#?}");
    }
}

#[test]
fn a_node_shows_what_is_and_what_should_be() {
    let mut site = Site::new(4);
    site.ask(Role::Admin, Action::ModeSet { scope: ModeScope::Site, mode: Some(Mode::Observe) });
    site.xid("gpu003", 79, 2);
    site.look();
    let row = node(&site.state, site.now, site.node("gpu003"));
    assert!(row.schedulable, "nothing was written");
    assert_eq!(row.schedulers[0].desired, "held");
    assert_eq!(row.schedulers[0].observed.as_deref(), Some("IDLE"));
    assert_eq!(
        (row.mode.as_str(), row.phase.as_str(), row.health.as_str()),
        ("observe", "in_service", "failed")
    );
    assert_eq!(row.holds[0].owner, "incident:INC-2026-000001");
    assert_eq!(row.holds[0].subject.id, "GPU-gpu003-2");
    assert_eq!(row.gpus[2].holds.len(), 1);
    assert_eq!(row.gpus[3].holds.len(), 0);
    site.ask(Role::Admin, Action::ModeSet { scope: ModeScope::Site, mode: Some(Mode::Act) });
    site.carry_out();
    let row = node(&site.state, site.now, site.node("gpu003"));
    assert!(!row.schedulable);
    assert_eq!(row.schedulers[0].reason.as_deref(), Some("ours"));
    assert_eq!(row.slot, site.node("gpu003").slot.map(|slot| slot.to_string()));
}

#[test]
fn health_is_unknown_where_nobody_looks() {
    let check =
        |agent: Option<SourceState>, log: Option<SourceState>, code: Option<u32>, expected: [&str; 3]| {
            let mut site = Site::new(2);
            let mut tell = |source: Source, state: Option<SourceState>| {
                if let Some(state) = state {
                    site.feed(Input::Source { source, state });
                }
            };
            tell(Source::Agent("gpu001".to_owned()), agent);
            tell(Source::KernelLog("gpu001".to_owned()), log);
            if let Some(code) = code {
                site.xid("gpu001", code, 2);
            }
            let row = node(&site.state, site.now, site.node("gpu001"));
            let seen = [row.health.as_str(), row.gpus[2].health.as_str(), row.gpus[3].health.as_str()];
            assert_eq!(seen, expected, "{agent:?} {log:?} {code:?}");
        };
    use SourceState::{Blind, Fresh, Silent};
    check(None, None, None, ["unknown", "unknown", "unknown"]);
    check(Some(Fresh), None, None, ["ok", "ok", "ok"]);
    check(Some(Fresh), Some(Fresh), None, ["ok", "ok", "ok"]);
    check(Some(Fresh), Some(Blind), None, ["unknown", "unknown", "unknown"]);
    check(Some(Silent), None, None, ["unknown", "unknown", "unknown"]);
    check(Some(Fresh), None, Some(79), ["failed", "failed", "ok"]);
    check(Some(Silent), None, Some(79), ["failed", "failed", "unknown"]);
}

#[test]
fn the_verdict() {
    let check = |change: &dyn Fn(&mut Site), journal: bool, expected: &str| {
        let mut site = Site::new(4);
        change(&mut site);
        assert_eq!(status(&site.state, site.now, "1.0.0", journal).verdict, expected);
    };
    check(&|_| {}, true, "ok");
    check(&|_| {}, false, "critical");
    check(&|site| drop(site.xid("gpu001", 79, 0)), true, "degraded");
    let with_job = |site: &mut Site| {
        site.run_job(7, &[("gpu001", &[0])]);
        site.xid("gpu001", 79, 0);
    };
    check(&with_job, true, "critical");
    check(&|site| drop(site.ask(Role::Operator, Action::GuardStop)), true, "degraded");
    let silent = |site: &mut Site| {
        let source = Source::Scheduler("main".to_owned());
        site.feed(Input::Source { source, state: SourceState::Silent });
    };
    check(&silent, true, "degraded");
    let unread = |site: &mut Site| {
        let cluster = site.config.clusters["main"].clone();
        site.config.clusters.insert("other".to_owned(), cluster);
        site.start();
    };
    check(&unread, true, "degraded");
}

#[test]
fn the_whole_site_on_one_screen() {
    let mut site = Site::new(4);
    site.run_job(7, &[("gpu001", &[0])]);
    site.xid("gpu002", 79, 0);
    site.carry_out();
    let screen = status(&site.state, site.now, "1.0.0", true);
    assert_eq!(screen.gpus, 32);
    assert_eq!(screen.nodes_by_phase.values().sum::<u32>(), 4);
    assert_eq!(screen.gpus_by_health.values().sum::<u32>(), 32);
    assert_eq!((screen.jobs_running, screen.incidents_open["SEV3"]), (1, 1));
    assert_eq!(screen.as_of + 1, site.state.seq);
}

#[test]
fn clocks_are_due_by_severity() {
    let mut site = Site::new(4);
    site.run_job(7, &[("gpu001", &[0])]);
    site.xid("gpu001", 79, 0);
    site.xid("gpu002", 79, 0);
    let due = |number| {
        let row = incident(&site.state, site.incident(number));
        let after = |name: &str| row.due[name].since(row.opened_at).as_secs() / 60;
        (row.severity.clone(), after("respond"), after("isolate"), after("mitigate"))
    };
    assert_eq!(due(1), ("SEV2".to_owned(), 15, 5, 240));
    assert_eq!(due(2), ("SEV3".to_owned(), 60, 15, 1_440));
    let row = incident(&site.state, site.incident(1));
    assert_eq!((row.subjects.len(), row.jobs.len(), row.count), (1, 1, 1));
    assert_eq!(row.subjects[0].id, "GPU-gpu001-0");
}

#[test]
fn the_other_rows() {
    let mut site = Site::new(2);
    let seen = ObservedNode {
        state: "IDLE".to_owned(),
        partitions: vec!["spare".to_owned()],
        ..ObservedNode::default()
    };
    site.nodes.insert("spare01".to_owned(), seen);
    site.look();
    site.run_job(7, &[("gpu001", &[0, 1])]);
    site.xid("gpu001", 79, 0);
    site.carry_out();
    let state = &site.state;
    let row = spare(state, site.node("spare01"));
    assert_eq!(row.node, "spare01");
    let row = job(state, state.jobs.values().next().unwrap());
    assert_eq!((row.name, row.user), (None, None), "names are never stored");
    assert_eq!((row.tier.as_str(), row.gpus["gpu001"].as_slice()), ("batch", [0, 1].as_slice()));
    assert_eq!(row.incidents, ["INC-2026-000001"]);
    let row = alert(state, site.alert("xid.79"));
    assert_eq!((row.state.as_str(), row.impact.as_str()), ("firing", "critical"));
    assert!(row.classifications.contains(&"blocks_placement".to_owned()));
    let row = hold(state, state.holds.values().next().unwrap());
    assert_eq!((row.node.as_str(), row.until), ("gpu001", None));
    let owner = site.node("gpu001");
    assert_eq!(gpu(state, owner, &owner.gpus[&0]).identity, "uuid");
    for run in state.executions.values() {
        let row = execution(state, run);
        assert_eq!(row.incident.as_deref(), Some("INC-2026-000001"));
        assert_eq!(row.subject.unwrap().kind, SubjectKind::Gpu);
    }
}
