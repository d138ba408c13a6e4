//! Answers recorded from servers of two vendors, and single bodies of many kinds: read in place from `../shared`.

use std::path::{Path, PathBuf};

use provost_model::bmc::{Health, Power};
use serde_json::{Value, json};

use super::testing::{Server, collection, link};
use super::*;

/// The recordings, or `None` (said so) where this checkout stands alone; in CI they must be there.
fn recordings(test: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/data");
    if !path.is_dir() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{} is missing", path.display());
        println!("skipped: {test} needs ../shared");
        return None;
    }
    Some(path)
}

fn body(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap()
}

/// A server of these files, each at its path.
async fn served(folder: &Path, files: &[(&str, &str)]) -> Server {
    let mut tree = json!({});
    for (path, file) in files {
        tree[*path] = body(folder, file);
    }
    let chassis: Vec<&str> =
        files.iter().map(|(path, _)| *path).filter(|path| path.matches('/').count() == 4).collect();
    let chassis: Vec<&str> = chassis.into_iter().filter(|path| path.contains("/Chassis/")).collect();
    tree["/redfish/v1/Chassis"] = collection(&chassis);
    Server::tree(tree).await
}

fn told(sensors: &[Sensor]) -> Vec<String> {
    let line = |sensor: &Sensor| {
        let reading = sensor.reading.map_or("-".to_owned(), |reading| reading.to_string());
        format!("{} {reading} {:?}", sensor.name, sensor.verdict)
    };
    sensors.iter().map(line).collect()
}

#[tokio::test]
async fn a_dell_is_read() {
    let Some(folder) = recordings("a_dell_is_read") else { return };
    let files = [
        ("/redfish/v1", "base.json"),
        ("/redfish/v1/Systems", "dell/dell_available_systems.json"),
        ("/redfish/v1/Systems/System.Embedded.1", "dell/dell_systems.json"),
        ("/redfish/v1/Chassis/System.Embedded.1", "dell/dell_chassis.json"),
        ("/redfish/v1/Chassis/System.Embedded.1/Thermal", "dell/dell_thermal.json"),
        ("/redfish/v1/Chassis/System.Embedded.1/Power", "dell/dell_power.json"),
    ];
    let server = served(&folder.join("redfish-telegraf"), &files).await;
    let system = server.bmc().system().await.unwrap();
    assert_eq!((system.power, system.health), (Some(Power::On), Some(Health::Ok)));
    assert_eq!(
        (system.serial.as_deref(), system.model.as_deref()),
        (Some("CNIVC007CV0803"), Some("PowerEdge R640"))
    );
    assert!(system.can_be_switched());
    let sensors = told(&server.bmc().sensors(true).await.unwrap());
    assert_eq!(sensors.len(), 1 + 16 + 3 + 1 + 1);
    for expected in
        ["CPU1 Temp 40 Ok", "System Board Fan1A 17760 Ok", "System Power Control 429 Ok", "PS1 Status - Ok"]
    {
        assert!(sensors.iter().any(|sensor| sensor == expected), "{expected} is not in {sensors:?}");
    }
}

#[tokio::test]
async fn an_hpe_is_read_in_both_forms() {
    let Some(folder) = recordings("an_hpe_is_read_in_both_forms") else { return };
    let folder = folder.join("redfish-telegraf");
    let system = [
        ("/redfish/v1", "base.json"),
        ("/redfish/v1/Systems", "hp/hp_available_systems.json"),
        ("/redfish/v1/Systems/1", "hp/hp_systems.json"),
    ];
    let old = [
        ("/redfish/v1/Chassis/1", "hp/hp_chassis.json"),
        ("/redfish/v1/Chassis/1/Thermal", "hp/hp_thermal.json"),
        ("/redfish/v1/Chassis/1/Power", "hp/hp_power.json"),
    ];
    let server = served(&folder, &[&system[..], &old[..]].concat()).await;
    let read = server.bmc().system().await.unwrap();
    assert_eq!(
        (read.power, read.serial.as_deref(), read.indicator),
        (Some(Power::On), Some("MXQ93003RB"), Some(Indicator::Off))
    );
    assert_eq!((read.boot.enabled, read.boot.target), (Some(Enabled::Disabled), None));
    let sensors = told(&server.bmc().sensors(true).await.unwrap());
    for expected in
        ["01-Inlet Ambient 19 Ok", "Fan 1 23 Ok", "PowerControl 221 Ok", "HpeServerPowerSupply 90 Ok"]
    {
        assert!(sensors.iter().any(|sensor| sensor == expected), "{expected} is not in {sensors:?}");
    }
    let new = [
        ("/redfish/v1/Chassis/1", "hp/hp_chassis_subsys.json"),
        ("/redfish/v1/Chassis/1/ThermalSubsystem", "hp/thermal_subsys/hp_thermal_subsys.json"),
        (
            "/redfish/v1/Chassis/1/ThermalSubsystem/ThermalMetrics",
            "hp/thermal_subsys/hp_thermal_metrics.json",
        ),
        ("/redfish/v1/Chassis/1/ThermalSubsystem/Fans", "hp/thermal_subsys/hp_thermal_subsys_fans.json"),
        ("/redfish/v1/Chassis/1/ThermalSubsystem/Fans/0", "hp/thermal_subsys/hp_thermal_subsys_fans_0.json"),
    ];
    let server = served(&folder, &[&system[..], &new[..]].concat()).await;
    let sensors = told(&server.bmc().sensors(true).await.unwrap());
    assert_eq!(sensors, ["01-Inlet Ambient 19 Ok", "02-CPU 1 PkgTmp 42 Ok", "Fan 1 20 Ok"]);
}

#[tokio::test]
async fn no_recorded_body_is_taken_for_what_it_is_not() {
    let Some(folder) = recordings("no_recorded_body_is_taken_for_what_it_is_not") else { return };
    let mut bodies = Vec::new();
    for file in std::fs::read_dir(folder.join("redfish-cooling-bodies")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            // Some of them are no JSON: those are answers too.
            bodies.extend(serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).ok());
        }
    }
    assert!(bodies.len() > 30);
    for body in bodies {
        let is_system = body["@odata.type"].as_str().is_some_and(|kind| kind.contains("ComputerSystem"));
        let tree = json!({
            "/redfish/v1": {"Systems": link("/redfish/v1/Systems"), "Chassis": link("/redfish/v1/Chassis")},
            "/redfish/v1/Systems": collection(&["/redfish/v1/Systems/1"]),
            "/redfish/v1/Systems/1": body,
            "/redfish/v1/Chassis": collection(&["/redfish/v1/Systems/1"]),
        });
        let server = Server::tree(tree).await;
        let bmc = server.bmc();
        if let Ok(system) = bmc.system().await {
            assert!(is_system || !system.can_be_switched(), "{}", body["@odata.type"]);
        }
        drop(bmc.sensors(true).await);
    }
}
