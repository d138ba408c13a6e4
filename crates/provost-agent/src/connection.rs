//! The thread that keeps one node connected: it enrols, connects, tells what waits in the outbox, takes orders,
//! renews the certificate, and begins anew whenever something ends.

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_wire::{EnrolRequest, Heartbeat, Hello, PROTOCOL, RenewRequest, ToAgent, Welcome};
use rustls::RootCertStore;

use crate::clock;
use crate::config::Server;
use crate::identity::{self, Identity, IdentityError, Request};
use crate::link::{Link, LinkError};
use crate::log;
use crate::order::Orders;
use crate::outbox::Outbox;
use crate::standing::Kept;
use crate::store::{Store, StoreError};
use crate::wait::{Interest, Shutdown, wait};

const FIRST_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(5);
/// From opening the connection to the server's first answer.
const ANSWER: Duration = Duration::from_secs(10);
/// A connection that held for this long was a good one: the next attempt comes soon.
const STEADY: Duration = Duration::from_secs(5);
const MIN_HEARTBEAT: Duration = Duration::from_millis(20);
const MAX_HEARTBEAT: Duration = Duration::from_secs(60);
/// A renewal that was asked for and not answered is asked for again after this.
const RENEWAL: Duration = Duration::from_secs(60);
const MAX_TOKEN: u64 = 4 * 1024;

/// What the thread works with.
pub(crate) struct Connection {
    pub(crate) node: String,
    pub(crate) server: Server,
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) enrol_token_file: Option<PathBuf>,
    pub(crate) hello: Hello,
    pub(crate) store: Arc<Store>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) orders: Arc<Orders>,
    pub(crate) standing: Arc<Kept>,
    pub(crate) shutdown: Shutdown,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "the node has no certificate in force and there is no enrol_token_file; make a token on the controller \
         (provost agent token create) and name its file in the configuration"
    )]
    NoToken,
    #[error("failed to read the enrol_token_file `{path}`")]
    Token { path: PathBuf, source: std::io::Error },
}

/// How a connection ended without a failure.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The agent ends.
    Shutdown,
    /// There is a new certificate to connect with.
    Renewed,
}

impl Connection {
    /// Keeps the node connected until the end.
    pub(crate) fn run(&self) {
        let mut delays = Delays::new(&self.node);
        let mut reported = None;
        loop {
            let started = Instant::now();
            let error = match self.connect() {
                Ok(End::Shutdown) => return,
                Ok(End::Renewed) => continue,
                Err(error) => log::chain(&error),
            };
            let was_steady = started.elapsed() >= STEADY;
            if was_steady {
                delays = Delays::new(&self.node);
            }
            // One line for each kind of trouble, not one for each attempt.
            if was_steady || reported.as_ref() != Some(&error) {
                log::warn(&self.node, format_args!("not connected: {error}"));
                reported = Some(error);
            }
            if self.shutdown.sleep(delays.next()) {
                return;
            }
        }
    }

    fn connect(&self) -> Result<End, ConnectError> {
        let Some(identity) = self.identity()? else { return Ok(End::Shutdown) };
        let link = Link::open(&self.server, identity::tls(&self.roots, Some(&identity))?)?;
        let mut session = Session::new(self, link, identity);
        let end = session.run()?;
        session.link.close();
        Ok(end)
    }

