//! Cases from the field, each told to the real controller over the simulated site, under every checker.

use std::time::Duration;

use provost_engine::State;
use provost_model::fleet::Phase;
use provost_model::input::Action;
use provost_model::policy::Role;
use provost_model::response::HoldOwner;
use provost_model::runbook::ExecutionState;
use provost_model::scheduler::{JobState, Tier};
use provost_sim::faults::Fault;
use provost_sim::seed::runbooks;
use provost_sim::site::layout::{BATCH, Layout};
use provost_sim::site::queue::Request;
use provost_sim::world::{Event, Mood, Options, Scratch, World};

/// A world with its folder.
struct Case {
    world: World,
    _dir: Scratch,
}

const SECOND: Duration = Duration::from_secs(1);

impl Case {
    /// Eight nodes and a spare, adopted and idle.
    fn new(mood: Mood) -> Case {
        let dir = Scratch::new().expect("a folder for the journal");
        let layout = Layout { nodes: 8, spares: 1 };
        let mut world = World::new(Options {
            seed: 1,
            layout,
            config: layout.config(),
            runbooks: runbooks(),
            dir: dir.path().to_owned(),
            cred_expire: 5 * SECOND,
            work: false,
            mood,
            check: true,
            live: None,
        });
        world.run_for(10 * SECOND).expect("no promise is broken");
        Case { world, _dir: dir }
    }

    fn wait(&mut self, length: Duration) {
        self.world.run_for(length).expect("no promise is broken");
    }

    fn until(&mut self, limit: Duration, is_so: impl Fn(&World) -> bool) {
        let so = self.world.run_until_so(limit, is_so).expect("no promise is broken");
        assert!(so, "after {limit:?}: {:#?}", self.state().incidents);
    }

    fn strike(&mut self, fault: Fault) {
        self.world.strike(fault);
    }

    fn submit(&mut self, gpus: u32, run_for: Duration, pinned: &str) {
        let request = Request {
            project: "p".to_owned(),
            tier: Tier::Batch,
            partition: BATCH.to_owned(),
            nodes: 1,
            gpus,
            requeue: true,
            pinned: vec![pinned.to_owned()],
            run_for,
        };
        let now = self.world.elapsed();
        self.world.plan(now, Event::Submit(Box::new(request)));
        self.wait(10 * SECOND);
    }

    fn state(&self) -> &State {
        self.world.state()
    }

    fn phase(&self, node: &str) -> Phase {
        self.state().node_by_name(node).expect("the node is known").phase
    }

    fn drained(&self, node: &str) -> bool {
        self.world.site.slurm.node(node).expect("the node is known").drain
    }

    /// Everything ends as it should, and the journal proves it.
    fn end(mut self) {
        self.wait(150 * SECOND);
        self.world.check_quiet().expect("no promise is broken");
        self.world.end().expect("the journal is whole");
    }
}

fn lost(node: &str, gpu: u32, lines: bool) -> Fault {
    Fault::GpuLost { node: node.to_owned(), gpu, lines }
}

fn drain(node: &str, reason: &str) -> Fault {
    Fault::ForeignDrain { node: node.to_owned(), reason: reason.to_owned() }
}

fn is_home(node: &'static str) -> impl Fn(&World) -> bool {
    move |world| {
        let open = world.state().incidents.values().any(|incident| incident.state.is_open());
        world.state().node_by_name(node).is_some_and(|node| node.phase == Phase::InService) && !open
    }
}

#[test]
fn b01_gpu_lost_without_any_xid() {
    let mut case = Case::new(Mood::HELPFUL);
    case.submit(8, 600 * SECOND, "gpu003");
    case.strike(lost("gpu003", 3, true));
    case.until(SECOND, |world| world.site.slurm.node("gpu003").is_some_and(|node| node.drain));
    // The code comes late: it is the same incident.
    case.strike(lost("gpu003", 3, false));
    case.wait(2 * SECOND);
    let state = case.state();
    assert_eq!(state.incidents.len(), 1);
    let incident = state.incidents.values().next().expect("one incident");
    let alerts: Vec<&str> =
        incident.alerts.iter().filter_map(|id| state.alerts.get(id)).map(|a| a.condition.as_str()).collect();
    assert_eq!(alerts, ["xid.79"]);
    assert_eq!(state.executions.values().map(|run| run.runbook.as_str()).collect::<Vec<_>>(), ["gpu-lost"]);
    case.until(300 * SECOND, is_home("gpu003"));
    case.end();
}

