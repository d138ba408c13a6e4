//! Whatever happens, in whatever order: nothing waits without a reason, and the records tell it all.

use std::time::Duration;

use proptest::prelude::*;
use provost_model::effect::EffectResult;
use provost_model::input::Action;
use provost_model::policy::{Mode, ModeScope, Role};
use provost_model::runbook::{ExecutionState, StepState};

use super::{answers, follow_jobs, site};
use crate::runbook::cause;
use crate::state::{Outstanding, State, TimerKey};
use crate::testing::Site;
use crate::testing::executor::not_done;
use crate::{apply, outstanding};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Happening {
    Fault { node: u8, gpu: u8, code: u32 },
    Job { node: u8, gpu: u8, requeue: bool },
    Result { nth: usize, kind: u8 },
    CarryOut,
    Poll,
    Wait(u32),
    Ask(u8),
    Guard(bool),
    Mode(u8),
    Restart,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        2 => (1u8..4, 0u8..3, prop_oneof![Just(79u32), Just(31), Just(95), Just(48), Just(63), Just(154), Just(74)])
            .prop_map(|(node, gpu, code)| Happening::Fault { node, gpu, code }),
        1 => (1u8..4, 0u8..3, any::<bool>())
            .prop_map(|(node, gpu, requeue)| Happening::Job { node, gpu, requeue }),
        4 => (any::<usize>(), 0u8..4).prop_map(|(nth, kind)| Happening::Result { nth, kind }),
        6 => Just(Happening::CarryOut),
        3 => Just(Happening::Poll),
        6 => prop_oneof![Just(1u32), Just(15), Just(90), Just(3_700)].prop_map(Happening::Wait),
        4 => (0u8..8).prop_map(Happening::Ask),
        1 => any::<bool>().prop_map(Happening::Guard),
        1 => (0u8..3).prop_map(Happening::Mode),
        1 => Just(Happening::Restart),
    ]
}

fn happen(site: &mut Site, what: &Happening) {
    match what {
        Happening::Fault { node, gpu, code } => {
            site.xid(&format!("gpu{node:03}"), *code, u32::from(*gpu));
        }
        Happening::Job { node, gpu, requeue } => {
            let id = u32::try_from(site.jobs.len()).unwrap() + 1;
            site.run_job(id, &[(&format!("gpu{node:03}"), &[u32::from(*gpu)])]);
            site.jobs.last_mut().unwrap().requeue = *requeue;
            site.look();
        }
        Happening::Result { nth, kind } => {
            let orders: Vec<Outstanding> = outstanding(&site.state).collect();
            let Some(order) = orders.get(nth % orders.len().max(1)) else { return };
            let result = match kind {
                0 => not_done("refused", false),
                1 => not_done("failed", true),
                2 => EffectResult::Unknown { code: "timeout".to_owned() },
                _ => EffectResult::Done { observed: String::new(), notes: vec![] },
            };
            site.answer(order, result);
        }
        Happening::CarryOut => drop(site.carry_out_once()),
        Happening::Poll => follow_jobs(site),
        Happening::Wait(seconds) => drop(site.wait(Duration::from_secs(u64::from(*seconds)))),
        Happening::Ask(what) => ask(site, *what),
        Happening::Guard(stop) => {
            site.ask(Role::Operator, if *stop { Action::GuardStop } else { Action::GuardStart });
        }
        Happening::Mode(mode) => {
            let mode = [Mode::Observe, Mode::Advise, Mode::Act][usize::from(*mode)];
            site.ask(Role::Admin, Action::ModeSet { scope: ModeScope::Site, mode: Some(mode) });
        }
        Happening::Restart => drop(site.start()),
    }
}

/// A person does something about an execution that is open.
fn ask(site: &mut Site, what: u8) {
    let Some(run) = site.state.open_executions.first().map(|id| site.state.executions[id].clone()) else {
        return;
    };
    let execution = run.id;
    let action = match what {
        0 => Action::RunPause { execution },
        1 => Action::RunResume { execution },
        2 => Action::RunRetry { execution },
        3 => Action::RunSkip { execution },
        4 => Action::RunAbort { execution },
        5 => Action::RunApprove { execution, approve: true, plan: run.plan },
        _ => {
            let (step, outcome) = match run.runbook.as_str() {
                "gpu-lost" => ("repair", "reseated"),
                "gpu-fault-unclassified" => ("decide", "reset"),
                _ => ("by_hand", "reset"),
            };
            let answers = answers(&[("outcome", outcome)]);
            Action::RunAnswer { execution, step: step.to_owned(), answers }
        }
    };
    site.ask(Role::Operator, action);
}

fn check(site: &Site) {
    for run in site.state.executions.values() {
        let open = site.state.open_executions.contains(&run.id);
        assert_eq!(open, !run.state.is_final());
        assert!(!run.why.is_empty());
        let timer = site.state.timers.get(&TimerKey::Execution(run.id)).is_some();
        let intents = cause::has_open_intents(&site.state, run);
        match run.state {
            // A deadline or an answer to come; an undo also waits for the gate that `why` names.
            ExecutionState::Running | ExecutionState::Waiting => assert!(timer || intents, "{run:#?}"),
            ExecutionState::Compensating => {
                let gated = ["guard_stopped", "mode_observe", "mode_advise"].contains(&run.why.as_str());
                assert!(timer || intents || gated, "{run:#?}");
            }
            ExecutionState::Queued => {
                let names = run.why.starts_with("lock:")
                    || ["guard_stopped", "mode_observe", "mode_advise", "breaker"]
                        .contains(&run.why.as_str())
                    || run.why.starts_with("governor_");
                assert!(names, "{run:#?}");
            }
            ExecutionState::Paused => {
                let names = ["person", "guard_stopped", "mode_observe", "mode_advise"];
                assert!(names.contains(&run.why.as_str()), "{run:#?}");
            }
            // A person's.
            ExecutionState::AwaitingApproval
            | ExecutionState::AwaitingHuman
            | ExecutionState::NeedsOperator => {}
            ExecutionState::Proposed => panic!("nothing stays proposed: {run:#?}"),
            ExecutionState::Succeeded => {
                assert!(!timer);
                for step in &run.steps {
                    let settled =
                        matches!(step.state, StepState::Succeeded | StepState::Skipped | StepState::Failed);
                    assert!(settled, "{run:#?}");
                    let visible = step.state != StepState::Failed || run.why == "done_with_failures";
                    assert!(visible, "{run:#?}");
                }
            }
            ExecutionState::RolledBack | ExecutionState::Cancelled => assert!(!timer),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_waits_without_a_reason(story in prop::collection::vec(happening(), 1..80)) {
        let mut site = site();
        for what in &story {
            happen(&mut site, what);
            check(&site);
        }
        let mut state = State::new("test");
        for record in &site.records {
            apply(&mut state, record);
        }
        prop_assert!(state == site.state, "the fold of the records differs");
    }
}
