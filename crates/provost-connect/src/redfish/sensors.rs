//! What the sensors of a server say, in the old form (`Thermal`, `Power`) and in the new one (`Sensors`,
//! `ThermalSubsystem`, `PowerSubsystem`).
//!
//! A server's own verdict is one witness among two (case B16). A reading beyond a critical threshold is an alarm even
//! where the sensor calls itself well; and a sensor that is not enabled says nothing about the machine, so where it
//! complains all the same it is the sensor that is at fault.

use provost_model::bmc::Health;
use serde_json::Value;

use super::error::Error;
use super::resource::{self, Status, number, text};
use super::session::{ROOT, Session};

/// Chassis that are looked at; a GH200 has 26.
const MAX_CHASSIS: usize = 64;
/// Sensors of one list.
const MAX_LIST: usize = 512;
/// Sensors in all.
const MAX_SENSORS: usize = 2_048;

/// One sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensor {
    /// Chassis that it is in.
    pub chassis: String,
    /// Its name.
    pub name: String,
    /// What it measures, in the server's unit; none where it does not say.
    pub reading: Option<f64>,
    /// `Cel`, `W`, `RPM`, `%`, `V`.
    pub unit: Option<String>,
    /// What follows from it.
    pub verdict: Verdict,
}

/// What follows from what a sensor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It says nothing, or is switched off and does not complain.
    Silent,
    /// Well.
    Ok,
    /// Beyond a threshold of caution, or it says so itself.
    Warning,
    /// It complains and is not enabled: look at the sensor, not at the machine.
    Fault,
    /// Beyond a critical threshold, or it says so itself.
    Alarm,
}

/// Thresholds on one side, from the mildest.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    caution: Option<f64>,
    critical: Option<f64>,
}

/// What a verdict is made from.
#[derive(Debug, Default)]
struct Said<'a> {
    state: Option<&'a str>,
    health: Option<Health>,
    reading: Option<f64>,
    upper: Side,
    lower: Side,
}

impl Said<'_> {
    fn verdict(&self, powered: bool) -> Verdict {
        let beyond = self.beyond(powered);
        let own = match self.health {
            Some(Health::Critical) => Verdict::Alarm,
            Some(Health::Warning) => Verdict::Warning,
            Some(Health::Ok) => Verdict::Ok,
            None => Verdict::Silent,
        };
        let worst = beyond.max(own);
        match self.state {
            Some("Enabled") | None => worst,
            Some(_) if worst > Verdict::Ok => Verdict::Fault,
            Some(_) => Verdict::Silent,
        }
    }

    fn beyond(&self, powered: bool) -> Verdict {
        let Some(reading) = self.reading else { return Verdict::Silent };
        // Limits that exclude each other are no limits.
        let crossed =
            matches!((self.lower.critical, self.upper.critical), (Some(low), Some(high)) if low >= high);
        // What stands still in a machine without power is as it should be.
        let above = |limit: Option<f64>| limit.is_some_and(|limit| !crossed && reading > limit);
        let below = |limit: Option<f64>| limit.is_some_and(|limit| !crossed && powered && reading < limit);
        if above(self.upper.critical) || below(self.lower.critical) {
            Verdict::Alarm
        } else if above(self.upper.caution) || below(self.lower.caution) {
            Verdict::Warning
        } else {
            Verdict::Ok
        }
    }
}

/// The mildest of what counts as critical: where only a fatal limit is given, that.
fn first(limits: [Option<f64>; 2], least: fn(f64, f64) -> f64) -> Option<f64> {
    limits.into_iter().flatten().reduce(least)
}

/// Reads every chassis. Parts that are missing or broken are left out; that is no answer about them.
pub(super) async fn read(session: &mut Session<'_>, powered: bool) -> Result<Vec<Sensor>, Error> {
    let root = session.get(ROOT).await?;
    let Some(collection) = resource::link(&root, "Chassis") else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for chassis in session.all(&collection, MAX_CHASSIS).await? {
        let name = text(&chassis, "Id").unwrap_or_default();
        let mut into = Into { chassis: name, powered, found: &mut found };
        read_chassis(session, &chassis, &mut into).await?;
        if found.len() >= MAX_SENSORS {
            break;
        }
    }
    found.truncate(MAX_SENSORS);
    Ok(found)
}

/// Where sensors of one chassis go.
struct Into<'a> {
    chassis: String,
    powered: bool,
    found: &'a mut Vec<Sensor>,
}

impl Into<'_> {
    fn push(&mut self, name: Option<String>, unit: Option<String>, said: &Said<'_>) {
        let Some(name) = name.filter(|_| said.state != Some("Absent")) else { return };
        let verdict = said.verdict(self.powered);
        let sensor = Sensor { chassis: self.chassis.clone(), name, reading: said.reading, unit, verdict };
        self.found.push(sensor);
    }
}

