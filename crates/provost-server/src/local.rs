//! `DIR/local.toml`: how the commands on the controller's own machine find it. Whoever can read the file
//! (0600) is the local administrator.

use std::path::Path;

use aws_lc_rs::{digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::certificates::{Error, write_private};

/// Name of the file below the data directory.
pub const FILE: &str = "local.toml";

/// What the file says.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Local {
    /// `https://127.0.0.1:8443`.
    pub server: String,
    /// Path of the authority's certificate.
    pub ca_file: String,
    /// Bearer token of the local administrator; new at each start.
    pub token: String,
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Local {
    /// Reads the file of the last start; none where there is no whole one.
    pub fn read(dir: &Path) -> Option<Local> {
        toml::from_str(&std::fs::read_to_string(dir.join(FILE)).ok()?).ok()
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let text = toml::to_string(self).map_err(|e| Error::Make(e.into()))?;
        write_private(&dir.join(FILE), text.as_bytes(), 0o600)
    }
}

/// 32 random bytes as text, for tokens.
///
/// # Errors
/// Where the system gives no random bytes.
pub fn new_token() -> Result<String, Error> {
    Ok(URL_SAFE_NO_PAD.encode(random::<32>()?))
}

/// Random bytes of the system.
///
/// # Errors
/// Where the system gives none.
pub fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|e| Error::Make(e.into()))?;
    Ok(bytes)
}

/// SHA-256 in hex: what is kept of a token, and the version of a runbook.
pub fn sha256_hex(bytes: &[u8]) -> String {
    digest::digest(&digest::SHA256, bytes).as_ref().iter().map(|b| format!("{b:02x}")).collect()
}
