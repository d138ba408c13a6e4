//! What a step can do. Each action says what it would do, does it by asking for effects, and judges by what was
//! read back. Nothing here writes outside.

mod evidence_collect;
mod fault_settle;
mod gpu_reset;
mod jobs_note;
mod jobs_requeue;
mod node_await_gap;
mod node_await_idle;
mod node_hold;
mod node_power_cycle;
mod node_release;
mod node_revalidate;
mod slot_bind_spare;
mod slot_return_spare;

use provost_model::body::{EpisodeKey, SourceState};
use provost_model::catalogue::Recovery;
use provost_model::effect::{Effect, EffectResult};
use provost_model::ids::AlertId;
use provost_model::runbook::Step;
use provost_model::signal::{Impact, SignalKind};
use provost_model::time::Timestamp;

use super::condition::Facts;
use crate::alert::companion;
use crate::event::Decisions;
use crate::state::{Alert, Execution, Incident, Node, State, StepRun};
use crate::{bmc, containment};

/// Every action, in the order of its name.
pub(crate) const ACTIONS: [Action; 13] = [
    evidence_collect::ACTION,
    fault_settle::ACTION,
    gpu_reset::ACTION,
    jobs_note::ACTION,
    jobs_requeue::ACTION,
    node_await_gap::ACTION,
    node_await_idle::ACTION,
    node_hold::ACTION,
    node_power_cycle::ACTION,
    node_release::ACTION,
    node_revalidate::ACTION,
    slot_bind_spare::ACTION,
    slot_return_spare::ACTION,
];

/// The action of a name.
pub(crate) fn find(name: &str) -> Option<&'static Action> {
    static TABLE: [Action; 13] = ACTIONS;
    TABLE.iter().find(|action| action.name == name)
}

/// One action.
pub(crate) struct Action {
    /// Name: `jobs.requeue`.
    pub(crate) name: &'static str,
    /// What it does, for the reference.
    pub(crate) about: &'static str,
    /// What it acts on.
    pub(crate) needs: Needs,
    /// Arguments that it knows.
    pub(crate) arguments: &'static [&'static str],
    /// What it would do now; changes nothing.
    pub(crate) plan: fn(&Context<'_>) -> Vec<Effect>,
    /// Begins: decides what is ours to decide and says which effects to ask for.
    pub(crate) act: fn(&Context<'_>, &mut Decisions) -> Vec<Effect>,
    /// How it stands, once every intent of it is answered. Judges by what was read back.
    pub(crate) check: fn(&Context<'_>) -> Progress,
    /// What follows from its success.
    pub(crate) done: fn(&Context<'_>, &mut Decisions),
    /// Not begun before this time; the code says what it waits for.
    pub(crate) not_before: fn(&Context<'_>) -> Option<(Timestamp, &'static str)>,
    /// How it is undone.
    pub(crate) undo: Undo,
}

/// What an action acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// A node of an incident.
    Node,
    /// A job alone.
    Job,
}

/// How an action stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It waits.
    Wait {
        /// Code of what it waits for.
        what: &'static str,
        /// When to look again although nothing happens.
        until: Option<Timestamp>,
    },
    /// More is to be done in the same attempt.
    More(Vec<Effect>),
    /// Read back as done.
    Done {
        /// What was found, without personal data.
        result: String,
    },
    /// The attempt failed.
    Failed {
        /// Code.
        code: String,
        /// Another attempt may help.
        retry: bool,
    },
}

/// How an action is undone.
#[derive(Clone, Copy)]
pub(crate) enum Undo {
    /// It changed nothing outside.
    Nothing,
    /// What was done stays done.
    Irreversible,
    /// By these decisions and effects.
    By(fn(&Context<'_>, &mut Decisions) -> Vec<Effect>),
}

/// What an action sees.
pub(crate) struct Context<'a> {
    /// Everything.
    pub(crate) state: &'a State,
    /// Now.
    pub(crate) now: Timestamp,
    /// The execution.
    pub(crate) run: &'a Execution,
    /// The step as written.
    pub(crate) step: &'a Step,
    /// The step as it stands.
    pub(crate) record: &'a StepRun,
}

impl<'a> Context<'a> {
    pub(crate) fn node(&self) -> Option<&'a Node> {
        self.state.nodes.get(&self.run.node?)
    }

    pub(crate) fn incident(&self) -> Option<&'a Incident> {
        self.state.incidents.get(&self.run.incident?)
    }

    /// The alerts of its incident that are not over and are about what it is about.
    fn open_alerts(&self) -> impl Iterator<Item = &'a Alert> {
        let (node, gpu) = (self.run.node, self.run.gpu);
        let incident = self.incident().into_iter();
        incident
            .flat_map(|incident| crate::incident::open_alerts(self.state, incident))
            .filter(move |alert| alert.node == node && (gpu.is_none() || alert.gpu == gpu))
    }

    /// A job holds the node, as far as the scheduler said last.
    fn is_busy(&self) -> bool {
        self.node().is_none_or(|node| {
            let jobs = self.state.jobs_on(node.id).next().is_some();
            node.scheduler.is_some() && (jobs || node.observed.as_ref().is_none_or(|seen| seen.busy))
        })
    }

    /// The driver's last word; none where it says nothing. Then a reset is the mildest that may help.
    fn advice(&self) -> Option<Recovery> {
        let advising = self.open_alerts().filter(|alert| alert.condition == fault_settle::ADVICE);
        let ids: Vec<AlertId> = advising.map(|alert| alert.id).collect();
        let episodes = self.state.episodes.values();
        episodes
            .filter(|episode| episode.alert.is_some_and(|id| ids.contains(&id)))
            .filter_map(|episode| episode.fields.recovery_to)
            .map(Recovery::from_advice)
            .max()
    }

    /// Nothing runs on the node, and nothing new comes.
    fn is_free(&self) -> bool {
        let closed =
            self.node().is_some_and(|node| node.scheduler.is_none() || containment::is_contained(node));
        closed && !self.is_busy()
    }

    /// What was asked for in the running attempt, with its result where there is one.
    fn intents(&self) -> impl Iterator<Item = (&'a Effect, Option<&'a EffectResult>)> {
        let record = self.record;
        let result = |seq| record.intents.get(seq).and_then(Option::as_ref);
        record.wanted.iter().map(move |(seq, effect)| (effect, result(seq)))
    }

    /// The agent's action of this step: the argument `action`, or the usual name.
    fn agent_action(&self, usual: &str) -> Vec<Effect> {
        self.agent_action_at(usual, self.run.gpu)
    }

    fn agent_action_at(&self, usual: &str, gpu: Option<u32>) -> Vec<Effect> {
        let name = self.step.with.get("action").map_or(usual, String::as_str);
        let Some(node) = self.node().filter(|node| node.actions.contains(name)) else { return Vec::new() };
        let pci = gpu.and_then(|gpu| node.gpus.get(&gpu)).map(|gpu| gpu.pci);
        vec![Effect::AgentAction { node: node.name.clone(), action: name.to_owned(), pci }]
    }

    /// How an action of the agent alone stands. Where the agent does not allow it, nothing was asked for.
    fn agent_progress(&self) -> Progress {
        match self.intents().next() {
            None => Progress::Failed { code: "not_configured".to_owned(), retry: false },
            Some((_, None)) => Progress::Wait { what: "agent", until: None },
            Some((_, Some(EffectResult::Done { observed, .. }))) => {
                Progress::Done { result: observed.clone() }
            }
            Some((_, Some(EffectResult::NotDone { code, retry }))) => {
                Progress::Failed { code: code.clone(), retry: *retry }
            }
            Some((_, Some(EffectResult::Unknown { code }))) => {
                Progress::Failed { code: code.clone(), retry: false }
            }
        }
    }
}

