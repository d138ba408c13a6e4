//! Sources of evidence, the start of a controller, configuration.

use crate::event::Decisions;
use crate::state::State;
use provost_model::body::AgentEnrolled;
use provost_model::body::AgentReported;
use provost_model::body::AgentTokenCreated;
use provost_model::body::ConfigApplied;
use provost_model::body::ControllerStarted;
use provost_model::body::Source;
use provost_model::body::SourceChanged;
use provost_model::body::SourceState;
use provost_model::input::AgentReport;
use provost_model::policy::EngineConfig;
use provost_model::record::Record;
use provost_model::runbook::Runbook;
use provost_model::time::Timestamp;

pub(crate) fn apply_started(state: &mut State, record: &Record, data: &ControllerStarted) {
    _ = (state, record, data);
}

pub(crate) fn apply_config(state: &mut State, data: &ConfigApplied) {
    _ = (state, data);
}

pub(crate) fn apply_token(state: &mut State, data: &AgentTokenCreated) {
    _ = (state, data);
}

pub(crate) fn apply_enrolled(state: &mut State, data: &AgentEnrolled) {
    _ = (state, data);
}

pub(crate) fn apply_reported(state: &mut State, data: &AgentReported) {
    _ = (state, data);
}

pub(crate) fn apply_changed(state: &mut State, record: &Record, data: &SourceChanged) {
    _ = (state, record, data);
}

pub(crate) fn on_started(
    state: &State,
    version: &str,
    config: &EngineConfig,
    runbooks: &[(String, Runbook)],
    out: &mut Decisions,
) {
    _ = (state, version, config, runbooks, out);
}

pub(crate) fn on_agent_report(state: &State, report: &AgentReport, out: &mut Decisions) {
    _ = (state, report, out);
}

pub(crate) fn on_agent_enrolled(
    node: &str,
    serial: &str,
    token_sha256: Option<&str>,
    expires_at: Timestamp,
    out: &mut Decisions,
) {
    _ = (node, serial, token_sha256, expires_at, out);
}

pub(crate) fn on_source(state: &State, source: &Source, to: SourceState, out: &mut Decisions) {
    _ = (state, source, to, out);
}

pub(crate) fn react(state: &State, now: Timestamp, out: &mut Decisions) {
    _ = (state, now, out);
}
