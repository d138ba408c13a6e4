//! What people may ask of an execution, and what they may not.

use std::time::Duration;

use provost_model::body::Body;
use provost_model::input::{Action, Reply};
use provost_model::policy::Role;
use provost_model::runbook::{AnswerKind, ExecutionState, Question, Risk, Runbook, StepState};

use super::{answer, answers, go, repaired, run, runbooks, site, site_with, step};
use crate::lifecycle;
use crate::runbook::answer::check;
use crate::testing::Site;

fn code(reply: &Reply) -> &str {
    match reply {
        Reply::Accepted { .. } => "accepted",
        Reply::Already => "already",
        Reply::Forbidden { .. } => "forbidden",
        Reply::NotFound { .. } => "not_found",
        Reply::Conflict { code, .. } => code,
        Reply::Invalid { field, .. } => field,
        Reply::Guarded { .. } => "guarded",
    }
}

/// A lost GPU that waits for its technician.
fn at_repair() -> Site {
    let mut site = site();
    site.xid("gpu001", 79, 3);
    go(&mut site);
    site
}

#[test]
fn answers_are_typed() {
    let question = |kind, required| Question {
        kind,
        required,
        choices: if kind == AnswerKind::Choice { vec!["a".into(), "b".into()] } else { vec![] },
    };
    let one = |kind, given: &str| {
        let ask = [("f".to_owned(), question(kind, true))].into();
        check(&ask, &answers(&[("f", given)])).map(|a| (a.plain.get("f").cloned(), a.text)).map_err(|e| e.0)
    };
    let plain = |text: &str| Ok((Some(text.to_owned()), String::new()));
    let wrong = || Err("f".to_owned());
    assert_eq!(one(AnswerKind::Choice, " a "), plain("a"));
    assert_eq!(one(AnswerKind::Choice, "c"), wrong());
    assert_eq!(one(AnswerKind::Choice, ""), wrong());
    assert_eq!(one(AnswerKind::Boolean, "true"), plain("true"));
    assert_eq!(one(AnswerKind::Boolean, "yes"), wrong());
    assert_eq!(one(AnswerKind::Integer, "-12"), plain("-12"));
    assert_eq!(one(AnswerKind::Integer, "9007199254740992"), wrong());
    assert_eq!(one(AnswerKind::Integer, "1.5"), wrong());
    assert_eq!(one(AnswerKind::Serial, "1650-A_b.c:9"), plain("1650-A_b.c:9"));
    assert_eq!(one(AnswerKind::Serial, "a b"), wrong());
    assert_eq!(one(AnswerKind::Serial, &"x".repeat(65)), wrong());
    assert_eq!(one(AnswerKind::Text, "dust\nin the slot"), Ok((None, "f: dust\nin the slot\n".to_owned())));
    assert_eq!(one(AnswerKind::Text, "\u{1b}[31m"), wrong());
    assert_eq!(one(AnswerKind::Text, &"x".repeat(2_001)), wrong());
    let optional = [("f".to_owned(), question(AnswerKind::Text, false))].into();
    assert!(check(&optional, &answers(&[])).is_ok());
    assert_eq!(check(&optional, &answers(&[("g", "x")])).unwrap_err().0, "g");
}

#[test]
fn a_human_step_takes_what_fits_and_seals_free_text() {
    let mut site = at_repair();
    assert_eq!(code(&answer(&mut site, &[])), "outcome");
    assert_eq!(code(&answer(&mut site, &[("outcome", "exorcised")])), "outcome");
    assert_eq!(code(&answer(&mut site, &[("outcome", "replaced"), ("mood", "good")])), "mood");
    let execution = run(&site).id;
    let other = Action::RunAnswer { execution, step: "drain".to_owned(), answers: answers(&[]) };
    assert_eq!(code(&site.ask(Role::Operator, other)), "not_awaiting_answer");
    let given = [("outcome", "replaced"), ("new_serial", "SN-9"), ("note", "Mrs Miller of bay 3 helped")];
    assert_eq!(code(&answer(&mut site, &given)), "accepted");
    assert_eq!(step(&site, "repair").result.as_deref(), Some("new_serial: SN-9, outcome: replaced"));
    let record = site.records.iter().find(|record| matches!(record.body, Body::HumanAnswered(_))).unwrap();
    assert!(record.sealed.iter().any(|sealed| sealed.field == "answer"));
    let plain = serde_json::to_string(&site.records).unwrap()
        + &serde_json::to_string(&site.state.executions.values().collect::<Vec<_>>()).unwrap();
    assert!(!plain.contains("Miller"));
    assert_eq!(code(&answer(&mut site, &given)), "not_awaiting_answer", "once");
}

