//! The site's own certificate authority: one for the server's certificate and those of the agents.
//!
//! The key never leaves `DIR/keys/`. A node's certificate names the node as its only DNS name; who presents it
//! speaks for that node and for nothing else.

use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use provost_model::time::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, SerialNumber,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// Validity of the authority itself.
const CA_DAYS: u64 = 3_650;
/// Validity of the server's certificate; a new one is made at each start.
const SERVER_DAYS: u64 = 397;
/// Validity of a node's certificate; the agent renews it at two thirds.
const NODE_DAYS: u64 = 30;
/// Certificates are valid from a little before they are made: clocks of nodes differ.
const BACKDATE: Duration = Duration::from_secs(300);

/// Why a certificate could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file.
    #[error("failed to {what} `{path}`; it must belong to the user that runs provost")]
    File {
        /// `read`, `write`.
        what: &'static str,
        /// Path.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A key or certificate.
    #[error("`{path}` holds no usable key or certificate; restore it from the backup")]
    Unusable {
        /// Path.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A request of an agent.
    #[error("the certificate request is not acceptable: {0}")]
    Request(String),
    /// Making or signing failed.
    #[error("failed to make a certificate")]
    Make(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The authority's certificate, PEM; agents and clients trust it.
    pub ca_pem: String,
}

/// A certificate for a node.
#[derive(Clone, Debug)]
pub struct NodeCertificate {
    /// PEM.
    pub pem: String,
    /// Serial, hex.
    pub serial: String,
    /// End of validity.
    pub expires_at: Timestamp,
}

impl Authority {
    /// Opens the authority of a data directory: `DIR/ca.pem`, `DIR/keys/ca.key` (0600). Makes it where `new`; a
    /// site that has records has agents, and none of them would trust another authority.
    ///
    /// # Errors
    /// Where the files can't be read, written or used.
    pub fn open(dir: &Path, site: &str, new: bool) -> Result<Authority, Error> {
        let (cert_path, key_path) = (dir.join("ca.pem"), dir.join("keys/ca.key"));
        if !key_path.exists() {
            if !new {
                let source = "it is missing and the journal has records".into();
                return Err(Error::Unusable { path: key_path, source });
            }
            make_authority(&cert_path, &key_path, site)?;
        }
        let key = KeyPair::from_pem(&read(&key_path)?)
            .map_err(|e| Error::Unusable { path: key_path.clone(), source: e.into() })?;
        let ca_pem = read(&cert_path)?;
        let issuer = Issuer::from_ca_cert_pem(&ca_pem, key)
            .map_err(|e| Error::Unusable { path: cert_path.clone(), source: e.into() })?;
        Ok(Authority { issuer, ca_pem })
    }

    /// Signs an agent's request for `node`. Whatever the request says about names and uses is ignored.
    ///
    /// # Errors
    /// Where it is no request, or its signature is wrong.
    pub fn sign_node(&self, csr_pem: &str, node: &str, serial: [u8; 16]) -> Result<NodeCertificate, Error> {
        let mut request = CertificateSigningRequestParams::from_pem(csr_pem)
            .map_err(|error| Error::Request(error.to_string()))?;
        let expires = SystemTime::now() + days(NODE_DAYS);
        let name = node.try_into().map_err(|_| Error::Request(format!("`{node}` is no DNS name")))?;
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::DnsName(name)];
        params.distinguished_name = common_name(node);
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        validity(&mut params, expires);
        request.params = params;
        let certificate = request.signed_by(&self.issuer).map_err(|e| Error::Make(e.into()))?;
        Ok(NodeCertificate {
            pem: certificate.pem(),
            serial: serial.iter().map(|b| format!("{b:02x}")).collect(),
            expires_at: timestamp(expires),
        })
    }

    /// A certificate and key for the server at `address`, unless people bring their own.
    fn sign_server(
        &self,
        address: IpAddr,
    ) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), Error> {
        let make = || -> Result<_, rcgen::Error> {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
            let loopback = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
            for ip in loopback.into_iter().chain((!address.is_unspecified()).then_some(address)) {
                params.subject_alt_names.push(SanType::IpAddress(ip));
            }
            if let Some(name) = host_name().and_then(|name| name.try_into().ok()) {
                params.subject_alt_names.push(SanType::DnsName(name));
            }
            params.distinguished_name = common_name("provost");
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            validity(&mut params, SystemTime::now() + days(SERVER_DAYS));
            let certificate = params.signed_by(&key, &self.issuer)?;
            Ok((certificate.der().clone(), key))
        };
        let (certificate, key) = make().map_err(|e| Error::Make(e.into()))?;
        Ok((certificate, PrivateKeyDer::Pkcs8(key.serialize_der().into())))
    }

    /// TLS for the one port: HTTP/1.1 for people and programs, the agents' protocol over mTLS. A client
    /// certificate is asked for and, where one is presented, verified; who needs one checks that it is there.
    ///
    /// # Errors
    /// Where the certificates can't be used.
    pub fn server_config(
        &self,
        own: Option<&(PathBuf, PathBuf)>,
        address: IpAddr,
        alpn_agent: &[u8],
    ) -> Result<ServerConfig, Error> {
        let make = |e: Box<dyn std::error::Error + Send + Sync>| Error::Make(e);
        let ca = CertificateDer::from_pem_slice(self.ca_pem.as_bytes()).map_err(|e| make(e.into()))?;
        let mut roots = RootCertStore::empty();
        roots.add(ca).map_err(|e| make(e.into()))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(|e| make(e.into()))?;
        let (chain, key) = match own {
            Some((cert, key)) => load_pair(cert, key)?,
            None => self.sign_server(address).map(|(cert, key)| (vec![cert], key))?,
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| make(e.into()))?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)
            .map_err(|e| make(e.into()))?;
        config.alpn_protocols = vec![alpn_agent.to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// The node that a verified client certificate speaks for: its only DNS name.
pub fn node_of(certificate: &CertificateDer<'_>) -> Option<String> {
    use x509_parser::extensions::GeneralName;
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let names = parsed.subject_alternative_name().ok()??;
    match names.value.general_names.as_slice() {
        [GeneralName::DNSName(name)] => Some((*name).to_owned()),
        _ => None,
    }
}

fn make_authority(cert_path: &Path, key_path: &Path, site: &str) -> Result<(), Error> {
    let make = || -> Result<_, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(&format!("provost {site} authority"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        validity(&mut params, SystemTime::now() + days(CA_DAYS));
        Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
    };
    let (cert, key) = make().map_err(|e| Error::Make(e.into()))?;
    write_private(cert_path, cert.as_bytes(), 0o644)?;
    // The key last: it is what tells an authority that exists from one that was cut short.
    write_private(key_path, key.as_bytes(), 0o600)
}

fn load_pair(
    cert: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
    Ok((load_chain(cert)?, load_key(key)?))
}

/// The certificates in a PEM file; at least one.
pub(crate) fn load_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let pem = read(path)?;
    let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|e| Error::Unusable { path: path.to_owned(), source: e.into() })?;
    if chain.is_empty() {
        return Err(Error::Unusable { path: path.to_owned(), source: "it has no certificate".into() });
    }
    Ok(chain)
}

/// The private key in a PEM file.
pub(crate) fn load_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(read(path)?.as_bytes())
        .map_err(|e| Error::Unusable { path: path.to_owned(), source: e.into() })
}

