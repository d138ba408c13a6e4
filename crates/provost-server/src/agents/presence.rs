//! Who was heard when. Heartbeats never reach the engine; only the edges do: silent, and back.

use std::collections::BTreeMap;
use std::time::Duration;

use provost_model::time::Timestamp;

/// Looks that lie further apart say that this program stood still, or that its clock was set: nobody listened meanwhile,
/// so that time is nobody's silence.
const STOOD_STILL: Duration = Duration::from_secs(2);

/// Agents by node.
#[derive(Debug, Default)]
pub(super) struct Presence {
    nodes: BTreeMap<String, Heard>,
    looked_at: Option<Timestamp>,
}

#[derive(Debug)]
struct Heard {
    at: Timestamp,
    /// Time since then in which nobody listened.
    deaf: Duration,
    /// Nothing was heard from it since the start.
    never: bool,
    silent: bool,
}

impl Presence {
    /// Notes that `node` was heard. True where the engine must be told: it was silent, or is new.
    pub(super) fn heard(&mut self, node: &str, now: Timestamp) -> bool {
        let Some(heard) = self.nodes.get_mut(node) else {
            self.nodes.insert(
                node.to_owned(),
                Heard { at: now, deaf: Duration::ZERO, never: false, silent: false },
            );
            return true;
        };
        let news = heard.silent || heard.never;
        *heard = Heard { at: now, deaf: Duration::ZERO, never: false, silent: false };
        news
    }

    /// Expects a node that was known before the start.
    pub(super) fn expect(&mut self, node: &str, now: Timestamp) {
        self.nodes.entry(node.to_owned()).or_insert(Heard {
            at: now,
            deaf: Duration::ZERO,
            never: true,
            silent: false,
        });
    }

    /// When `node` was heard last.
    pub(super) fn last_seen(&self, node: &str) -> Option<Timestamp> {
        self.nodes.get(node).filter(|heard| !heard.never).map(|heard| heard.at)
    }

    /// Nodes that have just become silent; each is named once.
    pub(super) fn newly_silent(&mut self, now: Timestamp, silent_after: Duration) -> Vec<String> {
        let mut names = Vec::new();
        let since_last = self.looked_at.replace(now).map_or(Duration::ZERO, |last| now.since(last));
        let deaf = if since_last > STOOD_STILL { since_last } else { Duration::ZERO };
        for (name, heard) in &mut self.nodes {
            heard.deaf += deaf;
            if !heard.silent && now.since(heard.at) >= silent_after + heard.deaf {
                heard.silent = true;
                names.push(name.clone());
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT_AFTER: Duration = Duration::from_secs(5);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn only_edges_are_told() {
        let mut presence = Presence::default();
        assert!(presence.heard("a", at(0)), "a new agent is news");
        assert!(!presence.heard("a", at(1)));
        assert_eq!(presence.newly_silent(at(5), SILENT_AFTER), Vec::<String>::new());
        assert_eq!(presence.newly_silent(at(6), SILENT_AFTER), ["a"]);
        assert_eq!(presence.newly_silent(at(7), SILENT_AFTER), Vec::<String>::new(), "told once");
        assert!(presence.heard("a", at(8)), "it is back");
    }

    /// Looks once a second.
    fn first_silent(presence: &mut Presence, seconds: std::ops::Range<i64>) -> Option<i64> {
        seconds.into_iter().find(|second| !presence.newly_silent(at(*second), SILENT_AFTER).is_empty())
    }

    #[test]
    fn time_in_which_nobody_listened_is_nobodys_silence() {
        let mut presence = Presence::default();
        presence.heard("a", at(0));
        assert_eq!(first_silent(&mut presence, 0..4), None);
        // Stopped at 3 for a minute, or the clock was set: three seconds of silence are left as they were.
        assert_eq!(first_silent(&mut presence, 63..80), Some(65));

        presence.heard("a", at(80));
        assert_eq!(first_silent(&mut presence, 80..84), None);
        // Set back: it counts from then on again.
        presence.heard("a", at(20));
        assert_eq!(first_silent(&mut presence, 20..40), Some(25));
    }

    #[test]
    fn who_does_not_come_back_after_a_start_is_silent() {
        let mut presence = Presence::default();
        presence.expect("a", at(0));
        presence.expect("b", at(0));
        assert!(presence.heard("a", at(1)));
        assert_eq!(presence.last_seen("b"), None);
        assert_eq!(presence.newly_silent(at(5), SILENT_AFTER), ["b"]);
    }
}
