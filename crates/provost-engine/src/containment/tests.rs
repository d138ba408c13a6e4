//! A node is kept out exactly while it is held, and what others wrote is kept.

use std::time::Duration;

use provost_model::body::{Body, ReasonOwner, Source, SourceState};
use provost_model::effect::{Effect, EffectResult};
use provost_model::fleet::Phase;
use provost_model::input::{Action, Input, Reply};
use provost_model::policy::{Mode, ModeScope, Role};

use crate::outstanding;
use crate::testing::Site;
use crate::testing::executor::not_done;

const SECOND: Duration = Duration::from_secs(1);

fn asked_for(site: &Site) -> Vec<&'static str> {
    outstanding(&site.state).map(|order| order.effect.name()).collect()
}

/// Reason and comment of a node as its scheduler has them.
fn written(site: &Site, node: &str) -> (bool, String, bool) {
    let seen = &site.nodes[node];
    (seen.drain, seen.reason.clone(), seen.comment.starts_with("provost:"))
}

#[test]
fn a_lost_gpu_drains_its_node_at_once() {
    let mut site = Site::new(4);
    let kinds = site.xid("gpu003", 79, 2);
    assert!(kinds.contains(&"hold.placed") && kinds.contains(&"effect.requested"), "{kinds:?}");
    assert_eq!(asked_for(&site)[0], "scheduler_hold");
    site.carry_out();
    assert_eq!(written(&site, "gpu003"), (true, "provost INC-2026-000001: GPU 2 lost".to_owned(), true));
    assert!(site.node("gpu003").observed.as_ref().unwrap().drain, "what was read back is known at once");
    // The next answer says the same, so nothing follows.
    assert_eq!(site.look(), Vec::<&str>::new());
    assert_eq!(asked_for(&site), Vec::<&str>::new());
}

#[test]
fn the_containment_of_a_node_is_asked_for_once() {
    let mut site = Site::new(4);
    site.xid("gpu003", 79, 2);
    site.xid("gpu003", 79, 3);
    site.look();
    let holds = outstanding(&site.state).filter(|order| order.effect.name() == "scheduler_hold").count();
    assert_eq!(holds, 1);
    assert_eq!(site.state.holds.len(), 2, "each GPU has its hold");
}

#[test]
fn failed_containment_is_tried_at_once_when_its_scheduler_answers_again() {
    let mut site = Site::new(4);
    let source = |site: &mut Site, state| {
        site.feed(Input::Source { source: Source::Scheduler("main".to_owned()), state });
    };
    source(&mut site, SourceState::Silent);
    site.xid("gpu001", 79, 0);
    for _ in 0..6 {
        let order = outstanding(&site.state).find(|order| order.effect.name() == "scheduler_hold").unwrap();
        site.answer(&order, not_done("away", true));
        if asked_for(&site).contains(&"scheduler_hold") {
            continue;
        }
        let next = site.node("gpu001").containment.not_before.unwrap();
        site.wait(next.since(site.now));
    }
    let order = outstanding(&site.state).find(|order| order.effect.name() == "scheduler_hold").unwrap();
    site.answer(&order, not_done("away", true));
    assert!(!asked_for(&site).contains(&"scheduler_hold"));
    source(&mut site, SourceState::Fresh);
    assert!(asked_for(&site).contains(&"scheduler_hold"));
    assert_eq!(site.node("gpu001").containment.failures, 0);
}

#[test]
fn failed_containment_is_tried_again_after_growing_waits() {
    let mut site = Site::new(4);
    site.xid("gpu001", 79, 0);
    let mut waits = Vec::new();
    for _ in 0..7 {
        let order = outstanding(&site.state).find(|order| order.effect.name() == "scheduler_hold").unwrap();
        site.answer(&order, not_done("away", true));
        assert!(!asked_for(&site).contains(&"scheduler_hold"));
        let failed = site.now;
        while !asked_for(&site).contains(&"scheduler_hold") {
            site.wait(SECOND);
        }
        waits.push(site.now.since(failed).as_secs());
    }
    assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60]);
}

