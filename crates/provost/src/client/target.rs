//! Where the server is and what proves it: the environment, or `local.toml` of a data directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_server::local::{FILE, Local};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::error::{Error, Exit};

/// A server that can be asked.
pub struct Target {
    /// As people write it.
    pub server: String,
    /// `HOST:PORT`.
    pub address: String,
    /// Name that its certificate must carry.
    pub name: ServerName<'static>,
    /// Bearer token.
    pub token: String,
    /// Trust.
    pub tls: Arc<ClientConfig>,
}

impl Target {
    /// Finds it.
    pub fn find(data: &Path) -> Result<Target, Error> {
        let Some(server) = std::env::var("PROVOST_SERVER").ok().filter(|server| !server.is_empty()) else {
            return Target::local(data);
        };
        let file = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).ok_or_else(|| {
                Error::new(Exit::Usage, format!("PROVOST_SERVER is set, {name} is not"))
                    .remedy("set PROVOST_CA_FILE and PROVOST_TOKEN_FILE too, or unset PROVOST_SERVER")
            })
        };
        let token_file = file("PROVOST_TOKEN_FILE")?;
        let token = std::fs::read_to_string(&token_file).map_err(|e| unreadable(&token_file, &e))?;
        Target::new(server, &file("PROVOST_CA_FILE")?, token.trim().to_owned())
    }

    fn local(data: &Path) -> Result<Target, Error> {
        let path = data.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(|e| {
            Error::new(Exit::Unreachable, format!("no server runs on `{}`", data.display()))
                .why(format!("{}: {e}", path.display()))
                .remedy("start it with `provost up`, name its directory with --data, or set PROVOST_SERVER")
        })?;
        let local: Local = toml::from_str(&text).map_err(|e| {
            Error::new(Exit::Failure, format!("`{}` is damaged", path.display())).why(e.to_string())
        })?;
        Target::new(local.server, Path::new(&local.ca_file), local.token)
    }

    fn new(server: String, ca_file: &Path, token: String) -> Result<Target, Error> {
        let bad = || {
            Error::new(Exit::Usage, format!("`{server}` is no server"))
                .remedy("write it as https://HOST:PORT")
        };
        let address = server.strip_prefix("https://").ok_or_else(bad)?.trim_end_matches('/').to_owned();
        let (host, _) = address.rsplit_once(':').ok_or_else(bad)?;
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|_| bad())?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(ca_file).map_err(|e| unreadable(ca_file, &e))? {
            let certificate = certificate.map_err(|e| unreadable(ca_file, &e))?;
            roots.add(certificate).map_err(|e| unreadable(ca_file, &e))?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::chain(Exit::Failure, &e))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Target { server, address, name, token, tls: Arc::new(config) })
    }
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::new(Exit::Usage, format!("`{}` cannot be used", path.display())).why(error.to_string())
}
