//! One change: read, checked, given to the controller, answered only when its records are durable. This is the
//! only place where a reply of the engine becomes a status.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use provost_controller::{Answer, Message, TrySendError};
use provost_model::input::{self, Input, Reply};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::backend::Principal;
use crate::field::{Field, Fields};
use crate::idempotency::{Begun, Ticket};
use crate::problem::{FieldError, Kind, Problem};
use crate::serve::Shared;
use crate::verbs::{Asked, Build, Built, Secret};

/// The largest body. The largest real one is a note.
pub(crate) const MAX_BODY: usize = 64 * 1024;
/// A command is answered after one commit; this long means that the journal's disk hangs.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest idempotency key.
const MAX_KEY: usize = 128;
/// Names a request that may be sent twice.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that an answer was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A change that may be asked for.
pub(crate) struct Command {
    /// Fields of its body.
    pub(crate) fields: &'static [Field],
    /// Makes the action.
    pub(crate) build: Build,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// Sequence of the first record; none where there was nothing to do.
    pub(crate) seq: Option<u64>,
    /// Ids of what was made.
    pub(crate) created: Vec<String>,
}

/// The end of a request.
pub(crate) type Answered = Result<Done, Problem>;

/// A request for a change.
pub(crate) struct Change<'a> {
    pub(crate) command: &'static Command,
    pub(crate) who: Principal,
    /// The part of the path that names the resource.
    pub(crate) id: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a HeaderMap,
    /// Names the request where the client does not.
    pub(crate) trace: &'a str,
}

impl Change<'_> {
    /// Carries the change out.
    pub(crate) async fn run(self, shared: &Arc<Shared>, body: Body) -> Result<Response, Problem> {
        let bytes = read(body).await?;
        let fields =
            Fields::of_body(self.command.fields, object(self.headers, &bytes)?).map_err(Problem::invalid)?;
        let key = idempotency_key(self.headers)?;
        let ticket = match key {
            None => None,
            Some(key) => match shared.requests.begin(&self.who.actor.sub, key, self.path, &bytes)? {
                Begun::New(ticket) => Some(ticket),
                Begun::Replay(answer) => {
                    let mut response = respond(answer?, None);
                    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
                    return Ok(response);
                }
            },
        };
        let built = {
            let state = shared.api.handle.state();
            let backend = shared.api.backend.as_ref();
            (self.command.build)(&Asked { id: self.id, fields: &fields, state: &state, backend })?
        };
        let Built { action, secret } = built;
        let input = Input::Command(Box::new(input::Command {
            actor: self.who.actor,
            roles: self.who.roles,
            request: key.unwrap_or(self.trace).to_owned(),
            reason: fields.text("reason").unwrap_or_default().to_owned(),
            action,
        }));
        let done = ask(shared, input, ticket).await?;
        Ok(respond(done, secret))
    }
}

/// Gives the input to the controller and waits for the answer, which is kept under the request's key even
/// where the client has gone meanwhile.
async fn ask(shared: &Shared, input: Input, ticket: Option<Ticket>) -> Answered {
    let (sender, receiver) = oneshot::channel();
    let answer = Box::new(move |answer: Answer| {
        let keep = answer.is_ok();
        let answered = outcome(answer);
        match ticket {
            Some(ticket) if keep => ticket.answer(answered.clone()),
            // Nothing was changed: the same request may be sent again.
            ticket => drop(ticket),
        }
        // The client may be gone.
        drop(sender.send(answered));
    });
    shared.api.handle.try_send(Message::Ask { input, answer }).map_err(|error| match error {
        TrySendError::Full => Problem::new(Kind::Overloaded, error.to_string()).retry_after(1),
        TrySendError::Stopped => Problem::new(Kind::Stopped, error.to_string()).retry_after(5),
    })?;
    match tokio::time::timeout(TIMEOUT, receiver).await {
        Ok(Ok(answered)) => answered,
        Ok(Err(_)) => Err(Problem::new(Kind::OutcomeUnknown, "the controller stopped before it answered")),
        Err(_) => Err(Problem::new(Kind::OutcomeUnknown, "the controller did not answer within 10 s")),
    }
}

/// What the engine's reply means to the one who asked.
fn outcome(answer: Answer) -> Answered {
    let reply =
        answer.map_err(|error| Problem::new(Kind::AuditUnavailable, error.to_string()).retry_after(5))?;
    match reply {
        Reply::Accepted { seq, created } => Ok(Done { seq: Some(seq), created }),
        Reply::Already => Ok(Done { seq: None, created: Vec::new() }),
        Reply::Forbidden { policies } => {
            Err(Problem::new(Kind::Forbidden, format!("decided by {}", policies.join(", "))))
        }
        Reply::NotFound { what } => Err(Problem::new(Kind::NotFound, format!("not found: {what}"))),
        Reply::Conflict { code, detail } => Err(Problem::conflict(&code, detail)),
        Reply::Invalid { field, detail } => {
            Err(Problem::invalid(vec![FieldError { pointer: format!("/{field}"), code: "invalid", detail }]))
        }
        Reply::Guarded { detail } => Err(Problem::new(Kind::Guarded, detail)),
    }
}

