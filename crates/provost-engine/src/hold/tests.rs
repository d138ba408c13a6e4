//! Holds are owned: who may release whose, and the algebra of holds as a property.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use provost_model::body::Body;
use provost_model::fleet::Phase;
use provost_model::ids::HoldId;
use provost_model::input::{Action, Command, Input, Reply};
use provost_model::policy::{Mode, ModeScope, Role};
use provost_model::record::{Actor, ActorKind};
use provost_model::response::HoldOwner;

use crate::lifecycle;
use crate::state::State;
use crate::testing::Site;

const SECOND: Duration = Duration::from_secs(1);

fn owners(site: &Site, node: &str) -> Vec<String> {
    let mut owners: Vec<String> =
        site.state.holds_on(site.node(node).id).map(|hold| hold.owner.to_string()).collect();
    owners.sort();
    owners
}

fn hold_of(site: &Site, owner: &str) -> HoldId {
    site.state.holds.values().find(|hold| hold.owner.to_string().starts_with(owner)).expect("it is held").id
}

/// As a person of this name and role.
fn ask_as(site: &mut Site, sub: &str, role: Role, action: Action) -> Reply {
    let command = Command {
        actor: Actor { kind: ActorKind::Human, sub: sub.to_owned() },
        roles: BTreeSet::from([role]),
        request: format!("{sub} {}", site.records.len()),
        reason: "because".to_owned(),
        action,
    };
    let outcome = crate::turn(
        &mut site.state,
        site.now,
        &Input::Command(Box::new(command)),
        &mut crate::testing::Forget,
    );
    site.records.extend(outcome.records);
    outcome.reply.expect("a command is answered")
}

#[test]
fn who_may_release_whose_hold() {
    let check = |owner: &str, sub: &str, role: Role, allowed: bool| {
        let mut site = Site::new(2);
        match owner {
            "external:" => {
                let seen = site.nodes.get_mut("gpu001").unwrap();
                (seen.drain, seen.reason) = (true, "dimm".to_owned());
                site.look();
            }
            "incident:" | "policy:" => {
                site.xid("gpu001", 79, 0);
                site.carry_out();
            }
            _ => {
                let hold = Action::NodeHold { node: "gpu001".to_owned(), until: None };
                ask_as(&mut site, "local:alice", Role::Operator, hold);
            }
        }
        let hold = hold_of(&site, owner);
        let reply = ask_as(&mut site, sub, role, Action::HoldRelease { hold });
        assert_eq!(matches!(reply, Reply::Accepted { .. }), allowed, "{owner} {sub} {role:?}: {reply:?}");
        assert_eq!(site.state.holds.contains_key(&hold), !allowed);
    };
    check("operator:", "local:alice", Role::Operator, true);
    check("operator:", "local:bob", Role::Operator, true);
    check("operator:", "local:bob", Role::Admin, true);
    check("operator:", "svc:robot", Role::Service, false);
    check("operator:", "local:bob", Role::Viewer, false);
    check("incident:", "local:bob", Role::Operator, false);
    check("incident:", "local:root", Role::Admin, true);
    check("policy:", "local:root", Role::Admin, false);
    check("external:", "local:bob", Role::Operator, false);
    check("external:", "local:root", Role::Admin, false);
}

#[test]
fn an_incidents_hold_that_an_admin_released_comes_back_only_with_new_evidence() {
    let mut site = Site::new(2);
    site.xid("gpu001", 79, 0);
    site.carry_out();
    site.now = site.now + SECOND;
    let hold = hold_of(&site, "incident:");
    site.ask(Role::Admin, Action::HoldRelease { hold });
    site.start();
    site.look();
    assert!(!owners(&site, "gpu001").iter().any(|owner| owner.starts_with("incident:")));
    site.now = site.now + SECOND * 10;
    site.xid("gpu001", 79, 0);
    assert!(owners(&site, "gpu001").iter().any(|owner| owner.starts_with("incident:")));
}

#[test]
fn a_hold_ends_by_its_own_time() {
    let mut site = Site::new(2);
    let until = Some(site.now + SECOND * 60);
    site.ask(Role::Operator, Action::NodeHold { node: "gpu001".to_owned(), until });
    site.carry_out();
    site.wait(SECOND * 59);
    assert!(site.nodes["gpu001"].drain);
    site.wait(SECOND * 2);
    site.carry_out();
    assert!(!site.nodes["gpu001"].drain);
    let past = Action::NodeHold { node: "gpu001".to_owned(), until: Some(site.now) };
    assert!(matches!(site.ask(Role::Operator, past), Reply::Invalid { .. }));
}

