//! Everything that is refused, in one form (RFC 9457): what happened, a stable code, and what to do about it.

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// A row of the catalogue.
pub(crate) struct Entry {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) title: &'static str,
    /// What to do; empty where the detail says it.
    pub(crate) remedy: &'static str,
}

macro_rules! catalogue {
    ($($kind:ident: $status:ident, $code:literal, $title:literal, $remedy:literal;)*) => {
        /// Kinds of refusals.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind { $($kind,)* }

        /// Every kind, for the document and its test.
        pub(crate) const KINDS: &[Kind] = &[$(Kind::$kind,)*];

        impl Kind {
            /// Its row of the catalogue.
            pub(crate) fn entry(self) -> Entry {
                let (status, code, title, remedy) = match self {
                    $(Kind::$kind => (StatusCode::$status, $code, $title, $remedy),)*
                };
                Entry { status, code, title, remedy }
            }
        }
    };
}

catalogue! {
    Malformed: BAD_REQUEST, "MALFORMED", "The request can't be read",
        "correct the request and send it again";
    Unauthenticated: UNAUTHORIZED, "UNAUTHENTICATED", "No valid token",
        "send a token that has not expired: `Authorization: Bearer …` (the command line reads PROVOST_TOKEN_FILE)";
    Forbidden: FORBIDDEN, "FORBIDDEN", "Not allowed for your roles",
        "ask somebody who has the role, or an administrator for it";
    NotFound: NOT_FOUND, "NOT_FOUND", "There is no such thing",
        "look at the list for its name or id";
    MethodNotAllowed: METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "This resource does not answer to that method",
        "see /openapi.json";
    Conflict: CONFLICT, "CONFLICT", "The state does not allow it", "";
    InFlight: CONFLICT, "REQUEST_IN_FLIGHT", "The same request is being answered",
        "wait, then send it again with the same Idempotency-Key";
    Guarded: CONFLICT, "GUARDED", "The governor does not allow it now",
        "see `provost guard status`; it goes on when there is budget again";
    BodyTooLarge: PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", "The body is too large",
        "send at most 64 KiB";
    MediaType: UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", "The body is not JSON",
        "send `Content-Type: application/json`";
    Invalid: UNPROCESSABLE_ENTITY, "INVALID", "The request does not make sense",
        "correct what `errors` names";
    KeyReused: UNPROCESSABLE_ENTITY, "IDEMPOTENCY_KEY_REUSED", "This Idempotency-Key was used for another request",
        "take a new key for a new request";
    TooManyStreams: TOO_MANY_REQUESTS, "TOO_MANY_STREAMS", "This token follows too many streams",
        "close one, or follow one stream without a filter";
    Internal: INTERNAL_SERVER_ERROR, "INTERNAL", "The controller made a mistake",
        "report it with the trace id; the server's log has more under it";
    AuditUnavailable: SERVICE_UNAVAILABLE, "AUDIT_UNAVAILABLE", "The journal can't be written, so nothing was changed",
        "free space on the journal's disk and send it again; the controller recovers by itself";
    HistoryUnavailable: SERVICE_UNAVAILABLE, "HISTORY_UNAVAILABLE", "The journal can't be read",
        "send it again; if it stays so, the server's log says why";
    Overloaded: SERVICE_UNAVAILABLE, "OVERLOADED", "The controller has too much to do",
        "send it again after `retry_after_seconds`; nothing was changed";
    Stopped: SERVICE_UNAVAILABLE, "STOPPED", "The controller is stopping or starting",
        "send it again when /readyz answers 200; nothing was changed";
    OutcomeUnknown: GATEWAY_TIMEOUT, "OUTCOME_UNKNOWN", "No answer in time; the request may still be carried out",
        "send it again with the same Idempotency-Key to learn what became of it";
}

/// One wrong part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// Where: `/until`, or `?limit`.
    pub(crate) pointer: String,
    /// `required`, `unknown`, `invalid`.
    pub(crate) code: &'static str,
    /// What is expected there.
    pub(crate) detail: String,
}