#[test]
fn an_unknown_outcome_is_probed_and_never_blindly_repeated() {
    let mut site = Site::new(4);
    site.xid("gpu001", 79, 0);
    let before = asked_for(&site);
    site.wait(site.config.timers.effect.0);
    assert_eq!(asked_for(&site), before, "nothing is asked for twice");
    let order = outstanding(&site.state).find(|order| order.effect.name() == "scheduler_hold").unwrap();
    assert_eq!(order.approach, provost_model::effect::Approach::Probe);
    // The scheduler's next answer is as good as a probe: it is not done, so it may be done again.
    site.look();
    site.wait(SECOND * 2);
    let again = outstanding(&site.state).find(|order| order.effect.name() == "scheduler_hold").unwrap();
    assert_eq!(again.approach, provost_model::effect::Approach::Act);
    assert_ne!(again.intent, order.intent);
    // What the old one would have answered comes too late to mean anything.
    assert_eq!(site.answer(&order, not_done("failed", true)), Vec::<&str>::new());
}

#[test]
fn an_unknown_hold_that_the_scheduler_shows_is_done() {
    let mut site = Site::new(4);
    site.xid("gpu001", 79, 0);
    let order = outstanding(&site.state).find(|order| order.effect.name() == "scheduler_hold").unwrap();
    let lost = site.perform(&order);
    assert!(matches!(lost, EffectResult::Done { .. }), "it was done and the answer was lost");
    site.wait(site.config.timers.effect.0);
    site.look();
    assert!(!asked_for(&site).contains(&"scheduler_hold"));
    assert_eq!(site.node("gpu001").phase, Phase::Quarantined);
}

#[test]
fn an_answer_older_than_our_write_says_nothing() {
    let mut site = Site::new(4);
    let before = site.nodes.clone();
    let asked_at = site.now;
    site.xid("gpu001", 79, 0);
    site.carry_out();
    let after = std::mem::replace(&mut site.nodes, before);
    let now = std::mem::replace(&mut site.now, asked_at);
    // The poll began before the drain and is told after it.
    let observation = site.observation();
    site.now = now;
    assert_eq!(site.feed(observation), Vec::<&str>::new());
    site.nodes = after;
    assert_eq!(site.look(), Vec::<&str>::new());
}

#[test]
fn somebody_who_resumes_a_held_node_is_answered_at_once_and_then_more_slowly() {
    let mut site = Site::new(4);
    site.xid("gpu001", 79, 0);
    site.carry_out();
    let mut waits = Vec::new();
    for _ in 0..4 {
        site.wait(SECOND);
        let seen = site.nodes.get_mut("gpu001").unwrap();
        (seen.drain, seen.reason, seen.comment) = (false, String::new(), String::new());
        site.look();
        let seen_at = site.now;
        while !asked_for(&site).contains(&"scheduler_hold") {
            site.wait(SECOND);
        }
        waits.push(site.now.since(seen_at).as_secs());
        site.carry_out();
    }
    assert_eq!(waits, [0, 2, 4, 8]);
    // After a quiet time the next one is the first again.
    site.wait(SECOND * 700);
    let seen = site.nodes.get_mut("gpu001").unwrap();
    (seen.drain, seen.reason, seen.comment) = (false, String::new(), String::new());
    site.look();
    assert!(asked_for(&site).contains(&"scheduler_hold"));
}

#[test]
fn observe_says_once_what_it_would_have_done() {
    let mut site = Site::new(4);
    site.ask(Role::Admin, Action::ModeSet { scope: ModeScope::Site, mode: Some(Mode::Observe) });
    site.xid("gpu001", 79, 0);
    for _ in 0..3 {
        site.wait(SECOND);
        site.xid("gpu001", 79, 0);
        site.look();
    }
    assert_eq!(asked_for(&site), Vec::<&str>::new());
    assert_eq!(
        site.bodies(|body| if let Body::EffectRequested(data) = body { Some(data) } else { None }).len(),
        0
    );
    let told = site.bodies(|body| match body {
        Body::WouldHave(data) if matches!(data.effect, Effect::SchedulerHold { .. }) => Some(data),
        _ => None,
    });
    assert_eq!(told.len(), 1);
    assert!(!site.state.holds.is_empty(), "the hold stands in the journal");
    assert_eq!(site.node("gpu001").phase, Phase::InService, "nothing was done to the node");
    assert!(site.incident(1).would_have.iter().any(|effect| effect.name() == "scheduler_hold"));
    // From the moment that it may act, it acts.
    site.ask(
        Role::Admin,
        Action::ModeSet { scope: ModeScope::Node("gpu001".to_owned()), mode: Some(Mode::Act) },
    );
    assert!(asked_for(&site).contains(&"scheduler_hold"));
}

