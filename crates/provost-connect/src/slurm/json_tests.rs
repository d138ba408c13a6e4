//! Slurm's JSON in the shapes of its versions, and answers that are cut or broken.

use proptest::prelude::*;

use super::*;

/// A job as 22.05 writes it, with `more` members.
fn job_22(more: &str) -> String {
    format!(
        r#"{{"job_id":7,"submit_time":1796070226,"job_state":"RUNNING","account":"clinical","qos":"serving",
        "partition":"serving","nodes":"gpu[001-002]","gres_detail":["gpu:h100:2(IDX:0-1)","gpu:h100:1(IDX:7)"],
        "requeue":true,"restart_cnt":1,"required_nodes":"gpu001","start_time":1796070230,"end_time":1796072026,
        "array_job_id":0,"array_task_id":null,"het_job_id":0,"admin_comment":"","name":"secret name"{more}}}"#
    )
}

fn read_jobs(elements: &str) -> Parsed<Vec<Job>> {
    jobs("squeue", &format!(r#"{{"errors":[],"jobs":[{elements}]}}"#), "main").unwrap()
}

/// The numbers of 0.0.39 and later.
fn object(number: &str) -> String {
    format!(r#"{{"set":true,"infinite":false,"number":{number}}}"#)
}

#[test]
fn a_job_is_read_in_the_shape_of_22_05() {
    let parsed = read_jobs(&job_22(""));
    let job = &parsed.items[0];
    let seen = &job.observed;
    assert_eq!(seen.key.to_string(), "slurm:main:7@2026-11-30T20:23:46.000Z");
    assert_eq!(
        (seen.state, seen.tier, seen.project.as_str()),
        (JobState::Running, Tier::Serving, "clinical")
    );
    assert_eq!(seen.nodes, ["gpu001", "gpu002"]);
    assert_eq!(seen.gpus["gpu001"], [0, 1]);
    assert_eq!(seen.gpus["gpu002"], [7]);
    assert_eq!((seen.requeue, seen.restarts), (true, 1));
    assert_eq!(seen.pinned, ["gpu001"]);
    assert!(seen.started_at.is_some() && seen.ended_at.is_none());
    assert_eq!(job.target(), "7");
    assert!(!format!("{job:?}").contains("secret"), "names of jobs must not be decoded");
}

#[test]
fn a_job_is_read_in_the_shape_of_24_11() {
    let text = format!(
        r#"{{"job_id":9,"submit_time":{},"job_state":["COMPLETING","FAILED"],"nodes":"gpu001","gres_detail":[],
        "requeue":false,"restart_cnt":0,"required_nodes":"","start_time":{},"end_time":{},"array_job_id":{},
        "array_task_id":{},"het_job_id":{}}}"#,
        object("1796070226"),
        object("0"),
        object("1796070227"),
        object("4"),
        object("0"),
        object("0"),
    );
    let job = &read_jobs(&text).items[0];
    assert_eq!(job.observed.state, JobState::Completing);
    assert_eq!((job.observed.started_at, job.observed.ended_at), (None, None));
    assert!(job.observed.gpus.is_empty());
    assert_eq!(job.target(), "4_0");
}

#[test]
fn the_target_of_a_job_never_means_more_than_the_job() {
    let check = |more: &str, expected: &str| {
        let text = job_22("").replace(r#""array_job_id":0,"array_task_id":null,"het_job_id":0"#, more);
        assert_eq!(read_jobs(&text).items[0].target(), expected, "{more}");
    };
    // The last task of an array has the array's own id.
    check(r#""array_job_id":7,"array_task_id":3"#, "7_3");
    check(r#""array_job_id":0,"array_task_id":0"#, "7");
    check(r#""het_job_id":6"#, "6");
    check(r#""array_job_id":null,"het_job_id":null"#, "7");
}

#[test]
fn what_is_no_job_is_counted_and_its_neighbours_stay() {
    let check = |from: &str, to: &str| {
        let bad = job_22("").replace(from, to);
        assert_ne!(bad, job_22(""), "{from}");
        let parsed = read_jobs(&format!("{bad},{}", job_22("")));
        assert_eq!((parsed.items.len(), parsed.unparsed), (1, 1), "{from} -> {to}");
    };
    check(r#""job_id":7"#, r#""job_id":0"#);
    check(r#""job_id":7"#, r#""job_id":-7"#);
    check(r#""job_id":7"#, r#""job_id":4294967296"#);
    check(r#""job_id":7"#, r#""job_id":18446744073709551616"#);
    check(r#""job_id":7"#, r#""job_id":7.5"#);
    check(r#""job_id":7"#, r#""job_id":"7""#);
    check(r#""job_id":7"#, r#""job_id":7,"job_id":8"#);
    check(r#""submit_time":1796070226"#, r#""submit_time":0"#);
    check(r#""submit_time":1796070226"#, r#""submit_time":99999999999999"#);
    check(r#""submit_time":1796070226"#, r#""submit_time":{"set":false,"infinite":true,"number":0}"#);
    check(r#""job_state":"RUNNING""#, r#""job_state":[]"#);
    check(r#""job_state":"RUNNING""#, r#""job_state":null"#);
    check(r#""requeue":true"#, r#""requeue":1"#);
    check(r#""restart_cnt":1"#, r#""restart_cnt":null"#);
    check("gpu[001-002]", "gpu[001-");
    check("gpu[001-002]", "gpu[1-99999999]");
    check(
        r#"{"job_id""#,
        r#"[],{"job_id""#.trim_start_matches("[],").replace('{', "{\"job_id\":1,").as_str(),
    );
}

#[test]
fn unknown_gpus_are_unknown_and_not_none() {
    let check = |details: &str, expected: &str| {
        let text = job_22("").replace(r#"["gpu:h100:2(IDX:0-1)","gpu:h100:1(IDX:7)"]"#, details);
        assert_eq!(format!("{:?}", read_jobs(&text).items[0].observed.gpus), expected, "{details}");
    };
    check("[]", "{}");
    check(r#"["gpu:h100:2(IDX:0-1)"]"#, "{}");
    check(r#"["gpu:h100:2","gpu:h100:1(IDX:7)"]"#, r#"{"gpu002": [7]}"#);
    check(r#"["",""]"#, r#"{"gpu001": [], "gpu002": []}"#);
}

#[test]
fn nodes_and_partitions_are_read_in_both_shapes() {
    let check = |element: &str, expected: &str| {
        let parsed = nodes("slurmrestd", &format!(r#"{{"nodes":[{element}],"errors":[]}}"#)).unwrap();
        let row = parsed.items.first().map(|(name, n)| {
            format!("{name} {} {} {:?} {:?} {:?}", n.state, n.reason, n.reason_user, n.gpus, n.comment)
        });
        assert_eq!(row.unwrap_or_else(|| format!("unparsed {}", parsed.unparsed)), expected);
    };
    check(
        r#"{"name":"gpu001","state":"mixed","state_flags":["DRAIN"],"reason":"dimm","reason_changed_at":1796070228,
        "reason_set_by_user":"root","comment":"","partitions":["batch"],"gres":"gpu:h100:4"}"#,
        r#"gpu001 MIXED+DRAIN dimm Some("root") Some(4) """#,
    );
    check(
        r#"{"name":"gpu001","state":["IDLE"],"reason":"","reason_changed_at":{"set":true,"infinite":false,"number":0},
        "reason_set_by_user":"","comment":"provost:h","partitions":[],"gres":""}"#,
        r#"gpu001 IDLE  None Some(0) "provost:h""#,
    );
    check(r#"{"name":"gpu001","state":["IDLE"]}"#, r#"gpu001 IDLE  None None """#);
    check(r#"{"name":"gpu001","state":[]}"#, "unparsed 1");
    check(r#"{"name":"gpu001"}"#, "unparsed 1");
    check(r#"{"name":"a b","state":"idle"}"#, "unparsed 1");
    check("7", "unparsed 1");
    let parsed = partitions(
        "slurmrestd",
        r#"{"partitions":[{"name":"a","nodes":"gpu[1-2]"},{"name":"b","nodes":{"configured":"","total":0}},
        {"name":"c","nodes":7},{"name":"d","nodes":"gpu["}]}"#,
    )
    .unwrap();
    assert_eq!(parsed.items, [("a".into(), vec!["gpu1".into(), "gpu2".into()]), ("b".into(), vec![])]);
    assert_eq!(parsed.unparsed, 2);
}

#[test]
fn an_answer_with_errors_is_an_error() {
    let check = |text: &str, expected: &str| {
        let error = jobs("squeue", text, "main").unwrap_err();
        assert_eq!(format!("{error:?}").split(' ').next(), Some(expected), "{text}");
    };
    check(r#"{"jobs":[],"errors":[{"error":"Unspecified error","errno":-1}]}"#, "ControllerAway");
    check(r#"{"jobs":[],"errors":[{"error":"x","error_number":1800,"description":"d"}]}"#, "ControllerAway");
    check(r#"{"jobs":[],"errors":[{"error":"x","error_number":7000}]}"#, "DatabaseAway");
    check(r#"{"jobs":[],"errors":[{"error":"No error","error_number":0}]}"#, "Refused");
    check(r#"{"jobs":[],"errors":["odd"]}"#, "Refused");
    check(r#"{"errors":[]}"#, "Unparsable");
    check(r#"{"jobs":{}}"#, "Unparsable");
    check(r#"{"jobs":["#, "Unparsable");
    check("", "Unparsable");
    let deep = format!(r#"{{"jobs":[{}{}]}}"#, "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(jobs("squeue", &deep, "main").unwrap().unparsed, 1);
}

proptest! {
    #[test]
    fn cut_and_broken_answers_are_survived(cut in 0_usize..1400, at in 0_usize..1400, with in "[{}\\[\\]\",:0-9a-z]{0,4}") {
        let text = format!(r#"{{"jobs":[{},{}]}}"#, job_22(""), job_22(r#","extra":{}"#));
        let cut_text = &text[..cut.min(text.len())];
        // Only blank space may be missing from an answer that is accepted.
        prop_assert!(jobs("squeue", cut_text, "main").is_err() || cut >= text.len());
        let mut broken = text.clone();
        broken.insert_str(at.min(text.len()), &with);
        if let Ok(parsed) = jobs("squeue", &broken, "main") {
            prop_assert!(parsed.items.len() as u64 + parsed.unparsed >= 1);
        }
    }
}
