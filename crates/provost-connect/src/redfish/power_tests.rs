//! Machines that do as they are told, and machines that do not: what is said of a power action is what was read.

use std::sync::{Arc, Mutex};

use provost_model::effect::EffectResult;
use serde_json::{Value, json};

use super::testing::{Reply, Server, link};
use super::*;

/// A machine behind a BMC.
#[derive(Clone, Debug)]
struct Machine {
    power: Value,
    /// What it takes; null where it does not say.
    offered: Value,
    /// Its `ActionInfo` says it instead.
    info: Option<Value>,
    /// What a reset is answered with.
    answer: Reply,
    /// It does what it was told.
    obeys: bool,
    /// What the power shows in the looks after a reset, one each; the last one stays.
    shows: Vec<Value>,
    last_reset: Option<&'static str>,
    /// Words of the resets that came.
    told: Vec<String>,
}

impl Machine {
    fn new(power: &str) -> Machine {
        Machine {
            power: json!(power),
            offered: json!(["On", "ForceOff", "GracefulShutdown", "ForceRestart"]),
            info: None,
            answer: Reply::Json(204, Value::Null),
            obeys: true,
            shows: Vec::new(),
            last_reset: None,
            told: Vec::new(),
        }
    }

    fn resource(&mut self) -> Value {
        if !self.told.is_empty() && !self.shows.is_empty() {
            self.power = if self.shows.len() > 1 { self.shows.remove(0) } else { self.shows[0].clone() };
        }
        let mut action = json!({"target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"});
        if !self.offered.is_null() {
            action["ResetType@Redfish.AllowableValues"] = self.offered.clone();
        }
        if self.info.is_some() {
            action["@Redfish.ActionInfo"] = json!("/redfish/v1/Systems/1/ResetActionInfo");
        }
        json!({"Id": "1", "PowerState": self.power, "LastResetTime": self.last_reset,
            "Actions": {"#ComputerSystem.Reset": action}})
    }

    fn reset(&mut self, word: &str) -> Reply {
        self.told.push(word.to_owned());
        if self.obeys && self.shows.is_empty() {
            self.power = match word {
                "On" | "ForceOn" | "PowerCycle" | "ForceRestart" => json!("On"),
                _ => json!("Off"),
            };
            if self.last_reset.is_some() {
                self.last_reset = Some("2026-12-01T00:00:01Z");
            }
        }
        self.answer.clone()
    }

    async fn serve(self) -> (Server, Arc<Mutex<Machine>>) {
        let machine = Arc::new(Mutex::new(self));
        let served = Arc::clone(&machine);
        let server = Server::start(move |asked| {
            let mut machine = served.lock().unwrap();
            match (asked.method.as_str(), asked.path.as_str()) {
                ("GET", "/redfish/v1/") => Reply::Json(200, json!({"Systems": link("/redfish/v1/Systems")})),
                ("GET", "/redfish/v1/Systems") => {
                    Reply::Json(200, json!({"Members": [link("/redfish/v1/Systems/1")]}))
                }
                ("GET", "/redfish/v1/Systems/1") => Reply::Json(200, machine.resource()),
                ("GET", "/redfish/v1/Systems/1/ResetActionInfo") => {
                    Reply::Json(200, machine.info.clone().unwrap_or_default())
                }
                ("POST", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset") => {
                    machine.reset(asked.body["ResetType"].as_str().unwrap_or("nothing"))
                }
                _ => Reply::Json(404, Value::Null),
            }
        })
        .await;
        (server, machine)
    }
}

/// Does `action` and checks what is said of it and what the machine was told.
async fn check(machine: Machine, action: PowerAction, expected: EffectResult, told: &[&str]) {
    check_with(machine, action, expected, told, |limits| limits).await;
}

async fn check_with(
    machine: Machine,
    action: PowerAction,
    expected: EffectResult,
    told: &[&str],
    limits: fn(Limits) -> Limits,
) {
    let (server, machine) = machine.serve().await;
    let config = server.config();
    let bmc = Bmc::new(Config { limits: limits(config.limits), ..config });
    assert_eq!(bmc.act(action).await, expected, "{action:?}");
    assert_eq!(machine.lock().unwrap().told, told, "{action:?}");
}

fn short(limits: Limits) -> Limits {
    Limits { settle: Duration::from_millis(40), ..limits }
}

fn done(power: &str, notes: &[&str]) -> EffectResult {
    let notes = notes.iter().map(|&note| note.to_owned()).collect();
    EffectResult::Done { observed: format!("power {power}"), notes }
}

fn not_done(code: &str) -> EffectResult {
    EffectResult::NotDone { code: code.to_owned(), retry: false }
}

fn unknown(code: &str) -> EffectResult {
    EffectResult::Unknown { code: code.to_owned() }
}

#[tokio::test]
async fn what_was_read_is_what_is_done() {
    check(Machine::new("On"), PowerAction::Off, done("off", &[]), &["ForceOff"]).await;
    check(Machine::new("Off"), PowerAction::On, done("on", &[]), &["On"]).await;
    check(Machine::new("On"), PowerAction::Shutdown, done("off", &[]), &["GracefulShutdown"]).await;
    // Off counts when it was seen twice in a row.
    let shows = ["On", "PoweringOff", "Off", "On", "Off", "Off"].map(|word| json!(word)).to_vec();
    check(Machine { shows, ..Machine::new("On") }, PowerAction::Off, done("off", &[]), &["ForceOff"]).await;
}

#[tokio::test]
async fn what_is_so_already_is_not_sent() {
    check(Machine::new("Off"), PowerAction::Off, done("off", &["already"]), &[]).await;
    check(Machine::new("Off"), PowerAction::Shutdown, done("off", &["already"]), &[]).await;
    check(Machine::new("On"), PowerAction::On, done("on", &["already"]), &[]).await;
    // A machine that is off has been cycled once it is on.
    check(Machine::new("Off"), PowerAction::Cycle, done("on", &[]), &["On"]).await;
}