/// `repair` asks for this role; who answers, and what comes of it.
fn answered_by(asked: &str, role: Role) -> Site {
    let with_role = |(version, mut runbook): (String, Runbook)| {
        for human in runbook.steps.iter_mut().filter_map(|step| step.human.as_mut()) {
            human.role = asked.to_owned();
        }
        (version, runbook)
    };
    let mut site =
        site_with(runbooks().into_iter().map(with_role).collect(), &["evidence", "no_steps", "validate"]);
    site.xid("gpu001", 79, 3);
    go(&mut site);
    let execution = run(&site).id;
    let answers = answers(&[("outcome", "reseated")]);
    let reply = site.ask(role, Action::RunAnswer { execution, step: "repair".to_owned(), answers });
    let denied = site.records.iter().find(|record| record.kind() == "command.denied");
    match code(&reply) {
        "accepted" => assert!(denied.is_none()),
        "forbidden" => {
            let denied = denied.expect("a refusal is recorded");
            assert!(matches!(&denied.body, Body::CommandDenied(body) if body.code == "forbidden"));
            assert!(denied.decision.as_ref().is_some_and(|decision| !decision.allow));
            assert_eq!(run(&site).state, ExecutionState::AwaitingHuman);
            assert!(step(&site, "repair").result.is_none());
        }
        other => panic!("{other}"),
    }
    site
}

#[test]
fn a_human_step_is_answered_by_whom_it_asks_for() {
    let check = |asked: &str, expected: [bool; 4]| {
        for (role, expected) in
            [Role::Viewer, Role::Service, Role::Operator, Role::Admin].into_iter().zip(expected)
        {
            let site = answered_by(asked, role);
            let accepted = run(&site).state != ExecutionState::AwaitingHuman;
            assert_eq!(accepted, expected, "{asked} by {}", role.name());
        }
    };
    check("operator", [false, false, true, true]);
    check("technician", [false, false, true, true]);
    check("admin", [false, false, false, true]);
    // The word of a runbook that an older version accepted.
    check("sorcerer", [false, false, false, true]);
}

#[test]
fn an_answer_that_does_not_come_is_overdue_and_stays_asked_for() {
    let mut site = at_repair();
    site.wait(Duration::from_secs(4 * 86_400));
    assert_eq!(
        (run(&site).state, run(&site).why.as_str()),
        (ExecutionState::AwaitingHuman, "overdue:repair")
    );
    repaired(&mut site);
    assert_ne!(run(&site).state, ExecutionState::AwaitingHuman);
}

#[test]
fn a_pause_takes_effect_between_steps() {
    let mut site = site();
    site.xid("gpu001", 79, 3);
    let execution = run(&site).id;
    assert_eq!(code(&site.ask(Role::Operator, Action::RunPause { execution })), "accepted");
    assert_eq!(code(&site.ask(Role::Operator, Action::RunPause { execution })), "already");
    assert_eq!(run(&site).state, ExecutionState::Running, "the step is finished first");
    site.carry_out();
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Paused, "person"));
    assert_eq!(step(&site, "collect").state, StepState::Succeeded);
    // A restart changes nothing.
    site.start();
    assert_eq!(run(&site).state, ExecutionState::Paused);
    assert_eq!(code(&site.ask(Role::Operator, Action::RunResume { execution })), "accepted");
    assert_eq!(code(&site.ask(Role::Operator, Action::RunResume { execution })), "already");
    go(&mut site);
    assert_eq!(run(&site).state, ExecutionState::AwaitingHuman);
    // Asked for while a person is asked: the next step does not begin.
    site.ask(Role::Operator, Action::RunPause { execution });
    assert_eq!(run(&site).why, "human:repair", "what it waits for stays visible");
    repaired(&mut site);
    assert_eq!(run(&site).state, ExecutionState::Paused);
    assert_eq!(step(&site, "revalidate").state, StepState::Pending);
}

