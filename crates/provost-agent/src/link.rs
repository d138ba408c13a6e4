//! One TLS connection to the controller, driven by readiness, on the thread that also does everything else for
//! its node's connection.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use provost_wire::{ALPN, Decoder, ToAgent, ToServer, WireError, encode};
use rustls::{ClientConfig, ClientConnection};

use crate::config::Server;
use crate::wait::Interest;

const CONNECT: Duration = Duration::from_secs(3);
/// What was sent and is not confirmed by the peer's kernel after this ends the connection.
const UNCONFIRMED_MS: u32 = 10_000;
const CHUNK: usize = 16 * 1024;

/// Why a connection came to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("failed to find the address of the server")]
    Address(#[source] io::Error),
    #[error("failed to connect to {address}")]
    Connect { address: std::net::SocketAddr, source: io::Error },
    #[error("the connection failed")]
    Io(#[from] io::Error),
    #[error("TLS failed")]
    Tls(#[from] rustls::Error),
    #[error(
        "the server does not speak the agents' protocol; is `server` the address of a Provost controller?"
    )]
    Protocol,
    #[error("the server sent what is no message")]
    Wire(#[from] WireError),
    #[error("the server closed the connection")]
    Closed,
    #[error("the server does not answer")]
    Silent,
    #[error("the server refused: {code}: {message}")]
    Refused { code: String, message: String },
    #[error("the server sent a message out of turn")]
    OutOfTurn,
}

pub(crate) struct Link {
    socket: TcpStream,
    tls: ClientConnection,
    decoder: Decoder<ToAgent>,
    is_closed: bool,
}

impl Link {
    /// Connects; the handshake goes on while the link is used.
    pub(crate) fn open(server: &Server, config: Arc<ClientConfig>) -> Result<Link, LinkError> {
        let mut tls = ClientConnection::new(config, server.name.clone())?;
        // Its users look at `is_backed_up`, so the buffer holds one frame beside a few small ones.
        tls.set_buffer_limit(None);
        let socket = connect(server)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        rustix::net::sockopt::set_tcp_user_timeout(&socket, UNCONFIRMED_MS).map_err(io::Error::from)?;
        Ok(Link { socket, tls, decoder: Decoder::new(), is_closed: false })
    }

    /// What to wait for before [`Link::advance`].
    pub(crate) fn interest(&self) -> Interest {
        if self.tls.wants_write() { Interest::ReadWrite } else { Interest::Read }
    }

    /// What was sent before has not left yet.
    pub(crate) fn is_backed_up(&self) -> bool {
        self.tls.wants_write()
    }

    /// Sends a message, as soon as the socket takes it.
    pub(crate) fn send(&mut self, message: &ToServer) -> Result<(), LinkError> {
        self.send_frame(&encode(message)?)
    }

    /// Sends a frame that is encoded already.
    pub(crate) fn send_frame(&mut self, frame: &[u8]) -> Result<(), LinkError> {
        self.tls.writer().write_all(frame)?;
        self.write()
    }

    /// Reads and writes what is possible without waiting.
    pub(crate) fn advance(&mut self) -> Result<(), LinkError> {
        self.write()?;
        match self.tls.read_tls(&mut self.socket) {
            Ok(0) => self.is_closed = true,
            Ok(_) => {}
            Err(error) if is_not_now(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let processed = self.tls.process_new_packets();
        // Whatever went wrong, the peer is to be told by an alert.
        self.write()?;
        let state = processed?;
        let mut rest = state.plaintext_bytes_to_read();
        let mut chunk = [0; CHUNK];
        while rest > 0 {
            let length = self.tls.reader().read(&mut chunk[..rest.min(CHUNK)])?;
            self.decoder.push(&chunk[..length]);
            rest -= length;
        }
        self.is_closed |= state.peer_has_closed();
        if !self.tls.is_handshaking() && self.tls.alpn_protocol() != Some(ALPN) {
            return Err(LinkError::Protocol);
        }
        Ok(())
    }

    /// The next message that has come.
    pub(crate) fn next_message(&mut self) -> Result<Option<ToAgent>, LinkError> {
        match self.decoder.next_message()? {
            Some(ToAgent::Refused(refused)) => {
                let clean = |text: &str| text.chars().filter(|c| !c.is_control()).take(300).collect();
                Err(LinkError::Refused { code: clean(&refused.code), message: clean(&refused.message) })
            }
            Some(message) => Ok(Some(message)),
            None if self.is_closed => Err(LinkError::Closed),
            None => Ok(None),
        }
    }

    /// Says good-bye, as far as that is possible without waiting.
    pub(crate) fn close(mut self) {
        self.tls.send_close_notify();
        // The connection ends anyhow; the peer only sees it a little later.
        self.write().ok();
    }

    fn write(&mut self) -> Result<(), LinkError> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if is_not_now(&error) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn is_not_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn connect(server: &Server) -> Result<TcpStream, LinkError> {
    let host = server.name.to_str();
    let addresses = (host.as_ref(), server.port).to_socket_addrs().map_err(LinkError::Address)?;
    let mut result = Err(LinkError::Address(io::ErrorKind::NotFound.into()));
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(socket) => return Ok(socket),
            Err(source) => result = Err(LinkError::Connect { address, source }),
        }
    }
    result
}
