//! Whether a node may take work, told to its agent, which keeps it for the scheduler's prolog.
//!
//! It is level-triggered: what should be known is compared with what was told, after every record that may change
//! it and from time to time.

use std::collections::BTreeMap;

use provost_controller::Committed;
use provost_engine::state::{Hold, State};
use provost_model::body::Body;
use provost_model::policy::Mode;
use provost_model::response::HoldOwner;
use provost_wire::{Standing, ToAgent};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::{Agents, lock};

impl Agents {
    /// Tells agents what has changed, as long as records come.
    pub async fn follow(&self, mut live: Receiver<Committed>) {
        loop {
            match live.recv().await {
                Ok(committed) if !may_change(&committed.record.body) => {}
                Ok(_) | Err(RecvError::Lagged(_)) => self.tell_standings(),
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Tells each connected agent what it was not told yet.
    pub fn tell_standings(&self) {
        // The lock of State goes before that of the connections is taken: nobody waits for both.
        let refused = refused(&self.handle.state());
        for (node, agent) in lock(&self.connected).iter_mut() {
            let standing = Standing {
                may_work: !refused.contains_key(node),
                why: refused.get(node).cloned().unwrap_or_default(),
            };
            if agent.standing.as_ref() != Some(&standing) {
                let frame = ToAgent::Standing(standing.clone());
                // An agent that takes nothing is told again next time.
                agent.standing = agent.frames.try_send(frame).is_ok().then_some(standing);
            }
        }
    }
}

fn may_change(body: &Body) -> bool {
    matches!(body, Body::HoldPlaced(_) | Body::HoldReleased(_) | Body::ModeChanged(_))
}

/// The nodes that may take no work, and why. What somebody outside holds is the scheduler's own to know, and a prolog
/// that refused for it would be in that person's way.
fn refused(state: &State) -> BTreeMap<String, String> {
    let ours = state.holds.values().filter(|hold| !matches!(hold.owner, HoldOwner::External(_)));
    let mut ours: Vec<&Hold> = ours.collect();
    // Of several the incident's is told: it comes last and takes the others' place.
    ours.sort_by_key(|hold| matches!(hold.owner, HoldOwner::Incident(_)));
    ours.into_iter()
        .filter_map(|hold| {
            let node = state.nodes.get(&hold.node).filter(|node| state.mode_of(node) == Mode::Act)?;
            Some((node.name.clone(), why(hold)))
        })
        .collect()
}

/// As in Slurm's reason. What a person wrote stays out.
fn why(hold: &Hold) -> String {
    match &hold.owner {
        HoldOwner::Incident(number) => format!("provost {number}: {}", hold.reason),
        HoldOwner::Operator(_) => "provost: held by an operator".to_owned(),
        HoldOwner::Policy(_) => "provost: held by a policy".to_owned(),
        HoldOwner::Legal(_) => "provost: held for a legal matter".to_owned(),
        HoldOwner::External(_) => "held outside of provost".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use provost_engine::state::{History, Node, Reconcile};
    use provost_model::fleet::Phase;
    use provost_model::ids::IdSource;
    use provost_model::time::Timestamp;

    use super::*;

    fn node(ids: &mut IdSource, name: &str) -> Node {
        Node {
            id: ids.make(),
            name: name.to_owned(),
            serial: None,
            rack: None,
            leaf: None,
            scheduler: None,
            gpus: BTreeMap::new(),
            phase: Phase::InService,
            phase_since: Timestamp::from_millis(0),
            observed: None,
            observed_at: None,
            written_at: None,
            slot: None,
            spare: false,
            serves: None,
            bmc: None,
            bmc_asked_at: None,
            boot_id: None,
            actions: BTreeSet::new(),
            validated_at: None,
            history: History::default(),
            cleared_at: None,
            containment: Reconcile::default(),
        }
    }

    #[test]
    fn only_holds_of_ours_in_mode_act_refuse_work_and_no_name_is_told() {
        let check = |mode: Mode, owner: HoldOwner, expected: Option<&str>| {
            let (mut state, mut ids) = (State::new("hel-1"), IdSource::new("hel-1", 1));
            state.config.mode = mode;
            let (held, free) = (node(&mut ids, "gpu001"), node(&mut ids, "gpu002"));
            let id = ids.make();
            let (reason, since) = ("GPU 0 lost".to_owned(), Timestamp::from_millis(0));
            let hold = Hold { id, owner, node: held.id, gpu: None, reason, since, until: None };
            state.holds.insert(id, hold);
            state.nodes.extend([held, free].map(|node| (node.id, node)));
            let expected = expected.map(|why| ("gpu001".to_owned(), why.to_owned()));
            assert_eq!(refused(&state), expected.into_iter().collect());
        };
        let incident = || HoldOwner::Incident("INC-2026-000001".into());
        check(Mode::Act, incident(), Some("provost INC-2026-000001: GPU 0 lost"));
        check(Mode::Observe, incident(), None);
        check(Mode::Advise, incident(), None);
        check(Mode::Act, HoldOwner::Operator("alice".into()), Some("provost: held by an operator"));
        check(Mode::Act, HoldOwner::Policy("x".into()), Some("provost: held by a policy"));
        check(Mode::Act, HoldOwner::Legal("x".into()), Some("provost: held for a legal matter"));
        check(Mode::Act, HoldOwner::External("slurm:main".into()), None);
    }
}
