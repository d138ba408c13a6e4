//! What sources say about themselves is recorded when it is new, and an agent that says too much is cut.

use std::time::Duration;

use provost_model::input::{Action, Input};
use provost_model::policy::{Mode, ModeScope, Role};
use provost_model::record::MAX_RECORD_BYTES;

use super::*;
use crate::testing::{Site, T0, pci};

fn report(node: &str, uuid: Option<&str>) -> AgentReport {
    let gpu = |uuid: &str| GpuFacts {
        index: 3,
        pci: pci(3),
        uuid: Some(uuid.to_owned()),
        model: None,
        serial: None,
    };
    AgentReport {
        node: node.to_owned(),
        boot_id: Some("boot".to_owned()),
        actions: BTreeSet::from(["gpu_reset".to_owned()]),
        gpus: uuid.map(|uuid| vec![gpu(uuid)]),
        version: "1".to_owned(),
    }
}

#[test]
fn a_start_says_so_first_and_the_rest_only_where_it_is_new() {
    let mut site = Site::new(2);
    let kinds: Vec<&str> = site.records.iter().map(Record::kind).collect();
    assert_eq!(kinds[..3], ["controller.started", "config.applied", "inventory.applied"]);
    assert_eq!((site.records[0].epoch, site.state.epoch), (1, 1));
    assert_eq!(site.start(), ["controller.started"]);
    assert_eq!(site.state.epoch, 2);
}

#[test]
fn a_persons_mode_outlives_a_restart_until_the_file_changes_its_word() {
    let mut site = Site::new(2);
    let set = |site: &mut Site, scope: ModeScope, mode| {
        site.ask(Role::Admin, Action::ModeSet { scope, mode: Some(mode) });
    };
    let node = ModeScope::Node("gpu001".to_owned());
    set(&mut site, ModeScope::Site, Mode::Observe);
    set(&mut site, ModeScope::Scheduler("main".to_owned()), Mode::Advise);
    set(&mut site, node, Mode::Act);
    let modes = |site: &Site| {
        let config = &site.state.config;
        (config.mode, config.clusters["main"].mode, config.node_modes.get("gpu001").copied())
    };
    let by_people = (Mode::Observe, Some(Mode::Advise), Some(Mode::Act));
    assert_eq!(modes(&site), by_people);
    assert_eq!(site.start(), ["controller.started"]);
    assert_eq!(modes(&site), by_people);

    // Another word of the file than modes leaves modes alone.
    site.config.timers.poll.0 = Duration::from_secs(9);
    assert_eq!(site.start(), ["controller.started", "config.applied"]);
    assert_eq!(modes(&site), by_people);
    assert_eq!(site.state.config.timers.poll.0, Duration::from_secs(9));

    site.config.mode = Mode::Advise;
    site.start();
    assert_eq!(modes(&site), (Mode::Advise, Some(Mode::Advise), Some(Mode::Act)));
    site.config.clusters.get_mut("main").expect("main").mode = Some(Mode::Observe);
    site.config.node_modes.insert("gpu001".to_owned(), Mode::Observe);
    site.start();
    assert_eq!(modes(&site), (Mode::Advise, Some(Mode::Observe), Some(Mode::Observe)));
    site.config.node_modes.clear();
    site.start();
    assert_eq!(modes(&site), (Mode::Advise, Some(Mode::Observe), None));
}

#[test]
fn an_inventory_larger_than_a_record_is_recorded_in_parts() {
    let mut site = Site::new(100);
    let parts: Vec<&Record> =
        site.records.iter().filter(|record| record.kind() == "inventory.applied").collect();
    assert!(parts.len() > 1);
    for part in parts {
        assert!(part.canonical().expect("a record").len() < MAX_RECORD_BYTES);
    }
    assert!(site.state.config.inventory == site.config.inventory);
    site.config.inventory.remove(7);
    site.config.inventory[9].rack = Some("r1".to_owned());
    let moved = site.config.inventory[9].name.clone();
    assert_eq!(site.node(&moved).rack, None);
    assert_eq!(site.start(), ["controller.started", "inventory.applied"]);
    assert_eq!(site.node(&moved).rack.as_deref(), Some("r1"), "a node that is known stands elsewhere now");
    assert!(site.state.config.inventory == site.config.inventory);
}

