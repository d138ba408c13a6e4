//! The search of the audit log and the story of an incident.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::harness::Site;

fn seqs(page: &Value) -> Vec<u64> {
    page["items"].as_array().unwrap().iter().map(|item| item["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn the_audit_log_in_both_directions_and_in_pages() {
    let site = Site::new().await;
    site.lose_gpu().await;
    let count = site.handle.state().seq;
    let oldest = site.get("/v1/audit-events?order=oldest&limit=500", "viewer").await.json();
    assert_eq!(seqs(&oldest), (0..count).collect::<Vec<_>>());
    assert_eq!(oldest["as_of"], count - 1);
    for order in ["", "&order=oldest"] {
        let whole = site.get(&format!("/v1/audit-events?limit=500{order}"), "viewer").await.json();
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = site.get(&format!("/v1/audit-events?limit=3{order}{cursor}"), "viewer").await.json();
            found.extend(seqs(&page));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(found, seqs(&whole), "{order}");
    }
    let newest = site.get("/v1/audit-events?limit=1", "viewer").await.json();
    assert_eq!(seqs(&newest), [count - 1]);
}

#[tokio::test]
async fn searches() {
    let site = Site::new().await;
    site.lose_gpu().await;
    site.post("/v1/guard/actions/stop", "operator", &json!({"reason": "r"})).await;
    let check = async |query: &str, kinds: &[&str]| {
        let page = site.get(&format!("/v1/audit-events?order=oldest&{query}"), "viewer").await.json();
        let found: Vec<&str> =
            page["items"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
        assert_eq!(found, kinds, "{query}");
    };
    check("type=guard.", &["guard.stopped"]).await;
    check("actor=local:operator", &["guard.stopped"]).await;
    check("type=incident.opened", &["incident.opened"]).await;
    check("since=2027-01-01T00:00:00Z", &[]).await;
    check("until=2026-01-01T00:00:00Z", &[]).await;
    check("incident=INC-2026-000001&type=incident.opened", &["incident.opened"]).await;
    check("incident=INC-2026-000002", &[]).await;
}

#[tokio::test]
async fn a_journal_that_cannot_be_read_is_said_without_its_place() {
    let site = Site::new().await;
    site.server.broken.store(true, Ordering::Relaxed);
    for path in ["/v1/audit-events", "/v1/incidents/INC-2026-000001/timeline"] {
        let answer = site.get(path, "admin").await;
        assert_eq!((answer.status.as_u16(), &answer.json()["code"]), (503, &json!("HISTORY_UNAVAILABLE")));
        assert!(!answer.text.contains("secret-place"), "{}", answer.text);
    }
}

#[tokio::test]
async fn the_story_of_an_incident() {
    let site = Site::new().await;
    site.lose_gpu().await;
    let number = site.handle.state().incident_numbers.keys().next().unwrap().clone();
    let note = json!({"reason": "smells burnt"});
    site.post(&format!("/v1/incidents/{number}/actions/note"), "operator", &note).await;
    let path = format!("/v1/incidents/{number}/timeline");
    let story = site.get(&path, "operator").await.json();
    let entries = story["items"].as_array().unwrap();
    let begins: Vec<&Value> = entries.iter().take(2).map(|entry| &entry["kind"]).collect();
    assert_eq!(begins, ["episode.opened", "incident.opened"], "what was seen, then what it led to: {story}");
    let page = site.get(&format!("{path}?limit=2"), "operator").await.json();
    let next = page["next_cursor"].as_str().expect("the story is longer");
    let rest = site.get(&format!("{path}?limit=500&cursor={next}"), "operator").await.json();
    assert_eq!([seqs(&page), seqs(&rest)].concat(), seqs(&story), "nothing twice, nothing left out");
    assert!(entries.iter().all(|entry| !entry["text"].as_str().unwrap().is_empty()), "{story}");
    assert!(seqs(&story).is_sorted());
    assert_eq!(entries.last().unwrap()["actor"], "local:operator");
    assert!(story.to_string().contains("smells burnt"));
    assert!(site.get(&path, "admin").await.text.contains("smells burnt"));
    for token in ["viewer", "service"] {
        let story = site.get(&path, token).await.text;
        assert!(story.contains("sealed") && !story.contains("burnt"), "{token}: {story}");
    }
    let missing = site.get("/v1/incidents/INC-2026-000999/timeline", "viewer").await;
    assert_eq!(missing.status, 404);
}
