//! Switching a machine, and knowing what became of it.
//!
//! The reset is sent once. Before it, everything that can be found wrong is found, so that a refusal is certain; after
//! it only reading is left, and what can't be read stays unknown. Off counts when it was read twice in a row: it is
//! taken for the proof that nothing runs on the machine any more.

use std::time::Instant;

use hyper::Method;
use provost_model::bmc::Power;
use provost_model::effect::EffectResult;
use serde_json::json;

use super::Bmc;
use super::error::Error;
use super::session::Session;
use super::system::{self, Reset, System};

/// Looks in a row that must show the same.
const STEADY: u32 = 2;

/// What may be done to the power of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerAction {
    /// Give it power.
    On,
    /// Take it away at once, whatever runs.
    Off,
    /// Ask the operating system to end, and the power to follow.
    Shutdown,
    /// Off and on again.
    Cycle,
}

impl PowerAction {
    /// What servers call it, the best first. A machine whose power is not taken may keep what is broken.
    const fn words(self) -> &'static [&'static str] {
        match self {
            PowerAction::On => &["On", "ForceOn"],
            PowerAction::Off => &["ForceOff"],
            PowerAction::Shutdown => &["GracefulShutdown"],
            PowerAction::Cycle => &["PowerCycle", "ForceRestart"],
        }
    }

    /// The power that it ends with.
    const fn end(self) -> Power {
        match self {
            PowerAction::On | PowerAction::Cycle => Power::On,
            PowerAction::Off | PowerAction::Shutdown => Power::Off,
        }
    }
}

/// Nothing was sent.
pub(super) fn not_begun(error: &Error) -> EffectResult {
    EffectResult::NotDone { code: error.code().to_owned(), retry: !error.is_blind() }
}

/// It said no.
pub(super) fn refused(status: u16) -> EffectResult {
    let code = if matches!(status, 401 | 403) { "refused" } else { "not_accepted" };
    EffectResult::NotDone { code: code.to_owned(), retry: false }
}

pub(super) fn not_done(code: &str) -> EffectResult {
    EffectResult::NotDone { code: code.to_owned(), retry: false }
}

pub(super) fn unknown(code: &str) -> EffectResult {
    EffectResult::Unknown { code: code.to_owned() }
}

fn done(power: Power, note: Option<&str>) -> EffectResult {
    let notes = note.into_iter().map(str::to_owned).collect();
    EffectResult::Done { observed: format!("power {}", power.words()), notes }
}

/// Sends the action and waits until it shows.
pub(super) async fn act(bmc: &Bmc, session: &mut Session<'_>, action: PowerAction) -> EffectResult {
    let before = match bmc.read_system(session).await {
        Ok(system) => system,
        Err(error) => return not_begun(&error),
    };
    // Without a word about its power nothing that follows could be verified.
    let Some(power) = before.power else { return not_done("power_unknown") };
    match (action, power) {
        (PowerAction::On, Power::On) | (PowerAction::Off | PowerAction::Shutdown, Power::Off) => {
            return done(power, Some("already"));
        }
        (_, Power::PoweringOn | Power::PoweringOff) => {
            return EffectResult::NotDone { code: "power_changes".to_owned(), retry: true };
        }
        _ => {}
    }
    // A machine that is off has been cycled once it is on.
    let send = if (action, power) == (PowerAction::Cycle, Power::Off) { PowerAction::On } else { action };
    let Some(reset) = &before.reset else { return not_done("not_offered") };
    let word = match choose(session, reset, send).await {
        Ok(Some(word)) => word,
        Ok(None) => return not_done("not_offered"),
        Err(error) => return not_begun(&error),
    };
    match session.send(Method::POST, &reset.target, Some(json!({"ResetType": word}))).await {
        Ok(answer) if (200..300).contains(&answer.status) => {}
        // A redirect was not followed, and 4xx says no: it is certain that nothing was done.
        Ok(answer) if (300..500).contains(&answer.status) => return refused(answer.status),
        Ok(_) => return unknown("failed"),
        Err(Error::Http(error)) if !error.was_sent() => return not_begun(&Error::Http(error)),
        Err(error) => return unknown(error.code()),
    }
    session.wait_on();
    settle(bmc, session, send, &before).await
}

/// The first of our words that the server takes. One that lists none may take any: the first is tried.
async fn choose(
    session: &mut Session<'_>,
    reset: &Reset,
    action: PowerAction,
) -> Result<Option<&'static str>, Error> {
    let offered = match (&reset.offered, &reset.info) {
        (Some(offered), _) => Some(offered.clone()),
        (None, Some(info)) => {
            let info = session.get_optional(info).await?;
            info.and_then(|info| system::parameter(&info, "ResetType"))
        }
        (None, None) => None,
    };
    let Some(offered) = offered else { return Ok(action.words().first().copied()) };
    Ok(action.words().iter().find(|word| offered.iter().any(|other| other == *word)).copied())
}

/// Looks until the machine is where the action ends, and for a cycle until there is proof of it.
async fn settle(bmc: &Bmc, session: &mut Session<'_>, action: PowerAction, before: &System) -> EffectResult {
    let limits = bmc.config().limits;
    let started = Instant::now();
    let mut steady = 0;
    let mut cycled = action != PowerAction::Cycle;
    let mut seen = None;
    while started.elapsed() < limits.settle {
        tokio::time::sleep(limits.pause).await;
        session.wait_on();
        // A controller that is busy with the machine misses a beat.
        let Ok(now) = bmc.read_system(session).await else {
            steady = 0;
            continue;
        };
        seen = now.power;
        cycled = cycled || has_restarted(before, &now);
        steady = if cycled && now.power == Some(action.end()) { steady + 1 } else { 0 };
        if steady >= STEADY {
            return done(action.end(), None);
        }
    }
    match seen {
        None => unknown("unreadable"),
        // It has power, and whether it lost it in between nobody saw.
        Some(Power::On) if !cycled => unknown("restart_not_seen"),
        Some(_) => unknown("no_change"),
    }
}

/// It was seen without power, or says itself that it was reset or, having run, boots again. A boot that was under way
/// before goes on by itself and is no proof.
fn has_restarted(before: &System, now: &System) -> bool {
    let off = matches!(now.power, Some(Power::Off | Power::PoweringOff | Power::PoweringOn));
    let told =
        |before: &Option<String>, now: &Option<String>| before.is_some() && now.is_some() && before != now;
    let ran = before.boot_progress.as_deref() == Some("OSRunning");
    off || told(&before.last_reset, &now.last_reset)
        || (ran && told(&before.boot_progress, &now.boot_progress))
}

/// Whether the machine is where the action would have left it. A cycle leaves no trace that could be told from none.
pub(super) async fn probe(bmc: &Bmc, session: &mut Session<'_>, action: PowerAction) -> EffectResult {
    let mut last = None;
    for look in 0..STEADY {
        if look > 0 {
            tokio::time::sleep(bmc.config().limits.pause).await;
            session.wait_on();
        }
        let power = match bmc.read_system(session).await {
            Ok(system) => system.power,
            Err(error) => return unknown(error.code()),
        };
        if power.is_none() || (look > 0 && power != last) {
            return unknown("power_changes");
        }
        last = power;
    }
    match (action, last) {
        (PowerAction::Cycle, _) | (_, None) => unknown("restart_not_seen"),
        (_, Some(power)) if power == action.end() => done(power, None),
        (_, Some(Power::PoweringOn | Power::PoweringOff | Power::Paused)) => unknown("power_changes"),
        // Certain at this moment; that it is not sent again all the same is for whoever asked.
        (_, Some(_)) => not_done("not_done"),
    }
}
