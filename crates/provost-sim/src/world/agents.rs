//! Agents and the controller: signals, orders, presence.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use provost_controller::{Clock as _, Message};
use provost_engine::Outstanding;
use provost_model::body::{Source, SourceState};
use provost_model::effect::{Approach, Effect, EffectResult};
use provost_model::input::{AgentReport, Input};
use provost_model::signal::Signal;
use provost_model::time::Timestamp;
use provost_wire::Order;

use super::World;
use super::agenda::{Event, LifeEvent};
use crate::site::adapter;
use crate::site::agent::{ACTIONS, Taken};

impl World {
    /// The kernel of a node writes these lines now, by the node's own clock.
    pub fn kernel(&mut self, node: &str, mut signals: Vec<Signal>) {
        let now = self.clock.now();
        let Some(agent) = self.site.agents.get_mut(node) else { return };
        for signal in &mut signals {
            signal.at = Timestamp::from_millis(signal.at.as_millis() + agent.skew_ms);
        }
        agent.spool.push_back(signals);
        let late = self.chance.chance(self.weather.slow);
        let wait = if late { self.chance.millis(200, 3_000) } else { self.chance.millis(1, 5) };
        self.agenda.at(now + wait, Event::AgentSends(node.to_owned()));
    }

    /// An agent sends its oldest batch, one at a time, and keeps it until it is acknowledged.
    pub(super) fn agent_sends(&mut self, node: &str) {
        if self.controller.is_none() || self.sending.contains_key(node) {
            return;
        }
        let Some(agent) = self.site.agents.get(node).filter(|agent| agent.connected) else { return };
        let Some(signals) = agent.spool.front().cloned() else { return };
        let acked = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&acked);
        self.sending.insert(node.to_owned(), acked);
        self.deliver(Message::Signals {
            signals,
            ack: Box::new(move || told.store(true, Ordering::Relaxed)),
        });
    }

    /// Agents forget what was acknowledged; an acknowledgement may get lost, and then the batch comes again.
    pub(super) fn take_acks(&mut self) {
        let acked: Vec<String> = self
            .sending
            .iter()
            .filter(|(_, acked)| acked.load(Ordering::Relaxed))
            .map(|(node, _)| node.clone())
            .collect();
        for node in acked {
            self.sending.remove(&node);
            let lost = self.chance.chance(self.weather.doubled);
            let Some(agent) = self.site.agents.get_mut(&node) else { continue };
            if !lost {
                agent.spool.pop_front();
            }
            if !agent.spool.is_empty() {
                self.agenda.at(self.clock.now() + Duration::from_millis(2), Event::AgentSends(node));
            }
        }
    }

    /// An agent connects: it tells about itself, is heard, and sends what it has.
    pub(super) fn hello(&mut self, node: &str) {
        let epoch = self.controller.as_ref().map_or(0, |controller| controller.state().epoch);
        let facts = self.config.inventory.iter().find(|facts| facts.name == node);
        let gpus = facts.map(|facts| facts.gpus.clone());
        let Some(agent) = self.site.agents.get_mut(node).filter(|agent| agent.connected) else { return };
        agent.hear_of(epoch);
        let report = AgentReport {
            node: node.to_owned(),
            boot_id: agent.boot_id.clone().or_else(|| Some(format!("boot-{node}"))),
            actions: ACTIONS.map(str::to_owned).into_iter().collect::<BTreeSet<_>>(),
            gpus,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        self.sending.remove(node);
        self.deliver(Message::Input(Input::AgentReport(Box::new(report))));
        self.tell_presence(node, SourceState::Fresh);
        self.agenda.at(self.clock.now() + Duration::from_millis(1), Event::AgentSends(node.to_owned()));
    }

    /// Nothing came from an agent for long enough.
    pub(super) fn agent_missed(&mut self, node: &str) {
        if self.site.agents.get(node).is_some_and(|agent| !agent.connected) {
            self.tell_presence(node, SourceState::Silent);
        }
    }

    /// Something reaches the controller that no part of the site makes by itself.
    pub fn tell(&mut self, input: Input) {
        self.deliver(Message::Input(input));
    }

    /// The scheduler is read soon, whatever was planned.
    pub fn poll_soon(&mut self) {
        self.hint(Duration::from_millis(100));
    }

    /// A node has started anew; its agent tells so when it connects.
    pub fn boot(&mut self, node: &str, boot_id: &str) {
        if let Some(agent) = self.site.agents.get_mut(node) {
            agent.boot_id = Some(boot_id.to_owned());
        }
    }

    fn tell_presence(&mut self, node: &str, state: SourceState) {
        self.deliver(Message::Input(Input::Source { source: Source::Agent(node.to_owned()), state }));
    }

    /// Cuts an agent off, or lets it come back.
    pub(super) fn connect(&mut self, node: &str, connected: bool) {
        let now = self.clock.now();
        let restarts = self.chance.chance(50);
        self.troubled();
        let Some(agent) = self.site.agents.get_mut(node) else { return };
        agent.connected = connected;
        if connected {
            if restarts {
                agent.restart();
            }
            self.of_life(Duration::from_millis(50), LifeEvent::Hello(node.to_owned()));
        } else {
            self.sending.remove(node);
            let silent_after = self.config.timers.silent_after.0;
            self.agenda.at(now + silent_after, Event::AgentMissed(node.to_owned()));
        }
    }

    /// Sends an order to its agent; one whose agent is away is answered here.
    pub(super) fn order(&mut self, work: Outstanding, wait: Duration) {
        let Effect::AgentAction { node, action, pci } = work.effect else { return };
        if self.site.agents.get(&node).is_none_or(|agent| !agent.connected) {
            let result = match work.approach {
                Approach::Act => adapter::not_done("agent_away", true),
                Approach::Probe => adapter::unknown("agent_away"),
            };
            self.of_life(wait, LifeEvent::Result(work.intent, result));
            return;
        }
        let order = Order {
            intent: work.intent,
            epoch: work.epoch,
            approach: work.approach,
            action,
            node,
            pci,
            expires_at: work.deadline,
        };
        if self.chance.chance(self.weather.lost) {
            return;
        }
        self.of_life(wait, LifeEvent::Order(Box::new(order)));
    }

    pub(super) fn order_arrives(&mut self, order: Box<Order>) {
        let now = self.clock.now();
        let twice = self.chance.chance(self.weather.doubled);
        let takes = self.chance.millis(100, 2_000);
        let hangs = self.chance.chance(self.weather.refused);
        let Some(agent) = self.site.agents.get_mut(&order.node).filter(|agent| agent.connected) else {
            return;
        };
        if twice {
            // The copy of a frame: whatever the agent makes of it, it must not act twice.
            agent.take(&order, now);
        }
        let taken = match agent.take(&order, now) {
            Taken::Busy if twice => Taken::Starts,
            taken => taken,
        };
        match taken {
            Taken::Answer(result) => self.answer(&order, result),
            Taken::Starts if hangs => {
                let late = now + Duration::from_secs(20);
                self.agenda.at(late, Event::OrderEnds(order, adapter::unknown("timeout")));
            }
            Taken::Starts => {
                self.site.act(&order, now);
                let result = self.site.outcome(&order);
                self.agenda.at(now + takes, Event::OrderEnds(order, result));
            }
            Taken::Busy => {}
        }
    }

    pub(super) fn order_ends(&mut self, order: &Order, result: EffectResult) {
        let Some(agent) = self.site.agents.get_mut(&order.node) else { return };
        if agent.is_running(order.intent) {
            agent.ended(order.intent, &result);
            self.answer(order, result);
        }
    }

    /// An agent's answer, over whatever connection there is.
    fn answer(&mut self, order: &Order, result: EffectResult) {
        let connected = self.site.agents.get(&order.node).is_some_and(|agent| agent.connected);
        if connected && !self.chance.chance(self.weather.lost) {
            let wait = self.chance.millis(1, 20);
            self.of_life(wait, LifeEvent::Result(order.intent, result));
        }
    }
}
