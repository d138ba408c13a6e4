//! Changes: what is recorded, what is refused, what happens when a request comes twice.

use axum::body::Body;
use axum::http::Method;
use provost_controller::Message;
use serde_json::{Value, json};

use super::harness::{Site, request};

/// Checks the status and a part of the body of one change on a fresh site.
async fn check(path: &str, token: &str, body: Value, status: u16, part: &str) {
    let site = Site::new().await;
    let answer = site.post(path, token, &body).await;
    assert_eq!(answer.status, status, "{path} {body}: {}", answer.text);
    assert!(answer.text.contains(part), "{path} {body}: {}", answer.text);
}

#[tokio::test]
async fn changes() {
    let why = json!({"reason": "fan"});
    check("/v1/nodes/gpu001/actions/hold", "operator", why.clone(), 202, "hold_").await;
    check("/v1/nodes/gpu001/actions/hold", "viewer", why.clone(), 403, "FORBIDDEN").await;
    check("/v1/nodes/gpu001/actions/hold", "operator", json!({}), 422, "/reason").await;
    check("/v1/nodes/gpu001/actions/hold", "operator", json!({"reason": "x", "untill": 1}), 422, "/untill")
        .await;
    check("/v1/nodes/gpu999/actions/hold", "operator", why.clone(), 404, "NOT_FOUND").await;
    check("/v1/holds/hold_x/actions/release", "operator", why.clone(), 404, "hold_x").await;
    check("/v1/guard/actions/stop", "operator", why.clone(), 202, "accepted").await;
    check("/v1/guard/actions/start", "operator", why.clone(), 200, "already").await;
    check("/v1/guard/actions/stop", "viewer", why, 403, "default:deny").await;
    let mode = |scope: &str, mode: &str| json!({"reason": "r", "scope": scope, "mode": mode});
    check("/v1/modes", "admin", mode("site", "observe"), 202, "accepted").await;
    check("/v1/modes", "operator", mode("site", "observe"), 403, "FORBIDDEN").await;
    check("/v1/modes", "admin", mode("site", "inherit"), 422, "/mode").await;
    check("/v1/modes", "admin", mode("rack:r1", "act"), 422, "/scope").await;
    check("/v1/modes", "admin", mode("site", "full-auto"), 422, "/mode").await;
}

#[tokio::test]
async fn a_node_is_named_by_id_or_name() {
    let site = Site::new().await;
    let id = site.handle.state().node_by_name("gpu002").unwrap().id;
    let path = format!("/v1/nodes/{id}/actions/hold");
    let answer = site.post(&path, "operator", &json!({"reason": "fan"})).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    assert_eq!(site.handle.state().holds_on(id).count(), 1);
}

#[tokio::test]
async fn an_incident_is_taken_and_noted() {
    let site = Site::new().await;
    site.lose_gpu().await;
    let number = site.handle.state().incident_numbers.keys().next().unwrap().clone();
    let act = async |verb: &str, body: Value| {
        site.post(&format!("/v1/incidents/{number}/actions/{verb}"), "operator", &body).await.status.as_u16()
    };
    assert_eq!(act("ack", json!({"reason": "mine"})).await, 202);
    assert_eq!(act("note", json!({"reason": "smells burnt"})).await, 202);
    assert_eq!(act("severity", json!({"reason": "r", "severity": "sev1"})).await, 202);
    let state = site.handle.state();
    let incident = state.incident_by_number(&number).unwrap();
    assert_eq!(incident.owner.as_deref(), Some("local:operator"));
    assert_eq!(incident.severity.to_string(), "SEV1");
}

#[tokio::test]
async fn a_repeated_request_is_carried_out_once() {
    let site = Site::new().await;
    let send = async |reason: &str| {
        let body = Body::from(json!({"reason": reason}).to_string());
        let mut request = request(Method::POST, "/v1/nodes/gpu001/actions/hold", "operator", body);
        request.headers_mut().insert("idempotency-key", "k-1".parse().unwrap());
        site.read(request).await
    };
    let first = send("fan").await;
    let second = send("fan").await;
    assert_eq!((first.status.as_u16(), &first.text), (second.status.as_u16(), &second.text));
    assert!(first.headers.get("idempotency-replayed").is_none());
    assert_eq!(second.headers["idempotency-replayed"], "true");
    assert_eq!(site.handle.state().holds.len(), 1);
    let other = send("another fan").await;
    assert_eq!((other.status.as_u16(), &other.json()["code"]), (422, &json!("IDEMPOTENCY_KEY_REUSED")));
    let page = site.get("/v1/audit-events?type=hold.placed", "viewer").await.json();
    assert_eq!(page["items"][0]["corr"]["request"], "k-1", "records name the request");
}

