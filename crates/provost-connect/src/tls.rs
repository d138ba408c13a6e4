//! Whom a TLS connection trusts: the authority in a file that the operator names, or those of the system. No list of
//! authorities comes with the program, so that none has to be updated with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
        "this system has no file of trusted authorities; install ca-certificates, or name one as rest_ca_file"
    )]
    NoStore,
    /// TLS itself.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// A client that trusts the authorities in `ca_file`; those of the system without one.
///
/// # Errors
/// Where no authority can be read.
pub fn client(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, TrustError> {
    let path = match ca_file {
        Some(path) => path,
        None => SYSTEM_STORES.iter().map(Path::new).find(|path| path.is_file()).ok_or(TrustError::NoStore)?,
    };
    let roots = authorities(path)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
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