    /// The node's certificate, after enrolment where there is none in force; none where the agent ends.
    fn identity(&self) -> Result<Option<Identity>, ConnectError> {
        match self.store.read::<Identity>(identity::FILE) {
            Ok(Some(identity)) if !identity.is_expired(clock::now()) => return Ok(Some(identity)),
            Ok(_) => {}
            // A damaged file helps nobody; a token can replace it.
            Err(error) => log::warn(&self.node, log::chain(&error)),
        }
        let path = self.enrol_token_file.clone().ok_or(ConnectError::NoToken)?;
        let token = read_token(&path).map_err(|source| ConnectError::Token { path, source })?;
        let request = Request::new(&self.node)?;
        let mut link = Link::open(&self.server, identity::tls(&self.roots, None)?)?;
        let (node, csr_pem) = (self.node.clone(), request.csr_pem.clone());
        link.send(&EnrolRequest { token, node, csr_pem }.into())?;
        let Some(answer) = self.first_answer(&mut link)? else { return Ok(None) };
        let ToAgent::EnrolReply(reply) = answer else { return Err(LinkError::OutOfTurn.into()) };
        link.close();
        let identity = request.complete(reply, clock::now())?;
        self.store.write(identity::FILE, &identity, true)?;
        log::info(&self.node, format_args!("enrolled; the certificate ends at {}", identity.expires_at));
        Ok(Some(identity))
    }

    /// Waits for the server's first message; none where the agent ends.
    fn first_answer(&self, link: &mut Link) -> Result<Option<ToAgent>, LinkError> {
        let deadline = Instant::now() + ANSWER;
        loop {
            if let Some(message) = link.next_message()? {
                return Ok(Some(message));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LinkError::Silent);
            }
            let on = [(self.shutdown.as_fd(), Interest::Read), (link.as_fd(), link.interest())];
            if wait(on, Some(left))[0] {
                return Ok(None);
            }
            link.advance()?;
        }
    }
}

fn read_token(path: &std::path::Path) -> std::io::Result<String> {
    let mut token = String::new();
    std::fs::File::open(path)?.take(MAX_TOKEN).read_to_string(&mut token)?;
    Ok(token.trim().to_owned())
}

/// One connection with the node's certificate.
struct Session<'a> {
    connection: &'a Connection,
    link: Link,
    identity: Identity,
    heartbeat: Duration,
    next_heartbeat: Instant,
    renewal: Option<Request>,
    next_renewal: Instant,
}

