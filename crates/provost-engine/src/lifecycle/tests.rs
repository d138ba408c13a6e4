//! The way of a node out of service and back, and what it may not skip.

use std::collections::BTreeSet;
use std::time::Duration;

use provost_model::body::{Body, Source, SourceState};
use provost_model::effect::EffectResult;
use provost_model::fleet::Phase;
use provost_model::input::{Action, AgentReport, Input, Reply};
use provost_model::policy::Role;
use provost_model::scheduler::ObservedNode;

use crate::outstanding;
use crate::testing::Site;
use crate::testing::executor::not_done;

fn phases(site: &Site) -> Vec<(Phase, Phase, String)> {
    let changes = site.bodies(|body| match body {
        Body::NodePhaseChanged(data) => Some(data),
        _ => None,
    });
    changes.into_iter().map(|data| (data.from, data.to, data.why.clone())).collect()
}

fn policy_holds(site: &Site) -> Vec<String> {
    let owners = site.state.holds.values().map(|hold| hold.owner.to_string());
    owners.filter(|owner| owner.starts_with("policy:")).collect()
}

/// B20: a node with the drain flag and a running job is draining, not drained.
#[test]
fn b20_a_drain_flag_is_not_drained() {
    let mut site = Site::new(4);
    site.run_job(7, &[("gpu001", &[0, 1])]);
    site.xid("gpu001", 79, 5);
    assert_eq!(site.node("gpu001").phase, Phase::Suspect);
    site.carry_out();
    site.look();
    assert!(site.nodes["gpu001"].drain);
    assert_eq!(site.node("gpu001").phase, Phase::Draining, "the job still runs");
    // Completing counts as busy, too; only an empty node is quarantined.
    site.jobs.clear();
    site.look();
    assert_eq!(site.node("gpu001").phase, Phase::Draining);
    site.nodes.get_mut("gpu001").unwrap().busy = false;
    site.look();
    assert_eq!(site.node("gpu001").phase, Phase::Quarantined);
    assert_eq!(policy_holds(&site), ["policy:lifecycle:quarantined"]);
}

#[test]
fn the_way_out_and_back() {
    let mut site = Site::new(4);
    site.xid("gpu001", 79, 0);
    site.carry_out();
    site.now = site.now + Duration::from_secs(1);
    site.resolve(1);
    site.carry_out();
    assert_eq!(site.node("gpu001").phase, Phase::Probation);
    assert_eq!(site.state.holds.len(), 0);
    site.wait(site.config.timers.probation.0 - Duration::from_secs(1));
    assert_eq!(site.node("gpu001").phase, Phase::Probation);
    site.wait(Duration::from_secs(2));
    assert_eq!(site.node("gpu001").phase, Phase::InService);
    let codes: Vec<String> = phases(&site).into_iter().map(|(_, _, why)| why).collect();
    assert_eq!(codes, ["fault", "empty", "released", "probation_over"]);
}

#[test]
fn a_fault_that_ends_before_containment_leaves_the_node_where_it_was() {
    let mut site = Site::new(4);
    site.xid("gpu001", 79, 0);
    site.now = site.now + Duration::from_secs(1);
    site.resolve(1);
    assert_eq!(site.node("gpu001").phase, Phase::InService);
    // The drain was on its way and is taken back once it is read back.
    site.carry_out();
    assert!(!site.nodes["gpu001"].drain);
}

#[test]
fn planned_work() {
    let mut site = Site::new(4);
    let drain = || Action::NodeDrain { node: "gpu002".to_owned() };
    let resume = || Action::NodeResume { node: "gpu002".to_owned() };
    assert!(matches!(site.ask(Role::Operator, drain()), Reply::Accepted { .. }));
    assert_eq!(site.ask(Role::Operator, drain()), Reply::Already);
    site.carry_out();
    assert_eq!(site.node("gpu002").phase, Phase::Maintenance);
    assert_eq!(site.nodes["gpu002"].reason, "provost hold: held by an operator");
    assert!(matches!(site.ask(Role::Operator, resume()), Reply::Accepted { .. }));
    site.carry_out();
    assert_eq!(site.node("gpu002").phase, Phase::InService);
    assert!(!site.nodes["gpu002"].drain);
    assert_eq!(site.ask(Role::Operator, resume()), Reply::Already);
}