#[test]
fn the_mark_moves_to_the_hold_that_is_left() {
    let mut site = Site::new(2);
    site.ask(Role::Operator, Action::NodeHold { node: "gpu001".to_owned(), until: None });
    site.carry_out();
    assert_eq!(site.nodes["gpu001"].reason, "provost hold: held by an operator");
    site.xid("gpu001", 79, 3);
    site.carry_out();
    assert_eq!(site.nodes["gpu001"].reason, "provost INC-2026-000001: GPU 3 lost");
    site.now = site.now + SECOND;
    site.resolve(1);
    site.carry_out();
    assert_eq!(site.nodes["gpu001"].reason, "provost hold: held by an operator");
    assert!(site.nodes["gpu001"].drain);
    let hold = hold_of(&site, "operator:");
    site.ask(Role::Operator, Action::HoldRelease { hold });
    site.carry_out();
    assert!(!site.nodes["gpu001"].drain);
}

#[test]
fn isolations_wait_for_their_budget_and_are_told_once() {
    let mut site = Site::new(10);
    for node in ["gpu001", "gpu002", "gpu003"] {
        site.xid(node, 79, 0);
    }
    assert!(owners(&site, "gpu003").is_empty());
    let deferred = |site: &Site| site.records.iter().filter(|r| r.kind() == "isolation.deferred").count();
    site.xid("gpu003", 79, 0);
    site.look();
    assert_eq!(deferred(&site), 1);
    site.wait(site.config.governor.window.0 + SECOND);
    assert!(!owners(&site, "gpu003").is_empty(), "the window has room again");
}

#[test]
fn an_isolation_that_waits_ends_with_its_incident() {
    let mut site = Site::new(10);
    for node in ["gpu001", "gpu002", "gpu003"] {
        site.xid(node, 79, 0);
    }
    site.now = site.now + SECOND;
    site.resolve(3);
    assert!(site.state.guard.deferred.is_empty());
    site.wait(site.config.governor.window.0 * 2);
    assert!(owners(&site, "gpu003").is_empty());
}

#[test]
fn an_isolation_that_waits_ends_when_the_node_is_held_anyway() {
    let mut site = Site::new(10);
    for node in ["gpu001", "gpu002", "gpu003"] {
        site.xid(node, 79, 0);
    }
    site.ask(Role::Operator, Action::NodeHold { node: "gpu003".to_owned(), until: None });
    assert_eq!(owners(&site, "gpu003").len(), 2, "a held node needs no budget");
    assert!(site.state.guard.deferred.is_empty());
    // A deadline of which nothing comes fails here.
    site.wait(site.config.governor.window.0 * 2);
}

#[test]
fn a_second_gpu_of_a_held_node_needs_no_budget() {
    let mut site = Site::new(10);
    for node in ["gpu001", "gpu002"] {
        site.xid(node, 79, 0);
    }
    site.xid("gpu001", 79, 1);
    assert_eq!(site.state.guard.isolations.len(), 2);
    assert_eq!(owners(&site, "gpu001").len(), 2);
}

