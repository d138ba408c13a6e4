//! What is a runbook, and what is not.

use std::path::Path;

use crate::runbook::{Condition, Finding, MAX_BYTES, builtin, lint, parse, schema};

const LOST: &str = include_str!("../../../../../runbooks/gpu-lost.yaml");

#[test]
fn the_runbooks_that_come_along_are_without_findings() {
    for (id, yaml) in builtin() {
        let runbook = parse(yaml).unwrap();
        assert_eq!(runbook.id, id);
        assert_eq!(lint(&runbook), []);
    }
}

#[test]
fn the_schema_file_is_what_the_actions_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runbooks/schema.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, format!("{:#}\n", schema())).unwrap();
    }
    // Compared as values: the order of keys in text depends on a feature of serde_json that any crate may set.
    let found: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert!(found == schema(), "runbooks/schema.json differs; run the test with UPDATE_GOLDEN=1");
}

/// Findings of `gpu-lost` with one piece of its text replaced, as `path: message`.
fn findings(from: &str, to: &str) -> Vec<String> {
    assert!(LOST.contains(from), "{from:?} does not stand in the runbook");
    let runbook = parse(&LOST.replacen(from, to, 1)).unwrap();
    lint(&runbook).into_iter().map(|Finding { path, message }| format!("{path}: {message}")).collect()
}

#[test]
fn lint_names_what_is_wrong() {
    let check = |from: &str, to: &str, expected: &str| {
        let found = findings(from, to);
        assert!(found.iter().any(|finding| finding.contains(expected)), "{to:?}: {found:#?}");
    };
    check("runbook/v1", "runbook/v2", "api_version: must be runbook/v1");
    check("id: gpu-lost", "id: GPU lost", "id: must be");
    check("id: requeue", "id: collect", "steps[1].id: `collect` is the id of an earlier step");
    check("use: jobs.requeue", "use: jobs.kill", "steps[1].use: `jobs.kill` is none of");
    check("use: jobs.requeue", "use: jobs.note", "needs a job alone");
    check("risk: R2", "risk: R2\nincident: none", "needs a node, and so an incident");
    check(
        "use: jobs.requeue",
        "use: jobs.requeue\n    with: { user: x }",
        "steps[1].with.user: is no argument",
    );
    check(
        "use: evidence.collect",
        "use: evidence.collect\n    with: { action: 'rm -rf' }",
        "with.action: must be",
    );
    check("max: 3, backoff: 5s", "max: 0, backoff: 5s", "steps[1].retry.max: counts the first attempt");
    check("max: 3, backoff: 5s", "max: 3, backoff: 0s", "steps[1].retry.backoff");
    check("timeout: 3m", "timeout: 0s", "steps[0].timeout");
    check("timeout: 3m", "timeout: 31d", "steps[0].timeout");
    check("when: slot.needs_spare", "when: slot.is_nice", "steps[2].when: `slot.is_nice` is none of");
    check("when: slot.needs_spare", "when: answer.repair.outcome == x", "is no question of an earlier step");
    check("role: technician", "role: wizard", "steps[4].human.role");
    check("[reseated, replaced, power_cycled, no_fault_found]", "[reseated]", "choices: must be 2 to 32");
    check("[reseated, replaced, power_cycled, no_fault_found]", "[a, a]", "choices: must be 2 to 32");
    check("type: serial", "type: serial\n          choices: [a, b]", "choices: belongs to");
    check("title: A GPU", "title: \"\\e[31mA\\u202e GPU\" #", "title: holds control characters");
    check("about: A technician looks at the GPU", "about: ' '", "steps[4].about: must say something");
    check("use: node.revalidate", "use: node.revalidate\n    when: node.has_jobs", "needs an earlier step");
    check("use: node.revalidate", "use: evidence.collect", "evidence must be collected before");
    check(
        "timeout: 10m\n\n  - id: return",
        "timeout: 10m\n    on_fail: rollback\n\n  - id: return",
        "past the point",
    );
    check("use: node.await_idle", "", "exactly one of `use` and `human`");
}

#[test]
fn a_condition_may_ask_for_an_earlier_answer_but_for_no_sealed_one() {
    let when =
        |when: &str| findings("use: node.revalidate", &format!("use: node.revalidate\n    when: {when}"));
    assert!(!when("answer.repair.outcome != no_fault_found").iter().any(|f| f.contains(".when")));
    assert!(when("answer.repair.note == x").iter().any(|f| f.contains("free text")));
}

#[test]
fn too_many_steps_are_refused() {
    let mut runbook = parse(LOST).unwrap();
    let step = runbook.steps[0].clone();
    runbook.steps =
        (0..65).map(|i| provost_model::runbook::Step { id: format!("s{i}"), ..step.clone() }).collect();
    assert!(lint(&runbook).iter().any(|finding| finding.path == "steps"));
}

#[test]
fn what_is_no_runbook_is_refused() {
    let check = |yaml: &str, expected: &str| {
        let error = parse(yaml).unwrap_err().to_string();
        assert!(error.contains(expected), "{yaml:.60}: {error}");
    };
    check("", "0 documents");
    check("- a", "cannot be read");
    check(&LOST.replace("risk: R2", "risk: R9"), "R9");
    check(&LOST.replace("risk: R2", "shell: rm"), "shell");
    check(&LOST.replace("risk: R2", "risk: R2\nrisk: R0"), "uplicate");
    check(&LOST.replace("timeout: 3m", "timeout: soon"), "soon");
    check(&format!("{LOST}\n---\n{LOST}"), "2 documents");
    check(&format!("{LOST}\n---\n{LOST}\n---\n{LOST}"), "cannot be read");
    check(&LOST.replace("title: A", "title: &a A").replace("about: A", "about: *a #"), "cannot be read");
    check(&"x".repeat(MAX_BYTES + 1), "allowed");
    check(&"[".repeat(5_000), "cannot be read");
}

#[test]
fn conditions() {
    let ok = [
        "slot.needs_spare",
        "not node.has_jobs",
        "answer.a.b == c and not slot.needs_spare",
        "answer.a.b!=c-d",
    ];
    for text in ok {
        assert!(Condition::parse(text).is_ok(), "{text}");
    }
    for text in
        ["", "and", "true", "answer.a == b", "answer.a.b == ", "answer.a.b == c == d", "a and", "not not x"]
    {
        assert!(Condition::parse(text).is_err(), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn nothing_that_is_read_panics(text in "\\PC{0,400}") {
        if let Ok(runbook) = parse(&text) {
            lint(&runbook);
        }
        drop(Condition::parse(&text));
    }

    #[test]
    fn a_cut_runbook_is_refused_or_linted(at in 0usize..2_500) {
        if let Some(cut) = LOST.get(..at.min(LOST.len())) && let Ok(runbook) = parse(cut) {
            lint(&runbook);
        }
    }
}
