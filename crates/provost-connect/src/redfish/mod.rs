//! The management controller (BMC) of a server, over Redfish: power, health, boot source, inventory, sensors, event log,
//! for any server that speaks it.
//!
//! Servers differ in what they offer and how they spell it, so nothing is assumed: paths are followed from the service
//! root, what may be asked for is taken from the server's own lists, and what is not said, or said in words that mean
//! nothing (`Absent`, an empty text), is unknown. The walk has a fixed depth and a bound on requests, bytes and time.
//!
//! A power action is the one thing here that can't be taken back. It is sent once; what became of it is what was read
//! afterwards; and where that can't be said the answer is *unknown*, which is only ever probed.

mod boot;
mod error;
mod events;
#[cfg(test)]
mod hostile_tests;
mod inventory;
mod power;
#[cfg(test)]
mod power_tests;
#[cfg(test)]
mod recorded_tests;
mod resource;
mod sensors;
mod session;
mod system;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use provost_model::effect::EffectResult;
use tokio::sync::Mutex;

use crate::http::{Client, Endpoint};
use crate::tls::Trusted;
pub use boot::{BootSource, Enabled};
pub use error::Error;
pub use events::{LogEntries, LogEntry};
pub use inventory::{Inventory, Part, PartKind};
pub use power::PowerAction;
pub use sensors::{Sensor, Verdict};
use session::Session;
pub use system::{Indicator, System};

/// How to prove who we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// Name and password with each request.
    Basic,
    /// A session that is opened for a walk and ended after it: for servers that refuse the other.
    Session,
}

/// How a BMC is reached.
#[derive(Clone, Debug)]
pub struct Config {
    /// `https://…`, or a port on loopback.
    pub endpoint: Endpoint,
    /// Whom to trust; none for a port on loopback.
    pub trusted: Option<Trusted>,
    /// User; no login where there is none.
    pub user: Option<String>,
    /// File with the password, read at each walk so that it can be changed. Never in a message or log.
    pub password_file: Option<PathBuf>,
    /// How to log in.
    pub login: Login,
    /// Id of the system, for a BMC that has several which can be switched.
    pub system: Option<String>,
    /// Bounds.
    pub limits: Limits,
}

impl Config {
    /// Without a login and with the usual bounds.
    pub fn at(endpoint: Endpoint) -> Config {
        Config {
            endpoint,
            trusted: None,
            user: None,
            password_file: None,
            login: Login::Basic,
            system: None,
            limits: Limits::default(),
        }
    }
}

/// Bounds of what one BMC may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// One request.
    pub request: Duration,
    /// One walk, whatever it reads.
    pub walk: Duration,
    /// From sending a power action until it must have shown.
    pub settle: Duration,
    /// Between two looks at the power.
    pub pause: Duration,
}

impl Default for Limits {
    /// Small controllers take seconds for an answer, and large servers minutes to power on.
    fn default() -> Limits {
        Limits {
            request: Duration::from_secs(10),
            walk: Duration::from_secs(120),
            settle: Duration::from_secs(120),
            pause: Duration::from_secs(1),
        }
    }
}

/// One BMC.
#[derive(Debug)]
pub struct Bmc {
    config: Config,
    client: Client,
    /// Path of the system, once it was found: a look at the power is one request then.
    found: Mutex<Option<String>>,
}

impl Bmc {
    /// A BMC that is not asked yet.
    pub fn new(config: Config) -> Bmc {
        let client = Client::over(config.endpoint.clone(), config.trusted.as_ref());
        Bmc { config, client, found: Mutex::default() }
    }

    /// How it is reached.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What the system says: power, health, boot source, what may be asked of it.
    ///
    /// # Errors
    /// Where there is no answer, or none that can be understood.
    pub async fn system(&self) -> Result<System, Error> {
        self.within(async |session| self.read_system(session).await).await
    }

    /// What the server is made of.
    ///
    /// # Errors
    /// As for [`Bmc::system`].
    pub async fn inventory(&self) -> Result<Inventory, Error> {
        self.within(async |session| inventory::read(session).await).await
    }

    /// What its sensors say. `powered`: the machine runs, so that a fan that stands still means something.
    ///
    /// # Errors
    /// As for [`Bmc::system`].
    pub async fn sensors(&self, powered: bool) -> Result<Vec<Sensor>, Error> {
        self.within(async |session| sensors::read(session, powered).await).await
    }

    /// Its event logs, the newest entries first, `limit` at most.
    ///
    /// # Errors
    /// As for [`Bmc::system`].
    pub async fn events(&self, limit: usize) -> Result<LogEntries, Error> {
        self.within(async |session| events::read(session, limit).await).await
    }

    /// Does a power action, once, and reads back what became of it.
    pub async fn act(&self, action: PowerAction) -> EffectResult {
        let walked = self.within(async |session| Ok(power::act(self, session, action).await)).await;
        walked.unwrap_or_else(|error| power::not_begun(&error))
    }

    /// Whether a power action that was sent before is done. Sends nothing.
    pub async fn probe(&self, action: PowerAction) -> EffectResult {
        let walked = self.within(async |session| Ok(power::probe(self, session, action).await)).await;
        walked.unwrap_or_else(|error| power::unknown(error.code()))
    }

    /// Sets what the next boot starts from, for that one boot; `None` takes it back. Read back.
    pub async fn boot_once(&self, target: Option<&str>) -> EffectResult {
        let walked = self.within(async |session| Ok(boot::set(self, session, target).await)).await;
        walked.unwrap_or_else(|error| power::not_begun(&error))
    }

    /// One walk: from the login to the logout, whatever is asked for between them.
    async fn within<T>(
        &self,
        walk: impl AsyncFnOnce(&mut Session<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut session = Session::open(&self.client, &self.config).await?;
        let walked = walk(&mut session).await;
        session.close().await;
        walked
    }

    /// Reads the system where it was found last, and looks for it where it is not there any more.
    async fn read_system(&self, session: &mut Session<'_>) -> Result<System, Error> {
        let known = self.found.lock().await.clone();
        if let Some(path) = known {
            match session.get(&path).await {
                Ok(value) => return Ok(System::of(&path, &value)),
                Err(Error::Status { status: 404 | 410, .. }) => *self.found.lock().await = None,
                Err(error) => return Err(error),
            }
        }
        let system = system::find(session, self.config.system.as_deref()).await?;
        *self.found.lock().await = Some(system.path.clone());
        Ok(system)
    }
}
