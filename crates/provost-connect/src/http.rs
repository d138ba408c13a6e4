//! A small HTTP/1.1 client for neighbours: a unix socket or a loopback port on this machine, or TLS to another. One
//! connection a request, a bound on time and size for each, no redirects, no cookies, no pool.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::tls::{Trust, TrustError, Trusted};

/// Where a neighbour listens. Written `unix:///run/slurmrestd.sock`, `http://127.0.0.1:6820` or
/// `https://slurm.example:6820`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port on loopback; plain text must not leave the machine.
    Loopback(SocketAddr),
    /// TLS to any host.
    Tls {
        /// Name or address, as its certificate must have it.
        host: ServerName<'static>,
        /// Port.
        port: u16,
    },
}

/// The text names no endpoint.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{text}` is no endpoint; write unix:///path/to/socket, https://HOST:PORT, or http://127.0.0.1:PORT on loopback"
)]
pub struct ParseEndpointError {
    text: String,
}

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Endpoint, ParseEndpointError> {
        let error = || ParseEndpointError { text: text.chars().take(100).collect() };
        if let Some(path) = text.strip_prefix("unix://") {
            return if path.starts_with('/') { Ok(Endpoint::Unix(path.into())) } else { Err(error()) };
        }
        if let Some(address) = text.strip_prefix("https://") {
            let (host, port) = host_and_port(address).ok_or_else(error)?;
            return Ok(Endpoint::Tls { host, port });
        }
        let address = text.strip_prefix("http://").ok_or_else(error)?;
        let address = address.strip_suffix('/').unwrap_or(address);
        let address = match address.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => address.to_owned(),
        };
        let address: SocketAddr = address.parse().map_err(|_| error())?;
        if address.ip().is_loopback() { Ok(Endpoint::Loopback(address)) } else { Err(error()) }
    }
}

/// `slurm.example:6820`, `[fe80::1]:6820`; port 443 where none is written.
fn host_and_port(address: &str) -> Option<(ServerName<'static>, u16)> {
    let address = address.strip_suffix('/').unwrap_or(address);
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (address, 443),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((ServerName::try_from(host.to_owned()).ok()?, port))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix://{}", path.display()),
            Endpoint::Loopback(address) => write!(f, "http://{address}"),
            Endpoint::Tls { .. } => write!(f, "https://{}", self.authority()),
        }
    }
}

impl Endpoint {
    /// What the `Host` header says.
    fn authority(&self) -> String {
        match self {
            Endpoint::Tls { host, port } => match host.to_str() {
                name if name.contains(':') => format!("[{name}]:{port}"),
                name => format!("{name}:{port}"),
            },
            Endpoint::Unix(_) | Endpoint::Loopback(_) => "localhost".to_owned(),
        }
    }
}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// The body starts as JSON does by its content type.
    pub json: bool,
    /// The body, at most as long as was asked for.
    pub body: Vec<u8>,
    headers: HeaderMap,
}

impl Answer {
    /// The text of a header; none where it is not there or holds more than plain characters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// One request.
#[derive(Clone)]
pub struct Ask<'a> {
    /// What to do.
    pub method: Method,
    /// Path and query.
    pub path: &'a str,
    /// Further headers. Their values are secrets: they are in no error and no log.
    pub headers: &'a [(&'static str, String)],
    /// JSON, for what has a body.
    pub body: Option<Vec<u8>>,
}

/// No answer came, or none that could be taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens, or we may not connect.
    #[error("cannot connect to {endpoint}: {source}; check that the service runs and that we may reach it")]
    Connect {
        /// Where.
        endpoint: Endpoint,
        /// Why.
        source: std::io::Error,
    },
    /// The other side is not who it should be, or speaks no TLS.
    #[error(
        "{endpoint} can't be trusted: {source}; name the file of its authority (rest_ca_file of a slurmrestd, ca_file of a BMC), or the host as its certificate does"
    )]
    Tls {
        /// Where.
        endpoint: Endpoint,
        /// What TLS says.
        source: std::io::Error,
    },
    /// The time was up.
    #[error("{endpoint} did not answer within {} ms; check that the service is well", after.as_millis())]
    TimedOut {
        /// Where.
        endpoint: Endpoint,
        /// The limit.
        after: Duration,
    },
    /// The answer broke off or is no HTTP.
    #[error("{endpoint} broke off or does not speak HTTP: {source}")]
    Broken {
        /// Where.
        endpoint: Endpoint,
        /// What hyper says.
        source: hyper::Error,
    },
    /// The body is longer than the limit.
    #[error("the answer of {endpoint} is longer than {limit} bytes")]
    TooLarge {
        /// Where.
        endpoint: Endpoint,
        /// In bytes.
        limit: usize,
    },
    /// A path or header of ours can't be sent.
    #[error(
        "a header for {endpoint} has characters that HTTP does not allow; check the user and the token file"
    )]
    Header {
        /// Where.
        endpoint: Endpoint,
    },
}