#[test]
fn a_failed_step_is_tried_again_skipped_or_given_up_by_a_person() {
    let failed = || {
        let mut site = site_with(runbooks(), &["evidence"]);
        site.xid("gpu001", 79, 3);
        go(&mut site);
        repaired(&mut site);
        go(&mut site);
        assert_eq!(run(&site).why, "revalidate:not_configured");
        let execution = run(&site).id;
        (site, execution)
    };
    let (mut site, execution) = failed();
    super::report(&mut site, &["validate"]);
    assert_eq!(code(&site.ask(Role::Operator, Action::RunRetry { execution })), "accepted");
    assert_eq!(step(&site, "revalidate").attempts, 2, "attempts are counted on");
    go(&mut site);
    assert_eq!(run(&site).state, ExecutionState::Succeeded);

    let (mut site, execution) = failed();
    assert_eq!(code(&site.ask(Role::Operator, Action::RunSkip { execution })), "accepted");
    go(&mut site);
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Succeeded, "done_with_skips"));

    // Past the point of no return nothing is undone.
    let (mut site, execution) = failed();
    assert_eq!(code(&site.ask(Role::Operator, Action::RunAbort { execution })), "accepted");
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Cancelled, "aborted"));
    assert!(site.nodes["gpu001"].drain);
    for action in [
        Action::RunRetry { execution },
        Action::RunSkip { execution },
        Action::RunAbort { execution },
        Action::RunPause { execution },
        Action::RunResume { execution },
    ] {
        assert_eq!(code(&site.ask(Role::Operator, action)), "execution_over");
    }
}

#[test]
fn a_node_that_came_back_again_and_again_is_released_by_a_person() {
    let mut site = site();
    let come_back = |site: &mut Site, gpu: u32| {
        site.wait(Duration::from_secs(660));
        site.xid("gpu001", 79, gpu);
        go(site);
        repaired(site);
        go(site);
        (run(site).state, site.nodes["gpu001"].drain)
    };
    for gpu in 0..5 {
        assert_eq!(come_back(&mut site, gpu), (ExecutionState::Succeeded, false), "time {gpu}");
    }
    assert_eq!(come_back(&mut site, 5), (ExecutionState::NeedsOperator, true));
    assert_eq!(run(&site).why, "release:returned_too_often");
    let score = |site: &Site| lifecycle::lemon_score(site.node("gpu001"), site.now);
    assert_eq!(score(&site), 60, "six critical faults");
    let execution = run(&site).id;
    assert_eq!(code(&site.ask(Role::Operator, Action::RunRetry { execution })), "accepted");
    go(&mut site);
    assert_eq!((run(&site).state, site.nodes["gpu001"].drain), (ExecutionState::Succeeded, false));

    site.wait(Duration::from_secs(7 * 86_400));
    assert_eq!(come_back(&mut site, 6), (ExecutionState::Succeeded, false), "a week later it counts anew");
    site.wait(Duration::from_secs(24 * 86_400));
    assert_eq!(score(&site), 10, "the last one is of the last 30 days");
}

#[test]
fn only_a_stuck_step_is_decided_about() {
    let mut site = at_repair();
    let execution = run(&site).id;
    assert_eq!(code(&site.ask(Role::Operator, Action::RunRetry { execution })), "needs_no_operator");
    assert_eq!(code(&site.ask(Role::Operator, Action::RunSkip { execution })), "needs_no_operator");
    assert_eq!(code(&site.ask(Role::Viewer, Action::RunAbort { execution })), "forbidden");
}

#[test]
fn starting() {
    let mut site = at_repair();
    let start = |runbook: &str, incident: &str| Action::RunStart {
        runbook: runbook.into(),
        incident: incident.into(),
    };
    let mut check = |runbook, incident, expected| {
        assert_eq!(
            code(&site.ask(Role::Operator, start(runbook, incident))),
            expected,
            "{runbook} {incident}"
        );
    };
    check("gpu-lost", "INC-2026-000001", "already_running");
    check("gpu-lost", "INC-2026-000009", "not_found");
    check("no-such", "INC-2026-000001", "not_found");
    check("application-fault", "INC-2026-000001", "not_found");
    check("gpu-fault-unclassified", "INC-2026-000001", "accepted");
}

