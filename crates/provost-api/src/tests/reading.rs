//! Views: pages, cursors, things by name and id, probes, counts.

use axum::body::Body;
use axum::http::Method;
use serde_json::{Value, json};

use super::harness::{Site, observation, request};

fn texts(page: &Value, field: &str) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn pages_hold_every_row_once() {
    let site = Site::new().await;
    site.lose_gpu().await;
    let lists =
        ["nodes", "gpus", "incidents?state=all", "alerts?state=all", "holds", "jobs", "spares", "modes"];
    for list in lists {
        let mark = if list.contains('?') { '&' } else { '?' };
        let whole = site.get(&format!("/v1/{list}{mark}limit=500"), "viewer").await.json();
        assert!(whole["next_cursor"].is_null() && whole["as_of"].is_u64(), "{list}: {whole}");
        assert_ne!(whole["items"], json!([]), "{list} shows something");
        let (mut rows, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = site.get(&format!("/v1/{list}{mark}limit=1{cursor}"), "viewer").await.json();
            assert!(page["items"].as_array().unwrap().len() <= 1);
            rows.extend(page["items"].as_array().unwrap().clone());
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(json!(rows), whole["items"], "{list}");
    }
}

#[tokio::test]
async fn filters() {
    let site = Site::new().await;
    site.lose_gpu().await;
    let check = async |path: &str, field: &str, expected: &[&str]| {
        let page = site.get(path, "viewer").await.json();
        assert_eq!(texts(&page, field), expected, "{path}");
    };
    check("/v1/nodes", "name", &["gpu001", "gpu002", "gpu003", "spare01"]).await;
    check("/v1/nodes?phase=spare", "name", &["spare01"]).await;
    // A hold that is on its way may have been written already.
    check("/v1/marks", "node", &["gpu001"]).await;
    // Drained by a controller before this one.
    site.feed(observation(Some("provost INC-2026-000001: before"))).await;
    check("/v1/marks", "removal", &["take our mark off gpu001 in main", "take our mark off gpu003 in main"])
        .await;
    check("/v1/nodes?phase=spare,in_service", "name", &["gpu002", "gpu003", "spare01"]).await;
    check("/v1/gpus?node=gpu002&limit=2", "node", &["gpu002", "gpu002"]).await;
    check("/v1/gpus?node=nothing", "node", &[]).await;
    check("/v1/incidents?severity=sev4", "number", &[]).await;
    check("/v1/incidents?severity=sev2,sev1", "severity", &["SEV2"]).await;
    check("/v1/holds?node=gpu001", "node", &["gpu001"]).await;
    check("/v1/holds?node=gpu002", "node", &[]).await;
    check("/v1/jobs?node=gpu001", "project", &["physics"]).await;
    check("/v1/jobs?node=gpu002", "project", &[]).await;
    check("/v1/spares", "node", &["spare01"]).await;
    check("/v1/modes", "scope", &["scheduler:main", "site"]).await;
    check("/v1/executions", "id", &[]).await;
}

#[tokio::test]
async fn things_by_name_and_id() {
    let site = Site::new().await;
    site.lose_gpu().await;
    let lists = [
        ("nodes", "name"),
        ("nodes", "id"),
        ("gpus", "id"),
        ("incidents", "number"),
        ("incidents", "id"),
        ("alerts", "id"),
        ("holds", "id"),
        ("jobs", "id"),
    ];
    for (list, field) in lists {
        let page = site.get(&format!("/v1/{list}"), "viewer").await.json();
        let item = &page["items"][0];
        let path = format!("/v1/{list}/{}", item[field].as_str().unwrap());
        assert_eq!(site.get(&path, "viewer").await.json(), *item, "{path}");
        let missing = site.get(&format!("/v1/{list}/nothing"), "viewer").await;
        assert_eq!((missing.status.as_u16(), &missing.json()["code"]), (404, &json!("NOT_FOUND")), "{list}");
    }
}

#[tokio::test]
async fn the_whole_site_on_one_screen() {
    let site = Site::new().await;
    site.lose_gpu().await;
    let status = site.get("/v1/status", "viewer").await.json();
    assert_eq!(status["site"], "test");
    assert_eq!(status["version"], "1.2.3");
    assert_eq!(status["gpus"], 32);
    assert_ne!(status["verdict"], "ok");
    let guard = site.get("/v1/guard", "viewer").await.json();
    assert_eq!((&guard["nodes"], &guard["stopped"]), (&json!(4), &json!(false)));
}

#[tokio::test]
async fn queries_that_are_refused() {
    let site = Site::new().await;
    let check = async |path: &str, pointer: &str| {
        let answer = site.get(path, "viewer").await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.text);
        assert_eq!(answer.json()["errors"][0]["pointer"], pointer, "{path}");
    };
    check("/v1/nodes?limit=0", "?limit").await;
    check("/v1/nodes?limit=501", "?limit").await;
    check("/v1/nodes?phases=spare", "?phases").await;
    check("/v1/nodes?phase=broken", "?phase").await;
    check("/v1/nodes?cursor=AAAA", "?cursor").await;
    check("/v1/status?x=1", "?x").await;
    check("/v1/audit-events?since=yesterday", "?since").await;
    check("/v1/events?after=-2", "?after").await;
    let long = format!("/v1/nodes/{}", "x".repeat(257));
    assert_eq!(site.get(&long, "viewer").await.status, 400);
    assert_eq!(site.get("/v1/nodes/%ff", "viewer").await.status, 400);
    assert_eq!(site.get("/v1/nodes/a%0ab", "viewer").await.status, 400);
}