async fn read_chassis(session: &mut Session<'_>, chassis: &Value, into: &mut Into<'_>) -> Result<(), Error> {
    let mut modern = false;
    if let Some(sensors) = resource::link(chassis, "Sensors") {
        for sensor in session.all(&sensors, MAX_LIST).await? {
            modern = true;
            push_sensor(&sensor, into);
        }
    }
    if let Some(thermal) = optional(session, chassis, "ThermalSubsystem").await? {
        read_thermal_subsystem(session, &thermal, modern, into).await?;
    }
    if let Some(power) = optional(session, chassis, "PowerSubsystem").await?
        && let Some(supplies) = resource::link(&power, "PowerSupplies")
    {
        for supply in session.all(&supplies, MAX_LIST).await? {
            push_health(&supply, None, into);
        }
    }
    // A server that has both forms says the same twice.
    if !modern {
        if let Some(thermal) = optional(session, chassis, "Thermal").await? {
            push_old(&thermal, "Temperatures", "ReadingCelsius", Some("Cel"), into);
            push_old(&thermal, "Fans", "Reading", None, into);
        }
        if let Some(power) = optional(session, chassis, "Power").await? {
            push_old(&power, "Voltages", "ReadingVolts", Some("V"), into);
            push_old(&power, "PowerControl", "PowerConsumedWatts", Some("W"), into);
            push_old(&power, "PowerSupplies", "LastPowerOutputWatts", Some("W"), into);
        }
    }
    Ok(())
}

async fn optional(session: &mut Session<'_>, value: &Value, key: &str) -> Result<Option<Value>, Error> {
    match resource::link(value, key) {
        Some(path) => session.get_optional(&path).await,
        None => Ok(None),
    }
}

/// Fans, leaks, and temperatures that have no sensor of their own.
async fn read_thermal_subsystem(
    session: &mut Session<'_>,
    thermal: &Value,
    modern: bool,
    into: &mut Into<'_>,
) -> Result<(), Error> {
    if !modern && let Some(metrics) = optional(session, thermal, "ThermalMetrics").await? {
        for reading in resource::list(&metrics, "TemperatureReadingsCelsius", MAX_LIST) {
            let said = Said { reading: number(reading, "Reading"), ..Said::default() };
            into.push(text(reading, "DeviceName"), Some("Cel".to_owned()), &said);
        }
    }
    if let Some(fans) = resource::link(thermal, "Fans") {
        for fan in session.all(&fans, MAX_LIST).await? {
            push_health(&fan, fan.get("SpeedPercent").map(|speed| (speed, "%")), into);
        }
    }
    let Some(leaks) = optional(session, thermal, "LeakDetection").await? else { return Ok(()) };
    let Some(detectors) = resource::link(&leaks, "LeakDetectors") else { return Ok(()) };
    for detector in session.all(&detectors, MAX_LIST).await? {
        push_detector(&detector, into);
    }
    Ok(())
}

/// A `Sensor`.
fn push_sensor(sensor: &Value, into: &mut Into<'_>) {
    let status = Status::of(sensor);
    let none = Value::Null;
    let thresholds = sensor.get("Thresholds").unwrap_or(&none);
    let limit = |key: &str| thresholds.get(key).and_then(|limit| number(limit, "Reading"));
    let said = Said {
        state: status.state(),
        health: status.health(),
        reading: number(sensor, "Reading"),
        upper: Side {
            caution: limit("UpperCaution"),
            critical: first([limit("UpperCritical"), limit("UpperFatal")], f64::min),
        },
        lower: Side {
            caution: limit("LowerCaution"),
            critical: first([limit("LowerCritical"), limit("LowerFatal")], f64::max),
        },
    };
    let name = text(sensor, "Name").or_else(|| text(sensor, "Id"));
    into.push(name, text(sensor, "ReadingUnits"), &said);
}

/// A list of the old form.
fn push_old(resource: &Value, list: &str, reading: &str, unit: Option<&str>, into: &mut Into<'_>) {
    for sensor in resource::list(resource, list, MAX_LIST) {
        let status = Status::of(sensor);
        let limit = |key: &str| number(sensor, key);
        let said = Said {
            state: status.state(),
            health: status.health(),
            reading: number(sensor, reading),
            upper: Side {
                caution: limit("UpperThresholdNonCritical"),
                critical: first([limit("UpperThresholdCritical"), limit("UpperThresholdFatal")], f64::min),
            },
            lower: Side {
                caution: limit("LowerThresholdNonCritical"),
                critical: first([limit("LowerThresholdCritical"), limit("LowerThresholdFatal")], f64::max),
            },
        };
        let unit = unit.map(str::to_owned).or_else(|| text(sensor, "ReadingUnits"));
        // Some of these have no name; what the list is called still says what they are.
        let name =
            text(sensor, "Name").or_else(|| text(sensor, "FanName")).unwrap_or_else(|| list.to_owned());
        into.push(Some(name), unit, &said);
    }
}

/// A part that has a verdict of its own, and perhaps a reading.
fn push_health(part: &Value, reading: Option<(&Value, &str)>, into: &mut Into<'_>) {
    let status = Status::of(part);
    let said = Said {
        state: status.state(),
        health: status.health(),
        reading: reading.and_then(|(value, _)| number(value, "Reading")),
        ..Said::default()
    };
    into.push(text(part, "Name"), reading.map(|(_, unit)| unit.to_owned()), &said);
}

