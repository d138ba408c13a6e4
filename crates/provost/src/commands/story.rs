//! `provost incident show`: the incident, then its story in order, with how long after the fault each thing was.

use serde_json::Value;

use crate::cli::Format;
use crate::client::{Client, escape};
use crate::error::Error;
use crate::output::{self, field, fields};

/// Prints the story; for programs the incident with its `timeline`.
pub fn print(client: &Client, id: &str, format: Format) -> Result<(), Error> {
    let path = format!("/v1/incidents/{}", escape(id));
    let mut incident = client.get(&path)?;
    let timeline = client.get(&format!("{path}/timeline?limit=500"))?;
    incident["timeline"] = timeline.get("items").cloned().unwrap_or_default();
    output::one(&incident, format, for_people)
}

fn for_people(incident: &Value) -> String {
    let mut text = format!(
        "{}  {}  {}\n",
        field(incident, "number"),
        field(incident, "severity"),
        field(incident, "title")
    );
    text += &fields(
        incident,
        &[
            ("state", "state"),
            ("owner", "owner"),
            ("jobs hit", "jobs"),
            ("fault", "fault_at"),
            ("isolated", "isolated_at"),
            ("mitigated", "mitigated_at"),
            ("resolved", "resolved_at"),
            ("due", "due"),
            ("execution", "execution"),
        ],
    );
    let would: Vec<&str> = incident
        .get("would_have")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if !would.is_empty() {
        text += "\nwould have been done, in act mode:\n";
        for effect in would {
            text += &format!("  {effect}\n");
        }
    }
    text += "\n";
    for entry in incident.get("timeline").and_then(Value::as_array).into_iter().flatten() {
        let after = entry.get("since_fault_ms").and_then(Value::as_u64).unwrap_or(0);
        text += &format!("{:>10}  {}\n", lapse(after), field(entry, "text"));
    }
    text
}

/// `+0.012s`, `+4m07s`, `+3h12m`.
fn lapse(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0..60 => format!("+{}.{:03}s", seconds, millis % 1_000),
        60..3_600 => format!("+{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("+{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lapses() {
        let check = |millis, expected: &str| assert_eq!(lapse(millis), expected);
        check(12, "+0.012s");
        check(59_999, "+59.999s");
        check(247_000, "+4m07s");
        check(11_520_000, "+3h12m");
    }
}
