//! The engine's answer to one input, before anything follows from it.

use provost_model::input::{Input, Reply};
use provost_model::time::Timestamp;

use crate::event::{Decisions, Event};
use crate::state::State;
use crate::{bmc, command, detect, effect, runbook, scheduler, source};

/// Decides on `input`. Reads State and nothing else; the answer to a command is given out only once the events
/// are durable.
pub fn step(state: &State, now: Timestamp, input: &Input) -> (Vec<Event>, Option<Reply>) {
    let mut decisions = Decisions::new(&state.site, state.seq);
    let out = &mut decisions;
    let mut reply = None;
    match input {
        Input::Started { version, config, runbooks } => {
            source::on_started(state, version, config, runbooks, out)
        }
        Input::Signal(signal) => detect::on_signal(state, now, signal, out),
        Input::Repeats { key, count, last_at } => detect::on_repeats(state, key, *count, *last_at, out),
        Input::AgentReport(report) => source::on_agent_report(state, report, out),
        Input::AgentEnrolled { node, serial, token_sha256, expires_at } => {
            source::on_agent_enrolled(node, serial, token_sha256.as_deref(), *expires_at, out);
        }
        Input::BmcRead(reading) => bmc::on_read(state, reading, out),
        Input::Source { source, state: to } => source::on_source(state, source, *to, out),
        Input::Observed(observation) => scheduler::on_observed(state, now, observation, out),
        Input::EffectResult { intent, result } => effect::on_result(state, *intent, result, out),
        Input::Command(command) => reply = Some(command::on_command(state, now, command, out)),
        Input::EmergencyMerge { since, holds, signals_lost } => {
            detect::on_emergency_merge(state, now, *since, holds, *signals_lost, out);
        }
        Input::Tick => runbook::on_tick(state, now, out),
    }
    (decisions.into_events(), reply)
}