#[test]
fn a_node_that_can_be_tested_returns_only_when_the_test_passed() {
    for passes in [true, false] {
        let mut site = Site::new(2);
        site.feed(Input::AgentReport(Box::new(AgentReport {
            node: "gpu001".to_owned(),
            boot_id: None,
            actions: BTreeSet::from(["validate".to_owned()]),
            gpus: None,
            version: "0".to_owned(),
        })));
        site.ask(Role::Operator, Action::NodeDrain { node: "gpu001".to_owned() });
        site.carry_out();
        site.ask(Role::Operator, Action::NodeResume { node: "gpu001".to_owned() });
        assert_eq!(site.node("gpu001").phase, Phase::Revalidating);
        assert_eq!(policy_holds(&site), ["policy:lifecycle:revalidating"]);
        site.look();
        let order = outstanding(&site.state).find(|order| order.effect.name() == "agent_action").unwrap();
        let unknown = EffectResult::Unknown { code: "connection_lost".to_owned() };
        site.answer(&order, unknown);
        assert_eq!(site.node("gpu001").phase, Phase::Revalidating, "nobody can say yet");
        let done = EffectResult::Done { observed: String::new(), notes: Vec::new() };
        site.answer(&order, if passes { done } else { not_done("failed", false) });
        site.carry_out();
        let (phase, drained) = if passes { (Phase::InService, false) } else { (Phase::Maintenance, true) };
        assert_eq!((site.node("gpu001").phase, site.nodes["gpu001"].drain), (phase, drained));
        assert_eq!(site.node("gpu001").validated_at.is_some(), passes);
    }
}

#[test]
fn a_test_that_nobody_can_tell_about_ends_in_maintenance() {
    let mut site = Site::new(2);
    site.feed(Input::AgentReport(Box::new(AgentReport {
        node: "gpu001".to_owned(),
        boot_id: None,
        actions: BTreeSet::from(["validate".to_owned()]),
        gpus: None,
        version: "0".to_owned(),
    })));
    site.ask(Role::Operator, Action::NodeDrain { node: "gpu001".to_owned() });
    site.carry_out();
    site.ask(Role::Operator, Action::NodeResume { node: "gpu001".to_owned() });
    site.look();
    let order = outstanding(&site.state).find(|order| order.effect.name() == "agent_action").unwrap();
    for _ in 0..=crate::effect::MAX_PROBES {
        site.answer(&order, EffectResult::Unknown { code: "restarted".to_owned() });
    }
    assert_eq!(site.node("gpu001").phase, Phase::Maintenance);
    assert!(!outstanding(&site.state).any(|order| order.effect.name() == "agent_action"));
    // The person tries again.
    site.ask(Role::Operator, Action::NodeResume { node: "gpu001".to_owned() });
    assert_eq!(site.node("gpu001").phase, Phase::Revalidating);
}

#[test]
fn planned_work_does_not_cut_into_a_recovery() {
    let mut site = Site::new(4);
    site.xid("gpu001", 79, 0);
    site.carry_out();
    let reply = site.ask(Role::Operator, Action::NodeDrain { node: "gpu001".to_owned() });
    assert!(matches!(reply, Reply::Conflict { ref code, .. } if code == "in_recovery"), "{reply:?}");
    assert_eq!(site.node("gpu001").phase, Phase::Quarantined);
}

#[test]
fn a_node_is_lost_only_when_two_witnesses_say_so() {
    let mut site = Site::new(4);
    let agent = |state| Input::Source { source: Source::Agent("gpu001".to_owned()), state };
    site.nodes.get_mut("gpu001").unwrap().not_responding = true;
    site.look();
    assert_eq!(site.node("gpu001").phase, Phase::InService, "its agent never said anything");
    site.feed(agent(SourceState::Fresh));
    site.feed(agent(SourceState::Silent));
    assert_eq!(site.node("gpu001").phase, Phase::Lost);
    assert_eq!(policy_holds(&site), Vec::<String>::new(), "nothing is written to a node nobody reaches");
    site.ask(Role::Operator, Action::NodeForget { node: "gpu001".to_owned() });
    assert_eq!(site.node("gpu001").phase, Phase::Lost, "that nobody listens is no sign of life");
    site.feed(agent(SourceState::Fresh));
    assert_eq!(site.node("gpu001").phase, Phase::Probation);
}

#[test]
fn a_spare_goes_home_to_the_pool() {
    let mut site = Site::new(2);
    let spare = ObservedNode {
        state: "IDLE".to_owned(),
        partitions: vec!["spare".to_owned()],
        ..ObservedNode::default()
    };
    site.nodes.insert("spare01".to_owned(), spare);
    site.look();
    assert_eq!(site.node("spare01").phase, Phase::Spare);
    assert_eq!(site.node("spare01").slot, None);
    site.ask(Role::Operator, Action::NodeDrain { node: "spare01".to_owned() });
    site.carry_out();
    site.ask(Role::Operator, Action::NodeResume { node: "spare01".to_owned() });
    site.carry_out();
    assert_eq!(site.node("spare01").phase, Phase::Spare);
}
