//! Every action for every role, and what each refusal leaves behind.

use std::collections::{BTreeMap, BTreeSet};

use provost_model::ids::{ExecutionId, HoldId, IdSource};
use provost_model::policy::{Mode, Role};
use provost_model::record::{Actor, ActorKind};
use provost_model::response::Severity;

use super::*;
use crate::testing::{Site, T0};

fn hold() -> HoldId {
    IdSource::new("test", 9_999).make()
}

fn execution() -> ExecutionId {
    IdSource::new("test", 9_999).make()
}

/// One action of each kind.
fn actions() -> Vec<Action> {
    let text = || "gpu001".to_owned();
    let incident = || "INC-2026-000001".to_owned();
    let execution = execution();
    vec![
        Action::NodeHold { node: text(), until: None },
        Action::HoldRelease { hold: hold() },
        Action::NodeDrain { node: text() },
        Action::NodeResume { node: text() },
        Action::NodeForget { node: text() },
        Action::IncidentAck { incident: incident() },
        Action::IncidentNote { incident: incident() },
        Action::IncidentSeverity { incident: incident(), severity: Severity::Sev1 },
        Action::IncidentResolve { incident: incident() },
        Action::JobRequeue { job: "slurm:main:1".to_owned() },
        Action::SpareActivate { node: text() },
        Action::SpareReturn { spare: text() },
        Action::RunStart { runbook: "gpu-lost".to_owned(), incident: incident() },
        Action::RunApprove { execution, approve: true, plan: String::new() },
        Action::RunPause { execution },
        Action::RunResume { execution },
        Action::RunRetry { execution },
        Action::RunSkip { execution },
        Action::RunAbort { execution },
        Action::RunAnswer { execution, step: "replace".to_owned(), answers: BTreeMap::new() },
        Action::GuardStop,
        Action::GuardStart,
        Action::BreakerReset,
        Action::ModeSet { scope: ModeScope::Site, mode: Some(Mode::Observe) },
        token(T0 + std::time::Duration::from_secs(60)),
        Action::Detach,
    ]
}

fn token(expires_at: Timestamp) -> Action {
    let nodes = BTreeSet::from(["gpu001".to_owned()]);
    Action::AgentTokenCreate { token_sha256: "ab".repeat(32), nodes, uses: 1, expires_at }
}

/// Who may ask for what: a letter a role, in the order viewer, operator, service, admin.
const TABLE: &[(&str, &str)] = &[
    ("node.hold", ".osa"),
    ("hold.release", ".osa"),
    ("node.drain", ".o.a"),
    ("node.resume", ".o.a"),
    ("node.forget", ".o.a"),
    ("incident.ack", ".o.a"),
    ("incident.note", ".o.a"),
    ("incident.severity", ".o.a"),
    ("incident.resolve", ".o.a"),
    ("job.requeue", ".o.a"),
    ("spare.activate", ".o.a"),
    ("spare.return", ".o.a"),
    ("run.start", ".o.a"),
    ("run.approve", ".o.a"),
    ("run.pause", ".o.a"),
    ("run.resume", ".o.a"),
    ("run.retry", ".o.a"),
    ("run.skip", ".o.a"),
    ("run.abort", ".o.a"),
    ("run.answer", ".o.a"),
    ("guard.stop", ".o.a"),
    ("guard.start", ".o.a"),
    ("breaker.reset", "...a"),
    ("mode.set", "...a"),
    ("agent.token_create", "...a"),
    ("detach", "...a"),
];

const ROLES: [(Role, char); 4] =
    [(Role::Viewer, 'v'), (Role::Operator, 'o'), (Role::Service, 's'), (Role::Admin, 'a')];

fn person() -> Actor {
    Actor { kind: ActorKind::Human, sub: "local:somebody".to_owned() }
}

#[test]
fn every_action_for_every_role() {
    let decided: Vec<(&str, String)> = actions()
        .iter()
        .map(|action| {
            let letter = |(role, letter): (Role, char)| {
                let decision = authorize(&person(), &BTreeSet::from([role]), action);
                let expected =
                    if decision.allow { format!("role:{}", role.name()) } else { "default:deny".to_owned() };
                assert_eq!(decision.policies, [expected]);
                assert_eq!(decision.roles, [role.name()]);
                if decision.allow { letter } else { '.' }
            };
            (action.name(), ROLES.map(letter).into_iter().collect())
        })
        .collect();
    let expected: Vec<(&str, String)> =
        TABLE.iter().map(|(name, roles)| (*name, (*roles).to_owned())).collect();
    assert_eq!(decided, expected);
}

#[test]
fn nobody_without_a_role_and_nothing_but_people_and_services_may_ask() {
    let all = BTreeSet::from(ROLES.map(|(role, _)| role));
    for action in actions() {
        assert!(!authorize(&person(), &BTreeSet::new(), &action).allow, "{}", action.name());
        for kind in [ActorKind::System, ActorKind::Agent, ActorKind::Scheduler, ActorKind::Bmc] {
            let actor = Actor { kind, sub: "x".to_owned() };
            assert!(!authorize(&actor, &all, &action).allow, "{}", action.name());
        }
        let service = Actor { kind: ActorKind::Service, sub: "service:x".to_owned() };
        assert!(authorize(&service, &all, &action).allow, "{}", action.name());
    }
}

