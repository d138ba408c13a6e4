//! Orders that come once, twice, late, from the past, and around a crash.

use std::fs;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use provost_model::effect::Approach;
use provost_model::time::Timestamp;

use super::*;
use crate::config::{ActionConfig, Piece};
use crate::outbox::Outbox;
use crate::testing::{DEADLINE, Folder};
use crate::wait::{Interest, Shutdown, wait};

/// A node whose actions append a line to a file.
struct Node {
    folder: Folder,
    shutdown: Shutdown,
}

impl Node {
    fn new() -> Node {
        Node { folder: Folder::new(), shutdown: Shutdown::new().unwrap() }
    }

    fn worker(&self) -> Worker {
        let script = |text: &str| {
            let text = text.replace("DIR", &self.folder.path().display().to_string());
            ["sh", "-c", &text].map(|word| vec![Piece::Literal(word.to_owned())]).to_vec()
        };
        let action = |name: &str, argv: &str, probe: Option<&str>| ActionConfig {
            name: name.to_owned(),
            argv: script(argv),
            timeout: Duration::from_secs(20),
            probe: probe.map(script),
        };
        let mut actions = vec![
            action("plain", "echo plain >> DIR/ran", None),
            action("fails", "echo fails >> DIR/ran; exit 3", None),
            action("probed", "echo probed >> DIR/ran", Some("test -e DIR/done")),
            action("unclear", "echo unclear >> DIR/ran", Some("exit 2")),
            action("hangs", "echo hangs >> DIR/ran; sleep 60", None),
            action("absent", "", None),
            action("device", "", None),
            action("endless", "echo endless >> DIR/ran; sleep 60", None),
        ];
        actions[4].timeout = Duration::from_millis(200);
        actions[5].argv = vec![vec![Piece::Literal("/nonexistent/program".into())]];
        actions[6].argv.push(vec![Piece::GpuPci]);
        Worker {
            node: "gpu001".into(),
            actions: actions.into(),
            log: OrderLog::open(&self.log_path()).ok(),
            orders: Arc::new(Orders::new().unwrap()),
            outbox: Arc::new(Outbox::new().unwrap()),
            shutdown: self.shutdown.clone(),
            running: std::collections::BTreeMap::new(),
            held_back: VecDeque::new(),
        }
    }

    fn log_path(&self) -> std::path::PathBuf {
        self.folder.path().join(FILE)
    }

    fn touch(&self, name: &str) {
        fs::write(self.folder.path().join(name), "").unwrap();
    }

    /// How often a command ran.
    fn runs(&self) -> usize {
        fs::read_to_string(self.folder.path().join("ran")).unwrap_or_default().lines().count()
    }

    fn check(&self, order: &Order, expected: &str, runs: usize) {
        self.check_with(&mut self.worker(), order, expected, runs);
    }

    fn check_with(&self, worker: &mut Worker, order: &Order, expected: &str, runs: usize) {
        let (result, _) = worker.answer(order);
        assert_eq!(short(&result), expected, "{order:?}");
        assert_eq!(self.runs(), runs, "{order:?}");
    }
}

impl Worker {
    /// Begins an order and waits for its answer.
    fn answer(&mut self, order: &Order) -> worker::Answer {
        match self.begin(order.clone()) {
            Some(answer) => answer,
            None => self.wait_for_finished().2,
        }
    }

    fn wait_for_finished(&mut self) -> (u64, u64, worker::Answer) {
        loop {
            self.orders.wake.clear();
            if let Some(Work::Finished(finished)) = self.orders.pop()
                && let Some(answered) = self.finish(finished)
            {
                return answered;
            }
            wait([(self.orders.wake.as_fd(), Interest::Read)], Some(DEADLINE));
        }
    }
}

fn short(result: &EffectResult) -> String {
    match result {
        EffectResult::Done { observed, .. } => format!("done {observed}"),
        EffectResult::NotDone { code, retry } => {
            format!("not_done {code}{}", if *retry { " retry" } else { "" })
        }
        EffectResult::Unknown { code } => format!("unknown {code}"),
    }
}

fn order(intent: u64, action: &str) -> Order {
    Order {
        intent,
        epoch: 5,
        approach: Approach::Act,
        action: action.into(),
        node: "gpu001".into(),
        pci: None,
        expires_at: Timestamp::from_millis(i64::MAX),
    }
}

fn probe(intent: u64, action: &str) -> Order {
    Order { approach: Approach::Probe, ..order(intent, action) }
}