#[test]
fn nodes_without_a_scheduler_are_adopted_at_start() {
    let mut site = Site::new(2);
    site.config.inventory.push(NodeFacts {
        name: "solo".to_owned(),
        serial: None,
        rack: None,
        leaf: None,
        slurm: None,
        gpus: Vec::new(),
    });
    assert_eq!(site.start(), ["controller.started", "inventory.applied", "node.adopted"]);
    assert_eq!(site.node("solo").phase, Phase::InService);
    assert_eq!(site.start(), ["controller.started"]);
}

#[test]
fn an_agent_is_recorded_when_it_says_something_new() {
    let mut site = Site::new(2);
    let mut tell = |report: AgentReport| site.feed(Input::AgentReport(Box::new(report)));
    assert_eq!(tell(report("gpu001", None)), ["agent.reported"]);
    assert!(tell(report("gpu001", None)).is_empty());
    // NVML's word goes before the inventory's.
    assert_eq!(tell(report("gpu001", Some("GPU-new"))), ["agent.reported", "gpu.identified"]);
    assert!(tell(report("gpu001", Some("GPU-new"))).is_empty());
    let node = site.node("gpu001");
    assert_eq!(node.gpus[&3].uuid.as_deref(), Some("GPU-new"));
    assert!(node.actions.contains("gpu_reset") && node.boot_id.as_deref() == Some("boot"));
}

#[test]
fn an_agent_that_comes_before_its_node_is_remembered() {
    let mut site = Site::new(2);
    site.feed(Input::AgentReport(Box::new(report("late001", Some("GPU-late")))));
    let newcomer = site.nodes["gpu001"].clone();
    site.nodes.insert("late001".to_owned(), newcomer);
    site.poll();
    let node = site.node("late001");
    assert_eq!(node.gpus[&3].uuid.as_deref(), Some("GPU-late"));
    assert!(node.actions.contains("gpu_reset"));
}

#[test]
fn a_source_is_recorded_when_it_changes() {
    let mut site = Site::new(2);
    let mut say = |state| {
        let kinds = site.feed(Input::Source { source: Source::Scheduler("main".to_owned()), state });
        kinds.first().copied()
    };
    assert_eq!(say(SourceState::Fresh), Some("source.changed"));
    assert_eq!(say(SourceState::Fresh), None);
    assert_eq!(say(SourceState::Blind), Some("source.changed"));
    assert_eq!(say(SourceState::Blind), None);
}

#[test]
fn a_token_is_used_up_and_expires() {
    let mut site = Site::new(2);
    let create = |digest: &str, seconds| Action::AgentTokenCreate {
        token_sha256: digest.repeat(32),
        nodes: BTreeSet::from(["gpu001".to_owned()]),
        uses: 2,
        expires_at: T0 + Duration::from_secs(seconds),
    };
    site.ask(Role::Admin, create("aa", 60));
    let enrolled = |digest: &str| Input::AgentEnrolled {
        node: "gpu001".to_owned(),
        serial: "01".to_owned(),
        token_sha256: Some(digest.repeat(32)),
        expires_at: T0,
    };
    site.feed(enrolled("aa"));
    assert_eq!(site.state.tokens.values().map(|token| token.uses).collect::<Vec<_>>(), [1]);
    site.feed(enrolled("aa"));
    assert!(site.state.tokens.is_empty());
    site.ask(Role::Admin, create("bb", 60));
    site.now = T0 + Duration::from_secs(61);
    site.ask(Role::Admin, create("cc", 600));
    assert_eq!(site.state.tokens.len(), 1);
}

#[test]
fn an_agent_that_says_too_much_fits_into_a_record() {
    let mut site = Site::new(2);
    let mut report = report("gpu001", None);
    let gpu = |index| GpuFacts {
        index,
        pci: pci(3),
        uuid: Some("u".repeat(10_000)),
        model: Some("\u{1}".repeat(10_000)),
        serial: None,
    };
    report.gpus = Some((0..10_000).map(gpu).collect());
    report.actions = (0..10_000).map(|n| format!("{n}{}", "a".repeat(100))).collect();
    report.version = "v".repeat(100_000);
    site.feed(Input::AgentReport(Box::new(report)));
    for record in &site.records {
        assert!(record.canonical().is_ok(), "{}", record.kind());
    }
    assert_eq!(site.state.agents["gpu001"].gpus.as_ref().map(Vec::len), Some(MAX_GPUS));
}
