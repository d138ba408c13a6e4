//! A neighbour over TLS, with real certificates: who is trusted, and what is said where nobody can be.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use provost_connect::http::{Answer, Client, Error, Limits};
use provost_connect::tls::{Fingerprint, Trust, TrustError, Trusted};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const LIMITS: Limits = Limits { time: Duration::from_secs(5), body: 1_024 };

/// An authority and its certificate as a file, removed at the end.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let file = std::env::temp_dir().join(format!("provost-tls-{}-{name}.pem", std::process::id()));
        std::fs::write(&file, pem).unwrap();
        Authority { issuer: Issuer::new(params, key), file }
    }

    /// A server that this authority vouches for under `name`.
    fn server(&self, name: &str) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        std::fs::remove_file(&self.file).ok();
    }
}

/// Answers one request with what it was asked; without TLS where there is no configuration.
async fn ask(server: Option<ServerConfig>, host: &str, trust: &Authority) -> Result<Answer, Error> {
    ask_trusting(server, host, &Trust::Authority(trust.file.clone())).await
}

async fn ask_trusting(server: Option<ServerConfig>, host: &str, trust: &Trust) -> Result<Answer, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let Some(config) = server else {
            stream.write_all(b"HTTP/1.1 400 no\r\n\r\nplain text here").await.ok();
            return;
        };
        let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await else { return };
        let mut request = vec![0; 4_096];
        let read = stream.read(&mut request).await.unwrap();
        let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {read}\r\n\r\n");
        stream.write_all(reply.as_bytes()).await.unwrap();
        stream.write_all(&request[..read]).await.unwrap();
        stream.shutdown().await.ok();
    });
    let endpoint = format!("https://{host}:{port}").parse().unwrap();
    let client = Client::over(endpoint, Some(&Trusted::new(trust).unwrap()));
    let answer = client.get("/slurm", &[("x-slurm-user-token", "s3cret".to_owned())], LIMITS).await;
    served.await.unwrap();
    answer
}

#[tokio::test]
async fn a_neighbour_is_trusted_by_its_authority_and_its_name() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    for host in ["localhost", "127.0.0.1"] {
        let answer = ask(Some(ours.server(host)), host, &ours).await.unwrap();
        let request = String::from_utf8(answer.body).unwrap().to_lowercase();
        assert_eq!(answer.status, 200);
        assert!(request.starts_with("get /slurm http/1.1\r\n"), "{request}");
        assert!(request.contains(&format!("host: {host}:")), "{request}");
        assert!(request.contains("x-slurm-user-token: s3cret"), "{request}");
    }
    for (server, what) in [
        (Some(other.server("localhost")), "another authority"),
        (Some(ours.server("slurm.example")), "another name"),
        (None, "no TLS"),
    ] {
        let error = ask(server, "localhost", &ours).await.unwrap_err();
        assert!(matches!(&error, Error::Tls { .. }), "{what}: {error:?}");
        let text = error.to_string();
        assert!(text.contains("rest_ca_file") && !format!("{error:?}{text}").contains("s3cret"), "{text}");
    }
}

/// A server with a certificate that it has signed itself, for no name that is used, and that certificate.
fn self_signed() -> (ServerConfig, Fingerprint) {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["bmc.invalid".to_owned()]).unwrap().self_signed(&key).unwrap();
    let fingerprint = Fingerprint::of(certificate.der());
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (config, fingerprint)
}

#[tokio::test]
async fn a_certificate_that_was_named_is_trusted_and_no_other() {
    let ((server, fingerprint), (other, another)) = (self_signed(), self_signed());
    let pinned = Trust::Pinned(vec![another, fingerprint]);
    assert_eq!(ask_trusting(Some(server), "localhost", &pinned).await.unwrap().status, 200);
    for trust in [Trust::Pinned(vec![fingerprint]), Trust::Pinned(Vec::new())] {
        let error = ask_trusting(Some(other.clone()), "localhost", &trust).await.unwrap_err();
        assert!(matches!(&error, Error::Tls { .. }), "{error:?}");
    }
}

#[test]
fn a_file_without_an_authority_is_refused() {
    let check = |path: &str, expected: fn(&TrustError) -> bool| {
        let error = Client::new("https://localhost:1".parse().unwrap(), Some(path.as_ref())).unwrap_err();
        assert!(expected(&error), "{path}: {error:?}");
    };
    check("/nonexistent.pem", |error| matches!(error, TrustError::Read { .. }));
    check("/dev/null", |error| matches!(error, TrustError::Empty { .. }));
    check("/etc/passwd", |error| matches!(error, TrustError::Empty { .. }));
}