#[test]
fn a_stopped_guard_keeps_everything_from_being_done_until_it_is_started() {
    let mut site = Site::new(4);
    site.ask(Role::Operator, Action::GuardStop);
    site.xid("gpu001", 79, 0);
    site.wait(SECOND * 120);
    site.look();
    assert_eq!(asked_for(&site), Vec::<&str>::new());
    assert_eq!(site.state.holds_on(site.node("gpu001").id).count(), 1, "detection and holds go on");
    site.ask(Role::Operator, Action::GuardStart);
    assert!(asked_for(&site).contains(&"scheduler_hold"));
}

#[test]
fn a_foreign_drain_is_kept_before_during_and_after_ours() {
    for when in ["before", "during", "after"] {
        let mut site = Site::new(4);
        let dimm = |site: &mut Site| {
            let seen = site.nodes.get_mut("gpu003").unwrap();
            (seen.drain, seen.reason) = (true, "dimm".to_owned());
            site.look();
        };
        let hold = |site: &mut Site| {
            site.ask(Role::Operator, Action::NodeHold { node: "gpu003".to_owned(), until: None });
            site.carry_out();
        };
        if when == "before" {
            dimm(&mut site);
        }
        hold(&mut site);
        if when == "before" {
            assert_eq!(written(&site, "gpu003"), (true, "dimm".to_owned(), true), "only our mark is added");
        }
        if when == "during" {
            dimm(&mut site);
            site.carry_out();
            assert_eq!(written(&site, "gpu003"), (true, "dimm".to_owned(), true));
        }
        let own = site
            .state
            .holds
            .values()
            .find(|hold| hold.owner.to_string().starts_with("operator:"))
            .unwrap()
            .id;
        site.ask(Role::Operator, Action::HoldRelease { hold: own });
        site.carry_out();
        if when == "after" {
            assert_eq!(written(&site, "gpu003"), (false, String::new(), false));
            dimm(&mut site);
            site.carry_out();
        }
        site.look();
        site.carry_out();
        assert_eq!(written(&site, "gpu003"), (true, "dimm".to_owned(), false), "{when}: theirs stays");
        let node = site.node("gpu003");
        assert_eq!(node.observed.as_ref().unwrap().reason, ReasonOwner::Foreign);
        let owners: Vec<String> = site.state.holds_on(node.id).map(|hold| hold.owner.to_string()).collect();
        assert_eq!(owners, ["external:slurm:main"], "{when}");
        // They end it, and nobody holds the node.
        let seen = site.nodes.get_mut("gpu003").unwrap();
        (seen.drain, seen.reason) = (false, String::new());
        site.look();
        site.carry_out();
        assert_eq!(written(&site, "gpu003"), (false, String::new(), false));
        assert_eq!(site.state.holds_on(site.node("gpu003").id).count(), 0, "{when}");
    }
}

/// B22: an operator drains the node for planned work while a fault comes and goes; the repair does not resume it.
#[test]
fn b22_somebody_elses_isolation_is_not_removed() {
    let mut site = Site::new(4);
    let seen = site.nodes.get_mut("gpu002").unwrap();
    (seen.drain, seen.reason) = (true, "planned work".to_owned());
    site.look();
    site.xid("gpu002", 79, 1);
    site.carry_out();
    site.now = site.now + SECOND;
    let theirs = only_hold(&site, "external:");
    let reply = site.ask(Role::Operator, Action::HoldRelease { hold: theirs });
    assert!(matches!(reply, Reply::Conflict { .. }), "{reply:?}");
    site.resolve(1);
    site.carry_out();
    site.look();
    site.carry_out();
    assert_eq!(written(&site, "gpu002"), (true, "planned work".to_owned(), false));
    assert_eq!(site.state.holds_on(site.node("gpu002").id).count(), 1);
}

