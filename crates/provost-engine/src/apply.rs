//! The only writer of State: one record, folded in. Used by the live loop and by every replay.
//!
//! Nothing is decided here. What a record says is complete, so no catalogue and no rule is looked at.

use provost_model::body::{Body, Source, SourceChanged, SourceState};
use provost_model::record::Record;
use provost_model::response::AlertState;

use crate::state::State;
use crate::{
    alert, bmc, command, containment, detect, effect, governor, hold, incident, lifecycle, runbook,
    scheduler, slot, source,
};

/// Folds `record` into `state`. Records come in order, without gaps.
pub fn apply(state: &mut State, record: &Record) {
    debug_assert_eq!(state.seq, record.seq, "records are applied in order");
    match &record.body {
        Body::ControllerStarted(data) => source::apply_started(state, record, data),
        Body::ConfigApplied(data) => source::apply_config(state, data),
        Body::InventoryApplied(data) => source::apply_inventory(state, data),
        Body::RunbookPublished(data) => runbook::apply_published(state, data),
        Body::ModeChanged(data) => command::apply_mode(state, data),
        Body::GuardStopped(_) => governor::apply_stopped(state, true),
        Body::GuardStarted(_) => governor::apply_stopped(state, false),
        Body::BreakerTripped(_) => governor::apply_breaker(state, record.at, true),
        Body::BreakerReset(_) => governor::apply_breaker(state, record.at, false),
        Body::CommandDenied(_) | Body::EmergencyMerged(_) | Body::SignalsNotRecorded(_) => {}
        Body::AgentTokenCreated(data) => source::apply_token(state, record, data),
        Body::AgentEnrolled(data) => source::apply_enrolled(state, data),
        Body::AgentReported(data) => source::apply_reported(state, data),
        Body::SourceChanged(data) => source::apply_changed(state, record, data),
        Body::NodeAdopted(data) => {
            lifecycle::apply_adopted(state, record, data);
            source::apply_known(state, data.node);
        }
        Body::NodeObserved(data) => scheduler::apply_node(state, record, data),
        Body::BmcObserved(data) => bmc::apply_observed(state, data),
        Body::NodePhaseChanged(data) => lifecycle::apply_phase(state, record, data),
        Body::GpuIdentified(data) => lifecycle::apply_gpu(state, data),
        Body::SlotCreated(data) => slot::apply_created(state, data),
        Body::SlotBound(data) => slot::apply_bound(state, data),
        Body::SlotUnbound(data) => slot::apply_unbound(state, data),
        Body::JobObserved(data) => {
            state.unindex_job(&data.job);
            scheduler::apply_job(state, data);
            state.index_job(&data.job);
        }
        Body::JobForgotten(data) => {
            state.unindex_job(&data.job);
            scheduler::apply_forgotten(state, data);
        }
        Body::EpisodeOpened(data) => detect::apply_opened(state, record, data),
        Body::EpisodeRepeated(data) => detect::apply_repeated(state, data),
        Body::AlertRaised(data) => alert::apply_raised(state, record, data),
        Body::AlertChanged(data) => alert::apply_changed(state, record, data),
        Body::IncidentOpened(data) => incident::apply_opened(state, record, data),
        Body::IncidentAttached(data) => incident::apply_attached(state, data),
        Body::IncidentChanged(data) => incident::apply_changed(state, record, data),
        Body::IncidentSeverity(data) => incident::apply_severity(state, record, data),
        Body::IncidentAcknowledged(data) => incident::apply_acknowledged(state, record, data),
        Body::IncidentClock(data) => incident::apply_clock(state, record, data),
        Body::IncidentNoted(data) => incident::apply_noted(state, data),
        Body::IncidentJob(data) => incident::apply_job(state, data),
        Body::HoldPlaced(data) => hold::apply_placed(state, record, data),
        Body::HoldReleased(data) => hold::apply_released(state, record, data),
        Body::IsolationDeferred(data) => governor::apply_deferred(state, data),
        Body::EffectRequested(data) => {
            effect::apply_requested(state, record, data);
            runbook::apply_intent(state, record, data);
        }
        Body::EffectCompleted(data) => effect::apply_completed(state, record, data),
        Body::EffectVoided(data) => effect::apply_voided(state, data),
        Body::WouldHave(data) => effect::apply_would_have(state, data),
        Body::ExecutionCreated(data) => runbook::apply_created(state, record, data),
        Body::ExecutionChanged(data) => runbook::apply_changed(state, record, data),
        Body::StepChanged(data) => runbook::apply_step(state, record, data),
        Body::HumanAnswered(data) => runbook::apply_answered(state, data),
        Body::ApprovalDecided(data) => runbook::apply_approval(state, record, data),
    }
    follow(state, &record.body);
    state.seq = record.seq + 1;
}

/// Deadlines of one concern that hang on what another has just written.
fn follow(state: &mut State, body: &Body) {
    match body {
        Body::GuardStopped(_) | Body::GuardStarted(_) | Body::ModeChanged(_) | Body::ConfigApplied(_) => {
            containment::set_all_timers(state);
            slot::set_all_timers(state);
        }
        Body::SourceChanged(SourceChanged {
            source: Source::Scheduler(cluster),
            state: SourceState::Fresh,
        }) => {
            containment::apply_scheduler_back(state, cluster);
            slot::apply_scheduler_back(state, cluster);
        }
        Body::IsolationDeferred(data) => containment::set_timer(state, data.node),
        Body::AlertChanged(data) if data.state == AlertState::Resolved => {
            hold::apply_alert_over(state, data.alert);
        }
        Body::IncidentChanged(data) if !data.to.is_open() => hold::apply_incident_over(state, data.incident),
        _ => {}
    }
}
