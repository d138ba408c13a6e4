//! Certificates that an operator has named one by one.
//!
//! A management controller comes with a certificate that it has signed itself, made before its clock was set and for
//! no name that is used. An authority can't be asked about it; but that it is still the one that somebody has looked at
//! once is a stronger statement than any authority's.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::digest;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// SHA-256 of a certificate, as `openssl x509 -noout -fingerprint -sha256` prints it. Colons may be left out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

/// The text is no fingerprint.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{text}` is no SHA-256 fingerprint: 64 hex digits, as `openssl x509 -noout -fingerprint -sha256` prints them"
)]
pub struct ParseFingerprintError {
    text: String,
}

impl Fingerprint {
    /// Of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
        Fingerprint(bytes)
    }
}

impl FromStr for Fingerprint {
    type Err = ParseFingerprintError;

    fn from_str(text: &str) -> Result<Fingerprint, ParseFingerprintError> {
        let error = || ParseFingerprintError { text: text.chars().take(100).collect() };
        let hex = text.strip_prefix("sha256:").unwrap_or(text).replace(':', "");
        if hex.len() != 64 || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(error());
        }
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(|_| error())?;
        }
        Ok(Fingerprint(bytes))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02X}", if i == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Accepts these certificates and no other. That the other side has the key of the certificate that it shows is
/// checked as always.
pub(super) fn verifier(
    fingerprints: Vec<Fingerprint>,
    provider: Arc<CryptoProvider>,
) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Pinned { fingerprints, provider })
}

#[derive(Debug)]
struct Pinned {
    fingerprints: Vec<Fingerprint>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.fingerprints.contains(&Fingerprint::of(end_entity)) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_as_openssl_prints_them() {
        let colons =
            "00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF";
        let check = |text: &str, ok: bool| {
            let read = text.parse::<Fingerprint>().ok().map(|read| read.to_string());
            assert_eq!(read, ok.then(|| colons.to_owned()), "{text}");
        };
        check(colons, true);
        check(&colons.replace(':', "").to_lowercase(), true);
        check(&format!("sha256:{colons}"), true);
        check("", false);
        check("00:11", false);
        check(&format!("{colons}:00"), false);
        check(&colons.replace("AA", "GG"), false);
        check(&"é".repeat(32), false);
    }
}
