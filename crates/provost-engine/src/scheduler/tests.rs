//! What a scheduler says is folded once, and silence in its answer is not an ending.

use std::collections::BTreeMap;
use std::time::Duration;

use provost_model::body::{Body, ReasonOwner};
use provost_model::fleet::Phase;
use provost_model::input::{Action, Input, Reply};
use provost_model::policy::Role;
use provost_model::scheduler::{JobState, ObservedNode};

use super::{mark_in, view_of};
use crate::outstanding;
use crate::testing::Site;

#[test]
fn whose_a_reason_is() {
    let check = |reason: &str, expected| {
        let seen = ObservedNode { reason: reason.to_owned(), ..ObservedNode::default() };
        assert_eq!(view_of(&seen).reason, expected, "{reason:?}");
    };
    check("", ReasonOwner::None);
    check("provost INC-2026-000001: GPU 3 lost", ReasonOwner::Ours);
    check("provost hold: held by an operator", ReasonOwner::Ours);
    check("provost", ReasonOwner::Foreign);
    check("Provost INC-1", ReasonOwner::Foreign);
    check("dimm", ReasonOwner::Foreign);
    check("see provost INC-1", ReasonOwner::Foreign);
}

#[test]
fn our_mark_in_a_comment() {
    let id = "hold_00000000-0000-8000-8000-000000000000";
    let check = |comment: &str, marked: bool| assert_eq!(mark_in(comment).is_some(), marked, "{comment:?}");
    check(&format!("provost:{id}"), true);
    check(&format!("provost:{id} rack 7"), true);
    check(&format!("rack 7 provost:{id}"), false);
    check("", false);
    check("provost:", false);
    check("provost:hold_x", false);
    check(&format!("notprovost:{id}"), false);
}

#[test]
fn a_scheduler_that_says_the_same_leaves_no_record() {
    let mut site = Site::new(4);
    site.run_job(1, &[("gpu001", &[0])]);
    for _ in 0..3 {
        assert_eq!(site.look(), Vec::<&str>::new());
    }
}

#[test]
fn first_contact() {
    let check = |partitions: &[&str], drain: bool, expected: (Phase, Option<&[&str]>, usize)| {
        let mut site = Site::new(1);
        let seen = ObservedNode {
            drain,
            reason: if drain { "dimm".to_owned() } else { String::new() },
            partitions: partitions.iter().map(|name| (*name).to_owned()).collect(),
            ..ObservedNode::default()
        };
        site.nodes.insert("new".to_owned(), seen);
        site.look();
        site.carry_out();
        let node = site.node("new");
        let shape: Option<Vec<&str>> =
            node.slot.map(|id| site.state.slots[&id].partitions.iter().map(String::as_str).collect());
        let holds = site.state.holds_on(node.id).count();
        assert_eq!((node.phase, shape.as_deref(), holds), expected, "{partitions:?} {drain}");
        assert_eq!(site.nodes["new"].comment, "", "nothing is written to it");
    };
    check(&["batch"], false, (Phase::InService, Some(&["batch"]), 0));
    check(&["batch", "debug"], false, (Phase::InService, Some(&["batch"]), 0));
    check(&["debug"], false, (Phase::InService, None, 0));
    check(&["spare"], false, (Phase::Spare, None, 0));
    check(&["batch"], true, (Phase::InService, Some(&["batch"]), 1));
    check(&["spare"], true, (Phase::Spare, None, 1));
}

#[test]
fn the_inventory_says_who_a_node_is() {
    let site = Site::new(1);
    let node = site.node("gpu001");
    assert_eq!((node.serial.as_deref(), node.gpus.len()), (Some("SN-gpu001"), 8));
}

#[test]
fn a_node_of_the_same_name_in_another_cluster_is_another_node() {
    let mut site = Site::new(1);
    let Input::Observed(mut seen) = site.observation() else { unreachable!() };
    seen.cluster = "other".to_owned();
    site.feed(Input::Observed(seen));
    assert_eq!(site.state.nodes.len(), 2);
    assert!(site.state.node_by_name("other/gpu001").is_some());
}

#[test]
fn what_an_answer_does_not_list_is_gone_only_when_the_answer_is_whole() {
    let check = |unparsed: u64, listed: usize, gone: bool| {
        let mut site = Site::new(3);
        site.now = site.now + Duration::from_secs(5);
        let Input::Observed(mut seen) = site.observation() else { unreachable!() };
        seen.unparsed = unparsed;
        seen.nodes = seen.nodes.into_iter().take(listed).collect();
        site.feed(Input::Observed(seen));
        assert_eq!(site.node("gpu003").observed.is_none(), gone, "{unparsed} unparsed, {listed} listed");
    };
    check(0, 3, false);
    check(0, 2, true);
    check(1, 2, false);
    check(0, 0, false);
}

