//! Every step broken in every way, and a controller that dies at every moment.

use std::time::Duration;

use provost_model::body::{Body, Purpose};
use provost_model::effect::{Approach, Effect, EffectResult};
use provost_model::response::AlertState;
use provost_model::runbook::{ExecutionState, StepState};

use super::{follow_jobs, repaired, run, site, step};
use crate::state::{Outstanding, State};
use crate::testing::Site;
use crate::testing::executor::not_done;
use crate::{apply, outstanding};

/// How an effect is broken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Breakage {
    /// Certainly not done, and no use to try again.
    Refused,
    /// Certainly not done, each time.
    FailsAlways,
    /// Nobody ever knows.
    Unknown,
    /// No answer ever comes.
    Hangs,
    /// The first answer is lost; the probe says that it is done.
    AnswerLost,
    /// Not done the first time; the next attempt works.
    FailsOnce,
}

fn broken_by(how: Breakage, order: &Outstanding, first: bool) -> Option<Option<EffectResult>> {
    let unknown = || EffectResult::Unknown { code: "timeout".to_owned() };
    match how {
        Breakage::Refused => Some(Some(not_done("refused", false))),
        Breakage::FailsAlways => Some(Some(not_done("failed", true))),
        Breakage::Unknown => Some(Some(unknown())),
        Breakage::Hangs => Some(None),
        Breakage::AnswerLost if order.approach == Approach::Act => Some(Some(unknown())),
        Breakage::FailsOnce if first => Some(Some(not_done("failed", true))),
        Breakage::AnswerLost | Breakage::FailsOnce => None,
    }
}

/// The step that an intent is for; containment and slots work for the release and the return.
fn step_of(site: &Site, order: &Outstanding) -> &'static str {
    match &site.state.effects[&order.intent].requested.purpose {
        Purpose::Step { step, .. } => {
            ["collect", "requeue", "spare", "drain", "revalidate"].into_iter().find(|id| id == step).unwrap()
        }
        Purpose::Slot { .. } => "return_spare",
        Purpose::Containment { .. } if matches!(order.effect, Effect::SchedulerRelease { .. }) => "release",
        _ => "containment",
    }
}

/// Walks on, with one step broken, until nothing but a person can change anything.
fn walk(broken: &str, how: Breakage) -> Site {
    let mut site = site();
    site.run_job(1, &[("gpu001", &[3])]);
    site.xid("gpu001", 79, 3);
    let mut first = true;
    for _ in 0..900 {
        let orders: Vec<Outstanding> = outstanding(&site.state).collect();
        for order in orders {
            let instead = if step_of(&site, &order) == broken { broken_by(how, &order, first) } else { None };
            first &= step_of(&site, &order) != broken;
            match instead {
                Some(None) => {}
                Some(Some(result)) => {
                    if how == Breakage::AnswerLost {
                        site.perform(&order);
                    }
                    site.answer(&order, result);
                }
                None => {
                    let result = site.perform(&order);
                    site.answer(&order, result);
                }
            }
        }
        follow_jobs(&mut site);
        match run(&site).state {
            ExecutionState::AwaitingHuman => repaired(&mut site),
            ExecutionState::NeedsOperator => return site,
            state if state.is_final() => return site,
            _ => drop(site.wait(Duration::from_secs(20))),
        }
    }
    panic!("{broken} {how:?}: no rest: {:?} {} {:#?}", run(&site).state, run(&site).why, run(&site).steps);
}

#[test]
fn a_broken_step_ends_at_a_person_or_goes_on_visibly() {
    use Breakage::{AnswerLost, FailsAlways, FailsOnce, Hangs, Refused, Unknown};
    let check = |broken: &str, how: Breakage, expected: (ExecutionState, &str)| {
        let site = walk(broken, how);
        let run = run(&site);
        assert_eq!((run.state, run.why.as_str()), expected, "{broken} {how:?}: {:#?}", run.steps);
        if run.state == ExecutionState::NeedsOperator {
            assert!(site.nodes["gpu001"].drain, "{broken} {how:?}: the isolation is kept");
        }
        let tested = step(&site, "revalidate").state == StepState::Succeeded;
        let over = site.alert("xid.79").state == AlertState::Resolved;
        assert_eq!(tested, over, "{broken} {how:?}: only a test ends the fault");
    };
    let goes_on = (ExecutionState::Succeeded, "done_with_failures");
    let verified = (ExecutionState::Succeeded, "verified");
    let person = |why| (ExecutionState::NeedsOperator, why);
    for how in [Refused, FailsAlways, Unknown, Hangs] {
        check("collect", how, goes_on);
        check("spare", how, goes_on);
    }
    for step in ["collect", "requeue", "spare", "drain", "revalidate", "release", "return_spare"] {
        check(step, AnswerLost, verified);
        check(step, FailsOnce, verified);
    }
    check("requeue", Refused, person("requeue:requeue_failed:refused"));
    check("requeue", FailsAlways, person("requeue:requeue_failed:failed"));
    check("requeue", Unknown, person("requeue:unknown"));
    check("requeue", Hangs, person("requeue:unknown"));
    check("drain", Refused, person("drain:step_processes_left"));
    check("drain", FailsAlways, person("drain:step_processes_left"));
    check("drain", Hangs, person("drain:unknown"));
    check("revalidate", Refused, person("revalidate:refused"));
    check("revalidate", FailsAlways, person("revalidate:failed"));
    check("revalidate", Unknown, person("revalidate:unknown"));
    check("revalidate", Hangs, person("revalidate:unknown"));
    for how in [Refused, FailsAlways, Unknown, Hangs] {
        check("release", how, person("release:timeout"));
        check("return_spare", how, goes_on);
    }
}