impl Error {
    /// The request may have reached the other side, so it may have been done.
    pub fn was_sent(&self) -> bool {
        match self {
            Error::Connect { .. } | Error::Tls { .. } | Error::Header { .. } => false,
            Error::TimedOut { .. } | Error::Broken { .. } | Error::TooLarge { .. } => true,
        }
    }
}

/// Bounds of one request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From connecting to the last byte of the body.
    pub time: Duration,
    /// Bytes of the body.
    pub body: usize,
}

/// Asks one neighbour.
#[derive(Clone, Debug)]
pub struct Client {
    endpoint: Endpoint,
    /// Present for TLS.
    tls: Option<TlsStore>,
}

/// Keeps its sessions, so that a poll does not pay for a whole handshake each time.
#[derive(Clone)]
struct TlsStore(TlsConnector);

impl fmt::Debug for TlsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsStore")
    }
}

impl Client {
    /// A client of `endpoint`. Over TLS it trusts the authorities in `ca_file`, or those of the system.
    ///
    /// # Errors
    /// Where no authority can be read.
    pub fn new(endpoint: Endpoint, ca_file: Option<&Path>) -> Result<Client, TrustError> {
        let trust = ca_file.map_or(Trust::System, |path| Trust::Authority(path.to_owned()));
        let trusted = match endpoint {
            Endpoint::Tls { .. } => Some(Trusted::new(&trust)?),
            Endpoint::Unix(_) | Endpoint::Loopback(_) => None,
        };
        Ok(Client::over(endpoint, trusted.as_ref()))
    }

    /// A client of `endpoint` that, over TLS, trusts who is `trusted`; without any, TLS fails when it is asked.
    pub fn over(endpoint: Endpoint, trusted: Option<&Trusted>) -> Client {
        Client { endpoint, tls: trusted.map(|trusted| TlsStore(Arc::clone(&trusted.0).into())) }
    }

