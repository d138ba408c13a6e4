//! A server for tests that answers as it is told, however wrong that is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{Bmc, Config, Limits};
use crate::http::Endpoint;

/// One request as it came.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    /// Request line and headers.
    pub(super) head: String,
    pub(super) body: Value,
}

/// What to answer.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// A status with JSON.
    Json(u16, Value),
    /// A status with headers and JSON.
    With(u16, &'static str, Value),
    /// These bytes as they are, then the end of the connection.
    Raw(Vec<u8>),
    /// So many bytes of a body, in pieces.
    Long(usize),
    /// Nothing, for ever.
    Hang,
}

/// A server on loopback, until it is dropped.
pub(super) struct Server {
    pub(super) endpoint: Endpoint,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Answers with what `answer` says.
    pub(super) async fn start(answer: impl FnMut(&Asked) -> Reply + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint::Loopback(listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, noted) = (Arc::new(Mutex::new(answer)), Arc::clone(&asked));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (answer, noted) = (Arc::clone(&answer), Arc::clone(&noted));
                tokio::spawn(async move {
                    let Some((mut stream, asked)) = read(stream).await else { return };
                    let reply = (answer.lock().unwrap())(&asked);
                    noted.lock().unwrap().push(asked);
                    write(&mut stream, reply).await;
                });
            }
        });
        Server { endpoint, asked, task }
    }

    /// Serves a tree of resources, and 404 for others.
    pub(super) async fn tree(tree: Value) -> Server {
        let tree: BTreeMap<String, Value> = serde_json::from_value(tree).unwrap();
        Server::start(move |asked| match tree.get(asked.path.trim_end_matches('/')) {
            Some(value) => Reply::Json(200, value.clone()),
            None => Reply::Json(404, json!({"error": {}})),
        })
        .await
    }

    /// What was asked so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// `GET /redfish/v1/` and so on.
    pub(super) fn lines(&self) -> Vec<String> {
        self.asked().iter().map(|asked| format!("{} {}", asked.method, asked.path)).collect()
    }

    /// A client of it, with short waits.
    pub(super) fn bmc(&self) -> Bmc {
        Bmc::new(self.config())
    }

    pub(super) fn config(&self) -> Config {
        let limits = Limits {
            request: Duration::from_secs(5),
            walk: Duration::from_secs(20),
            settle: Duration::from_secs(5),
            pause: Duration::from_millis(1),
        };
        Config { limits, ..Config::at(self.endpoint.clone()) }
    }
}

async fn read(mut stream: TcpStream) -> Option<(TcpStream, Asked)> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 4_096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                let mut words = head.split(' ');
                let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
                let body = serde_json::from_str(body).unwrap_or_default();
                return Some((stream, Asked { method, path, head: head.to_owned(), body }));
            }
        }
        let read = stream.read(&mut buffer).await.ok()?;
        if read == 0 {
            return None;
        }
        bytes.extend_from_slice(&buffer[..read]);
    }
}

/// Whoever asked may be gone: it takes no more than it wants.
async fn write(stream: &mut TcpStream, reply: Reply) {
    let json = |status: u16, headers: &str, value: &Value| {
        let body = value.to_string();
        let length = body.len();
        format!("HTTP/1.1 {status} x\r\nContent-Type: application/json\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
            .into_bytes()
    };
    let bytes = match reply {
        Reply::Json(status, value) => json(status, "", &value),
        Reply::With(status, headers, value) => json(status, headers, &value),
        Reply::Raw(bytes) => bytes,
        Reply::Hang => std::future::pending().await,
        Reply::Long(length) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{").await.ok();
            let piece = vec![b' '; 64 << 10];
            for _ in 0..length / piece.len() {
                if stream.write_all(&piece).await.is_err() {
                    return;
                }
            }
            b"}".to_vec()
        }
    };
    stream.write_all(&bytes).await.ok();
}

/// A link.
pub(super) fn link(path: &str) -> Value {
    json!({"@odata.id": path})
}

/// A collection of links.
pub(super) fn collection(paths: &[&str]) -> Value {
    json!({"Members": paths.iter().map(|path| link(path)).collect::<Vec<_>>()})
}

/// The smallest tree: a root, and one system.
pub(super) fn machine(system: Value) -> Value {
    json!({
        "/redfish/v1": {"Systems": link("/redfish/v1/Systems"), "Chassis": link("/redfish/v1/Chassis")},
        "/redfish/v1/Systems": collection(&["/redfish/v1/Systems/1"]),
        "/redfish/v1/Systems/1": system,
        "/redfish/v1/Chassis": collection(&[]),
    })
}