/// A runbook of this risk.
fn risky(risk: Risk) -> Site {
    let mut books = runbooks();
    books.iter_mut().filter(|(_, book)| book.id == "gpu-lost").for_each(|(_, book)| book.risk = risk);
    let mut site = site_with(books, &[]);
    site.xid("gpu001", 79, 3);
    site
}

#[test]
fn what_touches_more_than_a_node_waits_for_approval_of_its_plan() {
    let mut site = risky(Risk::R3);
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::AwaitingApproval, "approval"));
    let (execution, plan) = (run(&site).id, run(&site).plan.clone());
    assert!(plan.ends_with(":INC-2026-000001:gpu001:3"), "{plan}");
    let yes = |plan: &str| Action::RunApprove { execution, approve: true, plan: plan.to_owned() };
    assert_eq!(code(&site.ask(Role::Operator, yes("another"))), "plan_changed");
    assert_eq!(code(&site.ask(Role::Viewer, yes(&plan))), "forbidden");
    site.wait(Duration::from_secs(3_600));
    assert_eq!(run(&site).why, "approval_overdue", "it is never approved by itself");
    assert_eq!(code(&site.ask(Role::Operator, yes(&plan))), "accepted");
    assert_ne!(run(&site).state, ExecutionState::AwaitingApproval);
    assert_eq!(code(&site.ask(Role::Operator, yes(&plan))), "not_awaiting_approval");
}

#[test]
fn a_plan_for_the_fleet_needs_two_people_and_can_be_rejected() {
    let mut site = risky(Risk::R4);
    let (execution, plan) = (run(&site).id, run(&site).plan.clone());
    let yes = Action::RunApprove { execution, approve: true, plan: plan.clone() };
    assert_eq!(code(&site.ask(Role::Operator, yes.clone())), "accepted");
    assert_eq!(run(&site).state, ExecutionState::AwaitingApproval);
    assert_eq!(code(&site.ask(Role::Operator, yes.clone())), "already");
    assert_eq!(code(&site.ask(Role::Admin, yes)), "accepted");
    assert_ne!(run(&site).state, ExecutionState::AwaitingApproval);

    let mut site = risky(Risk::R3);
    let (execution, plan) = (run(&site).id, run(&site).plan.clone());
    site.ask(Role::Operator, Action::RunApprove { execution, approve: false, plan });
    assert_eq!((run(&site).state, run(&site).why.as_str()), (ExecutionState::Cancelled, "rejected"));
}

#[test]
fn who_asked_for_it_may_not_approve_it() {
    let mut site = risky(Risk::R3);
    let (execution, plan) = (run(&site).id, run(&site).plan.clone());
    site.ask(Role::Operator, Action::RunApprove { execution, approve: false, plan });
    let start = Action::RunStart { runbook: "gpu-lost".into(), incident: "INC-2026-000001".into() };
    assert_eq!(code(&site.ask(Role::Operator, start)), "accepted");
    let (execution, plan) = (run(&site).id, run(&site).plan.clone());
    let yes = Action::RunApprove { execution, approve: true, plan };
    assert_eq!(code(&site.ask(Role::Operator, yes.clone())), "approver_is_requester");
    assert_eq!(code(&site.ask(Role::Admin, yes)), "accepted");
}

#[test]
fn an_undo_that_fails_is_a_persons_and_is_never_repeated_blindly() {
    let mut site = at_repair();
    let execution = run(&site).id;
    site.ask(Role::Operator, Action::RunAbort { execution });
    let order = crate::outstanding(&site.state).next().unwrap();
    site.answer(&order, crate::testing::executor::not_done("failed", true));
    assert_eq!(
        (run(&site).state, run(&site).why.as_str()),
        (ExecutionState::NeedsOperator, "undo:spare:failed")
    );
    site.wait(Duration::from_secs(3_600));
    assert_eq!(run(&site).state, ExecutionState::NeedsOperator);
    assert_eq!(code(&site.ask(Role::Operator, Action::RunRetry { execution })), "accepted");
    site.carry_out();
    assert_eq!(run(&site).state, ExecutionState::RolledBack);
}
