//! A signal becomes an episode once: its key, its times, its job, and how many are remembered.

use std::time::Duration;

use provost_model::signal::Trust;

use super::*;
use crate::testing::{Site, T0, signal};

#[test]
fn an_episode_says_what_was_seen() {
    let mut site = Site::new(4);
    let job = site.run_job(1, &[("gpu002", &[3])]);
    let mut line = signal("gpu002", 31, Some(3));
    line.fields.unit = Some("u".repeat(1_000));
    line.boot_id = Some("boot".to_owned());
    site.signal(line);
    let episode = site.state.episodes.values().next().expect("an episode");
    assert_eq!((episode.impact, episode.count, episode.historic), (Impact::Minor, 1, false));
    assert_eq!(episode.job.as_ref(), Some(&job));
    assert_eq!(episode.fields.unit.as_ref().map(String::len), Some(MAX_TEXT));
    let record = site.records.iter().find(|record| record.kind() == "episode.opened").expect("a record");
    assert_eq!((record.actor.sub.as_str(), record.seq), ("agent:gpu002", episode.seq));
    assert_eq!(record.subject.as_ref().map(|subject| subject.id.as_str()), Some("GPU-gpu002-3"));
}

#[test]
fn the_job_on_the_device() {
    let check = |jobs: &[(u32, &[u32])], gpu, expected: Option<u32>| {
        let mut site = Site::new(4);
        for (id, gpus) in jobs {
            let key = site.run_job(*id, &[("gpu002", gpus)]);
            if gpus.is_empty() {
                // The scheduler does not say which.
                site.jobs.iter_mut().filter(|job| job.key == key).for_each(|job| job.gpus.clear());
                site.poll();
            }
        }
        site.signal(signal("gpu002", 31, gpu));
        let episode = site.state.episodes.values().next().expect("an episode");
        assert_eq!(episode.job.as_ref().map(|job| job.id), expected, "{jobs:?} {gpu:?}");
    };
    check(&[], Some(3), None);
    check(&[(1, &[3])], Some(3), Some(1));
    check(&[(1, &[2])], Some(3), None);
    check(&[(1, &[2]), (2, &[3])], Some(3), Some(2));
    check(&[(1, &[])], Some(3), Some(1));
    check(&[(1, &[]), (2, &[3])], Some(3), Some(2));
    check(&[(1, &[]), (2, &[])], Some(3), None);
    check(&[(1, &[3])], None, Some(1));
    check(&[(1, &[2]), (2, &[3])], None, None);
}

#[test]
fn a_clock_that_is_ahead_makes_no_fault_in_the_future() {
    let mut site = Site::new(4);
    let mut line = signal("gpu002", 79, Some(3));
    line.at = T0 + Duration::from_secs(3_600);
    site.feed(provost_model::input::Input::Signal(Box::new(line)));
    assert_eq!(site.incident(1).fault_at, T0);
}

#[test]
fn what_means_nothing_at_all_is_not_recorded() {
    let mut site = Site::new(4);
    let mut line = signal("gpu002", 0, None);
    (line.kind, line.code, line.impact) = (SignalKind::NicLink, None, Impact::None);
    assert!(site.signal(line).is_empty());
}

#[test]
fn old_episodes_make_room() {
    let mut site = Site::new(4);
    for n in 0..10 {
        site.xid("gpu002", 14, n % 8);
        site.now = site.now + Duration::from_secs(6);
    }
    assert_eq!(site.state.episodes.len(), 8);
    site.now = site.now + Duration::from_secs(86_400 + 60);
    site.xid("gpu003", 14, 0);
    assert_eq!(site.state.episodes.len(), 1);
    assert_eq!(site.state.episode_order.len(), 1);
}

/// What was contained on the strength of the emergency journal is in the record as if nothing had been amiss.
#[test]
fn the_emergency_journal_is_merged() {
    let mut site = Site::new(20);
    let hold = |node: &str, trust| EmergencyHold {
        node: node.to_owned(),
        condition: "xid.79".to_owned(),
        at: T0,
        signal: Signal { trust, ..signal(node, 79, Some(3)) },
    };
    let merge = provost_model::input::Input::EmergencyMerge {
        since: T0,
        holds: vec![
            hold("gpu003", Trust::Kernel),
            hold("gpu003", Trust::Kernel),
            hold("gpu004", Trust::Kernel),
        ],
        signals_lost: 7,
    };
    let kinds = site.feed(merge);
    assert_eq!(kinds[..3], ["journal.emergency_merged", "signals.not_recorded", "episode.opened"]);
    assert_eq!(kinds.iter().filter(|kind| **kind == "incident.opened").count(), 2);
    assert_eq!(site.state.holds.len(), 2);
}
