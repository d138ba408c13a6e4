//! The BMCs of the nodes: read slowly beside everything else, and asked for everything by a person.

mod ask;
mod poll;

use provost_connect::http::Endpoint;
use provost_connect::redfish::{self, Bmc};
use provost_connect::tls::Trusted;

pub use ask::{AskBmcError, ask_bmc};
pub(crate) use poll::Bmcs;

use crate::config::BmcTable;

/// A BMC as its table describes it.
fn client(table: &BmcTable, endpoint: &Endpoint, trusted: Option<&Trusted>) -> Bmc {
    Bmc::new(redfish::Config {
        trusted: trusted.cloned(),
        user: table.user.clone(),
        password_file: table.password_file.clone(),
        login: table.login,
        system: table.system.clone(),
        ..redfish::Config::at(endpoint.clone())
    })
}