#[test]
fn an_order_runs_once_and_a_repeat_gets_the_stored_result() {
    let node = Node::new();
    node.check(&order(1, "plain"), "done exit 0", 1);
    node.check(&order(1, "plain"), "done exit 0", 1);
    node.check(&probe(1, "plain"), "done exit 0", 1);
    node.check(&order(2, "fails"), "not_done failed", 2);
    node.check(&order(2, "fails"), "not_done failed", 2);
    let (_, facts) = node.worker().answer(&order(2, "fails"));
    assert_eq!(
        (facts.exit_code, facts.started_at.is_some(), facts.ended_at.is_some()),
        (Some(3), true, true)
    );
}

#[test]
fn what_the_probe_says_counts() {
    let node = Node::new();
    node.check(&order(1, "probed"), "not_done failed retry", 1);
    node.touch("done");
    node.check(&order(2, "probed"), "done probe", 2);
    node.check(&order(3, "unclear"), "unknown probe_unclear", 3);
    node.check(&order(3, "unclear"), "unknown probe_unclear", 3);
    // What was unknown may be asked again, and is never run again.
    node.check(&order(4, "hangs"), "unknown timeout", 4);
    node.check(&order(4, "hangs"), "unknown timeout", 4);
    node.check(&order(5, "absent"), "not_done not_startable", 4);
}

#[test]
fn what_is_refused_is_never_done_later() {
    let node = Node::new();
    let check = |first: Order, expected: &str| {
        node.check(&first, expected, 0);
        let later = Order { epoch: 9, approach: Approach::Act, action: "plain".into(), ..first };
        let later = Order { expires_at: Timestamp::from_millis(i64::MAX), ..later };
        node.check(&later, expected, 0);
    };
    check(order(1, "rm"), "not_done not_configured");
    check(Order { expires_at: Timestamp::from_millis(1), ..order(2, "plain") }, "not_done expired retry");
    check(probe(3, "plain"), "not_done never_started retry");
    check(order(4, "device"), "not_done no_device");
    let mut worker = node.worker();
    node.check_with(
        &mut worker,
        &Order { node: "gpu002".into(), ..order(6, "plain") },
        "not_done refused",
        0,
    );
    node.check_with(&mut worker, &order(6, "plain"), "done exit 0", 1);
}

#[test]
fn older_epochs_are_refused() {
    let node = Node::new();
    let mut worker = node.worker();
    worker.log.as_mut().unwrap().hear_of(6).unwrap();
    node.check_with(&mut worker, &order(1, "plain"), "not_done older_epoch", 0);
    // Also after a restart, and by the orders that were carried out.
    node.check(&order(2, "plain"), "not_done older_epoch", 0);
    node.check(&Order { epoch: 7, ..order(3, "plain") }, "done exit 0", 1);
    node.check(&Order { epoch: 6, ..order(4, "plain") }, "not_done older_epoch", 1);
    // What was done stays done, whoever asks.
    node.check(&order(3, "plain"), "done exit 0", 1);
}

/// As if the agent was killed between the start of a command and its end.
fn start(node: &Node, order: &Order) {
    OrderLog::open(&node.log_path()).unwrap().start(order, Timestamp::from_millis(7)).unwrap();
}

#[test]
fn started_without_a_result_is_unknown_unless_the_probe_tells() {
    let node = Node::new();
    for (intent, action) in [(1, "plain"), (2, "probed"), (3, "probed"), (4, "unclear"), (5, "gone")] {
        start(&node, &order(intent, action));
    }
    node.check(&order(1, "plain"), "unknown restarted", 0);
    node.check(&probe(1, "plain"), "unknown restarted", 0);
    node.check(&order(2, "probed"), "not_done failed retry", 0);
    node.touch("done");
    // Answered before: it stays as it was said.
    node.check(&order(2, "probed"), "not_done failed retry", 0);
    node.check(&probe(3, "probed"), "done probe", 0);
    node.check(&probe(4, "unclear"), "unknown restarted", 0);
    node.check(&probe(5, "gone"), "unknown restarted", 0);
}

#[test]
fn an_agent_that_ends_leaves_its_command_unknown() {
    let node = Node::new();
    let mut worker = node.worker();
    node.shutdown.trigger();
    let (result, _) = worker.answer(&Order { action: "hangs".into(), ..order(1, "hangs") });
    assert_eq!(short(&result), "unknown restarted");
    assert_eq!(worker.log.unwrap().find(1), log::Known::Started { at: started_at(&node.log_path()) });
}

fn started_at(path: &Path) -> Timestamp {
    let text = fs::read_to_string(path).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    line["at"].as_str().unwrap().parse().unwrap()
}

#[test]
fn nothing_is_done_without_a_log() {
    let node = Node::new();
    let mut worker = node.worker();
    worker.log = None;
    node.check_with(&mut worker, &order(1, "plain"), "unknown order_log_unusable", 0);
    // A full disk: the start can't be noted.
    let mut worker = node.worker();
    worker.log.as_mut().unwrap().refuse_writes();
    node.check_with(&mut worker, &order(1, "plain"), "not_done order_log_unwritable retry", 0);
    node.check_with(&mut worker, &order(2, "rm"), "unknown order_log_unwritable", 0);
}

