//! From the table of routes to a router: who asks, for what, and in which frame the answer goes out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{Query, RawPathParams, Request, State};
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderName, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::sync::Semaphore;

use crate::Api;
use crate::access;
use crate::command::Change;
use crate::events::{self, Streams};
use crate::field::{Field, Fields, MAX_NAME, is_text};
use crate::history;
use crate::idempotency::Requests;
use crate::metrics::{self, Traffic};
use crate::openapi;
use crate::problem::{Kind, Problem};
use crate::routes::{ROUTES, Route, Serves, Verb};
use crate::views::Look;

/// Names the request in answers, records and the server's log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Searches of the journal at once: each may read a long time and occupies a thread.
const MAX_SEARCHES: usize = 8;

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) api: Api,
    pub(crate) requests: Arc<Requests>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) traffic: Traffic,
    /// Searches of the journal that may run at once.
    pub(crate) searches: Semaphore,
    arrivals: AtomicU64,
}

impl Shared {
    /// Names a request: unique in one run by its number, between two runs by its time.
    fn trace(&self) -> String {
        let number = self.arrivals.fetch_add(1, Ordering::Relaxed);
        format!("req-{:x}-{number:x}", self.api.backend.now().as_millis())
    }
}

/// The name of the request at hand.
#[derive(Clone)]
struct Trace(String);

/// The interface, to be served over whatever the server listens on.
pub fn router(api: Api) -> Router {
    let shared = Arc::new(Shared {
        api,
        requests: Arc::default(),
        streams: Arc::default(),
        traffic: Traffic::default(),
        searches: Semaphore::new(MAX_SEARCHES),
        arrivals: AtomicU64::new(0),
    });
    let mut router = Router::new();
    for route in ROUTES {
        let handler =
            move |State(shared): State<Arc<Shared>>,
                  params: Result<RawPathParams, RawPathParamsRejection>,
                  request: Request| async move { serve(route, &shared, params, request).await };
        router = router.route(
            route.path,
            match route.verb {
                Verb::Get => get(handler),
                Verb::Post => post(handler),
            },
        );
    }
    router
        .fallback(async || Problem::new(Kind::NotFound, "no route has this path"))
        .method_not_allowed_fallback(async || Problem::new(Kind::MethodNotAllowed, "see the Allow header"))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), frame))
        .with_state(shared)
}

impl IntoResponse for Problem {
    /// [`frame`] writes the body, because only it knows path and trace.
    fn into_response(self) -> Response {
        let mut response = self.kind.entry().status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// What all answers share: a name of the request, refusals in one form, no caching.
async fn frame(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let trace = shared.trace();
    let path: String = request.uri().path().chars().take(2 * MAX_NAME).collect();
    request.extensions_mut().insert(Trace(trace.clone()));
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        if problem.kind == Kind::Internal {
            tracing::error!(trace, path, detail = problem.detail, "a request failed by our own mistake");
        }
        let allow = response.headers_mut().remove(ALLOW);
        response = problem.respond(&path, &trace);
        if let Some(allow) = allow {
            response.headers_mut().insert(ALLOW, allow);
        }
    }
    shared.traffic.count(response.status(), begun.elapsed());
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(value) = HeaderValue::from_str(&trace) {
        headers.insert(REQUEST_ID, value);
    }
    response
}

/// Answers one request of a route.
async fn serve(
    route: &'static Route,
    shared: &Arc<Shared>,
    params: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let backend = shared.api.backend.as_ref();
    let who = access::check(route.serves.access(), &parts.headers, backend)?;
    let id = resource(params)?;
    let query = parameters(route.query, &parts.uri)?;
    match (&route.serves, who) {
        (Serves::Live, _) => Ok("live\n".into_response()),
        (Serves::Ready, _) => ready(shared),
        (Serves::Metrics, _) => Ok(metrics::respond(shared)),
        (Serves::OpenApi, _) => Ok(openapi::respond(shared.api.backend.version())),
        (Serves::View(view), Some(_)) => {
            let make = {
                let state = shared.api.handle.state();
                (view.make)(&Look {
                    state: &state,
                    now: backend.now(),
                    version: backend.version(),
                    last_seen: &|node| backend.last_seen(node),
                    bmc_read: &|node| backend.bmc_read(node),
                    journal: shared.api.handle.health().journal_available(),
                    id: &id,
                    query: &query,
                })?
            };
            // Written out only here, after the read lock.
            json(make()?)
        }
        (Serves::Timeline, Some(who)) => json(history::timeline(shared, &id, &who, &query).await?),
        (Serves::Audit, Some(_)) => json(history::search(shared, &query).await?),
        (Serves::Events, Some(_)) => events::respond(shared, &parts.headers, &query),
        (Serves::Command(command), Some(who)) => {
            let trace = parts.extensions.get::<Trace>().map_or("", |trace| trace.0.as_str());
            let (headers, path) = (&parts.headers, parts.uri.path());
            Change { command, who, id: &id, path, headers, trace }.run(shared, body).await
        }
        (_, None) => Err(Problem::new(Kind::Unauthenticated, "there is no bearer token")),
    }
}

/// A JSON answer from bytes that are JSON.
fn json(bytes: Vec<u8>) -> Result<Response, Problem> {
    let mut response = bytes.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Ready once the controller writes its journal. One that can't be written *now* keeps it ready: it still shows
/// everything and contains hard faults; changes are refused one by one with `AUDIT_UNAVAILABLE`.
fn ready(shared: &Shared) -> Result<Response, Problem> {
    let handle = &shared.api.handle;
    let epoch = handle.state().epoch;
    if epoch == 0 {
        return Err(Problem::new(Kind::Stopped, "the controller has not begun yet").retry_after(1));
    }
    let journal = if handle.health().journal_available() { "available" } else { "unavailable" };
    json(format!(r#"{{"ready":true,"epoch":{epoch},"journal":"{journal}"}}"#).into_bytes())
}

/// The part of the path that names the resource; empty where the route has none.
fn resource(params: Result<RawPathParams, RawPathParamsRejection>) -> Result<String, Problem> {
    let bad = || Problem::new(Kind::Malformed, "the path holds a name that is too long or no plain text");
    let params = params.map_err(|_| bad())?;
    let Some((_, id)) = params.iter().next() else { return Ok(String::new()) };
    if is_text(id, MAX_NAME) && !id.contains('\n') { Ok(id.to_owned()) } else { Err(bad()) }
}

/// The parameters behind `?`.
fn parameters(declared: &[Field], uri: &Uri) -> Result<Fields, Problem> {
    let malformed = |errors| Problem::malformed("the query can't be read", errors);
    let Query(pairs) =
        Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|_| malformed(Vec::new()))?;
    Fields::of_query(declared, pairs).map_err(malformed)
}
