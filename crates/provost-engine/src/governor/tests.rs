//! What is counted, what waits for its budget, and when the breaker trips and is reset.

use std::collections::BTreeMap;
use std::time::Duration;

use provost_model::body::Body;
use provost_model::input::{Action, Reply};
use provost_model::policy::{GovernorLimits, Role, ScopeLimits};
use provost_model::runbook::{ExecutionState, Runbook};

use super::{counts, larger, may_isolate};
use crate::runbook::{builtin, parse};
use crate::testing::Site;

#[test]
fn limits_are_the_larger_of_a_number_and_a_share() {
    let check = |absolute, percent, nodes, expected| {
        assert_eq!(larger(absolute, percent, nodes), expected, "max({absolute}, {percent} % of {nodes})");
    };
    // Ruling 10: unavailable max(2, 10 %), isolations max(2, 5 %).
    check(2, 10, 0, 2);
    check(2, 10, 8, 2);
    check(2, 10, 29, 2);
    check(2, 10, 30, 3);
    check(2, 10, 64, 6);
    check(2, 10, 1_250, 125);
    check(2, 5, 8, 2);
    check(2, 5, 64, 3);
    check(2, 5, 1_250, 62);
    check(0, 0, 100, 0);
    check(u32::MAX, 100, 1, u32::MAX);
    check(0, 100, usize::MAX, u32::MAX);
}

fn site(nodes: u32) -> Site {
    let runbooks: Vec<(String, Runbook)> = builtin()
        .iter()
        .zip('a'..)
        .map(|((_, yaml), d)| (d.to_string().repeat(64), parse(yaml).unwrap()))
        .collect();
    let mut site = Site::new(nodes);
    site.runbooks = runbooks;
    site.start();
    site
}

fn held(site: &Site) -> usize {
    site.nodes.values().filter(|node| node.drain).count()
}

#[test]
fn isolations_stay_inside_their_window_and_go_on_after_it() {
    let mut site = site(8);
    for (i, node) in ["gpu001", "gpu002", "gpu003", "gpu004"].into_iter().enumerate() {
        site.now = site.now + Duration::from_secs(60);
        site.xid(node, 79, 0);
        site.carry_out();
        assert_eq!(held(&site), (i + 1).min(2), "two isolations per window");
    }
    let now = site.now;
    let guard = counts(&site.state, now);
    assert_eq!((guard.isolations_in_window, guard.isolations_max), (2, 2));
    assert_eq!(guard.deferred, ["gpu003", "gpu004"]);
    // The first was eight minutes before the window lets it go; a fault on a held node needs no budget.
    assert!(may_isolate(&site.state, now, site.node("gpu001").id).is_ok());
    let until = may_isolate(&site.state, now, site.node("gpu003").id).unwrap_err();
    assert_eq!(until.since(now).as_secs() + 1, 600 - 180);
    site.wait(Duration::from_secs(421));
    site.carry_out();
    assert_eq!(held(&site), 3, "its turn came");
    site.wait(Duration::from_secs(60));
    site.carry_out();
    assert_eq!(held(&site), 4);
}

#[test]
fn a_person_may_hold_as_many_nodes_as_they_like_and_all_are_counted() {
    let mut site = site(8);
    for node in ["gpu001", "gpu002"] {
        site.ask(Role::Operator, Action::NodeHold { node: node.to_owned(), until: None });
    }
    let guard = counts(&site.state, site.now);
    assert_eq!((guard.unavailable, guard.unavailable_max, guard.isolations_in_window), (2, 2, 0));
    assert_eq!(guard.unavailable_nodes, ["gpu001", "gpu002"]);
}

