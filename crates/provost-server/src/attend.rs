//! Serves the interface of a controller that somebody else drives, as `provost demo --listen` does: the same port,
//! authority and token as `provost up`, over a journal that is open already.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use provost_api::Api;
use provost_controller::{Committed, Handle};
use provost_model::time::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::agents::Agents;
use crate::backend::ServerBackend;
use crate::certificates::Authority;
use crate::run::{Error, LIVE_RECORDS, WATCH_EVERY, tell_local};
use crate::{listener, stop_file};

/// Records on their way to those who follow the event stream.
#[derive(Clone, Debug)]
pub struct Live(broadcast::Sender<Committed>);

impl Default for Live {
    fn default() -> Live {
        Live(broadcast::channel(LIVE_RECORDS).0)
    }
}

impl Live {
    /// Hands on what is durable, in order.
    pub fn tell(&self, records: &[Committed]) {
        for record in records {
            // Nobody listens most of the time; a listener that comes later reads the journal first.
            drop(self.0.send(record.clone()));
        }
    }
}

/// Whose interface is served, and where.
pub struct Attend {
    /// The controller.
    pub handle: Handle,
    /// Its records, once they are durable.
    pub live: Live,
    /// Its data directory.
    pub data: PathBuf,
    /// Name of its site.
    pub site: String,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Its clock.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// An interface that is served until this is dropped.
#[derive(Debug)]
pub struct Attended {
    /// `https://127.0.0.1:8443`.
    pub server: String,
    _tasks: JoinSet<()>,
}

/// Listens. The agents' protocol is served too, though nobody misses an agent that does not come.
///
/// # Errors
/// Where the port is taken, or a file of the data directory can't be written.
pub async fn attend(attend: Attend) -> Result<Attended, Error> {
    let Attend { handle, live, data, site, listen, now } = attend;
    let authority = Arc::new(Authority::open(&data, &site, true)?);
    let tls = authority.server_config(None, listen.ip(), provost_wire::ALPN)?;
    let (listener, server) = bind(listen).await?;
    let token = tell_local(&server, &data)?;
    let agents = Agents::new(handle.clone(), authority);
    let backend = ServerBackend::new(&data, &token, Arc::clone(&agents))?.with_clock(now);
    let api = Api { handle: handle.clone(), backend: Arc::new(backend), live: live.0 };
    let mut tasks = JoinSet::new();
    tasks.spawn(stop_file::watch(handle, data.join("STOP"), WATCH_EVERY));
    tasks.spawn(listener::serve(listener, tls, provost_api::router(api), agents));
    Ok(Attended { server, _tasks: tasks })
}

/// Takes the port; gives the address that it got.
pub(crate) async fn bind(listen: SocketAddr) -> Result<(TcpListener, String), Error> {
    let taken = |source| Error::Listen { address: listen, source };
    let listener = TcpListener::bind(listen).await.map_err(taken)?;
    let address = listener.local_addr().map_err(|source| Error::System { what: "read the port", source })?;
    Ok((listener, format!("https://{address}")))
}
