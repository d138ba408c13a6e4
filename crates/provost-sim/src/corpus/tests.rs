//! The format, the scoring and the floor. The corpus itself is run by the program that brings the parser.

use std::path::Path;
use std::time::Duration;

use provost_model::signal::Signal;

use super::play::{Isolated, Played};
use super::*;
use crate::site::kernel;

fn parse(text: &str) -> Result<Vec<Episode>, CorpusError> {
    episode::parse(Class::Hardware, Path::new("hardware.toml"), text)
}

fn one(timeline: &str, expect: &str) -> Episode {
    let text = format!(
        "[[episode]]\nid = 'a'\nstory = 's'\nwhy = 'w'\ntimeline = '''\n{timeline}\n'''\nexpect = {{ {expect} }}\n"
    );
    parse(&text).unwrap().remove(0)
}

#[test]
fn what_is_wrong_with_an_episode_is_told() {
    let check = |timeline: &str, expect: &str, problem: &str| {
        let text = format!(
            "[[episode]]\nid = 'a'\nstory = 's'\nwhy = 'w'\ntimeline = '''\n{timeline}\n'''\nexpect = {{ {expect} }}\n"
        );
        let error = parse(&text).unwrap_err();
        let told = format!(
            "{error}: {}",
            std::error::Error::source(&error).map_or(String::new(), |e| e.to_string())
        );
        assert!(told.contains(problem), "{timeline} {expect}: {told}");
    };
    check("", "", "the time line is empty");
    check("soon gpu003 boot", "", "it starts with a time");
    check("1.2345 gpu003 boot", "", "it starts with a time");
    check("1 gpu099 boot", "", "`gpu099` is no node");
    check("1 gpu[007-099] boot", "", "`gpu025` is no node");
    check("1 gpu003 explodes", "", "nothing that happens on a node");
    check("1 - boot", "", "nothing that happens to the site");
    check("2 gpu003 boot\n1 gpu003 boot", "", "before the line above");
    check("1 gpu003 kernel*0 x", "", "a storm is written");
    check("1 gpu003 kernel*99999999 x", "", "a storm is written");
    check("1 gpu003 job train gpus=9", "", "1 to 8 GPUs");
    check("1 gpu003 boot", "isolate = ['gpu003 until 3s']", "is not a node, such as");
    check("1 gpu003 boot", "isolate = ['gpu999']", "`gpu999` is no node");
    check("1 gpu003 boot", "detect = ['xid.79']", "is not a place and a condition");
    check("1 gpu003 boot", "detects = []", "unknown field `detects`");
}

#[test]
fn a_time_line_is_read() {
    let text = "# nothing\n0 gpu003,gpu[005-006] job train gpus=2\n\n20.5 gpu003 kernel*2/5ms A {n}\n2m - slurmctld away";
    let episode = one(text, "");
    let told: Vec<String> = episode
        .moments
        .iter()
        .map(|moment| format!("{:?} {} {:?}", moment.at, moment.nodes.join(","), moment.what))
        .collect();
    assert!(told[0].starts_with("0ns gpu003,gpu005,gpu006 Job"), "{}", told[0]);
    assert_eq!(told[1], "20.5s gpu003 Kernel { text: \"A 0\", copies: 1 }");
    assert_eq!(told[2], "20.505s gpu003 Kernel { text: \"A 1\", copies: 1 }");
    assert_eq!(told[3], "120s  Slurmctld(false)");
    assert_eq!(episode.lasts, Duration::from_secs(360));
}

fn played(incidents: &[&[(&str, &str)]], isolated: &[(&str, u64)], paged: bool) -> Played {
    let own = |(place, condition): &(&str, &str)| ((*place).to_owned(), (*condition).to_owned());
    let at = |(node, seconds): &(&str, u64)| {
        let at = Duration::from_secs(*seconds);
        ((*node).to_owned(), Isolated { held: at, reached: Some(at) })
    };
    Played {
        incidents: incidents.iter().map(|incident| incident.iter().map(own).collect()).collect(),
        notes: Default::default(),
        isolated: isolated.iter().map(at).collect(),
        paged: paged.then_some(Duration::ZERO),
    }
}

fn scored(expect: &str, played: &Played) -> Report {
    let mut report = Report::default();
    report.add(&one("1 gpu003 boot", expect), played);
    report
}

