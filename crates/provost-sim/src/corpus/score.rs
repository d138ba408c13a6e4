//! Compares what was made of an episode with what is right.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use provost_model::time::Span;
use serde::Serialize;

use super::episode::{Class, Detect, Episode, Isolate};
use super::play::{Isolated, Played};

/// How one question was answered over some episodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Right and found.
    pub found: usize,
    /// Right and not found.
    pub missed: usize,
    /// Found and not right.
    pub wrong: usize,
}

impl Count {
    /// Of what is right, the part that was found; none where nothing is.
    pub fn recall(self) -> Option<f64> {
        share(self.found, self.found + self.missed)
    }

    /// Of what was found, the part that is right; none where nothing was.
    pub fn precision(self) -> Option<f64> {
        share(self.found, self.found + self.wrong)
    }

    fn add(&mut self, other: Count) {
        self.found += other.found;
        self.missed += other.missed;
        self.wrong += other.wrong;
    }
}

fn share(part: usize, whole: usize) -> Option<f64> {
    // Counts of a corpus are far below what a float holds exactly.
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The three questions, over some episodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Episodes.
    pub episodes: usize,
    /// Conditions found, as incidents or as notes to owners.
    pub detection: Count,
    /// Nodes isolated.
    pub isolation: Count,
    /// Episodes in which a person would have been called.
    pub paging: Count,
}

impl Row {
    fn add(&mut self, other: &Row) {
        self.episodes += other.episodes;
        self.detection.add(other.detection);
        self.isolation.add(other.isolation);
        self.paging.add(other.paging);
    }
}

/// What was not right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A condition was not found.
    NotDetected,
    /// An incident or a note that names nothing that is right, or one incident too many.
    FalseAlarm,
    /// A node was not isolated, or not in time.
    NotIsolated,
    /// A node was isolated that must not be, or before it may be.
    FalseIsolation,
    /// Nobody would have been called.
    NotPaged,
    /// A person would have been called for nothing.
    FalsePage,
}

impl FindingKind {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            FindingKind::NotDetected => "not detected",
            FindingKind::FalseAlarm => "false alarm",
            FindingKind::NotIsolated => "not isolated",
            FindingKind::FalseIsolation => "FALSE ISOLATION",
            FindingKind::NotPaged => "not paged",
            FindingKind::FalsePage => "false page",
        }
    }
}

/// One thing that was not right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Class of the episode.
    pub class: Class,
    /// Episode.
    pub episode: String,
    /// What.
    pub kind: FindingKind,
    /// Where, and what was seen.
    pub detail: String,
}

/// The result of a corpus.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// By class.
    pub classes: BTreeMap<Class, Row>,
    /// Over everything.
    pub total: Row,
    /// What was not right, by class and episode.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Adds one episode.
    pub(super) fn add(&mut self, episode: &Episode, played: &Played) {
        let mut judge = Judge { episode, findings: Vec::new() };
        let row = Row {
            episodes: 1,
            detection: judge.detection(played),
            isolation: judge.isolation(&played.isolated),
            paging: judge.paging(played.paged),
        };
        self.classes.entry(episode.class).or_default().add(&row);
        self.total.add(&row);
        self.findings.append(&mut judge.findings);
    }
}

struct Judge<'a> {
    episode: &'a Episode,
    findings: Vec<Finding>,
}