#[test]
fn the_breaker_trips_once_and_only_a_person_resets_it() {
    let mut site = site(10);
    let trips =
        |site: &Site| site.bodies(|b| if let Body::BreakerTripped(t) = b { Some(t) } else { None }).len();
    let hold = |site: &mut Site, n: u32| {
        site.ask(Role::Operator, Action::NodeHold { node: format!("gpu{n:03}"), until: None });
    };
    hold(&mut site, 1);
    hold(&mut site, 2);
    assert!(!site.state.guard.breaker_tripped);
    hold(&mut site, 3);
    assert!(site.state.guard.breaker_tripped, "30 % of ten are three");
    hold(&mut site, 4);
    assert_eq!(trips(&site), 1);
    site.now = site.now + Duration::from_secs(1);
    assert!(matches!(site.ask(Role::Admin, Action::BreakerReset), Reply::Accepted { .. }));
    assert!(!site.state.guard.breaker_tripped, "the outage that the person knows trips it no more");
    site.wait(Duration::from_secs(3_600));
    site.look();
    assert_eq!(trips(&site), 1);
    hold(&mut site, 5);
    assert_eq!(trips(&site), 2, "a new outage does");
}

#[test]
fn the_breaker_trips_at_its_share_and_above_what_may_be_out() {
    let check = |nodes: u32, first: Option<u32>| {
        let mut site = site(nodes);
        let trips = (1..=nodes).find(|n| {
            site.ask(Role::Operator, Action::NodeHold { node: format!("gpu{n:03}"), until: None });
            site.state.guard.breaker_tripped
        });
        assert_eq!(trips, first, "{nodes} nodes");
    };
    check(2, None);
    check(4, Some(3));
    check(8, Some(3));
    check(10, Some(3));
    check(20, Some(6));
    check(64, Some(20));
}

#[test]
fn a_scheduler_that_was_restarted_trips_nothing_and_nodes_that_stay_away_do() {
    let mut site = site(10);
    let silence = |site: &mut Site, silent: bool| {
        site.nodes.values_mut().for_each(|node| node.not_responding = silent);
        site.look();
    };
    silence(&mut site, true);
    assert_eq!(counts(&site.state, site.now).unavailable, 0, "it knows no state yet");
    site.wait(Duration::from_secs(59));
    silence(&mut site, false);
    assert!(!site.state.guard.breaker_tripped);
    silence(&mut site, true);
    site.wait(Duration::from_secs(60));
    assert_eq!(counts(&site.state, site.now).unavailable, 10);
    site.nodes.values_mut().for_each(|node| node.state = "DOWN".to_owned());
    site.look();
    assert!(site.state.guard.breaker_tripped);
}

#[test]
fn a_tripped_breaker_keeps_recovery_queued_but_never_isolation() {
    let mut site = site(10);
    for n in [1, 2, 3] {
        site.ask(Role::Operator, Action::NodeHold { node: format!("gpu{n:03}"), until: None });
    }
    site.xid("gpu009", 79, 0);
    site.carry_out();
    assert!(site.nodes["gpu009"].drain, "isolation with hard evidence goes on inside its budget");
    let run = site.state.executions.values().next().unwrap().clone();
    assert_eq!((run.state, run.why.as_str()), (ExecutionState::Queued, "breaker"));
    // A person's yes makes it no automatic disruption.
    let plan = run.plan.clone();
    let approve = Action::RunApprove { execution: run.id, approve: true, plan };
    assert!(matches!(site.ask(Role::Operator, approve), Reply::Accepted { .. }));
    assert_ne!(site.state.executions[&run.id].state, ExecutionState::Queued);
    // A release is never blocked.
    let hold = site.state.holds_on(site.node("gpu001").id).next().unwrap().id;
    assert!(matches!(site.ask(Role::Operator, Action::HoldRelease { hold }), Reply::Accepted { .. }));
}

