//! Asks a running controller: finds it, speaks HTTP over TLS with it, and turns its refusals into exit codes.

mod events;
mod target;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::cli::Global;
use crate::error::{Error, Exit};
pub use events::Event;
use target::Target;

/// Largest answer that is read.
const MAX_ANSWER: usize = 64 << 20;

/// How long after an answer that settled nothing the same request is sent again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// A client of one server.
pub struct Client {
    target: Target,
    timeout: Duration,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    /// Finds the server: `PROVOST_SERVER` and its files, else the one that runs on the data directory.
    pub fn find(global: &Global) -> Result<Client, Error> {
        let target = Target::find(&global.data())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Client { target, timeout: global.request_timeout.0, runtime })
    }

    /// Reads.
    pub fn get(&self, path: &str) -> Result<Value, Error> {
        self.runtime.block_on(self.within(async {
            let (status, answer) = self.exchange(Method::GET, path, None).await?;
            understood(status, &answer)
        }))
    }

    /// Changes. With one key the server carries a request out once, so it is sent again until it is known what became of
    /// it, or the time is over.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let change = Change { body, key: new_key() };
        self.runtime.block_on(self.within(async {
            loop {
                let (status, answer) = self.exchange(Method::POST, path, Some(&change)).await?;
                if !is_open(status.as_u16(), &answer) {
                    return understood(status, &answer);
                }
                tokio::time::sleep(ASK_AGAIN).await;
            }
        }))
    }

    /// Follows the live stream; `see` says whether to go on.
    pub fn follow(&self, path: &str, see: &mut dyn FnMut(Event) -> Result<bool, Error>) -> Result<(), Error> {
        self.runtime.block_on(async {
            let response = self.within(self.send(Method::GET, path, None)).await?;
            let status = response.status();
            if !status.is_success() {
                let body = self.within(read(response)).await?;
                return Err(refusal(status.as_u16(), &body));
            }
            events::follow(response.into_body(), see).await
        })
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        change: Option<&Change<'_>>,
    ) -> Result<(StatusCode, Bytes), Error> {
        let response = self.send(method, path, change).await?;
        Ok((response.status(), read(response).await?))
    }

    async fn within<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::time::timeout(self.timeout, work).await.unwrap_or_else(|_| {
            Err(Error::new(Exit::TimedOut, format!("{} did not answer in time", self.target.server))
                .remedy("look at the server's log, or give it more time with --request-timeout"))
        })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        change: Option<&Change<'_>>,
    ) -> Result<Response<Incoming>, Error> {
        let unreachable = |why: String| {
            Error::new(Exit::Unreachable, format!("no server answers at {}", self.target.server))
                .why(why)
                .remedy("start it with `provost up`, or point PROVOST_SERVER at it")
        };
        let stream =
            TcpStream::connect(&self.target.address).await.map_err(|e| unreachable(e.to_string()))?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(self.target.tls.clone())
            .connect(self.target.name.clone(), stream)
            .await
            .map_err(|e| unreachable(e.to_string()))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|e| unreachable(e.to_string()))?;
        tokio::spawn(async move {
            // The answer, or its absence, tells what became of the connection.
            drop(connection.await);
        });
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.target.address)
            .header("authorization", format!("Bearer {}", self.target.token));
        if let Some(change) = change {
            request =
                request.header("content-type", "application/json").header("idempotency-key", &change.key);
        }
        let bytes = change.map(|change| Bytes::from(change.body.to_string())).unwrap_or_default();
        let request = request
            .body(Full::new(bytes))
            .map_err(|_| Error::new(Exit::Usage, "a name holds characters that no address has"))?;
        sender.send_request(request).await.map_err(|e| unreachable(e.to_string()))
    }
}

/// What a request that changes something carries.
struct Change<'a> {
    body: &'a Value,
    key: String,
}

/// A key that nobody else has: 128 bits of the randomness with which the standard library seeds its maps.
fn new_key() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

/// Nobody can say yet what became of the request.
fn is_open(status: u16, answer: &[u8]) -> bool {
    let problem: Value = serde_json::from_slice(answer).unwrap_or_default();
    let code = problem.get("code").and_then(Value::as_str);
    matches!((status, code), (504, Some("OUTCOME_UNKNOWN")) | (409, Some("REQUEST_IN_FLIGHT")))
}