/// A leak detector: what it detects stands beside its own health, and only an enabled one detects anything.
fn push_detector(detector: &Value, into: &mut Into<'_>) {
    let status = Status::of(detector);
    let detected = match detector.get("DetectorState").and_then(Value::as_str) {
        Some("OK") => Some(Health::Ok),
        Some("Warning") => Some(Health::Warning),
        Some("Critical") => Some(Health::Critical),
        _ => None,
    };
    let said = Said { state: status.state(), health: detected.max(status.health()), ..Said::default() };
    into.push(text(detector, "Name").or_else(|| text(detector, "Id")), None, &said);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn all(form: fn(&Value, &mut Into<'_>), value: Value, powered: bool) -> Vec<Sensor> {
        let mut found = Vec::new();
        form(&value, &mut Into { chassis: "1".to_owned(), powered, found: &mut found });
        found
    }

    fn check(value: Value, expected: Verdict) {
        let found = all(push_sensor, value.clone(), true);
        assert_eq!(found.first().map(|sensor| sensor.verdict), Some(expected), "{value}");
    }

    fn sensor(reading: Value, state: Value, health: Value) -> Value {
        json!({"Name": "t", "Reading": reading, "Status": {"State": state, "Health": health}, "Thresholds": {
            "UpperCaution": {"Reading": 80}, "UpperCritical": {"Reading": 90}, "UpperFatal": {"Reading": 100},
            "LowerCritical": {"Reading": 5}}})
    }

    #[test]
    fn b16_a_reading_beyond_critical_is_an_alarm_whatever_the_bmc_says_of_itself() {
        check(sensor(json!(91), json!("Enabled"), json!("OK")), Verdict::Alarm);
        check(sensor(json!(101.5), json!("Enabled"), json!("OK")), Verdict::Alarm);
        check(sensor(json!(2), json!("Enabled"), json!("OK")), Verdict::Alarm);
        check(sensor(json!(85), json!("Enabled"), json!("OK")), Verdict::Warning);
        check(sensor(json!(90), json!("Enabled"), json!("OK")), Verdict::Warning);
        check(sensor(json!(40), json!("Enabled"), json!("OK")), Verdict::Ok);
        check(sensor(json!(40), json!("Enabled"), json!("Critical")), Verdict::Alarm);
        check(sensor(json!(91), json!(null), json!(null)), Verdict::Alarm);
    }

    #[test]
    fn b16_a_sensor_that_is_not_enabled_is_at_fault_itself() {
        for state in ["Disabled", "UnavailableOffline", "StandbyOffline", "InTest", "Qualified"] {
            check(sensor(json!(0), json!(state), json!("Critical")), Verdict::Fault);
            check(sensor(json!(120), json!(state), json!("OK")), Verdict::Fault);
            check(sensor(json!(null), json!(state), json!(null)), Verdict::Silent);
        }
        let leak = |state: &str, detected: &str, health: &str| {
            let value = json!({"Name": "leak", "DetectorState": detected, "Status": {"State": state, "Health": health}});
            all(push_detector, value, true)[0].verdict
        };
        assert_eq!(leak("Disabled", "Critical", "OK"), Verdict::Fault, "no power-off for it");
        assert_eq!(leak("Enabled", "Critical", "OK"), Verdict::Alarm);
        assert_eq!(leak("Enabled", "OK", "OK"), Verdict::Ok);
        assert_eq!(leak("Enabled", "Sunny", "OK"), Verdict::Ok);
    }

    #[test]
    fn what_is_not_said_is_silent() {
        check(json!({"Name": "t"}), Verdict::Silent);
        check(sensor(json!("hot"), json!("Enabled"), json!(null)), Verdict::Silent);
        check(sensor(json!(null), json!("Enabled"), json!("OK")), Verdict::Ok);
        assert!(all(push_sensor, json!({"Reading": 3}), true).is_empty(), "nobody knows what it is");
        assert!(all(push_sensor, json!({"Name": "x", "Status": {"State": "Absent"}}), true).is_empty());
        let crossed = json!({"Name": "t", "Reading": 20, "Thresholds": {"UpperCritical": {"Reading": 0},
            "LowerCritical": {"Reading": 0}}});
        check(crossed, Verdict::Ok);
    }

    #[test]
    fn a_fan_may_stand_still_where_there_is_no_power() {
        let fans = json!({"Fans": [{"FanName": "Fan1A", "Reading": 0, "ReadingUnits": "RPM",
            "LowerThresholdCritical": 600, "LowerThresholdNonCritical": 960,
            "Status": {"State": "Enabled", "Health": "OK"}}]});
        let form = |value: &Value, into: &mut Into<'_>| push_old(value, "Fans", "Reading", None, into);
        assert_eq!(all(form, fans.clone(), true)[0].verdict, Verdict::Alarm);
        let off = &all(form, fans, false)[0];
        assert_eq!((off.verdict, off.reading, off.unit.as_deref()), (Verdict::Ok, Some(0.0), Some("RPM")));
    }
}
