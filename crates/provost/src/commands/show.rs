//! What people see of each thing: columns of the lists, and text of the single ones.

use serde_json::Value;

use crate::cli::Format;
use crate::client::Event;
use crate::error::Error;
use crate::output::{self, Column, field, fields};

pub const NODES: &[Column] = &[
    Column::new("NAME", "name"),
    Column::new("PHASE", "phase"),
    Column::new("HEALTH", "health"),
    Column::new("SCHEDULABLE", "schedulable"),
    Column::new("SCHEDULER SAYS", "schedulers.observed"),
    Column::new("HELD BY", "holds.owner"),
    Column::new("SERVES FOR", "serving_for"),
    Column::wide("RACK", "rack"),
    Column::wide("LEAF", "leaf"),
    Column::wide("MODE", "mode"),
    Column::wide("SERIAL", "serial"),
    Column::wide("ID", "id"),
];
pub const GPUS: &[Column] = &[
    Column::new("NODE", "node"),
    Column::new("INDEX", "index"),
    Column::new("PCI", "pci"),
    Column::new("HEALTH", "health"),
    Column::new("MODEL", "model"),
    Column::new("HELD BY", "holds.owner"),
    Column::wide("ID", "id"),
    Column::wide("IDENTITY", "identity"),
    Column::wide("SERIAL", "serial"),
];
pub const INCIDENTS: &[Column] = &[
    Column::new("NUMBER", "number"),
    Column::new("SEVERITY", "severity"),
    Column::new("STATE", "state"),
    Column::new("TITLE", "title"),
    Column::new("OPENED", "opened_at"),
    Column::new("OWNER", "owner"),
    Column::wide("JOBS", "jobs"),
    Column::wide("EXECUTION", "execution"),
    Column::wide("ID", "id"),
];
pub const ALERTS: &[Column] = &[
    Column::new("CONDITION", "condition"),
    Column::new("SUBJECT", "subject.name"),
    Column::new("STATE", "state"),
    Column::new("IMPACT", "impact"),
    Column::new("COUNT", "count"),
    Column::new("LAST", "last_at"),
    Column::new("INCIDENT", "incident"),
    Column::wide("IMPLIES", "classifications"),
    Column::wide("ID", "id"),
];
pub const HOLDS: &[Column] = &[
    Column::new("NODE", "node"),
    Column::new("OWNER", "owner"),
    Column::new("REASON", "reason"),
    Column::new("SINCE", "since"),
    Column::new("UNTIL", "until"),
    Column::wide("ID", "id"),
];
pub const JOBS: &[Column] = &[
    Column::new("JOB", "id"),
    Column::new("STATE", "state"),
    Column::new("TIER", "tier"),
    Column::new("PROJECT", "project"),
    Column::new("NODES", "nodes"),
    Column::new("RESTARTS", "restarts"),
    Column::wide("PARTITION", "partition"),
    Column::wide("REQUEUE", "requeue"),
    Column::wide("INCIDENTS", "incidents"),
    Column::wide("STARTED", "started_at"),
];
pub const SPARES: &[Column] = &[
    Column::new("NODE", "node"),
    Column::new("PHASE", "phase"),
    Column::new("READY", "ready"),
    Column::new("SERVES FOR", "serving_for"),
    Column::new("PARTITIONS", "partitions"),
];
pub const RUNBOOKS: &[Column] = &[
    Column::new("ID", "id"),
    Column::new("RISK", "risk"),
    Column::new("TITLE", "title"),
    Column::wide("VERSION", "version"),
    Column::wide("STEPS", "steps"),
];
pub const EXECUTIONS: &[Column] = &[
    Column::new("EXECUTION", "id"),
    Column::new("RUNBOOK", "runbook"),
    Column::new("STATE", "state"),
    Column::new("WHY", "why"),
    Column::new("INCIDENT", "incident"),
    Column::wide("SUBJECT", "subject.name"),
    Column::wide("CREATED", "created_at"),
    Column::wide("ENDED", "ended_at"),
];
pub const MARKS: &[Column] =
    &[Column::new("CLUSTER", "cluster"), Column::new("NODE", "node"), Column::new("REMOVAL", "removal")];
pub const MODES: &[Column] = &[Column::new("SCOPE", "scope"), Column::new("MODE", "mode")];
pub const RECORDS: &[Column] = &[
    Column::new("SEQ", "seq"),
    Column::new("AT", "at"),
    Column::new("TYPE", "type"),
    Column::new("ACTOR", "actor.sub"),
    Column::new("SUBJECT", "subject.name"),
    Column::new("OUTCOME", "outcome"),
    Column::wide("INCIDENT", "corr.incident"),
    Column::wide("POLICIES", "decision.policies"),
    Column::wide("ID", "id"),
];

