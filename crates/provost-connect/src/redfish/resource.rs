//! Reading a resource of which nothing is certain.

use serde_json::Value;

/// Characters of a text that is taken.
const MAX_TEXT: usize = 128;
/// Characters of a path that is followed.
const MAX_PATH: usize = 512;

/// What vendors write where they know nothing.
const NOTHING: &[&str] = &[
    "absent",
    "default string",
    "n/a",
    "na",
    "none",
    "not available",
    "not present",
    "not specified",
    "null",
    "to be filled by o.e.m.",
    "unknown",
    "unspecified",
];

/// A path as it may be asked for: below `/redfish/`, plain, no way up, without the part that points into a resource.
pub(super) fn path(text: &str) -> Option<String> {
    let path = text.split('#').next().unwrap_or_default();
    let plain = path.len() <= MAX_PATH && path.bytes().all(|byte| byte.is_ascii_graphic());
    let inside = path.starts_with("/redfish/") && !path.contains("..") && !path.contains('\\');
    (plain && inside).then(|| path.to_owned())
}

/// The path that a resource gives as its own, or that of a link.
pub(super) fn own_path(value: &Value) -> Option<String> {
    path(value.get("@odata.id")?.as_str()?)
}

/// The path that `key` links to.
pub(super) fn link(value: &Value, key: &str) -> Option<String> {
    own_path(value.get(key)?)
}

/// A text that says something, in plain characters and cut.
pub(super) fn text(value: &Value, key: &str) -> Option<String> {
    said(value.get(key)?.as_str()?)
}

/// The same of a text at hand.
pub(super) fn said(text: &str) -> Option<String> {
    let clean: String = text.chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect();
    let clean = clean.trim();
    let nothing = clean.is_empty() || NOTHING.contains(&clean.to_lowercase().as_str());
    (!nothing).then(|| clean.to_owned())
}

/// A number; a text that looks like one is none.
pub(super) fn number(value: &Value, key: &str) -> Option<f64> {
    value.get(key)?.as_f64().filter(|number| number.is_finite())
}

/// The elements of a list, `max` at most.
pub(super) fn list<'a>(value: &'a Value, key: &str, max: usize) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(key).and_then(Value::as_array).into_iter().flatten().take(max)
}

/// Its `Status`.
pub(super) struct Status<'a>(Option<&'a Value>);

impl<'a> Status<'a> {
    pub(super) fn of(value: &'a Value) -> Status<'a> {
        Status(value.get("Status"))
    }

    /// The worst of its own health and of what is in it. DMTF writes `HealthRollup`; some write it otherwise.
    pub(super) fn health(&self) -> Option<provost_model::bmc::Health> {
        let said = ["Health", "HealthRollup", "HealthRollUp"];
        said.iter().filter_map(|key| self.0?.get(key)?.as_str().and_then(health)).max()
    }

    /// The word: `Enabled`, `Disabled`, `Absent`.
    pub(super) fn state(&self) -> Option<&'a str> {
        self.0?.get("State")?.as_str()
    }
}

/// The three words for health and for the severity of an event.
pub(super) fn health(word: &str) -> Option<provost_model::bmc::Health> {
    use provost_model::bmc::Health;
    match word {
        "OK" => Some(Health::Ok),
        "Warning" => Some(Health::Warning),
        "Critical" => Some(Health::Critical),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use provost_model::bmc::Health;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_paths_of_this_server_are_followed() {
        let check =
            |text: &str, expected: Option<&str>| assert_eq!(path(text).as_deref(), expected, "{text}");
        check("/redfish/v1/Systems/1", Some("/redfish/v1/Systems/1"));
        check("/redfish/v1/Systems/1/", Some("/redfish/v1/Systems/1/"));
        check("/redfish/v1/Chassis/1/Thermal#/Fans/0", Some("/redfish/v1/Chassis/1/Thermal"));
        check("/redfish/v1/L/Entries?$skip=50", Some("/redfish/v1/L/Entries?$skip=50"));
        check("https://elsewhere.example/redfish/v1", None);
        check("//elsewhere.example/redfish/v1", None);
        check("/redfish/v1/../../etc", None);
        check("/redfish/v1/a\r\nX-Evil: 1", None);
        check("/redfish/v1/ü", None);
        check("/login", None);
        check("", None);
        check(&format!("/redfish/{}", "x".repeat(600)), None);
    }

    #[test]
    fn words_for_nothing_are_nothing() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(super::text(&json!({"a": text}), "a").as_deref(), expected, "{text:?}");
        };
        check("GH200", Some("GH200"));
        check("  spaced\u{0007} ", Some("spaced"));
        for nothing in
            ["", " ", "Absent", "NULL", "unknown", "N/A", "To be filled by O.E.M.", "Default string"]
        {
            check(nothing, None);
        }
        assert_eq!(super::text(&json!({"a": 5}), "a"), None);
        assert_eq!(super::text(&json!([]), "a"), None);
        assert_eq!(number(&json!({"a": "12"}), "a"), None);
        assert_eq!(number(&json!({"a": null}), "a"), None);
        assert_eq!(number(&json!({"a": 12}), "a"), Some(12.0));
    }

    #[test]
    fn the_worst_health_counts_and_a_strange_one_is_unknown() {
        let check = |status: Value, expected: Option<Health>| {
            assert_eq!(Status::of(&json!({"Status": status})).health(), expected, "{status}");
        };
        check(json!({"Health": "OK", "HealthRollup": "Critical"}), Some(Health::Critical));
        check(json!({"Health": "Warning", "HealthRollUp": "OK"}), Some(Health::Warning));
        check(json!({"Health": "OK"}), Some(Health::Ok));
        check(json!({"Health": "ok"}), None);
        check(json!({"Health": null}), None);
        check(json!("OK"), None);
    }

    proptest! {
        #[test]
        fn a_text_never_grows_and_holds_nothing_that_moves_a_cursor(any in "\\PC{0,300}|[\\x00-\\x7f]{0,300}") {
            if let Some(kept) = said(&any) {
                prop_assert!(kept.chars().count() <= MAX_TEXT && !kept.chars().any(char::is_control));
            }
        }
    }
}
