//! What a request may carry: each query parameter and each field of a body is declared once, and that
//! declaration checks it, bounds it and documents it.

use std::collections::BTreeMap;

use provost_model::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::problem::FieldError;

/// The longest name or id.
pub(crate) const MAX_NAME: usize = 256;
/// The longest reason or note, in characters; the engine keeps as many.
pub(crate) const MAX_REASON: usize = 4_096;
/// Most answers of one human step.
const MAX_ANSWERS: usize = 64;
/// The longest answer, in characters.
const MAX_ANSWER: usize = 1_024;

/// Type of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Text of at most so many characters, not blank.
    Text(usize),
    /// A whole number inside these bounds.
    Number(i64, i64),
    /// RFC 3339.
    Time,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Some of these words, with commas between them.
    Choices(&'static [&'static str]),
    /// A list of at most so many names.
    Names(usize),
    /// Field → answer; booleans and whole numbers are taken as their text.
    Answers,
}

/// A field of a body, or a parameter of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    pub(crate) about: &'static str,
}

impl Field {
    pub(crate) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Field {
        Field { name, kind, required: true, about }
    }

    pub(crate) const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Field {
        Field { name, kind, required: false, about }
    }
}

impl Kind {
    /// What is expected, for the person who sent something else.
    fn expected(self) -> String {
        match self {
            Kind::Text(max) => format!("text of 1 to {max} characters without control characters"),
            Kind::Number(min, max) => format!("a whole number from {min} to {max}"),
            Kind::Time => "a time such as 2026-11-30T19:00:00Z".to_owned(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Choices(words) => format!("some of {}, with commas between them", words.join(", ")),
            Kind::Names(max) => format!("a list of 1 to {max} names"),
            Kind::Answers => {
                format!("an object of at most {MAX_ANSWERS} answers: text, true, false or whole numbers")
            }
        }
    }

    fn accepts(self, value: &Value) -> bool {
        match (self, value) {
            (Kind::Text(max), Value::String(text)) => is_text(text, max),
            (Kind::Number(min, max), value) => value.as_i64().is_some_and(|n| min <= n && n <= max),
            (Kind::Time, Value::String(text)) => text.len() <= 64 && text.parse::<Timestamp>().is_ok(),
            (Kind::Choice(words), Value::String(text)) => words.contains(&text.as_str()),
            (Kind::Choices(words), Value::String(text)) => text.split(',').all(|word| words.contains(&word)),
            (Kind::Names(max), Value::Array(items)) => {
                let is_name = |item: &Value| item.as_str().is_some_and(|text| is_text(text, MAX_NAME));
                (1..=max).contains(&items.len()) && items.iter().all(is_name)
            }
            (Kind::Answers, Value::Object(answers)) => {
                answers.len() <= MAX_ANSWERS
                    && answers
                        .iter()
                        .all(|(name, answer)| is_text(name, MAX_NAME) && answer_text(answer).is_some())
            }
            _ => false,
        }
    }

    /// A query parameter's text as the value that it means.
    fn read_text(self, text: &str) -> Value {
        match self {
            Kind::Number(..) => text.parse::<i64>().map_or(Value::Null, Value::from),
            _ => Value::from(text),
        }
    }

    /// JSON Schema.
    pub(crate) fn schema(self) -> Value {
        match self {
            Kind::Text(max) => json!({"type": "string", "minLength": 1, "maxLength": max}),
            Kind::Number(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
            Kind::Time => json!({"type": "string", "format": "date-time"}),
            Kind::Choice(words) => json!({"type": "string", "enum": words}),
            Kind::Choices(words) => {
                let word = words.join("|");
                json!({"type": "string", "pattern": format!("^({word})(,({word}))*$")})
            }
            Kind::Names(max) => {
                let name = Kind::Text(MAX_NAME).schema();
                json!({"type": "array", "minItems": 1, "maxItems": max, "items": name})
            }
            Kind::Answers => json!({
                "type": "object",
                "maxProperties": MAX_ANSWERS,
                "additionalProperties": {"type": ["string", "boolean", "integer"]},
            }),
        }
    }
}

/// Whether `text` is of a sane length and holds nothing that a terminal or a log would obey.
pub(crate) fn is_text(text: &str, max: usize) -> bool {
    let harmless = |c: char| !c.is_control() || c == '\n' || c == '\t';
    !text.trim().is_empty()
        && text.len() <= 4 * max
        && text.chars().count() <= max
        && text.chars().all(harmless)
}

fn answer_text(answer: &Value) -> Option<String> {
    match answer {
        Value::String(text) if text.chars().count() <= MAX_ANSWER => Some(text.clone()),
        Value::Bool(yes) => Some(yes.to_string()),
        Value::Number(number) => number.as_i64().map(|number| number.to_string()),
        _ => None,
    }
}

/// Fields that were checked against their declaration.
#[derive(Debug, Default)]
pub(crate) struct Fields(BTreeMap<&'static str, Value>);

impl Fields {
    /// Reads a JSON object; gives every error at once.
    pub(crate) fn of_body(declared: &[Field], body: Map<String, Value>) -> Result<Fields, Vec<FieldError>> {
        // Null is the same as absent: both say nothing.
        let given = body.into_iter().filter(|(_, value)| !value.is_null()).collect();
        Fields::check(declared, given, "/")
    }

    /// Reads the parameters of a query; gives every error at once.
    pub(crate) fn of_query(
        declared: &[Field],
        pairs: Vec<(String, String)>,
    ) -> Result<Fields, Vec<FieldError>> {
        let mut given = BTreeMap::new();
        for (name, text) in pairs {
            let kind = declared.iter().find(|field| field.name == name).map(|field| field.kind);
            let value = kind.map_or(Value::Null, |kind| kind.read_text(&text));
            if given.insert(name.clone(), value).is_some() {
                return Err(vec![error("?", &name, "invalid", "given twice".to_owned())]);
            }
        }
        Fields::check(declared, given, "?")
    }

    fn check(
        declared: &[Field],
        mut given: BTreeMap<String, Value>,
        mark: &str,
    ) -> Result<Fields, Vec<FieldError>> {
        let (mut fields, mut errors) = (Fields::default(), Vec::new());
        for field in declared {
            match given.remove(field.name) {
                Some(value) if field.kind.accepts(&value) => drop(fields.0.insert(field.name, value)),
                Some(_) => errors.push(error(mark, field.name, "invalid", field.kind.expected())),
                None if field.required => {
                    errors.push(error(mark, field.name, "required", field.kind.expected()));
                }
                None => {}
            }
        }
        let known: Vec<&str> = declared.iter().map(|field| field.name).collect();
        for name in given.keys() {
            let detail = if known.is_empty() {
                "nothing is expected here".to_owned()
            } else {
                format!("known here: {}", known.join(", "))
            };
            errors.push(error(mark, name, "unknown", detail));
        }
        if errors.is_empty() { Ok(fields) } else { Err(errors) }
    }

    /// The text of a field.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// The number of a field.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.0.get(name)?.as_i64()
    }

    /// The time of a field.
    pub(crate) fn time(&self, name: &str) -> Option<Timestamp> {
        self.text(name)?.parse().ok()
    }

    /// The names of a field; none where it is absent.
    pub(crate) fn names(&self, name: &str) -> Vec<&str> {
        let items = self.0.get(name).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The answers of a field; none where it is absent.
    pub(crate) fn answers(&self, name: &str) -> BTreeMap<String, String> {
        let answers = self.0.get(name).and_then(Value::as_object);
        let answers = answers.into_iter().flatten();
        answers.filter_map(|(name, answer)| Some((name.clone(), answer_text(answer)?))).collect()
    }

    /// Whether `value` is among the words of a field; true where the field is absent.
    pub(crate) fn allows(&self, name: &str, value: &str) -> bool {
        self.text(name).is_none_or(|words| words.split(',').any(|word| word.eq_ignore_ascii_case(value)))
    }

    /// Everything but `except`, in one text that is the same for the same fields.
    pub(crate) fn fingerprint(&self, except: &[&str]) -> String {
        let kept = self.0.iter().filter(|(name, _)| !except.contains(name));
        kept.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    }
}

fn error(mark: &str, name: &str, code: &'static str, detail: String) -> FieldError {
    let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    FieldError { pointer: format!("{mark}{name}"), code, detail }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DECLARED: &[Field] = &[
        Field::required("name", Kind::Text(5), ""),
        Field::optional("n", Kind::Number(0, 10), ""),
        Field::optional("until", Kind::Time, ""),
        Field::optional("word", Kind::Choice(&["act", "observe"]), ""),
        Field::optional("words", Kind::Choices(&["a", "b"]), ""),
        Field::optional("nodes", Kind::Names(2), ""),
        Field::optional("answers", Kind::Answers, ""),
    ];

    fn summary<T>(result: Result<T, Vec<FieldError>>) -> String {
        match result {
            Ok(_) => "ok".to_owned(),
            Err(errors) => {
                errors.iter().map(|e| format!("{} {}", e.pointer, e.code)).collect::<Vec<_>>().join("; ")
            }
        }
    }

    #[test]
    fn bodies() {
        let check = |body: Value, expected: &str| {
            let Value::Object(map) = body.clone() else { panic!("{body}") };
            assert_eq!(summary(Fields::of_body(DECLARED, map)), expected, "{body}");
        };
        check(json!({"name": "n1"}), "ok");
        check(json!({"name": "ÄÖÜßé"}), "ok");
        check(json!({}), "/name required");
        check(json!({"name": null}), "/name required");
        check(json!({"name": "  "}), "/name invalid");
        check(json!({"name": "123456"}), "/name invalid");
        check(json!({"name": "a\u{1b}b"}), "/name invalid");
        check(json!({"name": 5}), "/name invalid");
        check(json!({"name": "a", "n": 10}), "ok");
        check(json!({"name": "a", "n": 11}), "/n invalid");
        check(json!({"name": "a", "n": 1.5}), "/n invalid");
        check(json!({"name": "a", "n": 18446744073709551615_u64}), "/n invalid");
        check(json!({"name": "a", "until": "2026-11-30T19:00:00Z"}), "ok");
        check(json!({"name": "a", "until": "tomorrow"}), "/until invalid");
        check(json!({"name": "a", "word": "act"}), "ok");
        check(json!({"name": "a", "word": "ACT"}), "/word invalid");
        check(json!({"name": "a", "words": "b,a"}), "ok");
        check(json!({"name": "a", "words": "a,,b"}), "/words invalid");
        check(json!({"name": "a", "nodes": ["x", "y"]}), "ok");
        check(json!({"name": "a", "nodes": []}), "/nodes invalid");
        check(json!({"name": "a", "nodes": ["x", "y", "z"]}), "/nodes invalid");
        check(json!({"name": "a", "nodes": [1]}), "/nodes invalid");
        check(json!({"name": "a", "answers": {"fixed": true, "count": 3, "serial": "S1"}}), "ok");
        check(json!({"name": "a", "answers": {"x": [1]}}), "/answers invalid");
        check(json!({"name": "a", "answers": {"x": 1.5}}), "/answers invalid");
        check(json!({"nmae": "a", "n": -1}), "/name required; /n invalid; /nmae unknown");
    }

    #[test]
    fn queries() {
        let check = |query: &[(&str, &str)], expected: &str| {
            let pairs = query.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            assert_eq!(summary(Fields::of_query(DECLARED, pairs)), expected, "{query:?}");
        };
        check(&[("name", "a"), ("n", "7")], "ok");
        check(&[("name", "a"), ("n", "seven")], "?n invalid");
        check(&[("name", "a"), ("n", "")], "?n invalid");
        check(&[("name", "a"), ("name", "b")], "?name invalid");
        check(&[("name", "a"), ("x", "")], "?x unknown");
    }

    #[test]
    fn answers_become_text() {
        let body = json!({"name": "a", "answers": {"fixed": true, "count": 3, "serial": "S1"}});
        let Value::Object(map) = body else { panic!() };
        let answers = Fields::of_body(DECLARED, map).unwrap().answers("answers");
        assert_eq!(
            answers.into_iter().collect::<Vec<_>>(),
            [
                ("count".to_owned(), "3".to_owned()),
                ("fixed".to_owned(), "true".to_owned()),
                ("serial".to_owned(), "S1".to_owned()),
            ]
        );
    }

    proptest! {
        #[test]
        fn no_query_makes_a_panic(pairs in prop::collection::vec((".{0,8}", ".{0,40}"), 0..5)) {
            drop(Fields::of_query(DECLARED, pairs));
        }
    }
}
