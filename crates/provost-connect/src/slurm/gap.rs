//! Finds the foreign drain that was lost between our look at a node and our write, and puts it back.
//!
//! Slurm has no compare-and-swap, and its last writer wins silently. But slurmdbd keeps each drain as an event, and
//! the events of one drained node form a chain: the next begins in the second in which the one before ends. So
//! what stood directly before our drain, or came directly after it, is known without comparing clocks.
//!
//! slurmdbd keeps one row a node and second, so within one second it can't tell. Where a foreign drain and ours
//! began in the same second, a hold finds nothing lost, and a release prefers to put a drain back that may have been
//! lifted. Where slurmdbd is not used nothing can be found, and that is said.

use std::time::Duration;

use provost_model::scheduler::REASON_PREFIX;
use provost_model::time::Timestamp;

use super::error::Error;
use super::text::{EVENT_FORMAT, NodeEvent, Parsed, events};
use super::words::cut;
use super::{Cluster, checked};

/// What to look for after a write of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapWatch {
    /// Node.
    pub node: String,
    /// When Slurm set our reason, by its own clock.
    pub ours_at: Timestamp,
    after: Write,
}

/// Which write left the gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    /// A hold; the node was seen open this long before our drain at the most.
    Hold(Duration),
    Release,
}

impl GapWatch {
    /// After a hold: the node was seen open, and `window` later our drain was there.
    pub(super) fn hold(node: &str, ours_at: Timestamp, window: Duration) -> GapWatch {
        GapWatch { node: node.to_owned(), ours_at, after: Write::Hold(window) }
    }

    pub(super) fn release(node: &str, ours_at: Timestamp) -> GapWatch {
        GapWatch { node: node.to_owned(), ours_at, after: Write::Release }
    }
}

impl GapWatch {
    /// When a drain that was lost can have begun at the earliest. A foreign drain that is older than our look
    /// was lifted by its own people, even where that was in the second of our drain.
    fn earliest(&self) -> Timestamp {
        match self.after {
            Write::Hold(window) => self.ours_at - Duration::from_secs(window.as_secs() + 1),
            Write::Release => self.ours_at,
        }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// No foreign drain was lost.
    Clean,
    /// A foreign drain was lost and is back, under its own reason with its user named.
    Restored {
        /// Its reason, as it was.
        reason: String,
        /// Who had set it.
        user: String,
    },
    /// slurmdbd does not tell (yet); ask again, at the latest with the next reconcile.
    Unchecked {
        /// Why.
        why: String,
    },
}

/// slurmctld tells slurmdbd of a change a few milliseconds after it has answered us.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);

impl Cluster {
    /// Drains and failures that slurmdbd recorded and that were in force at `since` or later, oldest first, with
    /// the number of rows that could not be read.
    pub async fn events_since(&self, since: Timestamp) -> Result<(Vec<NodeEvent>, u64), Error> {
        let parsed = self.read_events(since, None).await?;
        Ok((parsed.items, parsed.unparsed))
    }

    async fn read_events(
        &self,
        since: Timestamp,
        node: Option<&str>,
    ) -> Result<Parsed<Vec<NodeEvent>>, Error> {
        // `2026-11-30T20:23:48`, without the fraction and the zone: sacctmgr runs with TZ=UTC.
        let since = since.to_string();
        let start = format!("start={}", since.get(..19).unwrap_or(&since));
        let nodes = node.map(|node| format!("nodes={node}"));
        let mut args = vec!["-nP", "show", "event", &start, EVENT_FORMAT];
        args.extend(nodes.as_deref());
        Ok(events(&self.tools.run("sacctmgr", &args).await?))
    }

    /// Looks for a foreign drain that a write of ours hid or swept away, and puts it back. May be repeated.
    pub async fn check_gap(&self, watch: &GapWatch) -> Gap {
        match self.find_lost(watch).await {
            Ok(None) => Gap::Clean,
            Ok(Some(lost)) => self.put_back(watch, lost).await,
            Err(error) => Gap::Unchecked { why: error.to_string() },
        }
    }

    async fn find_lost(&self, watch: &GapWatch) -> Result<Option<NodeEvent>, Error> {
        checked("node", &watch.node)?;
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let events = self.read_events(watch.earliest(), Some(&watch.node)).await?;
            let lag = if attempt + 1 < TRIES { Lag::Possible } else { Lag::Over };
            if let Some(found) = lost(&events.items, watch, lag) {
                return Ok(found.cloned());
            }
        }
        Err(Error::DatabaseAway { detail: "slurmdbd has not recorded our change yet".to_owned() })
    }

    /// The drain goes back with its own words. A drain by somebody else that is there by now is left alone.
    async fn put_back(&self, watch: &GapWatch, lost: NodeEvent) -> Gap {
        let node = watch.node.as_str();
        let words: String = lost.reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let words = cut(words.trim(), 180);
        let reason = format!("Reason={words} (set by {}, put back)", lost.user);
        let put_back = async {
            let now = self.node(node).await?;
            if now.drain && !now.reason_is_ours() {
                return Ok(());
            }
            let sent = self.update(&[&format!("NodeName={node}"), "State=DRAIN", &reason]).await;
            let now = self.node(node).await?;
            if now.drain && !now.reason_is_ours() {
                return Ok(());
            }
            Err(sent.err().unwrap_or_else(|| Error::NotConfirmed { what: format!("the drain of {node}") }))
        };
        match put_back.await {
            Ok(()) => Gap::Restored { reason: lost.reason, user: lost.user },
            Err(error) => {
                Gap::Unchecked { why: format!("a drain by {} was lost and is not back: {error}", lost.user) }
            }
        }
    }
}

