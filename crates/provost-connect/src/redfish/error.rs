//! Why a BMC could not be read.

use std::path::PathBuf;

use crate::http;

/// A walk failed. Each message says what to do; no text of the other side is in it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No answer.
    #[error(transparent)]
    Http(#[from] http::Error),
    /// The password can't be read.
    #[error(
        "failed to read the password file `{path}`: {source}; it must be one line, readable by this program alone"
    )]
    Password {
        /// Path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It does not take our name and password, or they do not allow this.
    #[error("the BMC refuses our login (status {status}); check the user, its password file and its role")]
    Denied {
        /// Status.
        status: u16,
    },
    /// A status that is no success.
    #[error("the BMC answered with status {status} for {path}")]
    Status {
        /// Status.
        status: u16,
        /// What was asked for; it was taken from an answer only where it is plain.
        path: String,
    },
    /// What answers is no Redfish.
    #[error(
        "what answers {what} is no Redfish; check the address, and that Redfish is switched on in the BMC"
    )]
    NotRedfish {
        /// What was asked for.
        what: String,
    },
    /// More than a server can have.
    #[error("the BMC says more than {what}, which no server does; look at what listens there")]
    TooMuch {
        /// Which bound.
        what: &'static str,
    },
    /// The walk took too long.
    #[error("the BMC did not answer everything within {seconds} s")]
    Slow {
        /// The limit.
        seconds: u64,
    },
    /// It shows no system, or not the one that the configuration names.
    #[error("the BMC shows no system{}; check `system` in the configuration", .named.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default())]
    NoSystem {
        /// The id that was looked for.
        named: Option<String>,
    },
    /// It shows several, and which one is the node is not for us to guess.
    #[error("the BMC shows several systems that can be switched ({}); name the node's own as `system`", .ids.join(", "))]
    ManySystems {
        /// Their ids.
        ids: Vec<String>,
    },
}

impl Error {
    /// It is about the one resource that was asked for; the walk may go on without it.
    pub(super) fn spares_the_rest(&self) -> bool {
        matches!(self, Error::Status { .. } | Error::NotRedfish { .. } | Error::Denied { .. })
    }

    /// It answers, and can't be understood or does not let us in: looking again does not help.
    pub fn is_blind(&self) -> bool {
        match self {
            Error::Http(error) => matches!(error, http::Error::TooLarge { .. } | http::Error::Broken { .. }),
            Error::Slow { .. } => false,
            Error::Status { status, .. } => *status < 500,
            Error::Password { .. } | Error::Denied { .. } | Error::NotRedfish { .. } => true,
            Error::TooMuch { .. } | Error::NoSystem { .. } | Error::ManySystems { .. } => true,
        }
    }

    /// A word for records.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Error::Http(http::Error::TimedOut { .. }) | Error::Slow { .. } => "timeout",
            Error::Http(http::Error::Connect { .. }) => "away",
            Error::Http(http::Error::Tls { .. }) => "not_trusted",
            Error::Http(http::Error::Broken { .. }) => "connection_lost",
            Error::Http(http::Error::Header { .. }) | Error::Password { .. } => "not_configured",
            Error::Http(http::Error::TooLarge { .. }) | Error::TooMuch { .. } | Error::NotRedfish { .. } => {
                "not_understood"
            }
            Error::Denied { .. } => "refused",
            Error::Status { .. } => "failed",
            Error::NoSystem { .. } | Error::ManySystems { .. } => "no_system",
        }
    }
}