#[tokio::test]
async fn the_word_is_one_that_the_server_takes() {
    let offers =
        |offered: Value| Machine { offered, last_reset: Some("2026-12-01T00:00:00Z"), ..Machine::new("On") };
    let cycled = || done("on", &[]);
    check(offers(json!(["ForceRestart", "PowerCycle"])), PowerAction::Cycle, cycled(), &["PowerCycle"]).await;
    check(offers(json!(["ForceRestart"])), PowerAction::Cycle, cycled(), &["ForceRestart"]).await;
    check(offers(json!(["On"])), PowerAction::Off, not_done("not_offered"), &[]).await;
    check(offers(json!([])), PowerAction::Off, not_done("not_offered"), &[]).await;
    check(offers(Value::Null), PowerAction::Off, done("off", &[]), &["ForceOff"]).await;
    let info = json!({"Parameters": [{"Name": "Other", "AllowableValues": ["ForceOff"]},
        {"Name": "ResetType", "AllowableValues": ["ForceOn"]}]});
    let told = |power| Machine { offered: Value::Null, info: Some(info.clone()), ..Machine::new(power) };
    check(told("Off"), PowerAction::On, done("on", &[]), &["ForceOn"]).await;
    check(told("On"), PowerAction::Off, not_done("not_offered"), &[]).await;
}

#[tokio::test]
async fn a_refusal_is_certain() {
    for (status, code) in
        [(400, "not_accepted"), (403, "refused"), (405, "not_accepted"), (307, "not_accepted")]
    {
        let machine = Machine { answer: Reply::Json(status, json!({})), obeys: false, ..Machine::new("On") };
        check(machine, PowerAction::Off, not_done(code), &["ForceOff"]).await;
    }
    check(
        Machine { power: Value::Null, ..Machine::new("On") },
        PowerAction::Off,
        not_done("power_unknown"),
        &[],
    )
    .await;
    let changes = EffectResult::NotDone { code: "power_changes".to_owned(), retry: true };
    check(Machine::new("PoweringOff"), PowerAction::Off, changes, &[]).await;
}

#[tokio::test]
async fn what_is_ambiguous_is_unknown_and_was_sent_once() {
    // It may have been done, whatever a broken answer says; that it was done is not looked at here.
    for answer in [
        Reply::Json(500, json!({})),
        Reply::Json(503, json!({})),
        Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_vec()),
        Reply::Raw(Vec::new()),
    ] {
        let code = if matches!(answer, Reply::Json(..)) { "failed" } else { "connection_lost" };
        check(Machine { answer, ..Machine::new("On") }, PowerAction::Off, unknown(code), &["ForceOff"]).await;
    }
    let hangs = Machine { answer: Reply::Hang, ..Machine::new("On") };
    let limits = |limits| Limits { request: Duration::from_millis(50), ..limits };
    check_with(hangs, PowerAction::Off, unknown("timeout"), &["ForceOff"], limits).await;
    // It took the order, and nothing happens.
    let stubborn = Machine { obeys: false, ..Machine::new("On") };
    check_with(stubborn, PowerAction::Off, unknown("no_change"), &["ForceOff"], short).await;
    // Nobody saw it lose its power, and it does not tell.
    check_with(Machine::new("On"), PowerAction::Cycle, unknown("restart_not_seen"), &["ForceRestart"], short)
        .await;
    // It says something else at each look.
    let shows = [json!("Off"), json!("On"), json!("Off"), json!(null)].to_vec();
    check_with(
        Machine { shows, ..Machine::new("On") },
        PowerAction::Off,
        unknown("unreadable"),
        &["ForceOff"],
        short,
    )
    .await;
}

#[tokio::test]
async fn a_restart_is_proved_by_what_was_seen() {
    let shows = [json!("On"), json!("Off"), json!("On"), json!("On")].to_vec();
    check(Machine { shows, ..Machine::new("On") }, PowerAction::Cycle, done("on", &[]), &["ForceRestart"])
        .await;
    let tells = Machine { last_reset: Some("2026-12-01T00:00:00Z"), ..Machine::new("On") };
    check(tells, PowerAction::Cycle, done("on", &[]), &["ForceRestart"]).await;
}

#[tokio::test]
async fn a_probe_sends_nothing() {
    for (power, action, expected) in [
        ("Off", PowerAction::Off, done("off", &[])),
        ("On", PowerAction::Off, not_done("not_done")),
        ("On", PowerAction::On, done("on", &[])),
        ("PoweringOff", PowerAction::Shutdown, unknown("power_changes")),
        ("On", PowerAction::Cycle, unknown("restart_not_seen")),
        ("Off", PowerAction::Cycle, unknown("restart_not_seen")),
        ("Upside", PowerAction::Off, unknown("power_changes")),
    ] {
        let (server, machine) = Machine::new(power).serve().await;
        assert_eq!(server.bmc().probe(action).await, expected, "{power} {action:?}");
        assert!(machine.lock().unwrap().told.is_empty());
    }
    let away = Server::start(|_| Reply::Raw(Vec::new())).await;
    assert_eq!(away.bmc().probe(PowerAction::Off).await, unknown("connection_lost"));
}

#[tokio::test]
async fn a_bmc_that_is_away_was_told_nothing() {
    let (server, _) = Machine::new("On").serve().await;
    let bmc = server.bmc();
    drop(server);
    let away = EffectResult::NotDone { code: "away".to_owned(), retry: true };
    // The port is closed once the server's task has ended.
    while bmc.system().await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(bmc.act(PowerAction::Off).await, away);
}