/// A refusal.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    /// The engine's own code of a conflict, in capitals.
    code: Option<String>,
    pub(crate) detail: String,
    pub(crate) errors: Vec<FieldError>,
    retry_after: Option<u64>,
}

impl Problem {
    /// A refusal, and what is so in this case. `detail` must hold nothing that was sealed or secret.
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Problem {
        Problem { kind, code: None, detail: detail.into(), errors: Vec::new(), retry_after: None }
    }

    /// There is no `what` of this name.
    pub(crate) fn not_found(what: &str, id: &str) -> Problem {
        Problem::new(Kind::NotFound, format!("there is no {what} `{id}`"))
    }

    /// A request that can't be read, and where.
    pub(crate) fn malformed(detail: impl Into<String>, errors: Vec<FieldError>) -> Problem {
        Problem { errors, ..Problem::new(Kind::Malformed, detail) }
    }

    /// Wrong parts of a body.
    pub(crate) fn invalid(errors: Vec<FieldError>) -> Problem {
        Problem { errors, ..Problem::new(Kind::Invalid, "nothing was changed") }
    }

    /// A conflict with the engine's code.
    pub(crate) fn conflict(code: &str, detail: String) -> Problem {
        Problem { code: Some(code.to_ascii_uppercase()), ..Problem::new(Kind::Conflict, detail) }
    }

    /// Worth trying again after so many seconds.
    pub(crate) fn retry_after(self, seconds: u64) -> Problem {
        Problem { retry_after: Some(seconds), ..self }
    }

    /// The body. `instance` is the path that was asked for, `trace` names the request in the server's log.
    pub(crate) fn body(&self, instance: &str, trace: &str) -> Value {
        let entry = self.kind.entry();
        let code = self.code.as_deref().unwrap_or(entry.code);
        let mut body = json!({
            "type": format!("urn:provost:problem:{}", entry.code.to_ascii_lowercase().replace('_', "-")),
            "title": entry.title,
            "status": entry.status.as_u16(),
            "code": code,
            "detail": self.detail,
            "instance": instance,
            "trace_id": trace,
        });
        if !entry.remedy.is_empty() {
            body["try"] = json!(entry.remedy);
        }
        if !self.errors.is_empty() {
            let error = |e: &FieldError| json!({"pointer": e.pointer, "code": e.code, "detail": e.detail});
            body["errors"] = self.errors.iter().map(error).collect();
        }
        if let Some(seconds) = self.retry_after {
            body["retry_after_seconds"] = json!(seconds);
        }
        body
    }

    /// The whole response.
    pub(crate) fn respond(&self, instance: &str, trace: &str) -> Response {
        let body = self.body(instance, trace).to_string();
        let mut response = (self.kind.entry().status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.kind == Kind::Unauthenticated {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"provost\""));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_distinct_and_every_refusal_says_what_to_do() {
        let codes: BTreeSet<&str> = KINDS.iter().map(|kind| kind.entry().code).collect();
        assert_eq!(codes.len(), KINDS.len());
        for kind in KINDS {
            let entry = kind.entry();
            assert!(entry.status.is_client_error() || entry.status.is_server_error(), "{}", entry.code);
            assert!(!entry.remedy.is_empty() || *kind == Kind::Conflict, "{}", entry.code);
        }
    }

    #[test]
    fn a_conflict_keeps_the_code_of_the_engine() {
        let problem = Problem::conflict("foreign_hold", "held by slurm:main".to_owned());
        let body = problem.body("/v1/nodes/gpu001/actions/resume", "t1");
        assert_eq!(body["code"], "FOREIGN_HOLD");
        assert_eq!(body["type"], "urn:provost:problem:conflict");
        assert_eq!(body["status"], 409);
    }

    #[test]
    fn what_to_wait_for_stands_in_body_and_header() {
        let response = Problem::new(Kind::Overloaded, "full").retry_after(1).respond("/v1/x", "t");
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert_eq!(response.status(), 503);
    }
}