/// `202` where records were made, `200` where it was so already.
fn respond(done: Done, secret: Option<Secret>) -> Response {
    let (status, outcome) = match done.seq {
        Some(_) => (StatusCode::ACCEPTED, "accepted"),
        None => (StatusCode::OK, "already"),
    };
    let mut body = json!({"outcome": outcome, "seq": done.seq, "created": done.created});
    if let (Some(secret), Some(_)) = (secret, done.seq) {
        body["token"] = json!(secret.token);
        body["expires_at"] = json!(secret.expires_at);
    }
    (status, Json(body)).into_response()
}

/// The whole body, where it is small and comes in time.
async fn read(body: Body) -> Result<Bytes, Problem> {
    match tokio::time::timeout(TIMEOUT, axum::body::to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(Problem::new(Kind::BodyTooLarge, "the body is cut off or larger than 65536 bytes")),
        Err(_) => Err(Problem::malformed("the body did not arrive within 10 s", Vec::new())),
    }
}

/// The JSON object of a body; an empty body is an empty object.
fn object(headers: &HeaderMap, bytes: &[u8]) -> Result<Map<String, Value>, Problem> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(Kind::MediaType, "the Content-Type is not application/json"));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        // The text of the error may quote the body, which may hold what must not be shown.
        let detail =
            format!("line {}, column {}: not one JSON object in UTF-8", error.line(), error.column());
        Problem::new(Kind::Malformed, detail)
    })
}

/// The key of a request, where the client gave one. It stands in records, so it is bounded and plain.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get(KEY) else { return Ok(None) };
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
    let key = value.to_str().ok().filter(|key| (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(plain));
    key.map(Some).ok_or_else(|| {
        Problem::new(Kind::Malformed, "an Idempotency-Key has 1 to 128 letters, digits, `-`, `_`, `.` or `:`")
    })
}

#[cfg(test)]
mod tests {
    use provost_controller::Unavailable;

    use super::*;

    #[test]
    fn every_reply_has_a_status() {
        let check = |answer: Answer, status: u16, text: &str| {
            let result = outcome(answer);
            let (found, shown) = match result {
                Ok(done) => (respond(done.clone(), None).status(), format!("{done:?}")),
                Err(problem) => (problem.kind.entry().status, problem.body("", "").to_string()),
            };
            assert_eq!(found.as_u16(), status);
            assert!(shown.contains(text), "{shown}");
        };
        check(Ok(Reply::Accepted { seq: 7, created: vec!["hold_1".to_owned()] }), 202, "hold_1");
        check(Ok(Reply::Already), 200, "None");
        check(Ok(Reply::Forbidden { policies: vec!["role:viewer".to_owned()] }), 403, "role:viewer");
        check(Ok(Reply::NotFound { what: "node gpu9".to_owned() }), 404, "node gpu9");
        let conflict = Reply::Conflict { code: "not_waiting".to_owned(), detail: "it runs".to_owned() };
        check(Ok(conflict), 409, "NOT_WAITING");
        let invalid =
            Reply::Invalid { field: "answers/fixed".to_owned(), detail: "true or false".to_owned() };
        check(Ok(invalid), 422, "/answers/fixed");
        check(Ok(Reply::Guarded { detail: "2 of 2".to_owned() }), 409, "GUARDED");
        check(Err(Unavailable), 503, "AUDIT_UNAVAILABLE");
    }

    #[test]
    fn a_secret_is_shown_only_where_it_is_recorded() {
        let secret = || Some(Secret { token: "t".to_owned(), expires_at: Default::default() });
        let text = |done| {
            let body = respond(done, secret()).into_body();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            String::from_utf8(runtime.block_on(axum::body::to_bytes(body, 1_000)).unwrap().to_vec()).unwrap()
        };
        assert!(text(Done { seq: Some(1), created: Vec::new() }).contains(r#""token":"t""#));
        assert!(!text(Done { seq: None, created: Vec::new() }).contains("token"));
    }

    #[test]
    fn keys() {
        let check = |key: &'static str, ok: bool| {
            let headers = HeaderMap::from_iter([(KEY, HeaderValue::from_static(key))]);
            assert_eq!(idempotency_key(&headers).is_ok(), ok, "{key}");
        };
        check("0190-abc_DEF.1:2", true);
        check("", false);
        check("with space", false);
        check("mail@example.org", false);
        assert_eq!(idempotency_key(&HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn an_error_quotes_nothing_of_the_body() {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        for body in
            [&br#"{"reason": "s3cret", }"#[..], br#"["s3cret"]"#, b"s3cret", b"\xff\xfe", b"{\"a\":1e999}"]
        {
            let problem = object(&headers, body).unwrap_err();
            assert!(!problem.body("", "").to_string().contains("s3cret"), "{problem:?}");
        }
        assert!(object(&headers, b"").unwrap().is_empty());
        assert_eq!(object(&HeaderMap::new(), b"{}").unwrap_err().kind, Kind::MediaType);
    }
}
