//! The reference page of the catalogue: what each fault means and what Provost does about it. Made from the tables
//! that the engine judges by, so that it cannot say anything else.

use provost_model::catalogue::{Catalogue, Entry};
use provost_model::signal::{SignalFields, SignalKind};

use crate::output;

const HEAD: &str = "# Faults

What each fault means, how grave it is, and what Provost does about it by itself. Written by `cargo xtask gen` from the
tables in `catalogue/`; a test holds the engine to it, entry by entry.

What Provost does depends on nothing but the impact and the runbook:

- **keeps the evidence**: a record in the journal, no alert.
- **tells the owner**: a note at the job, once for a job and a code. The node stays in service.
- **opens an incident for a person**: nothing is touched until somebody decides.
- **mends it when the node is idle**: jobs go on and new ones may start; the node is held for the reset only.
- **holds the node, mends it**: no new work from this second on; then the runbook. Jobs are moved by the runbook, never
  by the hold.

In the modes `observe` and `advise` all of it is recorded as what would have been done.

## What other lines change

| lines | rule |
|---|---|
| Xid 48, 171, 172 | Judged after `timers.companions` (1 s). With 63 or 94 of the same GPU, and none of 64, 95, 140: contained, so jobs go on and `row-remap-pending` resets the GPU when the node is idle. Alone: the node is held, and jobs are moved after `timers.quiet` (60 s) without another one. |
| Xid 63, 94 | Nothing is held until no job is on the node, or `timers.remap` (24 h) is over. |
| Xid 154 | The line names the new advice. Any but 0 holds the node at once; the last advice of `timers.advice` (5 s) is followed: a reset is done, everything else is asked of a person. Advice 0 is the all-clear: the alert ends after `timers.clear_hold`. |
| Xid 144 to 150, SXids | The line says whether it is fatal; that goes before the table. Fatal: the node is held and `nvlink-fatal` runs. Not fatal: minor. |
| Xid 45 | Where the driver names an earlier code, or the GPU has an open fault that is not older than `timers.merge`, it is evidence of that and raises nothing of its own. |
| Xid 13 | A second job with it in the same GPC and TPC within `timers.repeat` (24 h) makes the GPU suspect: a minor incident, nothing is held. |
| 31 and the other faults of programs | The same, for two different jobs on the same GPU. |
| faults of programs on three nodes within an hour | The job takes its fault along: no GPU is suspect. |
| several runbooks for one GPU | The gravest runs alone: `gpu-lost`, `nvlink-fatal`, `gpu-memory-uncorrectable`, `gpu-reset-needed`, `gpu-fault-unclassified`, `row-remap-pending`, in this order. |
| lines of a program (facility 1 or more) | Prove nothing and raise nothing. |
| no line and no heartbeat | `source.silent`: a major incident after `timers.silent_after`, for a person. Nothing is held: the silence is the agent's. |
| lines from before the agent's first start | History: kept as evidence, raise nothing. On a new boot everything since its beginning is news. |
";

const EXAMPLES: &str = "
## Examples

Each of these happens to a node of its own of a real Slurm, in the mode `act`, with every action of the example's agent
allowed; `cargo xtask e2e faults` holds Provost to the table. No job is on the node where none is named. A runbook stands at
a step, or has succeeded.

| what happens | Slurm | incident | runbook |
|---|---|---|---|
| 79 under a job | drained | SEV2 | gpu-lost: repair |
| 95 | drained, then free | SEV3 | gpu-memory-uncorrectable: succeeded |
| 64 | drained, then free | SEV3 | gpu-memory-uncorrectable: succeeded |
| 48 alone | drained, then free | SEV3 | gpu-memory-uncorrectable: succeeded |
| 48, 63 and 94 under a job | untouched | SEV3 | row-remap-pending: wait |
| 63 under a job | untouched | SEV4 | row-remap-pending: wait |
| 74 | drained, then free | SEV3 | nvlink-fatal: succeeded |
| 119 | drained, then free | SEV3 | gpu-reset-needed: succeeded |
| 149, fatal | drained, then free | SEV3 | nvlink-fatal: succeeded |
| 149, bit errors | untouched | SEV4 | - |
| 154 to 1 | drained, then free | SEV3 | gpu-reset-needed: succeeded |
| 154 to 0 | untouched | - | - |
| 79, written by a program | untouched | - | - |
| the agent falls silent | untouched | SEV3 | - |
| slurmd dies | down | - | - |
| 999 | untouched | SEV3 | - |
";

