//! What tests and measurements of the agent need: a folder, an authority, and a controller that is played by
//! hand, line by line.

#![allow(dead_code, reason = "each user takes what it needs")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use provost_model::time::Timestamp;
use provost_wire::{ALPN, EnrolReply, ToAgent, ToServer, Welcome, read_message, write_message};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, IsCa, Issuer, KeyPair,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// Longer than anything here takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A folder that goes when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("provost-agent-{}-{count}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A certificate authority.
pub(crate) struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let certificate = params.self_signed(&key).unwrap();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn ca_pem(&self) -> String {
        self.certificate.pem()
    }

    /// The answer to a request for a certificate.
    pub(crate) fn reply(&self, csr_pem: &str, expires_at: Timestamp) -> EnrolReply {
        let request = CertificateSigningRequestParams::from_pem(csr_pem).unwrap();
        let cert_pem = request.signed_by(&self.issuer).unwrap().pem();
        EnrolReply { cert_pem, ca_pem: self.ca_pem(), expires_at }
    }

    fn server_config(&self) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = verifier.allow_unauthenticated().build().unwrap();
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let builder =
            ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
        let mut config =
            builder.unwrap().with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![ALPN.to_vec()];
        Arc::new(config)
    }
}

/// A controller played by hand.
pub(crate) struct Controller {
    pub(crate) authority: Authority,
    config: Arc<ServerConfig>,
    listener: TcpListener,
}

impl Controller {
    pub(crate) fn new() -> Controller {
        let authority = Authority::new();
        let config = authority.server_config();
        Controller { authority, config, listener: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    /// The next connection, after its handshake.
    pub(crate) fn accept(&self) -> Peer {
        let socket = self.accept_socket();
        let tls = ServerConnection::new(Arc::clone(&self.config)).unwrap();
        let mut stream = StreamOwned::new(tls, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        Peer { stream }
    }

    pub(crate) fn accept_socket(&self) -> TcpStream {
        let mut fds = [PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN)];
        let seconds = i64::try_from(DEADLINE.as_secs()).unwrap();
        let ready = poll(&mut fds, Some(&Timespec { tv_sec: seconds, tv_nsec: 0 })).unwrap();
        assert_eq!(ready, 1, "nobody connects");
        let (socket, _) = self.listener.accept().unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        socket.set_write_timeout(Some(DEADLINE)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket
    }

    /// Takes an agent's request for its first certificate and grants it.
    pub(crate) fn enrol(&self, token: &str, expires_at: Timestamp) {
        let mut peer = self.accept();
        assert!(!peer.has_certificate());
        let Some(ToServer::EnrolRequest(request)) = peer.read() else { panic!("a request to enrol") };
        assert_eq!(request.token, token);
        peer.send(self.authority.reply(&request.csr_pem, expires_at));
    }

    /// Takes the next connection of a node and welcomes it. Its heart beats fast, so that no test waits for it.
    pub(crate) fn welcome(&self, epoch: u64) -> (Peer, provost_wire::Hello) {
        self.welcome_with(epoch, 20)
    }

    /// The same with a pause between heartbeats, in milliseconds.
    pub(crate) fn welcome_with(&self, epoch: u64, heartbeat_ms: u64) -> (Peer, provost_wire::Hello) {
        let mut peer = self.accept();
        assert!(peer.has_certificate());
        let Some(ToServer::Hello(hello)) = peer.read() else { panic!("a hello") };
        peer.send(Welcome { epoch, server_time: Timestamp::from_millis(0), heartbeat_ms });
        (peer, hello)
    }
}

/// One agent's connection.
pub(crate) struct Peer {
    stream: StreamOwned<ServerConnection, TcpStream>,
}

impl Peer {
    pub(crate) fn has_certificate(&self) -> bool {
        self.stream.conn.peer_certificates().is_some_and(|chain| !chain.is_empty())
    }

    /// The next message; none where the agent has ended the connection.
    pub(crate) fn read(&mut self) -> Option<ToServer> {
        read_message(&mut self.stream).unwrap()
    }

    /// The next message that `take` wants, for at most as long as the agent lives.
    pub(crate) fn wait_for<T>(&mut self, mut take: impl FnMut(ToServer) -> Option<T>) -> T {
        let end = std::time::Instant::now() + DEADLINE;
        while std::time::Instant::now() < end {
            if let Some(taken) = take(self.read().expect("the agent has gone")) {
                return taken;
            }
        }
        panic!("it does not come");
    }

    pub(crate) fn send(&mut self, message: impl Into<ToAgent>) {
        write_message(&mut self.stream, &message.into()).unwrap();
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        use std::io::Write as _;
        // The agent may have hung up before all is written.
        self.stream.write_all(bytes).and_then(|()| self.stream.flush()).ok();
    }
}
