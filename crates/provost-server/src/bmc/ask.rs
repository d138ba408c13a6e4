//! One BMC asked by a person: everything that it says, as `provost bmc show` prints it. No controller is needed.

use provost_connect::redfish::{
    self, Enabled, Indicator, Inventory, LogEntries, Part, PartKind, Sensor, System, Verdict,
};
use provost_connect::tls::{TrustError, Trusted};
use provost_model::bmc::{Health, Power};
use serde_json::{Value, json};

use super::client;
use crate::config::Config;

/// Why a BMC could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum AskBmcError {
    /// No table names the node.
    #[error("no [[bmc]] of the configuration names `{node}`")]
    NotConfigured {
        /// The node.
        node: String,
    },
    /// Nobody can be trusted.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// It was asked.
    #[error(transparent)]
    Asked(#[from] redfish::Error),
}

/// Asks for everything, with the newest `events` of its logs.
///
/// # Errors
/// Where the node has no BMC, or its system can't be read. What else can't be read is null.
pub async fn ask_bmc(config: &Config, node: &str, events: usize) -> Result<Value, AskBmcError> {
    let mut all =
        config.bmc.iter().flat_map(|table| table.endpoints.iter().map(move |(name, at)| (table, name, at)));
    let found = all.find(|(_, name, _)| *name == node);
    let (table, _, endpoint) = found.ok_or_else(|| AskBmcError::NotConfigured { node: node.to_owned() })?;
    let trusted = table.trust().map(|trust| Trusted::new(&trust)).transpose()?;
    let bmc = client(table, endpoint, trusted.as_ref());
    let system = bmc.system().await?;
    let powered = matches!(system.power, Some(Power::On));
    let inventory = told("parts", bmc.inventory().await);
    let sensors = told("sensors", bmc.sensors(powered).await);
    let events = told("event log", bmc.events(events).await);
    Ok(json!({
        "node": node,
        "address": bmc.config().endpoint.to_string(),
        "system": system_of(&system),
        "parts": inventory.as_ref().map(parts_of),
        "sensors": sensors.map(|sensors| sensors.iter().map(sensor_of).collect::<Vec<_>>()),
        "events": events.as_ref().map(events_of),
        "events_complete": events.as_ref().map(|events| events.complete),
    }))
}

/// A part that can't be read is left out, and the log says why.
fn told<T>(what: &str, read: Result<T, redfish::Error>) -> Option<T> {
    read.map_err(|error| tracing::warn!(error = %error, "the {what} of the BMC could not be read")).ok()
}

fn system_of(system: &System) -> Value {
    json!({
        "id": system.id, "manufacturer": system.manufacturer, "model": system.model, "serial": system.serial,
        "uuid": system.uuid, "bios": system.bios, "power": system.power.map(Power::words),
        "health": system.health.map(Health::words), "boot_progress": system.boot_progress,
        "last_reset": system.last_reset,
        "indicator": system.indicator.map(|indicator| match indicator {
            Indicator::Off => "off",
            Indicator::Lit => "lit",
            Indicator::Blinking => "blinking",
        }),
        "boot_override": system.boot.enabled.map(|enabled| match enabled {
            Enabled::Disabled => "disabled",
            Enabled::Once => "once",
            Enabled::Continuous => "always",
        }),
        "boot_target": system.boot.target,
        "can_be_switched": system.can_be_switched(),
    })
}

fn parts_of(inventory: &Inventory) -> Vec<Value> {
    let part = |part: &Part| {
        let kind = match part.kind {
            PartKind::Cpu => "cpu",
            PartKind::Gpu => "gpu",
            PartKind::Other => "other",
        };
        json!({"id": part.id, "kind": kind, "manufacturer": part.manufacturer, "model": part.model,
            "serial": part.serial, "uuid": part.uuid, "health": part.health.map(Health::words)})
    };
    inventory.parts.iter().map(part).collect()
}

fn sensor_of(sensor: &Sensor) -> Value {
    let verdict = match sensor.verdict {
        Verdict::Silent => "silent",
        Verdict::Ok => "ok",
        Verdict::Warning => "warning",
        Verdict::Fault => "sensor fault",
        Verdict::Alarm => "alarm",
    };
    json!({"chassis": sensor.chassis, "name": sensor.name, "reading": sensor.reading, "unit": sensor.unit,
        "verdict": verdict})
}

fn events_of(events: &LogEntries) -> Vec<Value> {
    let entry = |entry: &redfish::LogEntry| {
        json!({"log": entry.log, "id": entry.id, "created": entry.created, "message_id": entry.message_id,
            "severity": entry.severity.map(Health::words), "message": entry.message})
    };
    events.entries.iter().map(entry).collect()
}
