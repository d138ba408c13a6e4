//! The least that a corpus must reach. It lies beside the episodes, so that lowering it is a change that is seen.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::score::{Count, Report};

/// What must be reached.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// At least so many episodes.
    pub episodes: usize,
    /// At most so many nodes isolated that must not be, over everything.
    pub false_isolations: usize,
    /// By the name of a class, or `total`.
    pub class: BTreeMap<String, Questions>,
}

/// The limits of one class.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Questions {
    /// Conditions found.
    pub detection: Limits,
    /// Nodes isolated.
    pub isolation: Limits,
    /// People called.
    pub paging: Limits,
}

/// Shares from 0 to 1. What is not given is not asked for.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Of what is right, at least so much is found.
    pub recall: f64,
    /// Of what is found, at least so much is right.
    pub precision: f64,
}

impl Floor {
    /// What the report does not reach, one sentence each.
    pub fn broken(&self, report: &Report) -> Vec<String> {
        let mut broken = Vec::new();
        if report.total.episodes < self.episodes {
            broken.push(format!("{} episodes, not {}", report.total.episodes, self.episodes));
        }
        if report.total.isolation.wrong > self.false_isolations {
            let (wrong, most) = (report.total.isolation.wrong, self.false_isolations);
            broken.push(format!("{wrong} false isolations, not at most {most}"));
        }
        for (name, questions) in &self.class {
            let mut classes = report.classes.iter().filter(|(class, _)| class.name() == name);
            let row = if name == "total" { Some(&report.total) } else { classes.next().map(|(_, row)| row) };
            let Some(row) = row else {
                broken.push(format!("no episode of class {name}"));
                continue;
            };
            let asked = [
                ("detection", row.detection, questions.detection),
                ("isolation", row.isolation, questions.isolation),
                ("paging", row.paging, questions.paging),
            ];
            for (question, count, limits) in asked {
                broken.extend(below(name, question, count, limits));
            }
        }
        broken
    }
}

fn below(class: &str, question: &str, count: Count, limits: Limits) -> Vec<String> {
    let sides =
        [("recall", count.recall(), limits.recall), ("precision", count.precision(), limits.precision)];
    let low = sides.into_iter().filter_map(|(side, reached, least)| {
        let reached = reached.filter(|reached| *reached < least)?;
        Some(format!("{class}: {side} of {question} is {reached:.3}, not {least:.3}"))
    });
    low.collect()
}