#[test]
fn too_many_orders_are_not_taken_in() {
    let orders = Orders::new().unwrap();
    for intent in 0..MAX_WAITING as u64 {
        assert_eq!(orders.take(order(intent, "plain")), None);
    }
    assert_eq!(short(&orders.take(order(9_999, "plain")).unwrap().result), "unknown busy");
}

/// A worker on a thread of its own, and what it tells.
struct Working {
    node: Node,
    orders: Arc<Orders>,
    outbox: Arc<Outbox>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Working {
    fn start() -> Working {
        let node = Node::new();
        let worker = node.worker();
        let (orders, outbox) = (Arc::clone(&worker.orders), Arc::clone(&worker.outbox));
        Working { node, orders, outbox, thread: Some(std::thread::spawn(move || worker.run())) }
    }

    fn order(&self, order: Order) {
        assert_eq!(self.orders.take(order), None);
    }

    /// The next answer: the intent and what became of it.
    fn answer(&self) -> (u64, String) {
        let deadline = std::time::Instant::now() + DEADLINE;
        loop {
            self.outbox.wake.clear();
            if let Some(frame) = self.outbox.next_frame() {
                let mut decoder = provost_wire::Decoder::new();
                decoder.push(&frame);
                let Some(provost_wire::ToServer::OrderResult(told)) = decoder.next_message().unwrap() else {
                    panic!("a result")
                };
                return (told.intent, short(&told.result));
            }
            assert!(std::time::Instant::now() < deadline, "no answer");
            wait([(self.outbox.wake.as_fd(), Interest::Read)], Some(DEADLINE));
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.node.shutdown.trigger();
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn a_hanging_action_holds_no_other_up() {
    let working = Working::start();
    working.order(order(1, "endless"));
    working.order(order(2, "plain"));
    assert_eq!(working.answer(), (2, "done exit 0".into()));
    // Not twice at once, and a repeat of what runs is no second order.
    working.order(order(1, "endless"));
    working.order(order(3, "endless"));
    working.order(order(4, "plain"));
    assert_eq!(working.answer(), (4, "done exit 0".into()));
    let deadline = std::time::Instant::now() + DEADLINE;
    while working.node.runs() < 3 && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(working.node.runs(), 3);
}

#[test]
fn orders_of_one_action_wait_for_each_other_and_all_are_answered() {
    let working = Working::start();
    for intent in 1..=3 {
        working.order(order(intent, "hangs"));
    }
    // A repeat that is held back is answered from the log.
    working.order(order(2, "hangs"));
    let answers: Vec<(u64, String)> = (0..4).map(|_| working.answer()).collect();
    let timeout = || "unknown timeout".to_owned();
    assert_eq!(answers, [(1, timeout()), (2, timeout()), (3, timeout()), (2, timeout())]);
    assert_eq!(working.node.runs(), 3);
}

#[test]
fn case_b10_what_nothing_can_end_is_told_and_left_behind() {
    let node = Node::new();
    let mut worker = node.worker();
    assert_eq!(worker.begin(order(1, "hangs")), None);
    // As if its process hung in the kernel, and no signal reached it.
    worker.give_up(std::time::Instant::now());
    assert_eq!(worker.outbox.next_frame(), None);
    worker.give_up(std::time::Instant::now() + DEADLINE * 100);
    assert!(worker.outbox.next_frame().is_some());
    assert!(matches!(
        worker.log.as_ref().unwrap().find(1),
        log::Known::Ended(EffectResult::Unknown { .. }, _)
    ));
    let told = |worker: &mut Worker, order: Order| {
        worker.take_order(order);
        let mut decoder = provost_wire::Decoder::new();
        decoder.push(&worker.outbox.next_frame().unwrap());
        let Some(provost_wire::ToServer::OrderResult(told)) = decoder.next_message().unwrap() else {
            panic!()
        };
        short(&told.result)
    };
    assert_eq!(told(&mut worker, order(1, "hangs")), "unknown timeout");
    assert_eq!(told(&mut worker, order(2, "hangs")), "not_done hung retry");
    node.check_with(&mut worker, &order(3, "fails"), "not_done failed", 2);
    // It ended after all; from then on the action can be used again.
    while worker.running.contains_key(&1) {
        worker.orders.wake.clear();
        if let Some(Work::Finished(finished)) = worker.orders.pop() {
            assert_eq!(worker.finish(finished), None);
            break;
        }
        wait([(worker.orders.wake.as_fd(), Interest::Read)], Some(DEADLINE));
    }
    node.check_with(&mut worker, &order(4, "hangs"), "unknown timeout", 3);
    node.check_with(&mut worker, &order(2, "hangs"), "not_done hung retry", 3);
}