#[test]
fn only_so_many_disruptions_run_at_once() {
    let mut site = site(64);
    for n in 1..=3 {
        site.run_job(n, &[(&format!("gpu{n:03}"), &[0, 1])]);
    }
    for n in 1..=3 {
        site.xid(&format!("gpu{n:03}"), 79, 0);
        site.carry_out();
    }
    let states: Vec<(ExecutionState, String)> =
        site.state.executions.values().map(|run| (run.state, run.why.clone())).collect();
    assert_eq!(
        states[2],
        (ExecutionState::Queued, "governor_concurrent_disruptions".to_owned()),
        "{states:?}"
    );
    assert_eq!(counts(&site.state, site.now).disruptions_running, 2);
    // The first two come to their human step; the third is let in.
    for _ in 0..60 {
        site.jobs.iter_mut().for_each(|job| job.state = provost_model::scheduler::JobState::Pending);
        site.nodes.values_mut().for_each(|node| node.busy = false);
        site.look();
        site.carry_out();
        site.wait(Duration::from_secs(1));
    }
    let waiting =
        site.state.executions.values().filter(|run| run.state == ExecutionState::AwaitingHuman).count();
    assert_eq!(waiting, 3);
    assert_eq!(counts(&site.state, site.now).disruptions_running, 0);
}

#[test]
fn a_long_outage_that_a_spare_covers_leaves_the_count() {
    let mut site = site(8);
    site.ask(Role::Operator, Action::NodeHold { node: "gpu001".to_owned(), until: None });
    site.carry_out();
    let unavailable = |site: &Site| counts(&site.state, site.now).unavailable;
    site.wait(Duration::from_secs(25 * 3_600));
    assert_eq!(unavailable(&site), 1, "nothing covers it");
    let slot = site.node("gpu001").slot.unwrap();
    let spare = site.node("gpu008").id;
    site.state.slots.get_mut(&slot).unwrap().spare = Some(spare);
    assert_eq!(unavailable(&site), 0);
    site.now = site.now - Duration::from_secs(2 * 3_600);
    assert_eq!(unavailable(&site), 1, "not longer than 24 h");
}

#[test]
fn a_node_that_is_out_does_not_block_its_own_recovery() {
    let mut site = site(8);
    for n in [1, 2] {
        site.ask(Role::Operator, Action::NodeHold { node: format!("gpu{n:03}"), until: None });
    }
    site.config.governor.breaker_percent = 100;
    site.start();
    site.xid("gpu003", 79, 0);
    site.carry_out();
    // Three of eight are out and two are allowed, but this one is out already.
    let run = site.state.executions.values().next().unwrap();
    assert_eq!(run.state, ExecutionState::Waiting, "{}", run.why);
    assert_eq!(counts(&site.state, site.now).unavailable, 3);
    let mut fresh = run.clone();
    fresh.node = Some(site.node("gpu004").id);
    fresh.id = run.id;
    assert_eq!(super::may_disrupt(&site.state, site.now, &fresh), Err("governor_max_unavailable".to_owned()));
}

/// Eight nodes: the first four in rack `r1` below `leaf-1`, the others in `r2` below `leaf-2`.
fn site_of_two_racks(limit: impl FnOnce(&mut GovernorLimits)) -> Site {
    let mut site = site(8);
    for (i, node) in site.config.inventory.iter_mut().enumerate() {
        let half = if i < 4 { 1 } else { 2 };
        node.rack = Some(format!("r{half}"));
        node.leaf = Some(format!("leaf-{half}"));
    }
    let governor = &mut site.config.governor;
    (governor.isolations_per_window, governor.max_unavailable, governor.concurrent_disruptions) = (8, 8, 8);
    governor.breaker_percent = 100;
    limit(governor);
    site.start();
    site
}

const UNLIMITED: ScopeLimits = ScopeLimits {
    max_unavailable: None,
    max_unavailable_percent: None,
    isolations_per_window: None,
    isolations_percent: None,
    concurrent_disruptions: None,
};

fn for_project(limits: ScopeLimits) -> BTreeMap<String, ScopeLimits> {
    BTreeMap::from([("p".to_owned(), limits), ("absent".to_owned(), limits)])
}