/// Whether slurmdbd may still be behind slurmctld.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lag {
    Possible,
    Over,
}

/// The lost drain among one node's events, if any; `None` where our own change is not recorded yet.
fn lost<'a>(events: &'a [NodeEvent], watch: &GapWatch, lag: Lag) -> Option<Option<&'a NodeEvent>> {
    let foreign = |event: &&NodeEvent| is_foreign(event);
    let at_ours = events.iter().find(|event| event.from == watch.ours_at)?;
    // Somebody else's row in the second of ours: ours will replace it, or has been replaced by it.
    if is_foreign(at_ours) && lag == Lag::Possible {
        return None;
    }
    if watch.after != Write::Release {
        // What began after our look and ended in the second in which ours began was replaced by ours.
        let window = watch.earliest()..watch.ours_at;
        let in_window =
            |event: &&NodeEvent| window.contains(&event.from) && event.until == Some(watch.ours_at);
        return Some(events.iter().filter(foreign).find(in_window));
    }
    // Follow the chain from our drain to the last link.
    let mut last = at_ours;
    while let Some(next) =
        events.iter().find(|event| event.from > last.from && Some(event.from) == last.until)
    {
        last = next;
    }
    // Still open: our resume is not recorded yet, or somebody drained the node after it, which needs no help.
    last.until.or_else(|| foreign(&last).then_some(last.from))?;
    Some(Some(last).filter(|event| event.until.is_some()).filter(foreign))
}

/// Somebody else's, and not slurmctld's own remark that it does not hear from the node: that one ends by itself.
fn is_foreign(event: &NodeEvent) -> bool {
    let reason = event.reason.as_str();
    !reason.is_empty() && !reason.starts_with(REASON_PREFIX) && !reason.starts_with("Not responding")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> NodeEvent {
        let mut words = text.splitn(3, ' ');
        let mut time =
            || words.next().unwrap().parse::<i64>().ok().map(|s| Timestamp::from_millis(s * 1_000));
        let (from, until) = (time().unwrap(), time());
        let reason = words.next().unwrap().to_owned();
        NodeEvent { node: "gpu001".into(), from, until, state: "DRAIN".into(), user: "root".into(), reason }
    }

    const HOLD: Write = Write::Hold(Duration::from_millis(1_200));

    fn check(after: Write, rows: &[&str], expected: Option<Option<&str>>) {
        let events: Vec<NodeEvent> = rows.iter().map(|row| event(row)).collect();
        let watch = GapWatch { node: "gpu001".into(), ours_at: Timestamp::from_millis(100_000), after };
        let found = lost(&events, &watch, Lag::Possible);
        assert_eq!(found.map(|lost| lost.map(|event| event.reason.as_str())), expected, "{rows:?}");
    }

    #[test]
    fn a_drain_that_a_resume_swept_away_is_found() {
        let check = |rows: &[&str], expected| check(Write::Release, rows, expected);
        check(&["100 200 provost INC-1: x"], Some(None));
        check(&["100 - provost INC-1: x"], None);
        check(&[], None);
        // Drained between look and resume; in the second of the resume; twice.
        check(&["100 199 provost INC-1: x", "199 200 dimm"], Some(Some("dimm")));
        check(&["100 200 provost INC-1: x", "200 200 dimm"], Some(Some("dimm")));
        check(&["100 199 provost INC-1: x", "199 200 dimm", "200 201 fan"], Some(Some("fan")));
        // Drained after the resume: still in force, or lifted by its own people.
        check(&["100 200 provost INC-1: x", "205 - dimm"], Some(None));
        check(&["100 200 provost INC-1: x", "205 209 dimm"], Some(None));
        check(&["100 200 provost INC-1: x", "200 - dimm"], Some(None));
        // A node that fell silent while we held it.
        check(&["100 150 provost INC-1: x", "150 200 Not responding"], Some(None));
        // An earlier foreign drain is history.
        check(&["50 60 dimm", "100 200 provost INC-1: x"], Some(None));
    }

    #[test]
    fn a_drain_in_the_second_of_ours_is_waited_for_and_then_believed() {
        let events = [event("100 100 dimm")];
        for (after, expected) in [(Write::Release, Some(Some("dimm"))), (HOLD, Some(None))] {
            let watch = GapWatch { node: "gpu001".into(), ours_at: Timestamp::from_millis(100_000), after };
            assert_eq!(lost(&events, &watch, Lag::Possible), None);
            let found = lost(&events, &watch, Lag::Over);
            assert_eq!(found.map(|lost| lost.map(|event| event.reason.as_str())), expected);
        }
    }

    #[test]
    fn a_drain_that_our_drain_replaced_is_found() {
        let check = |rows: &[&str], expected| check(HOLD, rows, expected);
        check(&["100 - provost INC-1: x"], Some(None));
        check(&["99 100 dimm", "100 - provost INC-1: x"], Some(Some("dimm")));
        check(&["98 100 dimm", "100 - provost INC-1: x"], Some(Some("dimm")));
        check(&["98 99 dimm", "100 - provost INC-1: x"], Some(None));
        // Older than our look: it was lifted.
        check(&["97 100 dimm", "100 - provost INC-1: x"], Some(None));
        check(&["99 100 provost INC-0: y", "100 - provost INC-1: x"], Some(None));
        check(&["99 100 dimm"], None);
    }
}
