//! `provost bmc`: one BMC, asked from here.

use provost_server::config::Config;
use serde_json::Value;

use super::local::config_error;
use crate::cli::{self, Format};
use crate::error::{Error, Exit};
use crate::output::{self, field, fields};

/// `provost bmc show`.
pub fn run(command: &cli::Bmc, format: Format) -> Result<(), Error> {
    let cli::Bmc::Show { node, config, events } = command;
    let config = Config::load(config).map_err(|e| config_error(&e))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asked = runtime.block_on(provost_server::ask_bmc(&config, node, usize::from(*events)));
    let told = asked.map_err(|e| Error::chain(Exit::Failure, &e))?;
    output::one(&told, format, |told| people(told, matches!(format, Format::Wide)))
}

fn people(told: &Value, all: bool) -> String {
    let mut text = fields(
        told,
        &[
            ("node", "node"),
            ("address", "address"),
            ("power", "system.power"),
            ("health", "system.health"),
            ("boot", "system.boot_progress"),
            ("last reset", "system.last_reset"),
            ("indicator", "system.indicator"),
            ("boots from", "system.boot_target"),
            ("override", "system.boot_override"),
            ("maker", "system.manufacturer"),
            ("model", "system.model"),
            ("serial", "system.serial"),
            ("bios", "system.bios"),
        ],
    );
    for part in list(told, "parts", "parts", &mut text) {
        let line = ["kind", "id", "model", "serial", "health"].map(|key| field(part, key));
        text += &format!("  {}\n", line.join("  "));
    }
    let mut well = 0;
    for sensor in list(told, "sensors", "sensors", &mut text) {
        if !all && matches!(field(sensor, "verdict").as_str(), "ok" | "silent") {
            well += 1;
            continue;
        }
        let line = ["verdict", "chassis", "name", "reading", "unit"].map(|key| field(sensor, key));
        text += &format!("  {}\n", line.join("  "));
    }
    if well > 0 {
        text += &format!("  {well} are well or say nothing\n");
    }
    for event in list(told, "events", "event log", &mut text) {
        let line = ["created", "severity", "log", "message"].map(|key| field(event, key));
        text += &format!("  {}\n", line.join("  "));
    }
    if told.get("events_complete") == Some(&Value::Bool(false)) {
        text += "  there is more that was not read\n";
    }
    text
}

/// The elements of a list below its heading; what could not be read is said to be unknown, not empty.
fn list<'a>(told: &'a Value, key: &str, heading: &str, text: &mut String) -> &'a [Value] {
    let elements = told.get(key).and_then(Value::as_array);
    let state = if elements.is_some() { "" } else { " unknown" };
    *text += &format!("{heading}{state}\n");
    elements.map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_is_listed_and_what_is_not_known_is_said() {
        let told = json!({"node": "gpu001", "system": {"power": "on", "health": null}, "parts": null,
            "sensors": [{"verdict": "ok", "name": "a"}, {"verdict": "alarm", "chassis": "1", "name": "Inlet", "reading": 50.0,
                "unit": "Cel"}, {"verdict": "silent", "name": "c"}], "events": [], "events_complete": false});
        let text = people(&told, false);
        for line in [
            "parts unknown",
            "  alarm  1  Inlet  50.0  Cel",
            "  2 are well or say nothing",
            "event log",
            "  there is more that was not read",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
        }
        assert!(people(&told, true).contains("  ok  -  a"), "{}", people(&told, true));
    }
}
