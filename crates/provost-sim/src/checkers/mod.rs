//! Promises, looked at while a world lives. The first one that is broken ends it.
//!
//! [`records`] reads what the journal says, [`truth`] compares it with what is so at the site, and the replay here
//! folds the durable bytes a second time and must come to the State that the controller lives in.

mod records;
mod truth;

use std::collections::BTreeMap;
use std::path::Path;

use provost_controller::Committed;
use provost_engine::{Outstanding, State, apply};
use provost_journal::Reader;
use provost_journal::verify::{VerifyOptions, verify};
use provost_model::effect::Approach;
use provost_model::record::Record;
use provost_model::time::Timestamp;

use crate::site::Site;
use crate::world::Trouble;

/// Intents of an outage have no record; their keys start here.
const OUTAGE_INTENTS: u64 = 1 << 62;

/// Turns between two comparisons of the State that is lived with the one that is replayed.
const COMPARED_EVERY: u64 = 4;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {promise}: {detail}")]
pub struct Violation {
    /// When it was seen.
    pub at: Timestamp,
    /// What is broken.
    pub promise: &'static str,
    /// What was seen.
    pub detail: String,
}

impl Violation {
    /// A violation.
    pub fn new(at: Timestamp, promise: &'static str, detail: String) -> Violation {
        Violation { at, promise, detail }
    }
}

/// What a look around sees.
pub struct Sight<'a> {
    /// Now.
    pub now: Timestamp,
    /// What is so.
    pub site: &'a Site,
    /// What made things impossible.
    pub trouble: &'a Trouble,
    /// What the controller believes; none while none runs.
    pub state: Option<&'a State>,
}

/// All checkers, and what they remember.
#[derive(Debug)]
pub struct Watch {
    /// The fold of the durable bytes.
    replay: State,
    records: records::Records,
    truth: truth::Truth,
    /// Intents that were handed out to be acted on.
    acted: BTreeMap<u64, u32>,
    turns: u64,
    broken: Option<Violation>,
}

impl Watch {
    /// Checkers of a journal that is empty.
    pub fn new(site: &str) -> Watch {
        Watch {
            replay: State::new(site),
            records: records::Records::default(),
            truth: truth::Truth::default(),
            acted: BTreeMap::new(),
            turns: 0,
            broken: None,
        }
    }

    /// The first promise that was broken.
    ///
    /// # Errors
    /// Where one was.
    pub fn verdict(&self) -> Result<(), Violation> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// The State of the records so far.
    pub fn state(&self) -> &State {
        &self.replay
    }

    /// Number of records so far.
    pub fn records(&self) -> u64 {
        self.replay.seq
    }

    fn fail(&mut self, at: Timestamp, promise: &'static str, detail: impl Into<String>) {
        if self.broken.is_none() {
            self.broken = Some(Violation::new(at, promise, detail.into()));
        }
    }

    fn take(&mut self, broken: Option<Violation>) {
        if self.broken.is_none() {
            self.broken = broken;
        }
    }

    /// A record became durable.
    pub(crate) fn record(&mut self, now: Timestamp, one: &Committed) {
        match Record::parse(&one.bytes) {
            Ok(record) if record == *one.record => {
                let broken = self.records.before(&self.replay, &record);
                apply(&mut self.replay, &record);
                self.replay.dirty.clear();
                let broken = broken.or_else(|| self.records.after(&self.replay, &record));
                self.take(broken);
            }
            Ok(_) => self.fail(now, "a record is what its bytes say", format!("record {}", one.record.seq)),
            Err(error) => self.fail(now, "a record can be read back", error.to_string()),
        }
    }

    /// A turn with records is over: the fold of their bytes is the State that is lived. To compare the two costs
    /// more than the turn, so every few turns do it; what went wrong in one is still wrong a few turns later.
    pub(crate) fn replayed(&mut self, now: Timestamp, live: &State) {
        self.turns += 1;
        if self.turns.is_multiple_of(COMPARED_EVERY) && *live != self.replay {
            let detail = difference(live, &self.replay);
            self.fail(now, "the records give the same state", detail);
        }
        let broken = self.records.turned(now, live);
        self.take(broken);
    }

    /// A controller has opened the journal: it knows everything that its predecessor knew.
    pub(crate) fn reopened(&mut self, now: Timestamp, state: &State) {
        if *state != self.replay {
            let detail = difference(state, &self.replay);
            self.fail(now, "nothing is lost when the controller ends", detail);
        }
    }

    /// Work was handed out.
    pub(crate) fn work(&mut self, now: Timestamp, work: &Outstanding) {
        if work.approach == Approach::Probe || work.intent >= OUTAGE_INTENTS {
            return;
        }
        let times = self.acted.entry(work.intent).or_default();
        *times += 1;
        if *times > 1 {
            let detail = format!("{} of record {} for the second time", work.effect.name(), work.intent);
            self.fail(now, "an intent is acted on at most once", detail);
        }
        if work.intent >= self.replay.seq {
            let detail = format!("{} of record {}", work.effect.name(), work.intent);
            self.fail(now, "nothing is done before it is durable", detail);
        }
    }

