//! Whom a TLS connection trusts: the authority in a file that the operator names, certificates that they name one by
//! one, or the authorities of the system. No list of authorities comes with the program, so that none has to be updated
//! with it.

mod pinned;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use pinned::{Fingerprint, ParseFingerprintError};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Where systems keep the authorities that they trust: Debian, Red Hat, SUSE, Alpine and others.
const SYSTEM_STORES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Bytes of a file with authorities.
const MAX_FILE: u64 = 8 << 20;

/// Nobody can be trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file can't be read.
    #[error("failed to read the authorities in `{path}`")]
    Read {
        /// Path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file has none.
    #[error("`{path}` holds no certificate of an authority; it must be PEM")]
    Empty {
        /// Path.
        path: PathBuf,
    },
    /// The system has no store.
    #[error(
        "this system has no file of trusted authorities; install ca-certificates, or name the file of the authority"
    )]
    NoStore,
    /// TLS itself.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// Whom to trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The authorities of the system.
    System,
    /// Those in a PEM file.
    Authority(PathBuf),
    /// Whoever shows one of these certificates, whatever name and dates stand in it: a management controller makes its
    /// own, often before its clock is right.
    Pinned(Vec<Fingerprint>),
}

/// Whom to trust, read and ready; made once for many neighbours.
#[derive(Clone, Debug)]
pub struct Trusted(pub(crate) Arc<ClientConfig>);

impl Trusted {
    /// Reads the authorities.
    ///
    /// # Errors
    /// Where none can be read.
    pub fn new(trust: &Trust) -> Result<Trusted, TrustError> {
        Ok(Trusted(client(trust)?))
    }
}

fn client(trust: &Trust) -> Result<Arc<ClientConfig>, TrustError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let system =
        || SYSTEM_STORES.iter().map(Path::new).find(|path| path.is_file()).ok_or(TrustError::NoStore);
    let config = match trust {
        Trust::System => config.with_root_certificates(authorities(system()?)?).with_no_client_auth(),
        Trust::Authority(path) => config.with_root_certificates(authorities(path)?).with_no_client_auth(),
        Trust::Pinned(fingerprints) => config
            .dangerous()
            .with_custom_certificate_verifier(pinned::verifier(fingerprints.clone(), provider))
            .with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn authorities(path: &Path) -> Result<RootCertStore, TrustError> {
    let read = |source| TrustError::Read { path: path.to_owned(), source };
    if fs::metadata(path).map_err(read)?.len() > MAX_FILE {
        return Err(read(std::io::Error::other("it is larger than 8 MiB")));
    }
    let pem = fs::read(path).map_err(read)?;
    let mut roots = RootCertStore::empty();
    // A store of many may have one that is too old to be understood; the others still count.
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    if roots.is_empty() { Err(TrustError::Empty { path: path.to_owned() }) } else { Ok(roots) }
}
