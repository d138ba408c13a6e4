//! A small HTTP/1.1 client for neighbours on this machine: a unix socket or a loopback port. One connection a
//! request, a bound on time and size for each, no redirects, no cookies, no pool.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Where a neighbour listens. Written `unix:///run/slurmrestd.sock` or `http://127.0.0.1:6820`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port on loopback; plain text must not leave the machine.
    Loopback(SocketAddr),
}

/// The text names no endpoint.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is no endpoint; write unix:///path/to/socket, or http://127.0.0.1:PORT on loopback")]
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

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix://{}", path.display()),
            Endpoint::Loopback(address) => write!(f, "http://{address}"),
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

/// Bounds of one request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From connecting to the last byte of the body.
    pub time: Duration,
    /// Bytes of the body.
    pub body: usize,
}

/// `GET path` with the given headers. Header values are secrets: they are in no error and no log.
pub async fn get(
    endpoint: &Endpoint,
    path: &str,
    headers: &[(&'static str, String)],
    limits: Limits,
) -> Result<Answer, Error> {
    tokio::time::timeout(limits.time, get_unbounded(endpoint, path, headers, limits.body))
        .await
        .unwrap_or_else(|_| Err(Error::TimedOut { endpoint: endpoint.clone(), after: limits.time }))
}

async fn get_unbounded(
    endpoint: &Endpoint,
    path: &str,
    headers: &[(&'static str, String)],
    limit: usize,
) -> Result<Answer, Error> {
    let mut request =
        Request::get(path).header(header::HOST, "localhost").header(header::ACCEPT, "application/json");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request =
        request.body(Empty::<Bytes>::new()).map_err(|_| Error::Header { endpoint: endpoint.clone() })?;
    let connect = |source| Error::Connect { endpoint: endpoint.clone(), source };
    match endpoint {
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(connect)?;
            exchange(endpoint, stream, request, limit).await
        }
        Endpoint::Loopback(address) => {
            let stream = TcpStream::connect(address).await.map_err(connect)?;
            exchange(endpoint, stream, request, limit).await
        }
    }
}

async fn exchange<S>(
    endpoint: &Endpoint,
    stream: S,
    request: Request<Empty<Bytes>>,
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
        Ok(Answer { status, json, body: body.to_bytes().to_vec() })
    };
    tokio::pin!(answer);
    tokio::pin!(connection);
    // The connection is driven here and not in a task of its own: when the request is given up, nothing is left.
    tokio::select! {
        biased;
        answer = &mut answer => return answer,
        ended = &mut connection => ended.map_err(broken)?,
    }
    // The connection is over; what arrived before its end is still to be read.
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
        check("https://127.0.0.1:6820", None);
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
        let answer = get(&endpoint, "/x", &[("x-slurm-user-name", "tester".to_owned())], limits).await;
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
        let endpoint = Endpoint::Unix("/nonexistent/socket".into());
        let limits = Limits { time: Duration::from_secs(1), body: 16 };
        for value in ["s3cret\n", "s3cret"] {
            let error =
                get(&endpoint, "/x", &[("x-slurm-user-token", value.to_owned())], limits).await.unwrap_err();
            assert!(!format!("{error:?} {error}").contains("s3cret"));
        }
    }
}