    /// Looks at what is so.
    pub(crate) fn look(&mut self, sight: &Sight<'_>) {
        let broken = self.truth.look(sight);
        self.take(broken);
    }

    /// Looks at a world that was left in peace.
    pub(crate) fn quiet(&mut self, sight: &Sight<'_>) {
        let broken = truth::quiet(sight);
        self.take(broken);
    }

    /// The controller has ended: its journal is whole, and says what was lived.
    pub(crate) fn journal(&mut self, now: Timestamp, dir: &Path) {
        if let Err(failure) = verify(dir, &VerifyOptions { keys: None, strict: true }) {
            self.fail(now, "the journal is verified", failure.to_string());
        }
        match refold(dir, &self.replay.site) {
            Ok(state) if state == self.replay => {}
            Ok(state) => {
                let detail = difference(&state, &self.replay);
                self.fail(now, "the journal says what was lived", detail);
            }
            Err(error) => self.fail(now, "the journal can be read", error),
        }
    }
}

/// The State of a journal, from its first record.
fn refold(dir: &Path, site: &str) -> Result<State, String> {
    let reader = Reader::open(dir).map_err(|error| error.to_string())?;
    let mut state = State::new(site);
    let size = reader.size().map_err(|error| error.to_string())?;
    while state.seq < size {
        for stored in reader.read(state.seq, 1_000).map_err(|error| error.to_string())? {
            let record = Record::parse(&stored.bytes).map_err(|error| error.to_string())?;
            apply(&mut state, &record);
            state.dirty.clear();
        }
    }
    Ok(state)
}

/// Where two States differ, in few words.
fn difference(live: &State, replay: &State) -> String {
    let lines = |state: &State| -> Vec<String> {
        format!("{state:#?}").lines().map(|line| line.trim().to_owned()).collect()
    };
    let (live, replay) = (lines(live), lines(replay));
    let first = live.iter().zip(&replay).position(|(a, b)| a != b).unwrap_or(live.len().min(replay.len()));
    let around = |lines: &[String]| {
        let from = first.saturating_sub(4);
        lines.iter().skip(from).take(8).cloned().collect::<Vec<_>>().join(" ")
    };
    format!("one says `{}`, the other `{}`", around(&live), around(&replay))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use provost_model::body::{Body, Empty};
    use provost_model::effect::Effect;
    use provost_model::ids::IdSource;
    use provost_model::record::{Actor, Class, Corr, Outcome, VERSION};

    use super::*;
    use crate::site::layout::BEGIN;

    fn record(seq: u64) -> Committed {
        let record = Record {
            v: VERSION,
            seq,
            id: IdSource::new("sim", seq).make(),
            at: BEGIN,
            site: "sim".to_owned(),
            epoch: 1,
            producer: "controller".to_owned(),
            producer_seq: seq,
            class: Class::System,
            outcome: Outcome::Ok,
            actor: Actor::engine(),
            subject: None,
            decision: None,
            body: Body::GuardStopped(Empty {}),
            change: None,
            corr: Corr::default(),
            sealed: Vec::new(),
        };
        let bytes = record.canonical().expect("a small record").into();
        Committed { record: Arc::new(record), bytes }
    }

    fn work(intent: u64, approach: Approach) -> Outstanding {
        let effect = Effect::SchedulerRelease { cluster: "main".to_owned(), node: "gpu001".to_owned() };
        Outstanding { intent, epoch: 1, effect, approach, probes: 0, deadline: BEGIN }
    }

    fn broken(watch: &Watch) -> Option<&'static str> {
        watch.verdict().err().map(|violation| violation.promise)
    }

    #[test]
    fn a_gap_in_the_records_is_seen() {
        let mut watch = Watch::new("sim");
        watch.record(BEGIN, &record(0));
        assert_eq!(broken(&watch), None);
        watch.record(BEGIN, &record(1));
        assert_eq!(broken(&watch), None);
        let broken_promise = watch.records.before(&watch.replay, &record(3).record);
        assert_eq!(broken_promise.map(|violation| violation.promise), Some("records come in order"));
    }

    #[test]
    fn an_intent_that_is_acted_on_twice_is_seen() {
        let mut watch = Watch::new("sim");
        watch.record(BEGIN, &record(0));
        watch.work(BEGIN, &work(0, Approach::Act));
        watch.work(BEGIN, &work(0, Approach::Probe));
        assert_eq!(broken(&watch), None);
        watch.work(BEGIN, &work(0, Approach::Act));
        assert_eq!(broken(&watch), Some("an intent is acted on at most once"));
    }

    #[test]
    fn work_that_is_not_durable_is_seen() {
        let mut watch = Watch::new("sim");
        watch.work(BEGIN, &work(0, Approach::Act));
        assert_eq!(broken(&watch), Some("nothing is done before it is durable"));
    }

    #[test]
    fn another_state_than_the_replayed_one_is_seen() {
        let mut watch = Watch::new("sim");
        watch.record(BEGIN, &record(0));
        let mut live = watch.replay.clone();
        watch.reopened(BEGIN, &live);
        assert_eq!(broken(&watch), None);
        live.guard.stopped = false;
        watch.reopened(BEGIN, &live);
        assert_eq!(broken(&watch), Some("nothing is lost when the controller ends"));
    }
}
