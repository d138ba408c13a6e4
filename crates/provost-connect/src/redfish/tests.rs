//! Servers that mean well: what they say is read, in every spelling that is around.

use provost_model::bmc::{Health, Power};
use provost_model::effect::EffectResult;
use serde_json::{Value, json};

use super::testing::{Reply, Server, collection, link, machine};
use super::*;

fn host(id: &str, switched: bool) -> Value {
    let mut system = json!({"@odata.id": format!("/redfish/v1/Systems/{id}"), "Id": id, "PowerState": "On",
        "Status": {"Health": "OK"}});
    if switched {
        system["Actions"] = json!({"#ComputerSystem.Reset": {"target": "/redfish/v1/Systems/x/Reset"}});
    }
    system
}

async fn found(systems: &[(&str, bool)], named: Option<&str>) -> Result<Option<String>, Error> {
    let paths: Vec<String> = systems.iter().map(|(id, _)| format!("/redfish/v1/Systems/{id}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut tree = machine(Value::Null);
    tree["/redfish/v1/Systems"] = collection(&paths);
    for (id, switched) in systems {
        tree[format!("/redfish/v1/Systems/{id}")] = host(id, *switched);
    }
    let server = Server::tree(tree).await;
    let config = Config { system: named.map(str::to_owned), ..server.config() };
    Ok(Bmc::new(config).system().await?.id)
}

#[tokio::test]
async fn the_system_is_the_one_that_can_be_switched() {
    assert_eq!(found(&[("1", false)], None).await.unwrap().as_deref(), Some("1"));
    assert_eq!(found(&[("host", true), ("gpus", false)], None).await.unwrap().as_deref(), Some("host"));
    assert_eq!(found(&[("a", true), ("b", true)], Some("b")).await.unwrap().as_deref(), Some("b"));
    let error = found(&[("a", true), ("b", true)], None).await.unwrap_err();
    assert!(matches!(&error, Error::ManySystems { ids } if ids == &["a", "b"]), "{error:?}");
    assert!(error.to_string().contains("a, b"));
    for (systems, named) in
        [(&[][..], None), (&[("a", false), ("b", false)], None), (&[("a", true)], Some("z"))]
    {
        let error = found(systems, named).await.unwrap_err();
        assert!(matches!(error, Error::NoSystem { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_system_is_looked_for_once_and_again_where_it_has_moved() {
    let mut looks = 0;
    let server = Server::start(move |asked| {
        let first = "/redfish/v1/Systems/1";
        looks += u32::from(asked.path == first);
        match asked.path.as_str() {
            "/redfish/v1/" => Reply::Json(200, json!({"Systems": link("/redfish/v1/Systems")})),
            "/redfish/v1/Systems" if looks < 3 => Reply::Json(200, collection(&[first])),
            "/redfish/v1/Systems" => Reply::Json(200, collection(&["/redfish/v1/Systems/Self"])),
            path if path == first && looks < 3 => Reply::Json(200, host("1", true)),
            "/redfish/v1/Systems/Self" => Reply::Json(200, host("Self", true)),
            _ => Reply::Json(404, Value::Null),
        }
    })
    .await;
    let bmc = server.bmc();
    for expected in ["1", "1", "Self", "Self"] {
        assert_eq!(bmc.system().await.unwrap().id.as_deref(), Some(expected));
    }
    assert_eq!(server.lines().len(), 3 + 1 + 4 + 1);
}

#[tokio::test]
async fn everything_that_is_said_is_read() {
    let server = Server::tree(machine(json!({
        "Id": "1", "Manufacturer": "HPE", "Model": "", "SerialNumber": " MXQ1 ", "BiosVersion": "U32 v2.10",
        "PowerState": "PoweringOn", "Status": {"Health": "OK", "HealthRollup": "Warning"},
        "BootProgress": {"LastState": "OSRunning"}, "LastResetTime": "2026-12-01T00:00:00Z",
        "LocationIndicatorActive": true,
        "Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe",
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", 5]},
    })))
    .await;
    let read = server.bmc().system().await.unwrap();
    assert_eq!((read.power, read.health), (Some(Power::PoweringOn), Some(Health::Warning)));
    assert_eq!(
        (read.manufacturer.as_deref(), read.model, read.serial.as_deref()),
        (Some("HPE"), None, Some("MXQ1"))
    );
    assert_eq!((read.bios.as_deref(), read.boot_progress.as_deref()), (Some("U32 v2.10"), Some("OSRunning")));
    assert_eq!(read.indicator, Some(Indicator::Blinking));
    assert_eq!((read.boot.enabled, read.boot.target.as_deref()), (Some(Enabled::Once), Some("Pxe")));
    assert_eq!(read.boot.offered, Some(vec!["None".to_owned(), "Pxe".to_owned()]));
}

#[tokio::test]
async fn parts_are_read_from_wherever_they_are_listed() {
    let mut tree = machine(json!({"Id": "1", "Processors": link("/redfish/v1/P"),
        "GraphicsControllers": link("/redfish/v1/G"), "PCIeDevices": [link("/redfish/v1/D/1"), link("/redfish/v1/D/2")]}));
    tree["/redfish/v1/P"] =
        collection(&["/redfish/v1/P/1", "/redfish/v1/P/2", "/redfish/v1/P/3", "/redfish/v1/P/9"]);
    tree["/redfish/v1/P/1"] = json!({"Id": "CPU1", "ProcessorType": "CPU", "Model": "Grace"});
    tree["/redfish/v1/P/2"] = json!({"Id": "GPU_0", "ProcessorType": "GPU", "SerialNumber": "16", "Status": {"Health": "Critical"}});
    tree["/redfish/v1/P/3"] = json!({"Id": "CPU2", "ProcessorType": "CPU", "Status": {"State": "Absent"}});
    tree["/redfish/v1/G"] = collection(&["/redfish/v1/G/1"]);
    tree["/redfish/v1/G/1"] = json!({"Id": "Gfx", "SerialNumber": "16"});
    tree["/redfish/v1/D/1"] =
        json!({"Id": "Slot3", "Model": "H100", "PCIeFunctions": link("/redfish/v1/D/1/F")});
    tree["/redfish/v1/D/1/F"] = collection(&["/redfish/v1/D/1/F/0"]);
    tree["/redfish/v1/D/1/F/0"] = json!({"DeviceClass": "DisplayController"});
    tree["/redfish/v1/D/2"] = json!({"Id": "Nic", "PCIeFunctions": link("/redfish/v1/D/2/F")});
    tree["/redfish/v1/D/2/F"] = json!({"Members": [{"Id": "0", "DeviceClass": "NetworkController"}]});
    let inventory = Server::tree(tree).await.bmc().inventory().await.unwrap();
    let parts: Vec<(&str, PartKind)> =
        inventory.parts.iter().map(|part| (part.id.as_str(), part.kind)).collect();
    assert_eq!(parts, [("CPU1", PartKind::Cpu), ("GPU_0", PartKind::Gpu), ("Slot3", PartKind::Gpu)]);
    assert_eq!(inventory.parts[1].health, Some(Health::Critical));
}

#[tokio::test]
async fn the_newest_events_come_first_over_all_pages() {
    let mut tree = machine(json!({"Id": "1", "LogServices": link("/redfish/v1/L")}));
    tree["/redfish/v1/L"] = collection(&["/redfish/v1/L/SEL", "/redfish/v1/L/Dump"]);
    tree["/redfish/v1/L/SEL"] = json!({"Id": "SEL", "Entries": link("/redfish/v1/L/SEL/Entries")});
    tree["/redfish/v1/L/Dump"] = json!({"Id": "Dump", "Entries": link("/redfish/v1/L/SEL/Entries")});
    tree["/redfish/v1/L/SEL/Entries"] = json!({"Members": [
        {"Id": "1", "Created": "2024-08-21T05:27:15+00:00", "Severity": "OK", "Message": "low"},
        {"Id": "2", "Created": "yesterday", "Severity": "Odd"}],
        "Members@odata.nextLink": "/redfish/v1/L/SEL/Entries?$skip=2"});
    tree["/redfish/v1/L/SEL/Entries?$skip=2"] =
        json!({"Members": [{"Id": "3", "Created": "2024-08-22T05:27:15+02:00", "Severity": "Critical"}]});
    let server = Server::tree(tree.clone()).await;
    let read = server.bmc().events(10).await.unwrap();
    let ids: Vec<&str> = read.entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!((ids, read.complete), (vec!["3", "1", "2"], true));
    assert_eq!((read.entries[0].severity, read.entries[2].severity), (Some(Health::Critical), None));
    let two = server.bmc().events(2).await.unwrap();
    assert_eq!((two.entries.len(), two.complete), (2, false));
    // A page that can't be read: what there is counts, and that it is not all is said.
    tree.as_object_mut().unwrap().remove("/redfish/v1/L/SEL/Entries?$skip=2");
    let read = Server::tree(tree).await.bmc().events(10).await.unwrap();
    assert_eq!((read.entries.len(), read.complete), (2, false));
}

#[tokio::test]
async fn both_forms_of_sensors_are_read_and_none_twice() {
    let mut tree = machine(json!({"Id": "1"}));
    tree["/redfish/v1/Chassis"] = collection(&["/redfish/v1/Chassis/old", "/redfish/v1/Chassis/new"]);
    let thermal = json!({"Temperatures": [{"Name": "Inlet", "ReadingCelsius": 50, "UpperThresholdCritical": 42,
        "Status": {"State": "Enabled", "Health": "OK"}}], "Fans": [{"Name": "Fan 1", "Reading": 23, "ReadingUnits": "Percent"}]});
    tree["/redfish/v1/Chassis/old"] =
        json!({"Id": "old", "Thermal": link("/redfish/v1/T"), "Power": link("/redfish/v1/W")});
    tree["/redfish/v1/T"] = thermal;
    tree["/redfish/v1/W"] = json!({"PowerControl": [{"Name": "Input", "PowerConsumedWatts": 344}]});
    tree["/redfish/v1/Chassis/new"] = json!({"Id": "new", "Thermal": link("/redfish/v1/T"), "Sensors": link("/redfish/v1/S"),
        "ThermalSubsystem": link("/redfish/v1/TS")});
    tree["/redfish/v1/S"] = collection(&["/redfish/v1/S/1"]);
    tree["/redfish/v1/S/1"] = json!({"Id": "GPU_0_Temp", "Reading": 41.5, "ReadingUnits": "Cel"});
    tree["/redfish/v1/TS"] = json!({"LeakDetection": link("/redfish/v1/LD")});
    tree["/redfish/v1/LD"] = json!({"LeakDetectors": link("/redfish/v1/LDs")});
    tree["/redfish/v1/LDs"] = json!({"Members": [{"@odata.id": "/redfish/v1/LDs/1", "Name": "tray", "DetectorState": "Critical",
        "Status": {"State": "Disabled"}}]});
    let sensors = Server::tree(tree).await.bmc().sensors(true).await.unwrap();
    let told: Vec<(&str, &str, Verdict)> = sensors
        .iter()
        .map(|sensor| (sensor.chassis.as_str(), sensor.name.as_str(), sensor.verdict))
        .collect();
    assert_eq!(
        told,
        [
            ("old", "Inlet", Verdict::Alarm),
            ("old", "Fan 1", Verdict::Ok),
            ("old", "Input", Verdict::Ok),
            ("new", "GPU_0_Temp", Verdict::Ok),
            ("new", "tray", Verdict::Fault),
        ]
    );
}

#[tokio::test]
async fn a_login_goes_with_each_request_or_for_a_walk() {
    let file = std::env::temp_dir().join(format!("provost-bmc-login-{}", std::process::id()));
    std::fs::write(&file, "s3cret\n").unwrap();
    let server = Server::start(|asked| match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/redfish/v1/") => Reply::Json(
            200,
            json!({"Systems": link("/redfish/v1/Systems"),
            "Links": {"Sessions": link("/redfish/v1/SessionService/Sessions")}}),
        ),
        ("POST", "/redfish/v1/SessionService/Sessions") => {
            let headers =
                "X-Auth-Token: t0ken\r\nLocation: https://bmc/redfish/v1/SessionService/Sessions/7\r\n";
            Reply::With(201, headers, json!({}))
        }
        ("GET", "/redfish/v1/Systems") => Reply::Json(200, collection(&["/redfish/v1/Systems/1"])),
        ("GET", "/redfish/v1/Systems/1") => Reply::Json(200, host("1", true)),
        _ => Reply::Json(204, Value::Null),
    })
    .await;
    let config =
        Config { user: Some("provost".to_owned()), password_file: Some(file.clone()), ..server.config() };
    Bmc::new(config.clone()).system().await.unwrap();
    // base64 of provost:s3cret
    assert!(
        server.asked().iter().all(|asked| asked.head.contains("authorization: Basic cHJvdm9zdDpzM2NyZXQ="))
    );
    let before = server.asked().len();
    Bmc::new(Config { login: Login::Session, ..config }).system().await.unwrap();
    let asked = &server.asked()[before..];
    let lines: Vec<String> = asked.iter().map(|asked| format!("{} {}", asked.method, asked.path)).collect();
    assert_eq!(
        lines,
        [
            "GET /redfish/v1/",
            "POST /redfish/v1/SessionService/Sessions",
            "GET /redfish/v1/",
            "GET /redfish/v1/Systems",
            "GET /redfish/v1/Systems/1",
            "DELETE /redfish/v1/SessionService/Sessions/7",
        ]
    );
    assert_eq!(asked[1].body, json!({"UserName": "provost", "Password": "s3cret"}));
    assert!(asked[2..].iter().all(|asked| asked.head.contains("x-auth-token: t0ken")));
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn a_boot_source_counts_as_it_was_read_back() {
    let done = |observed: &str, notes: &[&str]| EffectResult::Done {
        observed: observed.to_owned(),
        notes: notes.iter().map(|&note| note.to_owned()).collect(),
    };
    let not_done = |code: &str| EffectResult::NotDone { code: code.to_owned(), retry: false };
    // Which boot override the machine has, how it takes a write, and what is asked of it.
    let cases = [
        ("Disabled", "takes", Some("Pxe"), done("Pxe once", &[])),
        ("Once", "takes", None, done("no override", &[])),
        ("Disabled", "takes", None, done("no override", &["already"])),
        ("Disabled", "takes", Some("Floppy"), not_done("not_offered")),
        ("Continuous", "stays", Some("Pxe"), not_done("not_kept")),
        ("Disabled", "refuses", Some("Pxe"), not_done("not_accepted")),
        ("Disabled", "breaks", Some("Pxe"), EffectResult::Unknown { code: "failed".to_owned() }),
    ];
    for (before, way, target, expected) in cases {
        let mut boot = json!({"BootSourceOverrideEnabled": before, "BootSourceOverrideTarget": "Hdd",
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd"]});
        let server = Server::start(move |asked| {
            if asked.method == "PATCH" {
                if way == "takes" {
                    for (key, value) in asked.body["Boot"].as_object().unwrap() {
                        boot[key] = value.clone();
                    }
                }
                let status = match way {
                    "refuses" => 400,
                    "breaks" => 500,
                    _ => 204,
                };
                return Reply::Json(status, Value::Null);
            }
            let tree = machine(json!({"Id": "1", "Boot": boot}));
            Reply::Json(200, tree[asked.path.trim_end_matches('/')].clone())
        })
        .await;
        assert_eq!(server.bmc().boot_once(target).await, expected, "{before} {way} {target:?}");
    }
}