    /// Where it asks.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// `GET path` with the given headers. Header values are secrets: they are in no error and no log.
    pub async fn get(
        &self,
        path: &str,
        headers: &[(&'static str, String)],
        limits: Limits,
    ) -> Result<Answer, Error> {
        self.send(Ask { method: Method::GET, path, headers, body: None }, limits).await
    }

    /// Asks once. Where no answer came, nobody knows here whether it was taken; see [`Error::was_sent`].
    pub async fn send(&self, ask: Ask<'_>, limits: Limits) -> Result<Answer, Error> {
        tokio::time::timeout(limits.time, self.send_unbounded(ask, limits.body))
            .await
            .unwrap_or_else(|_| Err(Error::TimedOut { endpoint: self.endpoint.clone(), after: limits.time }))
    }

    async fn send_unbounded(&self, ask: Ask<'_>, limit: usize) -> Result<Answer, Error> {
        let endpoint = &self.endpoint;
        let refused = || Error::Header { endpoint: endpoint.clone() };
        let mut request = Request::builder()
            .method(ask.method)
            .uri(ask.path)
            .header(header::HOST, endpoint.authority())
            .header(header::ACCEPT, "application/json");
        for (name, value) in ask.headers {
            let mut value = HeaderValue::from_str(value).map_err(|_| refused())?;
            value.set_sensitive(true);
            request = request.header(*name, value);
        }
        if ask.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = Full::new(Bytes::from(ask.body.unwrap_or_default()));
        let request = request.body(body).map_err(|_| refused())?;
        let connect = |source| Error::Connect { endpoint: endpoint.clone(), source };
        match (endpoint, &self.tls) {
            (Endpoint::Unix(path), _) => {
                let stream = UnixStream::connect(path).await.map_err(connect)?;
                exchange(endpoint, stream, request, limit).await
            }
            (Endpoint::Loopback(address), _) => {
                let stream = TcpStream::connect(address).await.map_err(connect)?;
                exchange(endpoint, stream, request, limit).await
            }
            (Endpoint::Tls { host, port }, Some(TlsStore(connector))) => {
                let stream = TcpStream::connect((host.to_str().as_ref(), *port)).await.map_err(connect)?;
                let tls = |source| Error::Tls { endpoint: endpoint.clone(), source };
                let stream = connector.connect(host.clone(), stream).await.map_err(tls)?;
                exchange(endpoint, stream, request, limit).await
            }
            (Endpoint::Tls { .. }, None) => Err(connect(std::io::ErrorKind::Unsupported.into())),
        }
    }
}

async fn exchange<S>(
    endpoint: &Endpoint,
    stream: S,
    request: Request<Full<Bytes>>,
    limit: usize,
) -> Result<Answer, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |source| Error::Broken { endpoint: endpoint.clone(), source };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status().as_u16();
        let mut headers = response.headers().clone();
        for value in headers.values_mut() {
            // A header of an answer may be a token; none is ever printed.
            value.set_sensitive(true);
        }
        let json = response
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        let body = Limited::new(response.into_body(), limit).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                return Error::TooLarge { endpoint: endpoint.clone(), limit };
            }
            match error.downcast::<hyper::Error>() {
                Ok(source) => broken(*source),
                Err(_) => Error::TooLarge { endpoint: endpoint.clone(), limit },
            }
        })?;
        Ok(Answer { status, json, body: body.to_bytes().to_vec(), headers })
    };
    tokio::pin!(answer);
    tokio::pin!(connection);
    // The connection is driven here and not in a task of its own: when the request is given up, nothing is left.
    tokio::select! {
        biased;
        answer = &mut answer => return answer,
        // Whether it ended well says nothing about an answer that came before; without one, the answer says why.
        _ = &mut connection => {}
    }
    // What arrived before its end is still to be read.
    answer.await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn endpoints_are_read() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(text.parse::<Endpoint>().ok().map(|e| e.to_string()).as_deref(), expected, "{text}");
        };
        check("unix:///run/slurmrestd.sock", Some("unix:///run/slurmrestd.sock"));
        check("http://127.0.0.1:6820", Some("http://127.0.0.1:6820"));
        check("http://localhost:6820/", Some("http://127.0.0.1:6820"));
        check("http://[::1]:6820", Some("http://[::1]:6820"));
        check("http://10.0.0.1:6820", None);
        check("http://slurm.example.org:6820", None);
        check("https://127.0.0.1:6820", Some("https://127.0.0.1:6820"));
        check("https://slurm.example.org/", Some("https://slurm.example.org:443"));
        check("https://[fe80::1]:6820", Some("https://[fe80::1]:6820"));
        check("https://", None);
        check("https://a b:6820", None);
        check("https://slurm.example.org:70000", None);
        check("https://slurm.example.org/path", None);
        check("unix://run/sock", None);
        check("", None);
    }

    /// Sends `reply` to one request, then closes (or, without a reply, keeps the connection open).
    async fn ask(reply: Option<&'static [u8]>) -> Result<Answer, Error> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint::Loopback(listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).await.unwrap();
            assert!(request[..read].starts_with(b"GET /x HTTP/1.1\r\n"));
            match reply {
                Some(reply) => stream.write_all(reply).await.unwrap(),
                None => std::future::pending().await,
            }
        });
        let limits =
            Limits { time: Duration::from_millis(if reply.is_some() { 5_000 } else { 50 }), body: 16 };
        let client = Client::new(endpoint, None).unwrap();
        let answer = client.get("/x", &[("x-slurm-user-name", "tester".to_owned())], limits).await;
        server.abort();
        answer
    }

    #[tokio::test]
    async fn answers_are_taken_and_bounded() {
        let ok =
            ask(Some(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"))
                .await;
        let ok = ok.unwrap();
        assert_eq!((ok.status, ok.json, ok.body.as_slice()), (200, true, &b"{}"[..]));
        let until_close = ask(Some(b"HTTP/1.1 500 x\r\nContent-Type: text/plain\r\n\r\nno")).await.unwrap();
        assert_eq!(
            (until_close.status, until_close.json, until_close.body.as_slice()),
            (500, false, &b"no"[..])
        );
        // Some controllers send a body where there can be none.
        let stray = ask(Some(b"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nnull")).await.unwrap();
        assert_eq!((stray.status, stray.body.as_slice()), (204, &b""[..]));
        let long = ask(Some(b"HTTP/1.1 200 OK\r\n\r\n0123456789abcdefg")).await;
        assert!(matches!(long, Err(Error::TooLarge { limit: 16, .. })), "{long:?}");
        let cut = ask(Some(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")).await;
        assert!(matches!(cut, Err(Error::Broken { .. })), "{cut:?}");
        let other = ask(Some(b"SSH-2.0-OpenSSH_9.2\r\n")).await;
        assert!(matches!(other, Err(Error::Broken { .. })), "{other:?}");
        let silent = ask(None).await;
        assert!(matches!(silent, Err(Error::TimedOut { .. })), "{silent:?}");
    }

    #[tokio::test]
    async fn a_secret_is_in_no_error() {
        let client = Client::new(Endpoint::Unix("/nonexistent/socket".into()), None).unwrap();
        let limits = Limits { time: Duration::from_secs(1), body: 16 };
        for value in ["s3cret\n", "s3cret"] {
            let headers = [("x-slurm-user-token", value.to_owned())];
            let error = client.get("/x", &headers, limits).await.unwrap_err();
            assert!(!format!("{error:?} {error}").contains("s3cret"));
        }
    }
}