#[test]
fn a_late_answer_of_a_probe_goes_on_by_itself() {
    let mut site = walk("revalidate", Breakage::Hangs);
    assert_eq!(run(&site).why, "revalidate:unknown");
    let order = outstanding(&site.state).next().unwrap();
    assert_eq!(order.approach, Approach::Probe);
    site.answer(&order, EffectResult::Done { observed: "passed".to_owned(), notes: vec![] });
    assert_eq!(step(&site, "revalidate").why, "validated");
    assert_eq!(run(&site).why, "soak");
}

/// An agent that remembers what it has run, as it must over a lost connection.
#[derive(Default)]
struct Agent {
    log: Vec<u64>,
}

impl Agent {
    fn perform(&mut self, site: &mut Site, order: &Outstanding) -> EffectResult {
        if !matches!(order.effect, Effect::AgentAction { .. }) {
            return site.perform(order);
        }
        let known = self.log.contains(&order.intent);
        match order.approach {
            Approach::Act => {
                assert!(!known, "intent {} acts twice", order.intent);
                self.log.push(order.intent);
            }
            Approach::Probe if !known => return not_done("not_run", true),
            Approach::Probe => {}
        }
        EffectResult::Done { observed: "ok".to_owned(), notes: vec![] }
    }
}

/// Walks to the end; the controller dies before or after it carries out the `n`th thing. Gives the site and
/// whether there was an `n`th.
fn walk_killed(n: usize, after: bool) -> (Site, bool) {
    let mut site = site();
    let mut agent = Agent::default();
    site.run_job(1, &[("gpu001", &[3])]);
    site.xid("gpu001", 79, 3);
    let mut done = 0;
    let mut killed = false;
    for _ in 0..400 {
        loop {
            let next = outstanding(&site.state).next();
            let Some(order) = next else { break };
            let dies = done == n && !killed;
            done += 1;
            if dies {
                if after {
                    agent.perform(&mut site, &order);
                }
                killed = true;
                site.start();
                continue;
            }
            let result = agent.perform(&mut site, &order);
            site.answer(&order, result);
        }
        follow_jobs(&mut site);
        match run(&site).state {
            ExecutionState::AwaitingHuman => repaired(&mut site),
            state if state.is_final() => return (site, killed),
            ExecutionState::NeedsOperator => break,
            _ => drop(site.wait(Duration::from_secs(5))),
        }
    }
    panic!("killed at {n}, after {after}: {:?} {} {:#?}", run(&site).state, run(&site).why, run(&site).steps);
}

#[test]
fn a_controller_that_dies_anywhere_comes_to_the_same_end() {
    for after in [false, true] {
        for n in 0.. {
            let (site, killed) = walk_killed(n, after);
            if !killed {
                assert!(n > 7, "the walk has more effects than {n}");
                break;
            }
            assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Succeeded, "verified"));
            assert!(!site.nodes["gpu001"].drain);
            let requeues = site.jobs.iter().map(|job| job.restarts).collect::<Vec<_>>();
            assert_eq!(requeues, [1], "killed at {n}, after {after}");
            replays(&site);
        }
    }
}

/// The records alone give the same State.
fn replays(site: &Site) {
    let mut state = State::new("test");
    for record in &site.records {
        apply(&mut state, record);
    }
    assert!(state == site.state, "the fold of the records differs");
}

#[test]
fn what_was_given_up_is_voided_and_nobody_acts_on_it() {
    let site = walk("collect", Breakage::Hangs);
    let voided = site.bodies(|body| if let Body::EffectVoided(data) = body { Some(data) } else { None });
    assert_eq!(voided.len(), 1);
    assert_eq!(voided[0].why, "step_given_up");
    assert!(!outstanding(&site.state).any(|order| order.intent == voided[0].intent));
}