#[test]
fn b04_an_application_teardown_burst_hurts_nobody() {
    let mut case = Case::new(Mood::HELPFUL);
    let nodes = Layout { nodes: 8, spares: 1 }.names();
    for node in &nodes[..6] {
        case.submit(8, 600 * SECOND, node);
    }
    let before = case.state().seq;
    for _ in 0..10 {
        case.strike(Fault::Storm { nodes: nodes.clone(), code: 45, lines: 200 });
        case.wait(SECOND);
    }
    case.wait(60 * SECOND);
    let state = case.state();
    assert!(state.incidents.is_empty() && state.holds.is_empty(), "{:?}", state.incidents);
    assert!(nodes.iter().all(|node| !case.drained(node)));
    let noted =
        case.world.site.slurm.queue.jobs().values().filter(|job| job.admin_comment.contains("Xid 45"));
    assert_eq!(noted.count(), 6, "each job that was on the GPUs carries one note");
    // 18,000 lines cost a few records for each of 72 GPUs.
    assert!(case.state().seq - before < 1_000, "{} records", case.state().seq - before);
    case.end();
}

#[test]
fn b20_a_drain_flag_is_not_drained() {
    let mut case = Case::new(Mood::HELPFUL);
    // One job on the GPU that fails, one beside it that may run on.
    case.submit(4, 600 * SECOND, "gpu003");
    case.submit(4, 60 * SECOND, "gpu003");
    case.strike(lost("gpu003", 0, false));
    case.wait(20 * SECOND);
    assert!(case.drained("gpu003"));
    let node = case.world.site.slurm.node("gpu003").expect("known");
    assert_eq!(node.used.len(), 4, "the job beside it runs on");
    assert_eq!(case.phase("gpu003"), Phase::Draining);
    let asked = |world: &World| {
        world.state().executions.values().any(|run| run.state == ExecutionState::AwaitingHuman)
    };
    assert!(!asked(&case.world), "nobody is sent to a node that has jobs");
    case.until(200 * SECOND, asked);
    assert!(case.world.site.slurm.node("gpu003").expect("known").used.is_empty());
    case.until(300 * SECOND, is_home("gpu003"));
    case.end();
}

#[test]
fn b21_no_release_before_the_node_is_back_and_tested() {
    let mut case = Case::new(Mood::HELPFUL);
    case.strike(lost("gpu003", 3, false));
    let asked = |world: &World| {
        world.state().executions.values().any(|run| run.state == ExecutionState::AwaitingHuman)
    };
    case.until(300 * SECOND, asked);
    // The machine is taken out. Slurm has not noticed yet: it would be free for jobs if somebody undrained it.
    case.strike(Fault::AgentGone("gpu003".to_owned()));
    case.until(300 * SECOND, |world| !asked(world));
    case.strike(Fault::Mood(Mood::AWAY));
    for _ in 0..60 {
        case.wait(10 * SECOND);
        let node = case.world.site.slurm.node("gpu003").expect("known");
        assert!(node.drain && !node.not_responding, "{:?}", case.phase("gpu003"));
        assert!(!matches!(case.phase("gpu003"), Phase::InService | Phase::Probation));
    }
    // It is back: tested first, and then released.
    case.strike(Fault::AgentBack("gpu003".to_owned()));
    case.strike(Fault::Mood(Mood::HELPFUL));
    case.until(600 * SECOND, is_home("gpu003"));
    assert!(!case.drained("gpu003"));
    case.end();
}

#[test]
fn b22_somebody_elses_isolation_is_not_removed() {
    for (before, after) in [(true, false), (false, true)] {
        let mut case = Case::new(Mood::HELPFUL);
        if before {
            case.strike(drain("gpu003", "dimm"));
            case.wait(10 * SECOND);
        }
        case.strike(lost("gpu003", 3, false));
        case.wait(SECOND);
        if after {
            case.strike(drain("gpu003", "dimm"));
        }
        let done = |world: &World| {
            world.state().executions.values().any(|run| run.state == ExecutionState::Succeeded)
        };
        case.until(300 * SECOND, done);
        case.wait(60 * SECOND);
        let node = case.world.site.slurm.node("gpu003").expect("known");
        assert_eq!((node.drain, node.reason.as_str(), node.comment.as_str()), (true, "dimm", ""));
        let state = case.state();
        let owners: Vec<&HoldOwner> = state.holds.values().map(|hold| &hold.owner).collect();
        assert!(matches!(owners[..], [HoldOwner::External(_)]), "{owners:?}");
        case.strike(Fault::ForeignResume("gpu003".to_owned()));
        case.wait(10 * SECOND);
        assert!(case.state().holds.is_empty());
        assert!(!case.drained("gpu003"));
        case.end();
    }
}

