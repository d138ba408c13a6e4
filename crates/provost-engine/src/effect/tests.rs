//! An intent has one result, is probed where nobody knows it, and belongs to the epoch that wrote it.

use std::time::Duration;

use provost_model::body::Body;
use provost_model::effect::{Approach, EffectResult};
use provost_model::input::{Action, Input};
use provost_model::policy::{Mode, ModeScope, Role};

use super::MAX_PROBES;
use crate::outstanding;
use crate::state::Outstanding;
use crate::state::TimerKey;
use crate::testing::Site;
use crate::testing::executor::not_done;

fn one(site: &Site) -> Outstanding {
    let mut orders = outstanding(&site.state);
    let order = orders.next().expect("something is asked for");
    assert!(orders.next().is_none(), "one thing only");
    order
}

/// A site where one node is being held.
fn holding() -> (Site, Outstanding) {
    let mut site = Site::new(2);
    site.ask(Role::Operator, Action::NodeHold { node: "gpu001".to_owned(), until: None });
    let order = one(&site);
    (site, order)
}

fn unknown() -> EffectResult {
    EffectResult::Unknown { code: "connection_lost".to_owned() }
}

#[test]
fn a_result_counts_once() {
    let (mut site, order) = holding();
    let done = site.perform(&order);
    assert_eq!(site.answer(&order, done.clone())[0], "effect.completed");
    assert_eq!(site.answer(&order, done), Vec::<&str>::new());
    assert_eq!(site.answer(&order, not_done("failed", true)), Vec::<&str>::new());
    assert_eq!(site.feed(Input::EffectResult { intent: 999_999, result: unknown() }), Vec::<&str>::new());
}

#[test]
fn what_is_told_from_outside_is_cut_to_what_a_record_holds() {
    let (mut site, order) = holding();
    let long = "x\u{1b}".repeat(3_000_000);
    site.answer(&order, EffectResult::Done { observed: long.clone(), notes: vec![long; 40] });
    let told = site.bodies(|body| if let Body::EffectCompleted(data) = body { Some(data) } else { None });
    let EffectResult::Done { observed, notes } = &told[0].result else { panic!("{told:?}") };
    assert_eq!((observed.as_str(), notes.len()), ("x".repeat(256).as_str(), 16));
    assert!(notes.iter().all(|note| note.len() == 64));
}

#[test]
fn without_a_result_it_is_unknown_once_its_time_is_over() {
    let (mut site, order) = holding();
    assert_eq!(order.approach, Approach::Act);
    site.now = order.deadline + Duration::from_secs(3_600);
    assert_eq!(site.feed(Input::Tick), ["effect.completed"]);
    assert_eq!(site.feed(Input::Tick), Vec::<&str>::new());
    assert_eq!(one(&site).approach, Approach::Probe);
    assert_eq!(one(&site).intent, order.intent);
    let told = site.bodies(|body| if let Body::EffectCompleted(data) = body { Some(data) } else { None });
    assert_eq!(told[0].result, EffectResult::Unknown { code: "timeout".to_owned() });
}

#[test]
fn a_probe_whose_answer_is_lost_is_made_again_and_not_for_ever() {
    let (mut site, order) = holding();
    site.answer(&order, unknown());
    let mut asked = 0;
    while let Some(at) = site.state.timers.get(&TimerKey::Effect(order.intent)) {
        site.now = at;
        site.feed(Input::Tick);
        asked += 1;
        assert_eq!((one(&site).approach, one(&site).probes), (Approach::Probe, asked));
    }
    assert_eq!(asked, MAX_PROBES);
}

#[test]
fn probes_are_counted_and_bounded() {
    let (mut site, order) = holding();
    for _ in 0..MAX_PROBES + 10 {
        site.answer(&order, unknown());
    }
    assert_eq!(one(&site).probes, MAX_PROBES);
    assert_eq!(one(&site).approach, Approach::Probe);
    // Whenever somebody can say, that ends it.
    let done = site.perform(&order);
    site.answer(&order, done);
    assert_eq!(outstanding(&site.state).count(), 0);
}

#[test]
fn a_probe_that_finds_nothing_done_lets_it_be_done_again() {
    let (mut site, order) = holding();
    site.answer(&order, unknown());
    site.answer(&order, not_done("not_found", true));
    assert_eq!(outstanding(&site.state).count(), 0);
    site.wait(site.config.timers.retry.0);
    assert_eq!(one(&site).approach, Approach::Act);
    assert_ne!(one(&site).intent, order.intent);
}

#[test]
fn after_a_restart_older_intents_are_only_probed() {
    let (mut site, order) = holding();
    site.start();
    assert_eq!(one(&site).intent, order.intent);
    assert_eq!(one(&site).approach, Approach::Probe);
}

#[test]
fn the_narrowest_mode_decides_and_a_job_is_as_free_as_its_strictest_node() {
    let check = |modes: &[(ModeScope, Mode)], asked: bool| {
        let mut site = Site::new(2);
        site.run_job(7, &[("gpu001", &[0]), ("gpu002", &[0])]);
        for (scope, mode) in modes {
            site.ask(Role::Admin, Action::ModeSet { scope: scope.clone(), mode: Some(*mode) });
        }
        site.ask(Role::Operator, Action::JobRequeue { job: "7".to_owned() });
        assert_eq!(outstanding(&site.state).count() == 1, asked, "{modes:?}");
    };
    let node = |name: &str| ModeScope::Node(name.to_owned());
    let cluster = || ModeScope::Scheduler("main".to_owned());
    check(&[], true);
    check(&[(ModeScope::Site, Mode::Advise)], false);
    check(&[(cluster(), Mode::Observe)], false);
    check(&[(cluster(), Mode::Observe), (node("gpu001"), Mode::Act)], false);
    check(&[(cluster(), Mode::Observe), (node("gpu001"), Mode::Act), (node("gpu002"), Mode::Act)], true);
    check(&[(node("gpu002"), Mode::Observe)], false);
}

#[test]
fn an_intent_says_whose_it_is() {
    let mut site = Site::new(2);
    site.xid("gpu001", 79, 0);
    let asked = site.records.iter().find(|record| matches!(record.body, Body::EffectRequested(_))).unwrap();
    assert_eq!(asked.corr.incident.as_deref(), Some("INC-2026-000001"));
    assert_eq!(asked.subject.as_ref().unwrap().name.as_deref(), Some("gpu001"));
    let (site, order) = holding();
    let asked = site.records.iter().find(|record| record.seq == order.intent).unwrap();
    assert_eq!(asked.corr.incident, None);
}