#[test]
fn what_is_refused_changes_nothing_and_is_recorded() {
    for action in actions() {
        let mut site = Site::new(2);
        let before = site.state.clone();
        let name = action.name();
        let reply = site.ask(Role::Viewer, action);
        assert_eq!(reply, Reply::Forbidden { policies: vec!["default:deny".to_owned()] }, "{name}");
        let denied = site.records.last().expect("a record");
        assert_eq!((denied.kind(), denied.outcome), ("command.denied", Outcome::Denied), "{name}");
        assert!(denied.decision.as_ref().is_some_and(|decision| !decision.allow));
        assert_eq!(denied.actor.sub, "local:viewer");
        assert!(denied.corr.request.is_some());
        assert_eq!(State { seq: before.seq, ..site.state }, before, "{name}");
    }
}

#[test]
fn every_change_needs_a_reason() {
    let too_long = "x".repeat(MAX_REASON + 1);
    for action in actions() {
        for reason in ["", " \n", &too_long] {
            let mut site = Site::new(2);
            let reply = site.ask_because(Role::Admin, reason, action.clone());
            assert!(matches!(&reply, Reply::Invalid { field, .. } if field == "reason"), "{reply:?}");
            assert_eq!(site.records.last().map(Record::kind), Some("command.denied"));
        }
    }
}

use provost_model::record::Record;

#[test]
fn whatever_does_not_exist_is_not_found() {
    for action in actions() {
        let mut site = Site::new(2);
        let name = action.name();
        let reply = site.ask(Role::Admin, action);
        let looked_up = ["hold.release", "node.forget", "incident.", "job.", "run."];
        if looked_up.iter().any(|prefix| name.starts_with(prefix)) {
            assert!(matches!(reply, Reply::NotFound { .. }), "{name}: {reply:?}");
            assert_eq!(site.records.last().map(Record::kind), Some("command.denied"), "{name}");
        }
    }
}

#[test]
fn a_change_says_who_by_what_right_and_what_it_was_before() {
    let mut site = Site::new(2);
    let reply = site.ask(Role::Admin, Action::ModeSet { scope: ModeScope::Site, mode: Some(Mode::Observe) });
    let record = site.records.last().expect("a record");
    assert_eq!(reply, Reply::Accepted { seq: record.seq, created: Vec::new() });
    assert_eq!(
        (record.kind(), record.class, record.actor.sub.as_str()),
        ("mode.changed", Class::Administration, "local:admin")
    );
    let change = record.change.as_ref().expect("a change");
    assert_eq!(
        (change.path.as_str(), change.from.as_deref(), change.to.as_deref()),
        ("mode/site", Some("act"), Some("observe"))
    );
    assert_eq!(
        record.decision.as_ref().map(|decision| decision.policies.clone()),
        Some(vec!["role:admin".to_owned()])
    );
    assert_eq!(record.sealed[0].field, "reason");
    assert_eq!(site.state.config.mode, Mode::Observe);
}

#[test]
fn modes() {
    let check = |scope: ModeScope, mode, expected: &str| {
        let mut site = Site::new(2);
        let reply = site.ask(Role::Admin, Action::ModeSet { scope, mode });
        assert!(format!("{reply:?}").starts_with(expected), "{reply:?}");
        site.state.mode_of(site.state.node_by_name("gpu001").expect("adopted"))
    };
    let node = |name: &str| ModeScope::Node(name.to_owned());
    let cluster = |name: &str| ModeScope::Scheduler(name.to_owned());
    assert_eq!(check(node("gpu001"), Some(Mode::Advise), "Accepted"), Mode::Advise);
    assert_eq!(check(cluster("main"), Some(Mode::Observe), "Accepted"), Mode::Observe);
    assert_eq!(check(node("gpu002"), Some(Mode::Observe), "Accepted"), Mode::Act);
    check(ModeScope::Site, Some(Mode::Act), "Already");
    check(ModeScope::Site, None, "Invalid");
    check(node("nobody"), Some(Mode::Act), "NotFound");
    check(cluster("other"), Some(Mode::Act), "NotFound");
    check(node("gpu001"), None, "Already");
}

#[test]
fn the_guard_stops_and_starts_once() {
    let mut site = Site::new(2);
    assert!(matches!(site.ask(Role::Operator, Action::GuardStop), Reply::Accepted { .. }));
    assert!(site.state.guard.stopped);
    assert_eq!(site.ask(Role::Operator, Action::GuardStop), Reply::Already);
    assert!(matches!(site.ask(Role::Operator, Action::GuardStart), Reply::Accepted { .. }));
    assert!(!site.state.guard.stopped);
    assert_eq!(site.ask(Role::Admin, Action::BreakerReset), Reply::Already);
}

#[test]
fn tokens() {
    let check = |action: Action, expected: &str| {
        let mut site = Site::new(2);
        let reply = site.ask(Role::Admin, action);
        assert!(format!("{reply:?}").starts_with(expected), "{reply:?}");
        site.state.tokens.len()
    };
    let later = T0 + std::time::Duration::from_secs(60);
    let with = |change: fn(&mut String, &mut BTreeSet<String>, &mut u32)| {
        let mut action = token(later);
        if let Action::AgentTokenCreate { token_sha256, nodes, uses, .. } = &mut action {
            change(token_sha256, nodes, uses);
        }
        action
    };
    assert_eq!(check(token(later), "Accepted"), 1);
    assert_eq!(check(token(T0), "Invalid { field: \"expires_at\""), 0);
    check(with(|digest, _, _| digest.push('a')), "Invalid { field: \"token_sha256\"");
    check(with(|digest, _, _| *digest = digest.to_uppercase()), "Invalid { field: \"token_sha256\"");
    check(with(|_, nodes, _| nodes.clear()), "Invalid { field: \"nodes\"");
    check(with(|_, nodes, _| *nodes = BTreeSet::from(["n".repeat(40_000)])), "Invalid { field: \"nodes\"");
    check(with(|_, _, uses| *uses = 0), "Invalid { field: \"uses\"");
}
