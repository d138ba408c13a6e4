//! Checks what a person answered. Free text is sealed; everything else is plain and becomes part of the record.

use std::collections::BTreeMap;

use provost_model::canonical::MAX_INTEGER;
use provost_model::runbook::{AnswerKind, Question};

/// The longest free text, in characters.
const MAX_TEXT: usize = 2_000;

/// Answers that fit their questions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// All but free text.
    pub(super) plain: BTreeMap<String, String>,
    /// Free text, one line a question, to be sealed.
    pub(super) text: String,
}

/// Checks answers; fails with the field and what is expected.
pub(super) fn check(
    ask: &BTreeMap<String, Question>,
    given: &BTreeMap<String, String>,
) -> Result<Answers, (String, String)> {
    if let Some(unknown) = given.keys().find(|field| !ask.contains_key(*field)) {
        let known: Vec<&str> = ask.keys().map(String::as_str).collect();
        return Err((cut(unknown), format!("is not asked; asked is {}", known.join(", "))));
    }
    let mut answers = Answers::default();
    for (field, question) in ask {
        let answer = given.get(field).map(|text| text.trim()).filter(|text| !text.is_empty());
        let Some(answer) = answer else {
            if question.required {
                return Err((field.clone(), format!("must be answered: {}", expected(question))));
            }
            continue;
        };
        if !fits(question, answer) {
            return Err((field.clone(), format!("must be {}", expected(question))));
        }
        if question.kind == AnswerKind::Text {
            answers.text.push_str(&format!("{field}: {answer}\n"));
        } else {
            answers.plain.insert(field.clone(), answer.to_owned());
        }
    }
    Ok(answers)
}

fn fits(question: &Question, answer: &str) -> bool {
    match question.kind {
        AnswerKind::Choice => question.choices.iter().any(|choice| choice == answer),
        AnswerKind::Boolean => matches!(answer, "true" | "false"),
        AnswerKind::Integer => answer.parse::<i64>().is_ok_and(|n| n.unsigned_abs() <= MAX_INTEGER),
        AnswerKind::Serial => {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
            (1..=64).contains(&answer.len()) && answer.bytes().all(allowed)
        }
        AnswerKind::Text => {
            answer.chars().count() <= MAX_TEXT && !answer.chars().any(|c| c.is_control() && c != '\n')
        }
    }
}

/// What a question expects, in words.
pub(super) fn expected(question: &Question) -> String {
    match question.kind {
        AnswerKind::Choice => format!("one of {}", question.choices.join(", ")),
        AnswerKind::Boolean => "true or false".to_owned(),
        AnswerKind::Integer => "a whole number".to_owned(),
        AnswerKind::Serial => "a serial number: 1 to 64 letters, digits, `-`, `_`, `.`, `:`".to_owned(),
        AnswerKind::Text => format!("text of at most {MAX_TEXT} characters"),
    }
}

fn cut(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}
