//! Waits until the driver has said all about a fault, before anything is done that jobs would feel (ruling 8). The
//! node is held in the meantime.

use provost_model::response::AlertState;
use provost_model::signal::Impact;
use provost_model::time::Timestamp;

use super::{Action, Context, Needs, Progress, Undo, at_once, nothing};
use crate::state::Alert;

pub(super) const ACTION: Action = Action {
    name: "fault.settle",
    about: "waits until the driver has said all: `timers.quiet` after an uncorrectable memory error alone, \
            `timers.advice` after its advice to recover; not at all for other faults",
    needs: Needs::Node,
    arguments: &[],
    plan: |_| Vec::new(),
    act: |_, _| Vec::new(),
    check,
    done: nothing,
    not_before: at_once,
    undo: Undo::Nothing,
};

/// The condition of the driver's advice.
pub(super) const ADVICE: &str = "xid.154";
/// Memory errors that tell only with others what they hit.
const MEMORY_ERRORS: [&str; 3] = ["xid.48", "xid.171", "xid.172"];
/// Those that say that any program may be hit: there is nothing left to wait for.
const UNCONTAINED: [&str; 3] = ["xid.64", "xid.95", "xid.140"];

fn check(ctx: &Context<'_>) -> Progress {
    let alerts: Vec<&Alert> = ctx.open_alerts().collect();
    // What it is run for: a milder fault of the same GPU gives no leave to do what nobody asks for any more.
    let named = |alert: &&&Alert| alert.runbook.as_deref() == Some(ctx.run.runbook.as_str());
    let own: Vec<&&Alert> = alerts.iter().filter(named).collect();
    // The driver has taken its advice back. The alert resolves by its hold, or fires again.
    if !own.is_empty() && own.iter().all(|alert| alert.state == AlertState::Clearing) {
        return Progress::Wait { what: "all_clear", until: None };
    }
    match alerts.iter().filter_map(|alert| quiet_at(ctx, alert, &alerts)).max() {
        Some(until) if until > ctx.now => Progress::Wait { what: "quiet", until: Some(until) },
        _ => Progress::Done { result: "settled".to_owned() },
    }
}

fn quiet_at(ctx: &Context<'_>, alert: &Alert, alerts: &[&Alert]) -> Option<Timestamp> {
    let timers = &ctx.state.config.timers;
    let any = |names: &[&str]| alerts.iter().any(|alert| names.contains(&alert.condition.as_str()));
    let condition = alert.condition.as_str();
    if condition == ADVICE {
        return Some(alert.last_at + timers.advice.0);
    }
    let alone = MEMORY_ERRORS.contains(&condition) && !any(&UNCONTAINED);
    (alone && alert.impact == Impact::Critical).then(|| alert.last_at + timers.quiet.0)
}