#[tokio::test]
async fn a_cursor_of_other_filters_is_refused() {
    let site = Site::new().await;
    let page = site.get("/v1/nodes?limit=1&phase=in_service", "viewer").await.json();
    let cursor = page["next_cursor"].as_str().unwrap();
    let answer = site.get(&format!("/v1/nodes?limit=1&phase=spare&cursor={cursor}"), "viewer").await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn ready_once_the_controller_has_begun() {
    let site = Site::empty(8);
    assert_eq!(site.get("/livez", "").await.status, 200);
    let before = site.get("/readyz", "").await;
    assert_eq!((before.status.as_u16(), &before.json()["code"]), (503, &json!("STOPPED")));
    site.feed(super::harness::started()).await;
    let after = site.get("/readyz", "").await;
    assert_eq!(
        (after.status.as_u16(), after.json()),
        (200, json!({"ready": true, "epoch": 1, "journal": "available"}))
    );
}

#[tokio::test]
async fn counts_for_prometheus() {
    let site = Site::new().await;
    site.lose_gpu().await;
    let answer = site.get("/metrics", "").await;
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4"));
    for line in [
        "provost_build_info{version=\"1.2.3\"} 1",
        "provost_signals_total 1",
        "provost_nodes{phase=\"spare\"} 1",
        "provost_incidents_open{severity=\"sev1\"} 0",
        "provost_incidents_open{severity=\"sev2\"} 1",
        "provost_mode{mode=\"act\"} 1",
        "provost_mode{mode=\"observe\"} 0",
        "provost_guard_stopped 0",
        "provost_journal_available 1",
        "provost_epoch 1",
    ] {
        assert!(answer.text.lines().any(|found| found == line), "{line}\n{}", answer.text);
    }
    let samples = answer.text.lines().filter(|line| !line.starts_with('#'));
    for sample in samples {
        let (name, value) = sample.rsplit_once(' ').unwrap();
        let name = name.split('{').next().unwrap();
        assert!(answer.text.contains(&format!("# TYPE {name} ")), "{sample}");
        assert!(value.parse::<f64>().is_ok(), "{sample}");
        assert!(!sample.contains("gpu001"), "{sample}");
    }
}

#[tokio::test]
async fn every_answer_is_framed() {
    let site = Site::new().await;
    for (path, status) in [("/livez", 200), ("/v1/nodes", 401), ("/nothing", 404), ("/v1/nodes/x", 401)] {
        let answer = site.get(path, "").await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.headers["cache-control"], "no-store", "{path}");
        assert!(answer.headers.contains_key("x-request-id"), "{path}");
    }
    let unauthenticated = site.get("/v1/nodes", "").await;
    assert!(unauthenticated.headers["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
    let body = unauthenticated.json();
    assert_eq!(body["instance"], "/v1/nodes");
    assert_eq!(body["trace_id"], unauthenticated.headers["x-request-id"].to_str().unwrap());
    let wrong = site.read(request(Method::DELETE, "/v1/nodes", "admin", Body::empty())).await;
    assert_eq!((wrong.status.as_u16(), &wrong.json()["code"]), (405, &json!("METHOD_NOT_ALLOWED")));
    assert!(wrong.headers["allow"].to_str().unwrap().contains("GET"));
}

#[tokio::test]
async fn the_document_is_served() {
    let document = Site::empty(8).get("/openapi.json", "").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], "1.2.3");
}