#[test]
fn a_reasons_text_is_sealed_and_its_owner_is_not() {
    let mut site = Site::new(1);
    let seen = site.nodes.get_mut("gpu001").unwrap();
    (seen.drain, seen.reason) = (true, "Maria broke it".to_owned());
    site.look();
    let record = site.records.iter().find(|record| !record.sealed.is_empty()).unwrap();
    assert_eq!(record.sealed[0].field, "reason");
    let text = String::from_utf8(record.canonical().unwrap()).unwrap();
    assert!(!text.contains("Maria") && text.contains("foreign"), "{text}");
    assert!(
        !serde_json::to_string(&site.state.holds.values().collect::<Vec<_>>()).unwrap().contains("Maria")
    );
}

#[test]
fn jobs_are_followed_while_somebody_may_ask() {
    let mut site = Site::new(2);
    let key = site.run_job(7, &[("gpu001", &[0, 1])]);
    let id = site.node("gpu001").id;
    assert_eq!(site.state.jobs_on(id).count(), 1);
    // It ends: it holds nothing, but where it ran stays known for a while.
    site.jobs[0].state = JobState::Failed;
    site.jobs[0].ended_at = Some(site.now);
    (site.jobs[0].nodes, site.jobs[0].gpus) = (Vec::new(), BTreeMap::new());
    site.look();
    assert_eq!(site.state.jobs_on(id).count(), 0);
    assert_eq!(site.state.jobs[&key].nodes.len(), 1);
    site.jobs.clear();
    site.now = site.now + site.config.timers.failed_job.0 - Duration::from_secs(1);
    site.look();
    assert!(site.state.jobs.contains_key(&key));
    site.now = site.now + Duration::from_secs(2);
    assert_eq!(site.look(), ["job.forgotten"]);
    assert!(site.state.jobs.is_empty());
}

#[test]
fn a_job_that_vanishes_is_unknown_and_then_forgotten() {
    let mut site = Site::new(2);
    let key = site.run_job(7, &[("gpu001", &[0])]);
    let jobs = std::mem::take(&mut site.jobs);
    site.look();
    assert_eq!(site.state.jobs[&key].state, JobState::Unknown);
    assert_eq!(site.state.jobs[&key].ended_at, None, "how and when it ended is not said");
    site.look();
    assert!(site.state.jobs.is_empty());
    // The same JobId with another submit time is another job.
    site.jobs = jobs;
    site.jobs[0].key.submitted_at = site.now;
    site.look();
    assert_eq!(site.state.jobs.len(), 1);
    assert!(!site.state.jobs.contains_key(&key));
}

#[test]
fn jobs_that_never_held_a_node_are_not_followed() {
    let mut site = Site::new(2);
    site.run_job(7, &[("gpu001", &[0])]);
    let mut waiting = site.jobs[0].clone();
    (waiting.key.id, waiting.state, waiting.nodes) = (8, JobState::Pending, Vec::new());
    site.jobs.push(waiting);
    assert_eq!(site.look(), Vec::<&str>::new());
}

#[test]
fn a_person_requeues_a_job() {
    let check = |change: &dyn Fn(&mut Site), name: &str, expected: &str| {
        let mut site = Site::new(2);
        site.run_job(7, &[("gpu001", &[0])]);
        change(&mut site);
        site.look();
        let reply = match site.ask(Role::Operator, Action::JobRequeue { job: name.to_owned() }) {
            Reply::Accepted { .. } => "accepted".to_owned(),
            Reply::NotFound { .. } => "not_found".to_owned(),
            Reply::Conflict { code, .. } => code,
            other => format!("{other:?}"),
        };
        assert_eq!(reply, expected, "{name}");
        assert_eq!(outstanding(&site.state).count(), usize::from(expected == "accepted"));
    };
    check(&|_| {}, "slurm:main:7@2026-11-30T19:00:00.000Z", "accepted");
    check(&|_| {}, "slurm:main:7", "accepted");
    check(&|_| {}, "7", "accepted");
    check(&|_| {}, "8", "not_found");
    check(&|site| site.jobs[0].requeue = false, "7", "not_requeueable");
    check(
        &|site| site.jobs[0].state = JobState::Pending,
        "slurm:main:7@2026-11-30T19:00:00.000Z",
        "not_running",
    );
}

#[test]
fn records_of_a_poll_name_the_scheduler() {
    let mut site = Site::new(1);
    site.run_job(7, &[("gpu001", &[0])]);
    let job = site.records.iter().find(|record| matches!(record.body, Body::JobObserved(_))).unwrap();
    assert_eq!(job.actor.sub, "slurm:main");
}