/// One screen.
pub fn status(status: &Value) -> String {
    let mut text = fields(
        status,
        &[
            ("verdict", "verdict"),
            ("site", "site"),
            ("mode", "mode"),
            ("journal", "journal"),
            ("nodes", "nodes_by_phase"),
            ("gpus", "gpus_by_health"),
            ("jobs running", "jobs_running"),
            ("open incidents", "incidents_open"),
            ("lost sources", "sources_lost"),
        ],
    );
    text += &banner(status.get("guard").unwrap_or(&Value::Null));
    for need in status.get("needs_you").and_then(Value::as_array).into_iter().flatten() {
        text += &format!("needs you: {}\n", need.as_str().unwrap_or_default());
    }
    text
}

/// A stopped guard is shown in every picture that a person may act on.
fn banner(guard: &Value) -> String {
    let is = |key: &str| guard.get(key).and_then(Value::as_bool) == Some(true);
    let mut text = String::new();
    if is("stopped") {
        text += "GUARD STOPPED: no new action is taken; `provost guard start` allows them again\n";
    }
    if is("breaker_tripped") {
        text += "BREAKER TRIPPED: too much is unavailable; `provost guard reset` after you looked\n";
    }
    text
}

pub fn node(node: &Value) -> String {
    let mut text = fields(
        node,
        &[
            ("node", "name"),
            ("phase", "phase"),
            ("since", "phase_since"),
            ("schedulable", "schedulable"),
            ("health", "health"),
            ("mode", "mode"),
            ("serial", "serial"),
            ("rack", "rack"),
            ("leaf", "leaf"),
            ("slot", "slot"),
            ("serves for", "serving_for"),
            ("last seen", "last_seen_at"),
            ("lemon score", "lemon_score"),
        ],
    );
    for scheduler in rows(node, "schedulers") {
        text += &format!(
            "{} {}: wanted {}, says {}, reason {}\n",
            field(scheduler, "kind"),
            field(scheduler, "cluster"),
            field(scheduler, "desired"),
            field(scheduler, "observed"),
            field(scheduler, "reason"),
        );
    }
    if let Some(bmc) = node.get("bmc").filter(|bmc| bmc.is_object()) {
        text += &format!("bmc: {}\n", bmc_said(bmc));
    }
    for hold in rows(node, "holds") {
        text +=
            &format!("held by {}: {} ({})\n", field(hold, "owner"), field(hold, "reason"), field(hold, "id"));
    }
    for gpu in rows(node, "gpus") {
        text += &format!(
            "gpu {}  {}  {}  {}\n",
            field(gpu, "index"),
            field(gpu, "pci"),
            field(gpu, "health"),
            field(gpu, "id")
        );
    }
    text
}

/// `power on, health OK, read 12 s ago`; what a BMC said last counts no more once it is silent, and is told as such.
fn bmc_said(bmc: &Value) -> String {
    let word = |key: &str| match bmc.get(key).and_then(Value::as_str) {
        None => "unknown".to_owned(),
        Some("ok") => "OK".to_owned(),
        Some(word) => word.replace('_', " "),
    };
    let said = format!("power {}, health {}", word("power"), word("health"));
    let age = bmc.get("age_s").and_then(Value::as_u64);
    let read = age.map_or("not read since the start".to_owned(), |seconds| format!("read {seconds} s ago"));
    match word("state").as_str() {
        "fresh" => format!("{said}, {read}"),
        state => format!("{state}; it said last: {said}, {read}"),
    }
}

pub fn gpu(gpu: &Value) -> String {
    fields(
        gpu,
        &[
            ("gpu", "id"),
            ("identity", "identity"),
            ("node", "node"),
            ("index", "index"),
            ("pci", "pci"),
            ("model", "model"),
            ("serial", "serial"),
            ("health", "health"),
            ("held by", "holds.owner"),
        ],
    )
}

pub fn alert(alert: &Value) -> String {
    fields(
        alert,
        &[
            ("alert", "id"),
            ("condition", "condition"),
            ("subject", "subject.name"),
            ("state", "state"),
            ("impact", "impact"),
            ("implies", "classifications"),
            ("count", "count"),
            ("first", "first_at"),
            ("last", "last_at"),
            ("evidence", "evidence"),
            ("incident", "incident"),
        ],
    )
}

pub fn hold(hold: &Value) -> String {
    fields(
        hold,
        &[
            ("hold", "id"),
            ("owner", "owner"),
            ("node", "node"),
            ("subject", "subject.name"),
            ("reason", "reason"),
            ("since", "since"),
            ("until", "until"),
        ],
    )
}

pub fn job(job: &Value) -> String {
    fields(
        job,
        &[
            ("job", "id"),
            ("state", "state"),
            ("tier", "tier"),
            ("project", "project"),
            ("partition", "partition"),
            ("nodes", "nodes"),
            ("gpus", "gpus"),
            ("submitted", "submitted_at"),
            ("started", "started_at"),
            ("ended", "ended_at"),
            ("restarts", "restarts"),
            ("may be requeued", "requeue"),
            ("incidents", "incidents"),
        ],
    )
}