#[test]
fn isolations_stay_inside_the_budget_of_each_part() {
    type Limit = fn(&mut GovernorLimits);
    let check = |limit: Limit, held_of_four: usize, counted: &[(&str, u32, Option<u32>)]| {
        let mut site = site_of_two_racks(limit);
        site.run_job(1, &[("gpu001", &[0]), ("gpu002", &[0]), ("gpu005", &[0])]);
        for node in ["gpu001", "gpu002", "gpu003", "gpu005"] {
            site.xid(node, 79, 0);
            site.carry_out();
        }
        let seen = counts(&site.state, site.now).scopes;
        let seen: Vec<(&str, u32, Option<u32>)> =
            seen.iter().map(|s| (&*s.scope, s.isolations_in_window, s.isolations_max)).collect();
        assert_eq!((held(&site), &*seen), (held_of_four, counted));
    };
    const ONE: ScopeLimits = ScopeLimits { isolations_per_window: Some(1), ..UNLIMITED };
    const HALF: ScopeLimits = ScopeLimits { isolations_percent: Some(50), ..ONE };
    const NONE: ScopeLimits = ScopeLimits { isolations_percent: Some(0), ..UNLIMITED };
    check(|_| {}, 4, &[]);
    check(|limits| limits.rack = ONE, 2, &[("rack:r1", 1, Some(1)), ("rack:r2", 1, Some(1))]);
    check(|limits| limits.leaf = HALF, 3, &[("leaf:leaf-1", 2, Some(2)), ("leaf:leaf-2", 1, Some(2))]);
    check(|limits| limits.leaf = NONE, 0, &[("leaf:leaf-1", 0, Some(0)), ("leaf:leaf-2", 0, Some(0))]);
    // gpu003 runs nothing of the project.
    check(|limits| limits.project = for_project(ONE), 2, &[("project:p", 1, Some(1))]);
    check(
        |limits| (limits.rack, limits.project) = (HALF, for_project(ONE)),
        2,
        &[("project:p", 1, Some(1)), ("rack:r1", 2, Some(2)), ("rack:r2", 0, Some(2))],
    );
}

#[test]
fn a_part_that_has_no_room_keeps_recovery_queued_there_and_nowhere_else() {
    let check = |limit: fn(&mut GovernorLimits), expected: [&str; 3]| {
        let mut site = site_of_two_racks(limit);
        for (n, node) in ["gpu001", "gpu002", "gpu005"].into_iter().enumerate() {
            site.run_job(u32::try_from(n).unwrap() + 1, &[(node, &[0, 1])]);
            site.xid(node, 79, 0);
            site.carry_out();
        }
        let whys: Vec<&str> = site
            .state
            .executions
            .values()
            .map(|run| match run.state {
                ExecutionState::Queued => run.why.as_str(),
                _ => "",
            })
            .collect();
        assert_eq!(whys, expected);
    };
    const ONE: ScopeLimits = ScopeLimits { concurrent_disruptions: Some(1), ..UNLIMITED };
    check(|_| {}, ["", "", ""]);
    check(|limits| limits.rack = ONE, ["", "governor_concurrent_disruptions:rack:r1", ""]);
    check(
        |limits| limits.project = for_project(ONE),
        ["", "governor_concurrent_disruptions:project:p", "governor_concurrent_disruptions:project:p"],
    );
    // They are out already, so that recovering them takes nothing more away.
    check(|limits| limits.rack = ScopeLimits { max_unavailable: Some(0), ..UNLIMITED }, ["", "", ""]);
}

#[test]
fn what_is_out_in_a_part_counts_there() {
    let mut site = site_of_two_racks(|limits| {
        limits.leaf = ScopeLimits { max_unavailable: Some(1), ..UNLIMITED };
    });
    site.xid("gpu001", 79, 0);
    site.carry_out();
    let mut run = site.state.executions.values().next().unwrap().clone();
    let mut check = |node: &str, expected: Result<(), String>| {
        run.node = Some(site.node(node).id);
        assert_eq!(super::may_disrupt(&site.state, site.now, &run), expected, "{node}");
    };
    check("gpu001", Ok(()));
    check("gpu004", Err("governor_max_unavailable:leaf:leaf-1".to_owned()));
    check("gpu005", Ok(()));
}