/// Writes a file whole or not at all, with these permissions.
pub(crate) fn write_private(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    let error = |source| Error::File { what: "write", path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(error)?;
    }
    let new = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&new)
        .map_err(error)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(error)?;
    std::fs::rename(&new, path).map_err(error)
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::File {
        what: "read",
        path: path.to_owned(),
        source,
    })
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn validity(params: &mut CertificateParams, until: SystemTime) {
    params.not_before = (SystemTime::now() - BACKDATE).into();
    params.not_after = until.into();
}

const fn days(n: u64) -> Duration {
    Duration::from_secs(n * 86_400)
}

fn timestamp(at: SystemTime) -> Timestamp {
    let millis = at.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}

fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_that_agents_trust_is_not_replaced() {
        let dir = std::env::temp_dir().join(format!("provost-authority-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&dir));
        assert!(Authority::open(&dir, "x", false).is_err());
        let made = Authority::open(&dir, "x", true).unwrap().ca_pem;
        assert_eq!(Authority::open(&dir, "x", false).unwrap().ca_pem, made);
        std::fs::remove_file(dir.join("keys/ca.key")).unwrap();
        assert!(matches!(Authority::open(&dir, "x", false), Err(Error::Unusable { .. })));
        assert_eq!(std::fs::read_to_string(dir.join("ca.pem")).unwrap(), made);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