/// B23: recovery events close together, a new fault just after a recovery, old holds after a restart: decisions
/// come from what is, in one order.
#[test]
fn b23_recovery_and_fault_are_decided_in_one_order() {
    let mut site = Site::new(4);
    site.xid("gpu001", 79, 0);
    site.xid("gpu001", 79, 1);
    site.carry_out();
    // (a) both are over in the same millisecond: the node is free.
    site.now = site.now + SECOND;
    site.resolve(1);
    site.resolve(2);
    site.carry_out();
    assert_eq!(written(&site, "gpu001"), (false, String::new(), false));
    assert_eq!(site.state.holds_on(site.node("gpu001").id).count(), 0);
    // (b) a fault right after it isolates again; nothing old cancels it.
    site.now = site.now + Duration::from_millis(1);
    site.xid("gpu001", 79, 0);
    site.carry_out();
    assert!(written(&site, "gpu001").0);
    // (c) a new controller and a started guard bring nothing back that is over.
    site.now = site.now + SECOND;
    let open = site.state.incidents.values().find(|incident| incident.state.is_open());
    let over = open.unwrap().number.clone();
    site.resolve_number(&over);
    site.carry_out();
    site.look();
    site.start();
    site.ask(Role::Operator, Action::GuardStop);
    site.ask(Role::Operator, Action::GuardStart);
    site.carry_out();
    assert_eq!(written(&site, "gpu001"), (false, String::new(), false));
    assert_eq!(site.state.holds.len(), 0);
}

fn only_hold(site: &Site, owner: &str) -> provost_model::ids::HoldId {
    site.state.holds.values().find(|hold| hold.owner.to_string().starts_with(owner)).unwrap().id
}

#[test]
fn a_hold_of_an_unlisted_node_goes_on_being_tried() {
    let mut site = Site::new(4);
    site.nodes.remove("gpu004");
    site.look();
    assert!(site.node("gpu004").observed.is_none());
    site.ask(Role::Operator, Action::NodeHold { node: "gpu004".to_owned(), until: None });
    site.carry_out_once();
    assert!(site.node("gpu004").containment.failures == 1);
    site.wait(SECOND * 2);
    assert_eq!(asked_for(&site), ["scheduler_hold"]);
}

#[test]
fn a_drain_of_an_earlier_installation_is_not_ended_by_this_one() {
    let mut site = Site::new(2);
    let seen = site.nodes["gpu001"].clone();
    let old = provost_model::scheduler::ObservedNode {
        drain: true,
        reason: "provost INC-2025-000009: GPU 1 lost".to_owned(),
        comment: "provost:hold_00000000-0000-8000-8000-000000000000".to_owned(),
        ..seen
    };
    site.nodes.insert("gpu009".to_owned(), old);
    site.look();
    site.carry_out();
    assert!(written(&site, "gpu009").0, "whatever it was for may still be so");
    site.ask(Role::Operator, Action::NodeHold { node: "gpu009".to_owned(), until: None });
    site.carry_out();
    let own = only_hold(&site, "operator:");
    site.ask(Role::Operator, Action::HoldRelease { hold: own });
    site.carry_out();
    site.look();
    site.carry_out();
    assert!(written(&site, "gpu009").0);
    assert_eq!(site.state.holds_on(site.node("gpu009").id).count(), 1);
}

#[test]
fn detach_leaves_no_mark_and_keeps_the_holds() {
    let mut site = Site::new(4);
    site.xid("gpu001", 79, 0);
    site.carry_out();
    site.ask(Role::Admin, Action::ModeSet { scope: ModeScope::Site, mode: Some(Mode::Observe) });
    let reply = site.ask(Role::Admin, Action::Detach);
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    site.carry_out();
    site.look();
    site.carry_out();
    assert_eq!(written(&site, "gpu001"), (false, String::new(), false));
    assert!(site.state.holds_on(site.node("gpu001").id).count() > 0);
    assert_eq!(site.ask(Role::Admin, Action::Detach), Reply::Already);
}

#[test]
fn detach_takes_the_notes_off_the_jobs_once() {
    let mut site = Site::new(2);
    site.with_runbooks();
    site.run_job(7, &[("gpu001", &[0])]);
    site.xid("gpu001", 31, 0);
    site.carry_out();
    assert!(site.state.noted.contains("main"), "a note was left at the job");
    site.ask(Role::Admin, Action::Detach);
    let off = Effect::NotesOff { cluster: "main".to_owned() };
    assert_eq!(crate::outstanding(&site.state).map(|work| work.effect).collect::<Vec<_>>(), [off]);
    site.carry_out();
    assert!(site.state.noted.is_empty());
    assert_eq!(site.ask(Role::Admin, Action::Detach), Reply::Already);
}