impl Facts for Context<'_> {
    fn slot_needs_spare(&self) -> bool {
        slot_bind_spare::needed(self)
    }

    fn node_has_jobs(&self) -> bool {
        self.run.node.is_some_and(|node| self.state.jobs_on(node).next().is_some())
    }

    fn node_has_bmc(&self) -> bool {
        self.node().is_some_and(|node| bmc::source(self.state, node) == Some(SourceState::Fresh))
    }

    fn fault_contained(&self) -> bool {
        let alerts: Vec<&Alert> = self.open_alerts().collect();
        let critical = alerts.iter().filter(|alert| alert.impact == Impact::Critical);
        let last = critical.map(|alert| alert.last_at).max();
        let keys =
            self.state.episodes.iter().filter(|(_, episode)| {
                episode.alert.is_some_and(|id| alerts.iter().any(|alert| alert.id == id))
            });
        let contained =
            |key: &EpisodeKey| last.is_some_and(|last| companion::is_contained(self.state, key, last));
        keys.map(|(key, _)| key).filter(|key| key.kind == SignalKind::Xid).any(contained)
    }

    fn fault_wants_reset(&self) -> bool {
        self.advice().is_none_or(is_a_reset)
    }

    fn fault_wants_restart(&self) -> bool {
        self.advice().is_none_or(|advice| is_a_reset(advice) || advice == Recovery::RebootNode)
    }
}

fn is_a_reset(advice: Recovery) -> bool {
    matches!(advice, Recovery::None | Recovery::ResetGpu | Recovery::DrainAndReset)
}

/// Nothing is decided.
fn nothing(_: &Context<'_>, _: &mut Decisions) {}

/// It may begin at once.
fn at_once(_: &Context<'_>) -> Option<(Timestamp, &'static str)> {
    None
}