#[test]
fn what_is_right_missed_and_wrong_is_counted() {
    type Incidents<'a> = &'a [&'a [(&'a str, &'a str)]];
    let check = |expect: &str, seen: Incidents<'_>, isolated: &[(&str, u64)], expected: [usize; 6]| {
        let report = scored(expect, &played(seen, isolated, false));
        let (d, i) = (report.total.detection, report.total.isolation);
        let counted = [d.found, d.missed, d.wrong, i.found, i.missed, i.wrong];
        assert_eq!(counted, expected, "{expect} {seen:?} {isolated:?}: {:?}", report.findings);
        let findings = report.findings.len();
        assert_eq!(findings > 0, d.missed + d.wrong + i.missed + i.wrong > 0, "{:?}", report.findings);
    };
    let lost: &[(&str, &str)] = &[("gpu003/2", "xid.79")];
    let other: &[(&str, &str)] = &[("gpu004/2", "xid.79")];
    check("detect = ['gpu003/2 xid.79']", &[lost], &[], [1, 0, 0, 0, 0, 0]);
    check("detect = ['gpu003/2 xid.48|xid.79']", &[lost], &[], [1, 0, 0, 0, 0, 0]);
    check("detect = ['* xid.79']", &[lost, other], &[], [1, 0, 1, 0, 0, 0]);
    check("detect = ['* xid.79'], incidents = 2", &[lost, other], &[], [1, 0, 0, 0, 0, 0]);
    check("detect = ['gpu003/2 xid.79']", &[other], &[], [0, 1, 1, 0, 0, 0]);
    check("may = ['gpu003/2 xid.79']", &[lost], &[], [0, 0, 0, 0, 0, 0]);
    check("", &[lost], &[], [0, 0, 1, 0, 0, 0]);
    check("isolate = ['gpu003']", &[], &[("gpu003", 5)], [0, 0, 0, 1, 0, 0]);
    check("isolate = ['gpu003 by 4s']", &[], &[("gpu003", 5)], [0, 0, 0, 0, 1, 0]);
    check("isolate = ['gpu003 after 6s']", &[], &[("gpu003", 5)], [0, 0, 0, 0, 1, 1]);
    check("isolate = ['gpu003']", &[], &[], [0, 0, 0, 0, 1, 0]);
    check("", &[], &[("gpu003", 5)], [0, 0, 0, 0, 0, 1]);
    check("may_isolate = ['gpu003']", &[], &[("gpu003", 5)], [0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_page_is_right_or_wrong() {
    let check = |expect: &str, paged, kind: Option<FindingKind>| {
        let report = scored(expect, &played(&[], &[], paged));
        assert_eq!(report.findings.first().map(|finding| finding.kind), kind, "{expect} {paged}");
    };
    check("page = true", true, None);
    check("page = true", false, Some(FindingKind::NotPaged));
    check("page = false", true, Some(FindingKind::FalsePage));
    check("may_page = true", true, None);
    check("may_page = true", false, None);
}

#[test]
fn a_floor_that_is_not_reached_is_told() {
    let check = |floor: &str, broken: &[&str]| {
        let floor: Floor = toml::from_str(floor).unwrap();
        let expect = "detect = ['gpu003/2 xid.79', 'gpu004/2 xid.79']";
        let report = scored(expect, &played(&[&[("gpu003/2", "xid.79")]], &[("gpu003", 5)], false));
        assert_eq!(floor.broken(&report), broken);
    };
    check("episodes = 1\nfalse_isolations = 1\n[class]", &[]);
    check(
        "episodes = 2\nfalse_isolations = 0\n[class.total]\ndetection.recall = 0.6\n[class.storage]",
        &[
            "1 episodes, not 2",
            "1 false isolations, not at most 0",
            "no episode of class storage",
            "total: recall of detection is 0.500, not 0.600",
        ],
    );
    check("episodes = 1\nfalse_isolations = 1\n[class.hardware]\ndetection.recall = 0.5", &[]);
}

/// Knows one kind of line.
struct OnlyLost;

impl KernelReader for OnlyLost {
    fn read(&mut self, record: &[u8], place: Place) -> Option<Signal> {
        let mut signal = kernel::xid(&place.node, 2, 79, place.at);
        signal.historic = place.historic;
        signal.boot_id = Some(place.boot_id);
        record.starts_with(b"4,").then_some(signal)
    }
}

#[test]
fn an_episode_is_played_through_the_controller() {
    let check = |timeline: &str, expect: &str, findings: usize| {
        let episodes = vec![one(timeline, expect)];
        let floor = toml::from_str("episodes = 1\nfalse_isolations = 0\n[class]").unwrap();
        let report = Corpus { episodes, floor }.run("", &|_| Box::new(OnlyLost)).unwrap();
        assert_eq!(report.findings.len(), findings, "{timeline}: {:?}", report.findings);
    };
    let right = "detect = ['gpu003/2 xid.79'], isolate = ['gpu003 by 13s'], page = true";
    check("0 gpu003 job train\n10 gpu003 kernel x", right, 0);
    check("0 gpu003 job train\n10 gpu003 user x", right, 3);
    check("10 gpu003 history x", "", 0);
    check(
        "10 gpu003 drain dimm\n20 gpu003 kernel x",
        "detect = ['gpu003/2 xid.79'], isolate = ['gpu003'], page = true",
        0,
    );
}