#[test]
fn a_comment_of_somebody_else_leaves_no_room_for_our_mark() {
    let mut site = Site::new(2);
    site.nodes.get_mut("gpu001").unwrap().comment = "rack 7".to_owned();
    site.look();
    site.xid("gpu001", 79, 0);
    site.carry_out();
    assert_eq!(written(&site, "gpu001"), (true, "provost INC-2026-000001: GPU 0 lost".to_owned(), false));
    for _ in 0..3 {
        assert_eq!(site.look(), Vec::<&str>::new(), "it is held as well as can be");
    }
    site.now = site.now + SECOND;
    site.resolve(1);
    site.carry_out();
    assert_eq!(site.nodes["gpu001"].comment, "rack 7");
    assert!(!site.nodes["gpu001"].drain);
}

#[test]
fn a_node_that_is_down_is_held_and_drained_once_it_comes_up() {
    let mut site = Site::new(2);
    let seen = site.nodes.get_mut("gpu001").unwrap();
    (seen.down, seen.reason, seen.state) = (true, "Not responding".to_owned(), "DOWN".to_owned());
    site.look();
    site.xid("gpu001", 79, 0);
    site.carry_out();
    let seen = &site.nodes["gpu001"];
    assert!(!seen.drain && seen.comment.starts_with("provost:"), "a node that is down takes no work");
    for _ in 0..3 {
        assert_eq!(site.look(), Vec::<&str>::new());
    }
    assert_eq!(site.node("gpu001").phase, Phase::Quarantined);
    // slurmd registers again.
    let seen = site.nodes.get_mut("gpu001").unwrap();
    (seen.down, seen.reason, seen.state) = (false, String::new(), "IDLE".to_owned());
    site.look();
    site.carry_out();
    assert!(written(&site, "gpu001").0);
}

#[test]
fn a_drain_is_ours_where_the_foreign_reason_was_gone_before_we_wrote() {
    let mut site = Site::new(2);
    let seen = site.nodes.get_mut("gpu001").unwrap();
    (seen.down, seen.reason, seen.state) = (true, "Not responding".to_owned(), "DOWN".to_owned());
    site.look();
    site.xid("gpu001", 79, 0);
    // slurmd registers again before our look, and nobody has seen that yet.
    let seen = site.nodes.get_mut("gpu001").unwrap();
    (seen.down, seen.reason, seen.state) = (false, String::new(), "IDLE".to_owned());
    site.carry_out();
    assert_eq!(site.node("gpu001").observed.as_ref().unwrap().reason, ReasonOwner::Ours);
    site.look();
    assert_eq!(site.state.holds_on(site.node("gpu001").id).filter(|hold| is_external(hold)).count(), 0);
}

fn is_external(hold: &crate::state::Hold) -> bool {
    matches!(hold.owner, provost_model::response::HoldOwner::External(_))
}

#[test]
fn what_is_read_back_counts_as_the_schedulers_answer() {
    let check = |observed: &str, expected: (bool, bool)| {
        let mut view = provost_model::body::NodeView::default();
        super::read_back(&mut view, observed);
        assert_eq!((view.drain, view.down), expected, "{observed}");
    };
    check("IDLE", (false, false));
    check("MIXED+DRAIN", (true, false));
    check("DOWN+DRAIN+NOT_RESPONDING", (true, true));
    check("DOWN*", (false, true));
    check("IDLE+FAIL", (true, false));
    check("found done", (false, false));
    check("", (false, false));
    check("POWERED_DOWN", (false, false));
}

#[test]
fn waits_double_up_to_a_minute() {
    let state = crate::state::State::new("s");
    let check = |failures: u32, seconds: u64| {
        assert_eq!(crate::effect::backoff(&state, failures), Duration::from_secs(seconds), "{failures}");
    };
    check(0, 2);
    check(1, 2);
    check(2, 4);
    check(6, 60);
    check(u32::MAX, 60);
}