#[test]
fn b23_two_recoveries_close_together_leave_no_node_drained() {
    let mut case = Case::new(Mood::HELPFUL);
    for gpu in [1, 5] {
        case.strike(lost("gpu003", gpu, false));
        case.wait(Duration::from_millis(3));
    }
    case.until(600 * SECOND, is_home("gpu003"));
    assert!(!case.drained("gpu003"));
    assert!(case.state().executions.values().all(|run| run.state == ExecutionState::Succeeded));
    case.end();
}

#[test]
fn b23_a_fault_just_after_a_recovery_counts() {
    let mut case = Case::new(Mood::HELPFUL);
    case.strike(lost("gpu003", 3, false));
    case.until(300 * SECOND, |world| {
        world.state().node_by_name("gpu003").is_some_and(|node| node.phase == Phase::Probation)
    });
    case.strike(lost("gpu003", 3, false));
    case.wait(2 * SECOND);
    assert!(case.drained("gpu003"), "{:#?}", case.state().incidents);
    assert_ne!(case.phase("gpu003"), Phase::Probation);
    case.until(600 * SECOND, is_home("gpu003"));
    case.end();
}

#[test]
fn b23_what_is_over_does_not_come_back_with_a_restart_or_a_reset() {
    let mut case = Case::new(Mood::HELPFUL);
    // More than the breaker allows.
    for node in ["gpu001", "gpu002", "gpu003"] {
        case.strike(lost(node, 0, false));
    }
    case.until(900 * SECOND, |world| {
        !world.state().incidents.values().any(|incident| incident.state.is_open())
    });
    case.wait(60 * SECOND);
    let incidents = case.state().incidents.len();
    case.strike(Fault::Crash { away: 3 * SECOND });
    case.wait(30 * SECOND);
    case.world.ask(Role::Admin, Action::BreakerReset);
    case.wait(30 * SECOND);
    assert_eq!(case.state().epoch, 2);
    assert_eq!(case.state().incidents.len(), incidents);
    assert!(case.state().holds.is_empty());
    assert!(case.world.site.slurm.nodes().values().all(|node| !node.drain));
    case.end();
}

#[test]
fn a_job_on_a_lost_gpu_runs_elsewhere_soon() {
    let mut case = Case::new(Mood::AWAY);
    case.submit(8, 600 * SECOND, "gpu003");
    // Pinned to the node: it can only wait for it. One that is not goes elsewhere.
    let free = Request {
        project: "p".to_owned(),
        tier: Tier::Batch,
        partition: BATCH.to_owned(),
        nodes: 1,
        gpus: 8,
        requeue: true,
        pinned: Vec::new(),
        run_for: 600 * SECOND,
    };
    let now = case.world.elapsed();
    case.world.plan(now, Event::Submit(Box::new(free)));
    case.wait(10 * SECOND);
    let on = |world: &World, id: u32| {
        let job = world.site.slurm.queue.job(id)?;
        (job.state == JobState::Running).then(|| job.on.keys().next().cloned()).flatten()
    };
    let first = on(&case.world, 2).expect("it runs");
    case.strike(Fault::HangingGpu { node: first.clone(), gpu: 2 });
    case.until(10 * SECOND, |world| on(world, 2).is_some_and(|node| node != first));
}

/// The checkers must be able to fail.
#[test]
fn a_broken_promise_is_seen() {
    let mut case = Case::new(Mood::HELPFUL);
    case.strike(drain("gpu003", "dimm"));
    case.wait(10 * SECOND);
    let now = case.world.now();
    case.world.site.slurm.resume(now, "gpu003", "provost");
    let error = case.world.run_for(10 * SECOND).expect_err("somebody's drain is gone");
    assert!(error.to_string().contains("nobody else's drain is removed: gpu003"), "{error}");
}