/// Something that happens to one node.
#[derive(Clone, Copy, Debug)]
enum Event {
    Fault(u32),
    Resolve,
    Hold(&'static str),
    Release(&'static str),
    Drain,
    Resume,
    ForeignDrain,
    ForeignResume,
    Poll,
    CarryOut,
    Busy(bool),
    Wait(u64),
    Restart,
    Guard(bool),
}

fn event() -> impl Strategy<Value = Event> {
    let who = prop_oneof![Just("local:alice"), Just("local:bob")];
    prop_oneof![
        4 => (0u32..3).prop_map(Event::Fault),
        3 => Just(Event::Resolve),
        3 => who.clone().prop_map(Event::Hold),
        3 => who.prop_map(Event::Release),
        1 => Just(Event::Drain),
        1 => Just(Event::Resume),
        2 => Just(Event::ForeignDrain),
        2 => Just(Event::ForeignResume),
        3 => Just(Event::Poll),
        4 => Just(Event::CarryOut),
        2 => any::<bool>().prop_map(Event::Busy),
        2 => (1u64..200).prop_map(Event::Wait),
        1 => Just(Event::Restart),
        1 => any::<bool>().prop_map(Event::Guard),
    ]
}

fn happen(site: &mut Site, node: &str, event: Event) {
    site.now = site.now + Duration::from_millis(5);
    let name = node.to_owned();
    match event {
        Event::Fault(gpu) => drop(site.xid(node, 79, gpu)),
        Event::Resolve => {
            let id = site.node(node).id;
            let open = site.state.incidents.values().find(|i| i.state.is_open() && i.node == Some(id));
            if let Some(incident) = open.map(|incident| incident.number.clone()) {
                site.ask(Role::Operator, Action::IncidentResolve { incident });
            }
        }
        Event::Hold(who) => {
            ask_as(site, who, Role::Operator, Action::NodeHold { node: name, until: None });
        }
        Event::Release(who) => {
            // Whatever holds the node is asked for; only an operator's may go.
            let id = site.node(node).id;
            let holds: Vec<HoldId> = site.state.holds_on(id).map(|hold| hold.id).collect();
            for hold in holds {
                ask_as(site, who, Role::Operator, Action::HoldRelease { hold });
            }
        }
        Event::Drain => drop(site.ask(Role::Operator, Action::NodeDrain { node: name })),
        Event::Resume => drop(site.ask(Role::Operator, Action::NodeResume { node: name })),
        Event::ForeignDrain => {
            let seen = site.nodes.get_mut(node).unwrap();
            (seen.drain, seen.reason) = (true, "dimm".to_owned());
        }
        Event::ForeignResume => {
            let seen = site.nodes.get_mut(node).unwrap();
            (seen.drain, seen.reason) = (false, String::new());
        }
        Event::Poll => drop(site.look()),
        Event::CarryOut => drop(site.carry_out()),
        Event::Busy(busy) => site.nodes.get_mut(node).unwrap().busy = busy,
        Event::Wait(seconds) => drop(site.wait(SECOND * u32::try_from(seconds).unwrap())),
        Event::Restart => drop(site.start()),
        Event::Guard(stop) => {
            site.ask(Role::Operator, if stop { Action::GuardStop } else { Action::GuardStart });
        }
    }
}

/// Lets everything that is due be done and seen.
fn settle_outside(site: &mut Site) {
    site.ask(Role::Operator, Action::GuardStart);
    for _ in 0..4 {
        site.look();
        site.carry_out();
        site.wait(SECOND * 61);
        site.carry_out();
    }
    site.look();
}

/// Every hold was released by whom it belonged to, or by a rule that its owner stands under.
fn only_owners_released(site: &Site) {
    for record in &site.records {
        let Body::HoldReleased(data) = &record.body else { continue };
        let kind = record.actor.kind;
        let right = match &data.owner {
            HoldOwner::Operator(_) => kind == ActorKind::Human || data.why == "expired",
            HoldOwner::External(_) => kind == ActorKind::Scheduler && data.why == "external_gone",
            HoldOwner::Incident(_) => data.why == "verified" || data.why == "incident_resolved",
            HoldOwner::Policy(_) => kind == ActorKind::System && data.why == "phase_left",
            HoldOwner::Legal(_) => false,
        };
        assert!(right, "{} of {} by {}", data.why, data.owner, record.actor.sub);
    }
}

#[test]
fn a_foreign_drain_that_ended_unseen_leaves_our_hold_alone_on_the_node() {
    let mut site = Site::new(20);
    let events = [
        Event::ForeignDrain,
        Event::Poll,
        Event::ForeignResume,
        Event::Hold("local:alice"),
        Event::CarryOut,
        Event::Resume,
    ];
    for event in events {
        happen(&mut site, "gpu002", event);
    }
    settle_outside(&mut site);
    assert_eq!(owners(&site, "gpu002"), Vec::<String>::new());
    assert_eq!(site.nodes["gpu002"].comment, "");
    assert!(!site.nodes["gpu002"].drain);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens in whatever order: nobody's hold is removed by another, a node takes work if and only if
    /// nobody holds it, and it comes back only into service or probation.
    #[test]
    fn hold_algebra(events in proptest::collection::vec((event(), 0usize..2), 1..40)) {
        let names = ["gpu001", "gpu002"];
        let mut site = Site::new(20);
        for (event, node) in events {
            happen(&mut site, names[node], event);
        }
        settle_outside(&mut site);
        only_owners_released(&site);
        for name in names {
            let node = site.node(name);
            let held = !owners(&site, name).is_empty();
            prop_assert_eq!(site.nodes[name].drain, held, "{}: {:?} in {:?}", name, owners(&site, name), node.phase);
            prop_assert!(held || !lifecycle::forbids_work(node.phase), "{} is {:?} and free", name, node.phase);
            let marked = site.nodes[name].comment.starts_with("provost:");
            let own = owners(&site, name).iter().any(|owner| !owner.starts_with("external:"));
            prop_assert_eq!(marked, own, "our mark stands exactly where we hold");
        }
        let mut again = State::new("test");
        for record in &site.records {
            crate::apply(&mut again, record);
        }
        prop_assert!(again == site.state, "the records alone give the same state");
    }

    /// In observe nothing is ever asked for, whatever happens.
    #[test]
    fn observe_asks_for_nothing(events in proptest::collection::vec((event(), 0usize..2), 1..25)) {
        let mut site = Site::new(20);
        site.ask(Role::Admin, Action::ModeSet { scope: ModeScope::Site, mode: Some(Mode::Observe) });
        site.config.mode = Mode::Observe;
        for (event, node) in events {
            happen(&mut site, ["gpu001", "gpu002"][node], event);
        }
        prop_assert!(!site.records.iter().any(|record| record.kind() == "effect.requested"));
        let fault = |phase| matches!(phase, Phase::Suspect | Phase::Draining | Phase::Quarantined);
        prop_assert!(!site.state.nodes.values().any(|node| fault(node.phase)));
    }
}