#[tokio::test]
async fn a_token_is_shown_once() {
    let site = Site::new().await;
    let body =
        json!({"reason": "new rack", "nodes": ["gpu[001-002]", "gpu009"], "uses": 3, "ttl_seconds": 3600});
    let send = async || {
        let body = Body::from(body.to_string());
        let mut request = request(Method::POST, "/v1/agent-tokens", "admin", body);
        request.headers_mut().insert("idempotency-key", "k-2".parse().unwrap());
        site.read(request).await
    };
    let first = send().await;
    assert_eq!(first.status, 202, "{}", first.text);
    assert_eq!(first.json()["token"], "secret-0");
    assert_eq!(first.json()["expires_at"], "2026-11-30T20:00:00.000Z");
    assert!(!send().await.text.contains("secret"), "the second time it is gone");
    let state = site.handle.state();
    let token = state.tokens.values().next().unwrap();
    assert_eq!(token.nodes.iter().map(String::as_str).collect::<Vec<_>>(), ["gpu001", "gpu002", "gpu009"]);
    assert_eq!(token.uses, 3);
}

#[tokio::test]
async fn tokens_are_bounded() {
    let token = |nodes: Value, ttl: i64| json!({"reason": "r", "nodes": nodes, "ttl_seconds": ttl});
    check("/v1/agent-tokens", "admin", token(json!(["many[1-5000]"]), 60), 422, "4096").await;
    check("/v1/agent-tokens", "admin", token(json!(["gpu[001"]), 60), 422, "/nodes").await;
    check("/v1/agent-tokens", "admin", token(json!(["gpu001"]), 0), 422, "/ttl_seconds").await;
    check("/v1/agent-tokens", "admin", token(json!(["gpu001"]), 31 * 86_400), 422, "/ttl_seconds").await;
    check("/v1/agent-tokens", "operator", token(json!(["gpu001"]), 60), 403, "FORBIDDEN").await;
}

#[tokio::test]
async fn bodies_that_are_refused() {
    let site = Site::new().await;
    let path = "/v1/guard/actions/stop";
    let check = async |body: Vec<u8>, media: &str, status: u16, code: &str| {
        let mut request = request(Method::POST, path, "operator", Body::from(body));
        request.headers_mut().insert("content-type", media.parse().unwrap());
        let answer = site.read(request).await;
        assert_eq!((answer.status.as_u16(), answer.json()["code"].as_str().unwrap()), (status, code));
        assert_eq!(answer.headers["content-type"], "application/problem+json");
    };
    let json = "application/json; charset=utf-8";
    check(b"{\"reason\":".to_vec(), json, 400, "MALFORMED").await;
    check(b"[]".to_vec(), json, 400, "MALFORMED").await;
    check(b"\xff".to_vec(), json, 400, "MALFORMED").await;
    check(vec![b'['; 60_000], json, 400, "MALFORMED").await;
    check(b"{}".to_vec(), "text/plain", 415, "UNSUPPORTED_MEDIA_TYPE").await;
    check(vec![b' '; 64 * 1024 + 1], json, 413, "BODY_TOO_LARGE").await;
    check(b"".to_vec(), json, 422, "INVALID").await;
    let long = json!({"reason": "x".repeat(4_097)}).to_string().into_bytes();
    check(long, json, 422, "INVALID").await;
    assert!(!site.handle.state().guard.stopped);
}

#[tokio::test]
async fn a_stopped_controller_changes_nothing_and_says_so() {
    let mut site = Site::new().await;
    site.handle.try_send(Message::Stop).unwrap();
    site.stop();
    let answer = site.post("/v1/guard/actions/stop", "operator", &json!({"reason": "r"})).await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.json()["code"], "STOPPED");
    assert!(answer.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn a_reason_stands_nowhere_in_plain() {
    let site = Site::new().await;
    let answer = site.post("/v1/guard/actions/stop", "operator", &json!({"reason": "ask Jane Doe"})).await;
    assert_eq!(answer.status, 202);
    let records = site.get("/v1/audit-events?limit=500", "admin").await.text;
    assert!(records.contains("guard.stopped") && !records.contains("Jane"));
}
