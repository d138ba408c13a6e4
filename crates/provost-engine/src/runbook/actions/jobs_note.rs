//! Tells the owner of a job what its program did to a GPU. The hardware is fine, so nothing else is done.

use provost_model::effect::{Effect, EffectResult};
use provost_model::scheduler::REASON_PREFIX;

use super::{Action, Context, Needs, Progress, Undo, at_once, nothing};

pub(super) const ACTION: Action = Action {
    name: "jobs.note",
    about: "leaves a note at the job that names the fault and what to try",
    needs: Needs::Job,
    arguments: &[],
    plan,
    act: |ctx, _| plan(ctx),
    check,
    done: nothing,
    not_before: at_once,
    undo: Undo::Irreversible,
};

fn plan(ctx: &Context<'_>) -> Vec<Effect> {
    let condition = ctx.run.condition.as_deref().unwrap_or("");
    let note =
        |job: &provost_model::scheduler::JobKey| Effect::JobNote { job: job.clone(), text: text(condition) };
    ctx.run.job.iter().map(note).collect()
}

/// The note: what happened and what to try. No personal data, and nothing of the kernel's own line.
fn text(condition: &str) -> String {
    let (what, try_this) = match condition {
        "xid.13" => (
            "the program made an error inside a GPU kernel, such as an access outside its memory",
            "run it under compute-sanitizer, with the same input",
        ),
        "xid.31" => (
            "the program read or wrote GPU memory that is not its own",
            "run it under compute-sanitizer and look at indexes and freed buffers",
        ),
        "xid.43" => (
            "the program stopped one of its own GPU channels after an error",
            "look at the first error that the program printed",
        ),
        "xid.45" => (
            "the work of the program on the GPU was taken away because the program ended or was ended",
            "nothing, if you or the scheduler ended it; otherwise look at the first error that it printed",
        ),
        _ => (
            "the program made the GPU refuse its work",
            "look at the first error that the program printed, and run it under compute-sanitizer",
        ),
    };
    let name = condition.strip_prefix("xid.").map_or_else(|| condition.to_owned(), |n| format!("Xid {n}"));
    format!(
        "{REASON_PREFIX}{name}: {what}. Try: {try_this}. The GPU itself is fine; if it comes again elsewhere, it is the program."
    )
}

fn check(ctx: &Context<'_>) -> Progress {
    match ctx.intents().next() {
        None => Progress::Failed { code: "no_job".to_owned(), retry: false },
        Some((_, None)) => Progress::Wait { what: "scheduler", until: None },
        Some((_, Some(EffectResult::Done { .. }))) => Progress::Done { result: "noted".to_owned() },
        // The scheduler forgets a job soon after its end; then there is nobody to tell.
        Some((_, Some(EffectResult::NotDone { code, .. }))) if code == "not_found" => {
            Progress::Failed { code: code.clone(), retry: false }
        }
        Some((_, Some(EffectResult::NotDone { code, retry }))) => {
            Progress::Failed { code: code.clone(), retry: *retry }
        }
        Some((_, Some(EffectResult::Unknown { code }))) => {
            Progress::Failed { code: code.clone(), retry: false }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scheduler takes only what it can tell to be ours: one printable line of 400 characters at most.
    #[test]
    fn a_note_is_one_line_that_starts_as_ours() {
        for condition in ["xid.13", "xid.31", "xid.43", "xid.45", "xid.8", "kernel.other"] {
            let text = text(condition);
            assert!(text.starts_with("provost "), "{text}");
            assert!(
                text.len() <= 400 && !text.chars().any(char::is_control) && !text.ends_with(' '),
                "{text}"
            );
        }
    }
}
