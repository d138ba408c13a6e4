//! The one port: TLS, then HTTP for people and programs or the agents' protocol, as ALPN says.

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::agents::Agents;

/// Connections at the same time; the rest waits in the system's queue.
const MAX_CONNECTIONS: u32 = 4_096;
/// Open files that are kept for everything else: journal, schedulers' commands, runbooks. Whoever opens connections
/// must not be able to keep a node from being contained.
const OTHER_FILES: u32 = 512;
/// A handshake, and the headers of a request, take no longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Headers of a request, in bytes.
const MAX_HEADERS: usize = 32 * 1024;

/// Accepts connections until the task is dropped.
pub async fn serve(listener: TcpListener, tls: ServerConfig, router: axum::Router, agents: Arc<Agents>) {
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let places = Arc::new(Semaphore::new(connections(allowed_files())));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(error = %error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (acceptor, router, agents) = (acceptor.clone(), router.clone(), Arc::clone(&agents));
        tokio::spawn(async move {
            serve_one(stream, acceptor, router, agents).await;
            drop(place);
        });
    }
}

/// How many files may be open, after the limit was raised as far as it is of use and the system lets it.
fn allowed_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::from(MAX_CONNECTIONS + OTHER_FILES);
    let raised = Some(limit.maximum.map_or(wanted, |most| most.min(wanted)));
    if limit.current.is_none() || limit.current >= raised {
        return limit.current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: raised, ..limit }) {
        Ok(()) => raised,
        Err(error) => {
            tracing::warn!(error = %error, "the limit of open files could not be raised");
            limit.current
        }
    }
}

/// How many connections fit into so many open files.
fn connections(files: Option<u64>) -> usize {
    let free = files.map_or(u64::MAX, |files| files.saturating_sub(u64::from(OTHER_FILES)));
    let places = u32::try_from(free).unwrap_or(u32::MAX).clamp(64, MAX_CONNECTIONS);
    if places < MAX_CONNECTIONS {
        tracing::warn!(
            places,
            "the system allows few open files, so few agents and people are served at once; raise LimitNOFILE"
        );
    }
    places as usize
}

async fn serve_one(stream: TcpStream, acceptor: TlsAcceptor, router: axum::Router, agents: Arc<Agents>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = %error, "a connection stays slow");
    }
    let stream = match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(error = %error, "a handshake failed");
            return;
        }
        Err(_) => return,
    };
    let (_, session) = stream.get_ref();
    if session.alpn_protocol() == Some(provost_wire::ALPN) {
        let certificate =
            session.peer_certificates().and_then(|chain| chain.first()).map(|der| der.clone().into_owned());
        agents.serve(stream, certificate).await;
        return;
    }
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
    if let Err(error) = served {
        tracing::debug!(error = %error, "a connection ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        let check = |files, expected| assert_eq!(connections(files), expected, "{files:?}");
        check(None, 4_096);
        check(Some(u64::MAX), 4_096);
        check(Some(4_608), 4_096);
        check(Some(1_024), 512);
        check(Some(512), 64);
        check(Some(0), 64);
    }
}
