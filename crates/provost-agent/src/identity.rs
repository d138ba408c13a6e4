//! The node's certificate: how it is asked for, kept, and renewed in time.

use std::sync::Arc;

use provost_model::time::Timestamp;
use provost_wire::{ALPN, EnrolReply};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};

/// Name of the file in the node's folder.
pub(crate) const FILE: &str = "identity.json";

/// A certificate and its key, as kept on disk.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Identity {
    certificate_pem: String,
    private_key_pem: String,
    issued_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

/// A key that has no certificate yet.
pub(crate) struct Request {
    key: KeyPair,
    pub(crate) csr_pem: String,
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// No key, or no request for its certificate.
    #[error("failed to make a key for the node")]
    Request(#[from] rcgen::Error),
    /// A PEM text that is none.
    #[error("failed to read the PEM of {what}")]
    Pem {
        /// Of what.
        what: &'static str,
    },
    /// Certificate and key do not fit, or TLS can't use them.
    #[error("failed to set TLS up")]
    Tls(#[from] rustls::Error),
    /// The certificate is over already.
    #[error("the certificate that the server gave ended at {expires_at}; compare the clocks of both")]
    Expired {
        /// When.
        expires_at: Timestamp,
    },
}

impl Request {
    /// A new key and the request for its certificate.
    pub(crate) fn new(node: &str) -> Result<Request, IdentityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new([node.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, node);
        let csr_pem = params.serialize_request(&key)?.pem()?;
        Ok(Request { key, csr_pem })
    }

    /// Puts key and certificate together.
    pub(crate) fn complete(self, reply: EnrolReply, now: Timestamp) -> Result<Identity, IdentityError> {
        let identity = Identity {
            certificate_pem: reply.cert_pem,
            private_key_pem: self.key.serialize_pem(),
            issued_at: now,
            expires_at: reply.expires_at,
        };
        if identity.is_expired(now) {
            return Err(IdentityError::Expired { expires_at: identity.expires_at });
        }
        // Fails where they do not belong together.
        tls(&Arc::new(RootCertStore::empty()), Some(&identity))?;
        Ok(identity)
    }
}

impl Identity {
    /// Whether its time is over.
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }

    /// Whether two thirds of its time are over.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        let life = self.expires_at.since(self.issued_at);
        now >= self.issued_at + life * 2 / 3
    }
}

/// The authorities of a PEM text.
pub(crate) fn roots(pem: &[u8]) -> Result<RootCertStore, IdentityError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, "the CA")? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

/// How a connection is made: with the node's certificate, or without one to ask for it.
pub(crate) fn tls(
    roots: &Arc<RootCertStore>,
    identity: Option<&Identity>,
) -> Result<Arc<ClientConfig>, IdentityError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(Arc::clone(roots));
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = certificates(identity.certificate_pem.as_bytes(), "the node's certificate")?;
            let key = PrivateKeyDer::from_pem_slice(identity.private_key_pem.as_bytes())
                .map_err(|_| IdentityError::Pem { what: "the node's key" })?;
            builder.with_client_auth_cert(chain, key)?
        }
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    // Connections are few and long, and each must show the certificate of the moment.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn certificates(pem: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(IdentityError::Pem { what }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Authority;

    #[test]
    fn a_certificate_is_due_after_two_thirds_of_its_life() {
        let identity = Identity {
            certificate_pem: String::new(),
            private_key_pem: String::new(),
            issued_at: Timestamp::from_millis(1_000),
            expires_at: Timestamp::from_millis(4_000),
        };
        let check = |millis, due, expired| {
            let at = Timestamp::from_millis(millis);
            assert_eq!((identity.is_due(at), identity.is_expired(at)), (due, expired), "{millis}");
        };
        check(1_000, false, false);
        check(2_999, false, false);
        check(3_000, true, false);
        check(3_999, true, false);
        check(4_000, true, true);
    }

    #[test]
    fn only_a_certificate_for_the_key_is_taken() {
        let authority = Authority::new();
        let (ours, other) = (Request::new("gpu001").unwrap(), Request::new("gpu001").unwrap());
        let now = Timestamp::from_millis(0);
        let reply = authority.reply(&ours.csr_pem, Timestamp::from_millis(1));
        assert!(matches!(other.complete(reply.clone(), now), Err(IdentityError::Tls(_))));
        let late = Request::new("gpu001").unwrap();
        let expired = authority.reply(&late.csr_pem, now);
        assert!(matches!(late.complete(expired, now), Err(IdentityError::Expired { .. })));
        let identity = ours.complete(reply, now).unwrap();
        let roots = Arc::new(roots(authority.ca_pem().as_bytes()).unwrap());
        tls(&roots, Some(&identity)).unwrap();
        assert!(matches!(super::roots(b"no PEM"), Err(IdentityError::Pem { .. })));
    }
}