impl Judge<'_> {
    fn find(&mut self, kind: FindingKind, detail: String) {
        let (class, episode) = (self.episode.class, self.episode.id.clone());
        self.findings.push(Finding { class, episode, kind, detail });
    }

    fn detection(&mut self, played: &Played) -> Count {
        let expect = &self.episode.expect;
        let mut count = Count::default();
        let all: BTreeSet<&(String, String)> = played.incidents.iter().flatten().collect();
        let notes: BTreeSet<&(String, String)> = played.notes.iter().collect();
        for (wanted, seen, how) in expect
            .detect
            .iter()
            .map(|wanted| (wanted, &all, "incident"))
            .chain(expect.note.iter().map(|wanted| (wanted, &notes, "note")))
        {
            if seen.iter().any(|one| is(wanted, one)) {
                count.found += 1;
            } else {
                count.missed += 1;
                self.find(FindingKind::NotDetected, format!("{wanted} ({how})"));
            }
        }
        let known = |one: &&(String, String)| expect.note.iter().chain(&expect.may).any(|may| is(may, one));
        for one in played.notes.iter().filter(|one| !known(one)) {
            count.wrong += 1;
            self.find(FindingKind::FalseAlarm, format!("note: {} {}", one.0, one.1));
        }
        count.wrong += self.false_incidents(played);
        count
    }

    /// Incidents that name nothing that is right, and those that tell one cause twice.
    fn false_incidents(&mut self, played: &Played) -> usize {
        let expect = &self.episode.expect;
        let names = |list: &[Detect], incident: &BTreeSet<(String, String)>| {
            incident.iter().any(|one| list.iter().any(|wanted| is(wanted, one)))
        };
        let right = played.incidents.iter().filter(|incident| names(&expect.detect, incident)).count();
        let places: BTreeSet<&String> = expect.detect.iter().map(|wanted| &wanted.place).collect();
        let allowed = expect.incidents.unwrap_or(places.len());
        let mut wrong = 0;
        for incident in &played.incidents {
            if !names(&expect.detect, incident) && !names(&expect.may, incident) {
                wrong += 1;
                self.find(FindingKind::FalseAlarm, format!("incident: {}", told(incident)));
            }
        }
        let surplus = right.saturating_sub(allowed);
        if surplus > 0 {
            self.find(FindingKind::FalseAlarm, format!("{right} incidents where {allowed} would do"));
        }
        wrong + surplus
    }

    fn isolation(&mut self, isolated: &BTreeMap<String, Isolated>) -> Count {
        let expect = &self.episode.expect;
        let mut count = Count::default();
        for wanted in &expect.isolate {
            match verdict(wanted, isolated.get(&wanted.node)) {
                Ok(()) => count.found += 1,
                Err((kind, detail)) => {
                    count.missed += 1;
                    count.wrong += usize::from(kind == FindingKind::FalseIsolation);
                    self.find(kind, detail);
                }
            }
        }
        for (node, at) in isolated {
            let known =
                expect.may_isolate.contains(node) || expect.isolate.iter().any(|wanted| wanted.node == *node);
            if !known {
                count.wrong += 1;
                self.find(FindingKind::FalseIsolation, format!("{node} after {}", Span(at.held)));
            }
        }
        count
    }

    fn paging(&mut self, paged: Option<Duration>) -> Count {
        let expect = &self.episode.expect;
        match (expect.page, paged) {
            (true, Some(_)) => Count { found: 1, ..Count::default() },
            (false, Some(at)) if !expect.may_page => {
                self.find(FindingKind::FalsePage, format!("after {}", Span(at)));
                Count { wrong: 1, ..Count::default() }
            }
            (true, None) => {
                self.find(FindingKind::NotPaged, "nobody would have been called".to_owned());
                Count { missed: 1, ..Count::default() }
            }
            (false, _) => Count::default(),
        }
    }
}

fn verdict(wanted: &Isolate, seen: Option<&Isolated>) -> Result<(), (FindingKind, String)> {
    let node = &wanted.node;
    let missed = |detail: String| Err((FindingKind::NotIsolated, detail));
    let Some(seen) = seen else { return missed(node.clone()) };
    if seen.held < wanted.after {
        let detail = format!("{node} after {}, not before {}", Span(seen.held), Span(wanted.after));
        return Err((FindingKind::FalseIsolation, detail));
    }
    match (seen.reached, wanted.by) {
        (None, _) => missed(format!("{node}: held, and never closed in the scheduler")),
        (Some(at), Some(by)) if at > by => missed(format!("{node} after {}, not by {}", Span(at), Span(by))),
        _ => Ok(()),
    }
}

/// The condition is one of those wanted, at the place wanted.
fn is(wanted: &Detect, (place, condition): &(String, String)) -> bool {
    (wanted.place == "*" || wanted.place == *place) && wanted.conditions.contains(condition)
}

fn told(incident: &BTreeSet<(String, String)>) -> String {
    let names: Vec<String> =
        incident.iter().map(|(place, condition)| format!("{place} {condition}")).collect();
    names.join(", ")
}
