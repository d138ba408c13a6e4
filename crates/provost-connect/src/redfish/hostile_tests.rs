//! Servers that are broken, or mean ill: none makes us panic, hang, go elsewhere or believe something.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::testing::{Reply, Server, collection, link, machine};
use super::*;
use crate::http;

/// Asks everything of a server that answers everything with `reply`.
async fn everything(reply: Reply) -> Vec<Error> {
    let server = Server::start(move |_| reply.clone()).await;
    let bmc = server.bmc();
    let errors = [
        bmc.system().await.map(drop),
        bmc.inventory().await.map(drop),
        bmc.sensors(true).await.map(drop),
        bmc.events(10).await.map(drop),
    ];
    errors.into_iter().filter_map(Result::err).collect()
}

fn raw(text: &str) -> Reply {
    Reply::Raw(text.as_bytes().to_vec())
}

#[tokio::test]
async fn what_is_no_redfish_is_said_to_be_none() {
    let body = |body: &str| raw(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    for reply in [body("<html>login</html>"), body(""), body("[]"), body("\"x\""), body("{\"a\":")] {
        let errors = everything(reply.clone()).await;
        assert_eq!(errors.len(), 4, "{reply:?}");
        assert!(errors.iter().all(|e| matches!(e, Error::NotRedfish { .. }) && e.is_blind()), "{errors:?}");
    }
    let deep = format!("{}{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    assert!(matches!(everything(body(&deep)).await[0], Error::NotRedfish { .. }));
    let errors = everything(raw("SSH-2.0-OpenSSH_9.2\r\n")).await;
    assert!(errors.iter().all(|e| matches!(e, Error::Http(http::Error::Broken { .. }))), "{errors:?}");
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let errors = everything(Reply::Long(100 << 20)).await;
    assert!(errors.iter().all(|e| matches!(e, Error::Http(http::Error::TooLarge { .. }))), "{errors:?}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere =
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/redfish/v1/\r\nContent-Length: 0\r\n\r\n";
    let errors = everything(raw(elsewhere)).await;
    assert!(errors.iter().all(|e| matches!(e, Error::Status { status: 302, .. })), "{errors:?}");
}

#[tokio::test]
async fn one_that_hangs_is_given_up_after_its_time() {
    let server = Server::start(|_| Reply::Hang).await;
    let limits = Limits { request: Duration::from_millis(50), ..server.config().limits };
    let bmc = Bmc::new(Config { limits, ..server.config() });
    let started = Instant::now();
    let error = bmc.system().await.unwrap_err();
    assert!(matches!(error, Error::Http(http::Error::TimedOut { .. })) && !error.is_blind(), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn a_walk_ends_after_its_time_however_many_answers_come() {
    // Every sensor is another one, and each answer takes its time.
    let many: Vec<Value> = (0..500).map(|n| link(&format!("/redfish/v1/Chassis/1/Sensors/{n}"))).collect();
    let server = Server::start(move |asked| {
        Reply::Json(
            200,
            match asked.path.as_str() {
                "/redfish/v1/" => json!({"Chassis": link("/redfish/v1/Chassis")}),
                "/redfish/v1/Chassis" => collection(&["/redfish/v1/Chassis/1"]),
                "/redfish/v1/Chassis/1" => {
                    json!({"Id": "1", "Sensors": link("/redfish/v1/Chassis/1/Sensors")})
                }
                "/redfish/v1/Chassis/1/Sensors" => json!({"Members": many}),
                _ => {
                    std::thread::sleep(Duration::from_millis(2));
                    json!({"Name": "x"})
                }
            },
        )
    })
    .await;
    let limits = Limits { walk: Duration::from_millis(200), ..server.config().limits };
    let bmc = Bmc::new(Config { limits, ..server.config() });
    let error = bmc.sensors(true).await.unwrap_err();
    assert!(matches!(error, Error::Slow { .. } | Error::Http(http::Error::TimedOut { .. })), "{error:?}");
}

#[tokio::test]
async fn loops_and_ways_out_of_the_tree_are_not_walked() {
    let server = Server::tree(json!({
        "/redfish/v1": {"Systems": link("/redfish/v1/Systems"), "Chassis": link("/redfish/v1")},
        "/redfish/v1/Systems": {"Members": [link("https://elsewhere.example/redfish/v1"), link("/etc/passwd"),
            link("/redfish/v1/Systems/1"), 7, null], "Members@odata.nextLink": "/redfish/v1/Systems"},
        "/redfish/v1/Systems/1": {"Id": "1", "LogServices": link("/redfish/v1/Systems/1"),
            "Processors": link("/redfish/v1/Systems/1/Round"), "PCIeDevices": [link("/redfish/v1/Systems/1")]},
        "/redfish/v1/Systems/1/Round": {"Members": [link("/redfish/v1/Systems/1/Round")],
            "Members@odata.nextLink": "/redfish/v1/Systems/1/Round?$skip=1"},
    }))
    .await;
    let bmc = server.bmc();
    assert_eq!(bmc.system().await.unwrap().id.as_deref(), Some("1"));
    let inventory = bmc.inventory().await.unwrap();
    assert_eq!((inventory.systems.len(), inventory.parts.len()), (1, 0));
    assert!(bmc.sensors(true).await.unwrap().is_empty());
    assert!(bmc.events(10).await.unwrap().entries.is_empty());
    assert!(server.lines().len() < 40, "{:?}", server.lines());
    assert!(server.lines().iter().all(|line| line.starts_with("GET /redfish/v1")), "{:?}", server.lines());
}

#[tokio::test]
async fn a_collection_without_end_is_cut() {
    let mut page = 0;
    let server = Server::start(move |asked| {
        if asked.path == "/redfish/v1/" {
            return Reply::Json(200, json!({"Systems": link("/redfish/v1/Systems")}));
        }
        page += 1;
        let next = format!("/redfish/v1/Systems?$skip={page}");
        Reply::Json(200, json!({"Members": [], "Members@odata.nextLink": next}))
    })
    .await;
    let error = server.bmc().system().await.unwrap_err();
    assert!(matches!(error, Error::TooMuch { .. }), "{error:?}");
}

#[tokio::test]
async fn values_of_the_wrong_kind_are_unknown() {
    let wrong = [json!(null), json!(7), json!([]), json!({}), json!("Sideways"), json!(true)];
    for value in wrong {
        let system = json!({"Id": value, "PowerState": value, "Status": value, "Boot": value, "Actions": value,
            "IndicatorLED": value, "BootProgress": value, "SerialNumber": value, "Links": value});
        let server = Server::tree(machine(system)).await;
        let read = server.bmc().system().await.unwrap();
        assert_eq!((read.power, read.health, read.indicator), (None, None, None), "{value}");
        assert!(!read.can_be_switched() && read.boot == BootSource::default(), "{value}");
    }
}

#[tokio::test]
async fn a_password_is_in_no_error() {
    let file = std::env::temp_dir().join(format!("provost-bmc-{}", std::process::id()));
    std::fs::write(&file, "s3cret\n").unwrap();
    let server = Server::start(|_| Reply::Json(401, json!({"error": "s3cret is wrong"}))).await;
    let config =
        Config { user: Some("provost".to_owned()), password_file: Some(file.clone()), ..server.config() };
    for login in [Login::Basic, Login::Session] {
        let bmc = Bmc::new(Config { login, ..config.clone() });
        let error = bmc.system().await.unwrap_err();
        assert!(matches!(error, Error::Denied { status: 401 }), "{error:?}");
        assert!(!format!("{error:?} {error} {bmc:?}").contains("s3cret"));
    }
    std::fs::remove_file(&file).unwrap();
    let error = Bmc::new(config).system().await.unwrap_err();
    assert!(matches!(error, Error::Password { .. }), "{error:?}");
}