impl<'a> Session<'a> {
    fn new(connection: &'a Connection, link: Link, identity: Identity) -> Session<'a> {
        let (heartbeat, now) = (MAX_HEARTBEAT, Instant::now());
        Session {
            connection,
            link,
            identity,
            heartbeat,
            next_heartbeat: now,
            renewal: None,
            next_renewal: now,
        }
    }

    fn run(&mut self) -> Result<End, ConnectError> {
        let connection = self.connection;
        self.link.send(&connection.hello.clone().into())?;
        let Some(answer) = connection.first_answer(&mut self.link)? else { return Ok(End::Shutdown) };
        let ToAgent::Welcome(welcome) = answer else { return Err(LinkError::OutOfTurn.into()) };
        self.welcome(&welcome);
        loop {
            while let Some(message) = self.link.next_message()? {
                if self.receive(message)? == Some(End::Renewed) {
                    return Ok(End::Renewed);
                }
            }
            connection.outbox.wake.clear();
            self.send()?;
            let timeout = self.next_heartbeat.saturating_duration_since(Instant::now());
            // With nothing to do while the socket takes nothing, a heartbeat that is due must not turn the loop.
            let timeout = if self.link.is_backed_up() { timeout.max(MIN_HEARTBEAT) } else { timeout };
            let on = [
                (connection.shutdown.as_fd(), Interest::Read),
                (connection.outbox.wake.as_fd(), Interest::Read),
                (self.link.as_fd(), self.link.interest()),
            ];
            let [ended, _, is_ready] = wait(on, Some(timeout));
            if ended {
                return Ok(End::Shutdown);
            }
            if is_ready {
                self.link.advance()?;
            }
        }
    }

    fn welcome(&mut self, welcome: &Welcome) {
        self.heartbeat = Duration::from_millis(welcome.heartbeat_ms).clamp(MIN_HEARTBEAT, MAX_HEARTBEAT);
        self.next_heartbeat = Instant::now();
        self.connection.outbox.restart();
        self.connection.standing.forget();
        self.connection.orders.hear_of(welcome.epoch);
        let node = &self.connection.node;
        log::info(node, format_args!("connected; the controller is in epoch {}", welcome.epoch));
    }

    fn receive(&mut self, message: ToAgent) -> Result<Option<End>, ConnectError> {
        match message {
            ToAgent::Ack(ack) => self.connection.outbox.acknowledge(ack.batch),
            ToAgent::Order(order) => {
                if let Some(result) = self.connection.orders.take(order) {
                    self.connection.outbox.add_result(result);
                }
            }
            ToAgent::Standing(standing) => self.connection.standing.tell(standing),
            ToAgent::EnrolReply(reply) => {
                let request = self.renewal.take().ok_or(LinkError::OutOfTurn)?;
                let identity = request.complete(reply, clock::now())?;
                self.connection.store.write(identity::FILE, &identity, true)?;
                let node = &self.connection.node;
                log::info(node, format_args!("renewed; the certificate ends at {}", identity.expires_at));
                return Ok(Some(End::Renewed));
            }
            ToAgent::Welcome(_) | ToAgent::Refused(_) => return Err(LinkError::OutOfTurn.into()),
        }
        Ok(None)
    }

    /// Sends what there is, as long as the socket takes it.
    fn send(&mut self) -> Result<(), ConnectError> {
        let now = Instant::now();
        if now >= self.next_heartbeat && !self.link.is_backed_up() {
            self.next_heartbeat = now + self.heartbeat;
            self.beat(now)?;
        }
        while !self.link.is_backed_up()
            && let Some(frame) = self.connection.outbox.next_frame()
        {
            self.link.send_frame(&frame)?;
        }
        Ok(())
    }

    fn beat(&mut self, now: Instant) -> Result<(), ConnectError> {
        let (outbox, at) = (&self.connection.outbox, clock::now());
        let heartbeat = Heartbeat { at, queued: outbox.depth(), kernel_log: outbox.kernel_log() };
        self.link.send(&heartbeat.into())?;
        self.connection.standing.refresh();
        if let Some(unparsed) = outbox.take_unparsed() {
            self.link.send(&unparsed.into())?;
        }
        if self.identity.is_due(at) && now >= self.next_renewal {
            self.next_renewal = now + RENEWAL;
            let request = Request::new(&self.connection.node)?;
            self.link.send(&RenewRequest { csr_pem: request.csr_pem.clone() }.into())?;
            self.renewal = Some(request);
        }
        Ok(())
    }
}

/// Waits between attempts: twice as long each time, and not the same for all nodes at once.
struct Delays {
    /// Hash of the node's name: the same node always waits the same.
    seed: u64,
    delay: Duration,
}

impl Delays {
    fn new(node: &str) -> Delays {
        let seed = node.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Delays { seed, delay: FIRST_DELAY }
    }

    /// Between half of the delay and the whole.
    fn next(&mut self) -> Duration {
        let delay = self.delay;
        self.delay = (delay * 2).min(MAX_DELAY);
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = u32::try_from(self.seed >> 56).unwrap_or(0);
        delay / 2 + delay * share / 512
    }
}

/// What a node says about itself first.
pub(crate) fn hello(node: &str, boot_id: Option<String>, actions: impl Iterator<Item = String>) -> Hello {
    Hello {
        protocol: PROTOCOL,
        node: node.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: u64::try_from(clock::now().as_millis()).unwrap_or(0),
        boot_id,
        actions: actions.collect(),
        gpus: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_limit_and_differ_between_nodes() {
        let delays = |node: &str| {
            let mut delays = Delays::new(node);
            std::iter::repeat_with(|| delays.next()).take(20).collect::<Vec<_>>()
        };
        let first = delays("gpu001");
        assert_eq!(first, delays("gpu001"));
        assert_ne!(first, delays("gpu002"));
        let mut whole = FIRST_DELAY;
        for delay in first {
            assert!(delay >= whole / 2 && delay <= whole, "{delay:?} of {whole:?}");
            whole = (whole * 2).min(MAX_DELAY);
        }
    }
}