/// The page.
pub fn page(catalogue: &Catalogue) -> String {
    let mut page = format!("{HEAD}{EXAMPLES}");
    let codes = catalogue.xids().map(|(code, entry)| (SignalKind::Xid, Some(code), entry));
    let unknown = (SignalKind::Xid, None, catalogue.kernel(SignalKind::Xid));
    table(&mut page, catalogue, "Xids of the NVIDIA driver", codes.chain([unknown]));
    let kinds = catalogue.kinds().map(|(kind, entry)| (kind, None, entry));
    table(&mut page, catalogue, "Other conditions in the kernel's log", kinds);
    let codes = catalogue.sxids().map(|(code, entry)| (SignalKind::Sxid, Some(code), entry));
    let unknown = (SignalKind::Sxid, None, catalogue.kernel(SignalKind::Sxid));
    table(&mut page, catalogue, "SXids of the NVSwitch driver", codes.chain([unknown]));
    page
}

fn table<'a>(
    page: &mut String,
    catalogue: &Catalogue,
    title: &str,
    rows: impl Iterator<Item = (SignalKind, Option<u32>, &'a Entry)>,
) {
    let head =
        "| code | name | impact | what Provost does | runbook | meaning | what a person does | source |";
    *page += &format!("\n## {title}\n\n{head}\n|---|---|---|---|---|---|---|---|\n");
    for (kind, code, entry) in rows {
        let judged = catalogue.assess(kind, code, &SignalFields::default(), None);
        let impact = serde_json::json!({ "impact": judged.impact });
        let code = code.map_or_else(|| "-".to_owned(), |code| code.to_string());
        *page += &format!(
            "| {code} | {} | {} | {} | {} | {} | {} | {} |\n",
            entry.name,
            output::field(&impact, "impact"),
            judged.answer().text(),
            judged.runbook.unwrap_or("-"),
            entry.meaning,
            entry.action,
            entry.source,
        );
    }
}

#[cfg(test)]
mod tests {
    use provost_model::catalogue::Answer;

    use super::*;

    #[test]
    fn the_examples_say_what_the_catalogue_says() {
        let catalogue = Catalogue::embedded();
        let rows = EXAMPLES.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
        let mut seen = 0;
        for row in rows {
            let cells: Vec<&str> = row.split(" | ").collect();
            let [what, slurm, _, runbook] = cells[..] else { panic!("{row}") };
            let Ok(code) = what.trim_end_matches(" alone").trim_end_matches(" under a job").parse() else {
                continue;
            };
            let judged = catalogue.assess(SignalKind::Xid, Some(code), &SignalFields::default(), None);
            assert_eq!(judged.runbook.unwrap_or("-"), runbook.split(':').next().unwrap_or_default(), "{row}");
            assert_eq!(judged.answer() == Answer::Hold, slurm.starts_with("drained"), "{row}");
            seen += 1;
        }
        assert_eq!(seen, 8);
    }

    #[test]
    fn a_row_says_what_provost_does() {
        let page = page(&Catalogue::embedded());
        let row = |start: &str| page.lines().find(|line| line.starts_with(start)).expect(start).to_owned();
        let check = |start: &str, expected: &str| assert!(row(start).contains(expected), "{}", row(start));
        check("| 79 |", "| critical | opens an incident, holds the node, mends it | gpu-lost |");
        check("| 63 |", "| minor | opens an incident; mends it when the node is idle | row-remap-pending |");
        check("| 45 |", "| info | tells the owner of the job; touches nothing | application-fault |");
        check("| 20034 |", "| nvlink-fatal |");
        check("| - | oom |", "| info | keeps the evidence; touches nothing | - |");
        check("| - | UNKNOWN |", "| major | opens an incident for a person; touches nothing | - |");
        assert!(page.lines().all(|line| !line.starts_with('|') || line.matches('|').count() > 2));
    }
}
