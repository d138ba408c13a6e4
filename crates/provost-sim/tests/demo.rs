//! The demo's story.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;

use provost_controller::Message;
use provost_model::input::{Action, Command, Input, Reply};
use provost_model::policy::Role;
use provost_model::record::{Actor, ActorKind};
use provost_sim::demo::{Demo, DemoOptions, Line};

fn story(nodes: u32, seed: u64) -> Vec<Line> {
    let demo = Demo::new(DemoOptions { nodes, seed, until: None }).expect("a folder for the journal");
    demo.collect::<Result<_, _>>().expect("the story is told")
}

fn told(lines: &[Line], what: &str) -> usize {
    let found = lines.iter().position(|line| line.text.contains(what));
    found.unwrap_or_else(|| panic!("nothing says `{what}`:\n{}", text(lines)))
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{:>8.3} {}\n", line.at.as_secs_f64(), line.text)).collect()
}

#[test]
fn a_lost_gpu_and_everything_that_follows() {
    let lines = story(64, 7);
    println!("{}", text(&lines));
    let order = [
        "takes over an empty journal",
        "68 nodes: 64 in production, 4 spares, 544 GPUs",
        "INC-2026-000001 SEV2",
        "is drained, read back as",
        "is back in the queue",
        "serves in place of",
        "waits for a person",
        "Xid 45",
        "runs again, on",
        "the technician answers",
        "the test passed",
        "takes work again",
        "goes back to the spares",
        "INC-2026-000001 is resolved",
        "journal verified",
        "false isolations 0",
    ];
    for what in order {
        told(&lines, what);
    }
    assert!(told(&lines, "is drained") < told(&lines, "is back in the queue"), "{}", text(&lines));
    assert!(told(&lines, "the technician answers") < told(&lines, "the test passed"));
    assert!(lines.windows(2).all(|pair| pair[0].at <= pair[1].at), "{}", text(&lines));
    assert!(lines.len() < 60, "{} lines", lines.len());
    assert!(lines.last().is_some_and(|line| line.at < Duration::from_secs(900)));
}

#[test]
fn the_same_seed_tells_the_same() {
    assert_eq!(story(16, 3), story(16, 3));
    assert_ne!(story(16, 3), story(16, 4));
}

#[test]
fn it_ends_when_it_is_told_to() {
    let until = Duration::from_secs(30);
    let demo = Demo::new(DemoOptions { nodes: 16, seed: 1, until: Some(until) }).expect("a folder");
    let lines: Vec<Line> = demo.collect::<Result<_, _>>().expect("the story is told");
    assert_eq!(lines.last().map(|line| line.at), Some(until));
    told(&lines, "journal verified");
}

#[test]
fn a_site_that_stays_lives_on_after_its_summary() {
    let options = DemoOptions { nodes: 16, seed: 3, until: None };
    let mut demo = Demo::new(options).expect("a folder").staying();
    let mut lines = Vec::new();
    while !lines.iter().any(|line: &Line| line.text.contains("journal verified")) {
        lines.extend(demo.advance_to(demo.elapsed() + Duration::from_secs(1)).expect("the story is told"));
    }
    let summed_up = demo.elapsed();
    lines.extend(demo.advance_to(summed_up + Duration::from_secs(600)).expect("it lives on"));
    assert!(!demo.is_over() && demo.elapsed() >= summed_up + Duration::from_secs(600));
    assert!(demo.handle().is_some());
    assert_eq!(lines.iter().filter(|line| line.text.contains("journal verified")).count(), 1);
}

#[test]
fn it_goes_on_at_somebodys_pace_and_shows_the_site() {
    let mut demo = Demo::new(DemoOptions { nodes: 16, seed: 1, until: None }).expect("a folder");
    let lines = demo.advance_to(Duration::from_secs(10)).expect("the story is told");
    told(&lines, "16 in production");
    let handle = demo.handle().expect("a controller runs");
    assert_eq!(handle.state().nodes.len(), 17);
    assert!(!demo.is_over());
    // Somebody who is shown the site may ask for something.
    let (tell, told) = mpsc::channel();
    let answer = Box::new(move |answer| tell.send(answer).expect("the test waits"));
    let command = Command {
        actor: Actor { kind: ActorKind::Human, sub: "local:admin".to_owned() },
        roles: BTreeSet::from([Role::Admin]),
        request: "1".to_owned(),
        reason: "a look".to_owned(),
        action: Action::GuardStop,
    };
    handle
        .try_send(Message::Ask { input: Input::Command(Box::new(command)), answer })
        .expect("there is room");
    demo.advance_to(Duration::from_secs(12)).expect("the story is told");
    assert!(matches!(told.try_recv(), Ok(Ok(Reply::Accepted { .. }))));
    assert!(handle.state().guard.stopped);
}
