//! A person lets a spare serve, or sends one home.

use provost_model::body::Purpose;
use provost_model::effect::Effect;
use provost_model::input::{Action, Reply};
use provost_model::record::Class;
use provost_model::time::Timestamp;

use super::{choose_spare, join, leave, subject};
use crate::command::Asked;
use crate::effect::{self, Requested};
use crate::event::Decisions;
use crate::state::{Slot, State};

/// `spare.activate` and `spare.return`.
pub(crate) fn on_command(state: &State, now: Timestamp, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    match &asked.command.action {
        Action::SpareActivate { node } => activate(state, now, node, asked, out),
        Action::SpareReturn { spare } => give_back(state, now, spare, asked, out),
        other => {
            Reply::Invalid { field: "action".to_owned(), detail: format!("{} is not here", other.name()) }
        }
    }
}

fn activate(state: &State, now: Timestamp, node: &str, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    let Some(own) = state.node_by_name(node) else { return Reply::NotFound { what: format!("node {node}") } };
    let Some(slot) = own.slot.and_then(|id| state.slots.get(&id)) else {
        return conflict("no_slot", format!("{node} has no slot: it is in no production partition"));
    };
    if slot.spare.is_some() || effect::is_open(state, &Purpose::Slot { slot: slot.id }) {
        return Reply::Already;
    }
    let spare = choose_spare(state, slot.id).and_then(|id| state.nodes.get(&id));
    let Some(effect) = spare.and_then(|spare| join(slot, spare)) else {
        return conflict(
            "no_spare",
            "no spare is idle, heard from and unheld; see `provost spare list`".to_owned(),
        );
    };
    ask(state, now, slot, effect, asked, out)
}

fn give_back(state: &State, now: Timestamp, name: &str, asked: &Asked<'_>, out: &mut Decisions) -> Reply {
    let Some(spare) = state.node_by_name(name) else {
        return Reply::NotFound { what: format!("spare {name}") };
    };
    let Some(slot) = spare.serves.and_then(|id| state.slots.get(&id)) else { return Reply::Already };
    if effect::is_open(state, &Purpose::Slot { slot: slot.id }) {
        return Reply::Already;
    }
    if spare.observed.as_ref().is_none_or(|view| view.busy) {
        return conflict("busy", format!("jobs run on {name}; wait until it is idle, or drain it first"));
    }
    let Some(effect) = leave(slot, spare) else {
        return conflict("no_scheduler", format!("no scheduler has {name}"));
    };
    ask(state, now, slot, effect, asked, out)
}

fn ask(
    state: &State,
    now: Timestamp,
    slot: &Slot,
    effect: Effect,
    asked: &Asked<'_>,
    out: &mut Decisions,
) -> Reply {
    let (requested, body) = effect::plan(state, now, &effect, &Purpose::Slot { slot: slot.id });
    if let Some(body) = body {
        out.push(asked.event(Class::Privileged, body).about(subject(state, slot)));
    }
    match requested {
        Requested::Stopped => {
            conflict("guard_stopped", "the guard is stopped; `provost guard start` first".to_owned())
        }
        Requested::Intent | Requested::WouldHave if out.is_empty() => Reply::Already,
        Requested::Intent | Requested::WouldHave => Reply::Accepted { seq: state.seq, created: Vec::new() },
    }
}

fn conflict(code: &str, detail: String) -> Reply {
    Reply::Conflict { code: code.to_owned(), detail }
}
