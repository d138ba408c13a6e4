//! A system: the machine that a node is.

use provost_model::bmc::{Health, Power};
use serde_json::Value;

use super::boot::BootSource;
use super::error::Error;
use super::resource::{self, Status};
use super::session::{ROOT, Session};

/// Systems behind one BMC that are looked at.
const MAX_SYSTEMS: usize = 32;
/// Values of one list that are taken.
const MAX_VALUES: usize = 64;

/// What a system says. Nothing in it is made up: what is not said is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct System {
    /// Where it stands.
    pub path: String,
    /// Its id there.
    pub id: Option<String>,
    /// Who made it.
    pub manufacturer: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// UUID.
    pub uuid: Option<String>,
    /// Version of the firmware that boots it.
    pub bios: Option<String>,
    /// Power.
    pub power: Option<Power>,
    /// Health: the worst that it says of itself and of what is in it.
    pub health: Option<Health>,
    /// How far a boot has come, in the server's word: `OSRunning`.
    pub boot_progress: Option<String>,
    /// When it was reset last, in the server's words; its clock may be wrong.
    pub last_reset: Option<String>,
    /// The lamp that shows a technician which one it is.
    pub indicator: Option<Indicator>,
    /// What it boots from.
    pub boot: BootSource,
    /// How it is switched; none where it can't be.
    pub(super) reset: Option<Reset>,
}

/// A lamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indicator {
    /// Dark.
    Off,
    /// Lit.
    Lit,
    /// Blinks.
    Blinking,
}

/// The action that switches a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reset {
    /// Where it is posted to.
    pub(super) target: String,
    /// What it takes, where it says so itself.
    pub(super) offered: Option<Vec<String>>,
    /// A resource that says what it takes.
    pub(super) info: Option<String>,
}

impl System {
    /// What stands in the resource at `path`.
    pub(super) fn of(path: &str, value: &Value) -> System {
        System {
            path: path.to_owned(),
            id: resource::text(value, "Id"),
            manufacturer: resource::text(value, "Manufacturer"),
            model: resource::text(value, "Model"),
            serial: resource::text(value, "SerialNumber"),
            uuid: resource::text(value, "UUID"),
            bios: resource::text(value, "BiosVersion"),
            power: value.get("PowerState").and_then(Value::as_str).and_then(power),
            health: Status::of(value).health(),
            boot_progress: value
                .get("BootProgress")
                .and_then(|progress| resource::text(progress, "LastState")),
            last_reset: resource::text(value, "LastResetTime"),
            indicator: indicator(value),
            boot: BootSource::of(value),
            reset: reset(value),
        }
    }

    /// It can be switched on and off.
    pub fn can_be_switched(&self) -> bool {
        self.reset.is_some()
    }
}

fn power(word: &str) -> Option<Power> {
    match word {
        "On" => Some(Power::On),
        "Off" => Some(Power::Off),
        "PoweringOn" => Some(Power::PoweringOn),
        "PoweringOff" => Some(Power::PoweringOff),
        "Paused" => Some(Power::Paused),
        _ => None,
    }
}

/// The old word goes before the new one, which can't say that it blinks.
fn indicator(value: &Value) -> Option<Indicator> {
    match value.get("IndicatorLED").and_then(Value::as_str) {
        Some("Off") => return Some(Indicator::Off),
        Some("Lit") => return Some(Indicator::Lit),
        Some("Blinking") => return Some(Indicator::Blinking),
        _ => {}
    }
    let active = value.get("LocationIndicatorActive").and_then(Value::as_bool)?;
    Some(if active { Indicator::Blinking } else { Indicator::Off })
}

fn reset(value: &Value) -> Option<Reset> {
    let action = value.get("Actions")?.get("#ComputerSystem.Reset")?;
    let info = action.get("@Redfish.ActionInfo");
    Some(Reset {
        target: resource::path(action.get("target")?.as_str()?)?,
        offered: words(action, "ResetType@Redfish.AllowableValues"),
        // A path in most, a link in some.
        info: info
            .and_then(|info| info.as_str().and_then(resource::path).or_else(|| resource::own_path(info))),
    })
}

/// A list of words; none where there is no list.
pub(super) fn words(value: &Value, key: &str) -> Option<Vec<String>> {
    value.get(key)?.as_array()?;
    let words = resource::list(value, key, MAX_VALUES).filter_map(Value::as_str);
    Some(words.filter(|word| word.len() <= 64).map(str::to_owned).collect())
}

/// What an `ActionInfo` says that a parameter takes.
pub(super) fn parameter(info: &Value, name: &str) -> Option<Vec<String>> {
    let mut parameters = resource::list(info, "Parameters", MAX_VALUES);
    let of = |parameter: &&Value| parameter.get("Name").and_then(Value::as_str) == Some(name);
    words(parameters.find(of)?, "AllowableValues")
}

/// Paths of the systems, from the service root.
pub(super) async fn paths(session: &mut Session<'_>) -> Result<Vec<String>, Error> {
    let root = session.get(ROOT).await?;
    let collection = resource::link(&root, "Systems");
    let collection = collection.ok_or_else(|| Error::NotRedfish { what: ROOT.to_owned() })?;
    let (members, _) = session.members(&collection, MAX_SYSTEMS).await?;
    Ok(members.iter().filter_map(resource::own_path).collect())
}

/// The system that is the node: the one that is named, else the only one, else the only one that can be switched. A
/// baseboard of GPUs shows itself as a system beside the host, and can't be switched.
pub(super) async fn find(session: &mut Session<'_>, named: Option<&str>) -> Result<System, Error> {
    let mut systems = Vec::new();
    for path in paths(session).await? {
        let value = session.get(&path).await?;
        systems.push(System::of(&path, &value));
    }
    if let Some(named) = named {
        let found = systems.into_iter().find(|system| system.id.as_deref() == Some(named));
        return found.ok_or_else(|| Error::NoSystem { named: Some(named.to_owned()) });
    }
    if systems.len() > 1 {
        systems.retain(System::can_be_switched);
    }
    if systems.len() > 1 {
        return Err(Error::ManySystems { ids: systems.into_iter().filter_map(|system| system.id).collect() });
    }
    systems.pop().ok_or(Error::NoSystem { named: None })
}
