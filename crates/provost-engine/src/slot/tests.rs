//! A spare serves in one slot at a time, until the slot's own node is back.

use std::time::Duration;

use provost_model::input::{Action, Reply};
use provost_model::policy::{Mode, ModeScope, Role};
use provost_model::scheduler::ObservedNode;

use super::choose_spare;
use crate::outstanding;
use crate::testing::Site;
use crate::testing::executor::not_done;

fn site_with_spares(names: &[&str]) -> Site {
    let mut site = Site::new(4);
    for name in names {
        let spare = ObservedNode {
            state: "IDLE".to_owned(),
            partitions: vec!["spare".to_owned()],
            ..ObservedNode::default()
        };
        site.nodes.insert((*name).to_owned(), spare);
    }
    site.look();
    site
}

fn activate(node: &str) -> Action {
    Action::SpareActivate { node: node.to_owned() }
}

#[test]
fn the_first_ready_spare_is_chosen() {
    let check = |change: &dyn Fn(&mut ObservedNode), expected: Option<&str>| {
        let mut site = site_with_spares(&["spare02", "spare01"]);
        change(site.nodes.get_mut("spare01").unwrap());
        site.look();
        let slot = site.node("gpu001").slot.unwrap();
        let chosen = choose_spare(&site.state, slot).map(|id| site.state.nodes[&id].name.clone());
        assert_eq!(chosen.as_deref(), expected);
    };
    check(&|_| {}, Some("spare01"));
    check(&|seen| seen.drain = true, Some("spare02"));
    check(&|seen| seen.down = true, Some("spare02"));
    check(&|seen| seen.not_responding = true, Some("spare02"));
    check(&|seen| seen.busy = true, Some("spare02"));
}

#[test]
fn a_spare_serves_until_the_slots_own_node_is_back_and_it_is_idle() {
    let mut site = site_with_spares(&["spare01"]);
    site.xid("gpu001", 79, 0);
    site.carry_out();
    assert!(matches!(site.ask(Role::Operator, activate("gpu001")), Reply::Accepted { .. }));
    assert!(site.node("spare01").serves.is_none(), "it serves once it was read back");
    site.carry_out();
    let slot = site.node("gpu001").slot.unwrap();
    assert_eq!(site.node("spare01").serves, Some(slot));
    assert_eq!(site.nodes["spare01"].partitions, ["spare", "batch"]);
    assert_eq!(site.ask(Role::Operator, activate("gpu001")), Reply::Already);
    // A job runs on it when the own node comes back: it stays.
    site.look();
    site.run_job(8, &[("spare01", &[0])]);
    site.now = site.now + Duration::from_secs(1);
    site.resolve(1);
    site.carry_out();
    site.look();
    site.carry_out();
    assert_eq!(site.node("spare01").serves, Some(slot));
    // The job ends: it goes home.
    site.jobs.clear();
    site.nodes.get_mut("spare01").unwrap().busy = false;
    site.look();
    site.carry_out();
    assert_eq!(site.node("spare01").serves, None);
    assert_eq!(site.state.slots[&slot].spare, None);
    assert_eq!(site.nodes["spare01"].partitions, ["spare"]);
}

#[test]
fn partitions_that_the_scheduler_forgot_are_written_again() {
    let mut site = site_with_spares(&["spare01"]);
    site.ask(Role::Operator, Action::NodeHold { node: "gpu001".to_owned(), until: None });
    site.ask(Role::Operator, activate("gpu001"));
    site.carry_out();
    site.nodes.get_mut("spare01").unwrap().partitions = vec!["spare".to_owned()];
    site.look();
    // A refusal is tried again after a wait.
    let order = outstanding(&site.state).next().unwrap();
    assert_eq!(order.effect.name(), "partition_join");
    site.answer(&order, not_done("failed", true));
    assert_eq!(outstanding(&site.state).count(), 0);
    site.wait(Duration::from_secs(2));
    site.carry_out();
    assert_eq!(site.nodes["spare01"].partitions, ["spare", "batch"]);
    assert_eq!(site.look(), Vec::<&str>::new());
}

#[test]
fn two_slots_do_not_get_the_same_spare() {
    let mut site = site_with_spares(&["spare01"]);
    for name in ["gpu001", "gpu002"] {
        site.ask(Role::Operator, Action::NodeHold { node: name.to_owned(), until: None });
    }
    assert!(matches!(site.ask(Role::Operator, activate("gpu001")), Reply::Accepted { .. }));
    let reply = site.ask(Role::Operator, activate("gpu002"));
    assert!(matches!(reply, Reply::Conflict { ref code, .. } if code == "no_spare"), "{reply:?}");
    site.carry_out();
    let reply = site.ask(Role::Operator, activate("gpu002"));
    assert!(matches!(reply, Reply::Conflict { ref code, .. } if code == "no_spare"), "{reply:?}");
}

#[test]
fn a_spare_is_sent_back_by_a_person() {
    let mut site = site_with_spares(&["spare01"]);
    let back = || Action::SpareReturn { spare: "spare01".to_owned() };
    assert_eq!(site.ask(Role::Operator, back()), Reply::Already);
    site.ask(Role::Operator, Action::NodeHold { node: "gpu001".to_owned(), until: None });
    site.ask(Role::Operator, activate("gpu001"));
    site.carry_out();
    site.look();
    site.run_job(8, &[("spare01", &[0])]);
    assert!(matches!(site.ask(Role::Operator, back()), Reply::Conflict { ref code, .. } if code == "busy"));
    site.jobs.clear();
    site.nodes.get_mut("spare01").unwrap().busy = false;
    site.look();
    assert!(matches!(site.ask(Role::Operator, back()), Reply::Accepted { .. }));
    site.carry_out();
    assert_eq!(site.nodes["spare01"].partitions, ["spare"]);
    assert!(site.node("spare01").serves.is_none());
}

#[test]
fn observe_moves_no_spare() {
    let mut site = site_with_spares(&["spare01"]);
    site.ask(Role::Admin, Action::ModeSet { scope: ModeScope::Site, mode: Some(Mode::Observe) });
    assert!(matches!(site.ask(Role::Operator, activate("gpu001")), Reply::Accepted { .. }));
    assert_eq!(outstanding(&site.state).count(), 0);
    assert!(site.records.iter().any(|record| record.kind() == "effect.would_have"));
    site.look();
    assert!(site.node("spare01").serves.is_none());
}