pub fn runbook(runbook: &Value) -> String {
    let mut text =
        fields(runbook, &[("runbook", "id"), ("title", "title"), ("risk", "risk"), ("version", "version")]);
    for step in rows(runbook, "steps") {
        text += &format!("  {}\n", step.as_str().unwrap_or_default());
    }
    text
}

pub fn guard(guard: &Value) -> String {
    let pair = |used: &str, max: &str| format!("{} of {}", field(guard, used), field(guard, max));
    let mut text = fields(guard, &[("mode", "mode"), ("nodes", "nodes")]);
    text += &format!(
        "unavailable   {}  {}\n",
        pair("unavailable", "unavailable_max"),
        field(guard, "unavailable_nodes")
    );
    text += &format!("isolations    {} in the window\n", pair("isolations_in_window", "isolations_max"));
    text += &format!("disruptions   {} running\n", pair("disruptions_running", "disruptions_max"));
    text += &format!("waiting       {}\n", field(guard, "deferred"));
    for scope in rows(guard, "scopes") {
        let pair = |used: &str, max: &str| format!("{} of {}", field(scope, used), field(scope, max));
        text += &format!(
            "{}: unavailable {}, isolations {}, disruptions {}\n",
            field(scope, "scope"),
            pair("unavailable", "unavailable_max"),
            pair("isolations_in_window", "isolations_max"),
            pair("disruptions_running", "disruptions_max"),
        );
    }
    text + &banner(guard)
}

pub fn execution(execution: &Value) -> String {
    let mut text = fields(
        execution,
        &[
            ("execution", "id"),
            ("runbook", "runbook"),
            ("state", "state"),
            ("why", "why"),
            ("incident", "incident"),
            ("subject", "subject.name"),
            ("plan", "plan"),
            ("created", "created_at"),
            ("ended", "ended_at"),
        ],
    );
    for step in rows(execution, "steps") {
        text += &format!(
            "  {:12}  {:18}  {:20}  {}\n",
            field(step, "state"),
            field(step, "id"),
            field(step, "use"),
            step_end(step)
        );
        if step.get("state").and_then(Value::as_str) == Some("waiting") {
            text += &human(step);
        }
    }
    text
}

/// What a step found, or what it waits for.
fn step_end(step: &Value) -> String {
    match (field(step, "result").as_str(), field(step, "waiting_for").as_str()) {
        ("-", "-") if matches!(field(step, "state").as_str(), "failed" | "retrying" | "unknown") => {
            field(step, "why")
        }
        ("-", "-") => String::new(),
        ("-", waiting) => format!("waits for {waiting}"),
        (result, _) => result.to_owned(),
    }
}

/// A human step that waits: what to do, and how to answer.
fn human(step: &Value) -> String {
    let mut text = String::new();
    if let Some(instructions) = step.get("instructions").and_then(Value::as_str) {
        for line in instructions.lines() {
            text += &format!("      {line}\n");
        }
        text += &format!("      due {}\n", field(step, "until"));
    }
    for (name, question) in step.get("ask").and_then(Value::as_object).into_iter().flatten() {
        text += &format!("      {name}: {}\n", question.as_str().unwrap_or_default());
    }
    text
}

/// One record of the live stream.
pub fn event(event: &Event, format: Format) -> Result<(), Error> {
    if event.kind == "reset" {
        eprintln!("records were skipped; list again");
        return Ok(());
    }
    let text = match format {
        Format::Table | Format::Wide => {
            let record: Value = serde_json::from_str(&event.data).unwrap_or_default();
            format!(
                "{:>8}  {}  {:24}  {:20}  {}\n",
                event.id,
                field(&record, "at"),
                event.kind,
                field(&record, "actor.sub"),
                field(&record, "subject.name"),
            )
        }
        Format::Name => format!("{}\n", event.id),
        Format::Json | Format::Jsonl | Format::Yaml | Format::Csv => format!("{}\n", event.data),
    };
    output::print(&text)
}

fn rows<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_bmc_said_last_is_told_as_such() {
        let check = |bmc: Value, expected: &str| {
            let text = node(&json!({"name": "gpu001", "bmc": bmc}));
            assert_eq!(text.lines().find(|line| line.starts_with("bmc")), Some(expected));
        };
        check(
            json!({"state": "fresh", "power": "on", "health": "ok", "read_at": "x", "age_s": 12}),
            "bmc: power on, health OK, read 12 s ago",
        );
        check(
            json!({"state": "silent", "power": "powering_off", "health": null, "read_at": null, "age_s": null}),
            "bmc: silent; it said last: power powering off, health unknown, not read since the start",
        );
        assert!(!node(&json!({"name": "gpu001", "bmc": null})).contains("bmc"));
    }
}