/// The answer as JSON, or the refusal as an error.
fn understood(status: StatusCode, answer: &[u8]) -> Result<Value, Error> {
    if !status.is_success() {
        return Err(refusal(status.as_u16(), answer));
    }
    serde_json::from_slice(answer).map_err(|_| {
        Error::new(Exit::Failure, "the server's answer is no JSON")
            .remedy("check `provost --version` on both sides")
    })
}

async fn read(response: Response<Incoming>) -> Result<Bytes, Error> {
    Limited::new(response.into_body(), MAX_ANSWER)
        .collect()
        .await
        .map(|body| body.to_bytes())
        .map_err(|e| Error::new(Exit::Unreachable, "the server's answer broke off").why(e.to_string()))
}

/// Turns problem+json into an error.
fn refusal(status: u16, body: &[u8]) -> Error {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |key: &str| problem.get(key).and_then(Value::as_str).map(str::to_owned);
    let code = text("code").unwrap_or_default();
    let exit = match (status, code.as_str()) {
        (404, _) => Exit::NotFound,
        (401 | 403, _) => Exit::Denied,
        (409, "GUARDED") => Exit::Guarded,
        (409, _) => Exit::Conflict,
        (400 | 415 | 422, _) => Exit::Usage,
        _ => Exit::Failure,
    };
    let mut why: Vec<String> = text("detail").into_iter().collect();
    for error in problem.get("errors").and_then(Value::as_array).into_iter().flatten() {
        let part = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        why.push(format!("{}: {}", part("pointer").trim_start_matches('/'), part("detail")));
    }
    let title = text("title").unwrap_or_else(|| format!("the server answered {status}"));
    let mut error = Error::new(exit, if code.is_empty() { title } else { format!("{title} ({code})") });
    error.why = (!why.is_empty()).then(|| why.join("; "));
    error.remedy = text("remedy");
    error.trace = text("trace_id");
    error
}

/// A part of a path, with everything escaped that is not plain.
pub fn escape(part: &str) -> String {
    part.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(b).to_string(),
            _ => format!("%{b:02X}"),
        })
        .collect()
}

/// A path with the parameters that are there.
pub fn with_query(path: &str, query: &[(&str, Option<String>)]) -> String {
    let mut out = path.to_owned();
    for (key, value) in query {
        if let Some(value) = value {
            out.push(if out.contains('?') { '&' } else { '?' });
            out.push_str(&format!("{key}={}", escape(value)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_become_exit_codes() {
        let check = |status, body: &str, exit| {
            assert_eq!(refusal(status, body.as_bytes()).exit, exit, "{status} {body}")
        };
        check(404, "{}", Exit::NotFound);
        check(401, "", Exit::Denied);
        check(403, "{}", Exit::Denied);
        check(409, r#"{"code":"CONFLICT"}"#, Exit::Conflict);
        check(409, r#"{"code":"GUARDED"}"#, Exit::Guarded);
        check(422, "{}", Exit::Usage);
        check(503, r#"{"code":"AUDIT_UNAVAILABLE"}"#, Exit::Failure);
        check(500, "<html>", Exit::Failure);
    }

    #[test]
    fn only_what_nobody_can_say_yet_is_asked_again() {
        let check =
            |status, body: &str, open| assert_eq!(is_open(status, body.as_bytes()), open, "{status} {body}");
        check(504, r#"{"code":"OUTCOME_UNKNOWN"}"#, true);
        check(409, r#"{"code":"REQUEST_IN_FLIGHT"}"#, true);
        check(409, r#"{"code":"CONFLICT"}"#, false);
        check(504, "<html>", false);
        check(200, r#"{"code":"OUTCOME_UNKNOWN"}"#, false);
        check(503, r#"{"code":"AUDIT_UNAVAILABLE"}"#, false);
        assert_ne!(new_key(), new_key());
        assert_eq!(new_key().len(), 32);
    }

    #[test]
    fn paths_are_escaped() {
        assert_eq!(
            escape("slurm:main:7@2026-11-30T00:00:00.000Z"),
            "slurm%3Amain%3A7%402026-11-30T00%3A00%3A00.000Z"
        );
        assert_eq!(escape("../x?y"), "..%2Fx%3Fy");
        assert_eq!(
            with_query("/v1/jobs", &[("node", Some("a b".into())), ("state", None), ("x", Some("1".into()))]),
            "/v1/jobs?node=a%20b&x=1"
        );
    }
}
