//! The live stream: every record once and in order, whatever the client does.

use axum::body::{Body, BodyDataStream};
use axum::http::Method;
use provost_model::input::{Action, Command, Input};
use provost_model::policy::Role;
use provost_model::record::{Actor, ActorKind};
use tokio_stream::StreamExt as _;

use super::harness::{Site, request, started};

/// An event as a client reads it.
#[derive(Debug, PartialEq, Eq)]
struct Event {
    id: Option<u64>,
    kind: String,
    data: String,
}

/// A stream that is being read.
struct Client {
    stream: BodyDataStream,
    text: String,
}

impl Client {
    async fn open(site: &Site, path: &str, last_id: Option<&str>) -> Client {
        let mut request = request(Method::GET, path, "viewer", Body::empty());
        if let Some(id) = last_id {
            request.headers_mut().insert("last-event-id", id.parse().unwrap());
        }
        let response = site.send(request).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Client { stream: response.into_body().into_data_stream(), text: String::new() }
    }

    /// The next event; none where the stream has ended.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| {
                    block
                        .lines()
                        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                        .map(str::to_owned)
                };
                // A comment has no event.
                let Some(kind) = field("event") else { continue };
                let id = field("id").map(|id| id.parse().unwrap());
                return Some(Event { id, kind, data: field("data").unwrap() });
            }
            let chunk = self.stream.next().await?.unwrap();
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    async fn take(&mut self, n: u64) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..n {
            events.push(self.next().await.expect("the stream goes on"));
        }
        events
    }
}

fn ids(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.id.unwrap()).collect()
}

/// Stops or starts the guard, which makes a record each.
async fn toggle(site: &Site, times: usize) {
    for n in 0..times {
        let command = Command {
            actor: Actor { kind: ActorKind::Human, sub: "local:admin".to_owned() },
            roles: [Role::Admin].into(),
            request: format!("t-{n}"),
            reason: "test".to_owned(),
            action: if n % 2 == 0 { Action::GuardStop } else { Action::GuardStart },
        };
        site.feed(Input::Command(Box::new(command))).await;
    }
}

#[tokio::test]
async fn history_goes_over_into_the_live_records() {
    let site = Site::new().await;
    let mut client = Client::open(&site, "/v1/events?after=-1", None).await;
    toggle(&site, 10).await;
    let count = site.handle.state().seq;
    let events = client.take(count).await;
    assert_eq!(ids(&events), (0..count).collect::<Vec<_>>());
    toggle(&site, 2).await;
    assert_eq!(ids(&client.take(2).await), [count, count + 1]);
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds[0], "controller.started");
    assert_eq!(kinds, site.server.kinds()[..kinds.len()]);
    for event in events {
        let record: serde_json::Value = serde_json::from_str(&event.data).unwrap();
        assert_eq!((record["seq"].as_u64(), record["type"].as_str()), (event.id, Some(event.kind.as_str())));
    }
}

#[tokio::test]
async fn without_a_beginning_it_begins_now() {
    let site = Site::new().await;
    let count = site.handle.state().seq;
    let mut client = Client::open(&site, "/v1/events", None).await;
    toggle(&site, 1).await;
    assert_eq!(ids(&client.take(1).await), [count]);
}

#[tokio::test]
async fn a_client_that_comes_back_misses_nothing() {
    let site = Site::new().await;
    toggle(&site, 4).await;
    let count = site.handle.state().seq;
    let last = (count - 3).to_string();
    // The header of a client that comes back wins over the address that it first opened.
    let mut client = Client::open(&site, "/v1/events?after=0", Some(&last)).await;
    assert_eq!(ids(&client.take(2).await), [count - 2, count - 1]);
}

#[tokio::test]
async fn a_slow_client_is_fed_from_the_journal() {
    // Two live records may wait; everything beyond is overtaken while the client does not read.
    let site = Site::empty(2);
    site.feed(started()).await;
    let mut client = Client::open(&site, "/v1/events?after=-1", None).await;
    toggle(&site, 400).await;
    let count = site.handle.state().seq;
    assert!(count >= 400);
    assert_eq!(ids(&client.take(count).await), (0..count).collect::<Vec<_>>());
    toggle(&site, 2).await;
    assert_eq!(ids(&client.take(2).await), [count, count + 1]);
}

#[tokio::test]
async fn only_the_types_that_are_asked_for() {
    let site = Site::empty(2);
    site.feed(started()).await;
    toggle(&site, 3).await;
    let mut client = Client::open(&site, "/v1/events?after=-1&type=guard.stopped", None).await;
    toggle(&site, 7).await;
    let kinds = site.server.kinds();
    let expected: Vec<u64> =
        (0..).zip(&kinds).filter(|(_, kind)| *kind == "guard.stopped").map(|(n, _)| n).collect();
    assert!(expected.len() > 3);
    assert_eq!(ids(&client.take(expected.len() as u64).await), expected);
}

#[tokio::test]
async fn a_client_of_another_journal_is_told_to_list_again() {
    let site = Site::new().await;
    let count = site.handle.state().seq;
    let mut client = Client::open(&site, "/v1/events?after=1000000", None).await;
    let reset = client.next().await.unwrap();
    assert_eq!((reset.kind.as_str(), reset.data), ("reset", format!(r#"{{"as_of":{}}}"#, count - 1)));
    toggle(&site, 1).await;
    assert_eq!(ids(&client.take(1).await), [count]);
}

#[tokio::test]
async fn five_streams_a_token() {
    let site = Site::new().await;
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(Client::open(&site, "/v1/events", None).await);
    }
    let sixth = site.get("/v1/events", "viewer").await;
    assert_eq!((sixth.status.as_u16(), sixth.json()["code"].as_str().unwrap()), (429, "TOO_MANY_STREAMS"));
    let other = site.send(request(Method::GET, "/v1/events", "admin", Body::empty())).await;
    assert_eq!(other.status(), 200, "another token has places of its own");
    clients.pop();
    // The place is free once the feed has noticed.
    while site.send(request(Method::GET, "/v1/events", "viewer", Body::empty())).await.status() != 200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stream_ends_when_its_token_is_revoked() {
    let site = Site::new().await;
    let mut client = Client::open(&site, "/v1/events", None).await;
    toggle(&site, 1).await;
    client.take(1).await;
    site.server.revoke("viewer");
    assert_eq!(client.next().await, None);
}

#[tokio::test]
async fn a_stream_ends_where_the_journal_cannot_be_read() {
    let site = Site::new().await;
    site.server.broken.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut client = Client::open(&site, "/v1/events?after=-1", None).await;
    assert_eq!(client.next().await, None);
}
