//! How faults strike, and what is remembered of them: checkers must not ask for what trouble made impossible.

use std::collections::BTreeMap;
use std::time::Duration;

use provost_controller::Clock as _;
use provost_model::input::Action;
use provost_model::policy::Role;
use provost_model::time::Timestamp;

use super::World;
use super::agenda::Event;
use crate::faults::Fault;
use crate::site::{Damage, kernel, layout};

/// The user under whose name people of the site drain nodes behind our back.
pub const FOREIGN_USER: &str = "alice";

/// A drain that somebody outside has set and not taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Their words.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
}

/// What troubled the site, and when last.
#[derive(Debug, Default)]
pub struct Trouble {
    site: Timestamp,
    nodes: BTreeMap<String, Timestamp>,
    /// Drains of somebody outside that must stay, by node.
    pub foreign: BTreeMap<String, Foreign>,
    /// GPUs that were broken at any time, by node: nodes without an entry are healthy and must not be isolated.
    pub damaged: BTreeMap<String, Timestamp>,
    /// The next time that work is handed out, the controller ends before it is begun, for so long.
    pub(super) crash_before_effect: Option<Duration>,
}

impl Trouble {
    /// When something last kept anybody from acting on this node in time.
    pub fn last(&self, node: &str) -> Timestamp {
        self.nodes.get(node).copied().unwrap_or_default().max(self.site)
    }
}

impl World {
    /// Something on the whole site kept somebody from acting.
    pub(super) fn troubled(&mut self) {
        self.trouble.site = self.clock.now();
    }

    /// Something on one node kept somebody from acting; on the site, where no node is named.
    pub(super) fn troubled_at(&mut self, node: Option<&String>) {
        match node {
            Some(node) => drop(self.trouble.nodes.insert(node.clone(), self.clock.now())),
            None => self.troubled(),
        }
    }

    /// Lets a fault happen now.
    pub fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::GpuLost { node, gpu, lines } => {
                let now = self.clock.now();
                self.damage_and_fail(&node, gpu, Damage::Dead);
                let signal =
                    if lines { kernel::gpu_lost(&node, gpu, now) } else { kernel::xid(&node, gpu, 79, now) };
                self.kernel(&node, vec![signal]);
            }
            Fault::HangingGpu { node, gpu } => {
                self.damage(&node, gpu, Damage::Dead);
                self.kernel(&node, vec![kernel::xid(&node, gpu, 79, self.clock.now())]);
            }
            Fault::Xid { node, gpu, code } => {
                self.damage_and_fail(&node, gpu, Damage::Stuck);
                self.kernel(&node, vec![kernel::xid(&node, gpu, code, self.clock.now())]);
            }
            Fault::Storm { nodes, code, lines } => self.storm(&nodes, code, lines),
            Fault::AgentGone(node) => self.connect(&node, false),
            Fault::AgentBack(node) => self.connect(&node, true),
            Fault::Skew { node, millis } => {
                if let Some(agent) = self.site.agents.get_mut(&node) {
                    agent.skew_ms = millis;
                }
            }
            Fault::NodeDead(node) => {
                self.connect(&node, false);
                self.site.slurm.set_responding(&node, false);
            }
            Fault::NodeDown(node) => self.site.slurm.set_down(self.clock.now(), &node),
            Fault::NodeAlive(node) => {
                self.site.slurm.set_responding(&node, true);
                self.connect(&node, true);
            }
            Fault::Repair(node) => self.site.repair(&node),
            other => self.strike_scheduler(other),
        }
    }

    fn strike_scheduler(&mut self, fault: Fault) {
        let now = self.clock.now();
        self.troubled();
        match fault {
            Fault::SchedulerAway => self.site.slurm.away = true,
            Fault::SchedulerBack => self.site.slurm.away = false,
            Fault::Reconfigure => {
                self.site.slurm.reconfigure();
                self.agenda.at(now + Duration::from_secs(2), Event::Fault(Fault::Reregister));
            }
            Fault::Reregister => {
                for node in self.site.layout.names() {
                    // A node whose machine is off does not come back by this.
                    if self.site.agents.get(&node).is_some_and(|agent| agent.connected) {
                        self.site.slurm.set_responding(&node, true);
                    }
                }
            }
            // The tools of people need the scheduler as well.
            Fault::ForeignDrain { .. } | Fault::ForeignResume(_) | Fault::Undo(_) if self.site.slurm.away => {
            }
            Fault::ForeignDrain { node, reason } => {
                self.site.slurm.drain(now, &node, FOREIGN_USER, &reason);
                self.trouble.foreign.insert(node, Foreign { reason, since: now });
            }
            Fault::ForeignResume(node) => {
                if self.trouble.foreign.remove(&node).is_some() {
                    self.site.slurm.resume(now, &node, FOREIGN_USER);
                }
            }
            // Somebody resumes a node that we hold, or nobody does; their own drain they would know of.
            Fault::Undo(node) => {
                if !self.trouble.foreign.contains_key(&node) {
                    self.site.slurm.resume(now, &node, FOREIGN_USER);
                }
            }
            other => self.strike_controller(other),
        }
    }

    fn strike_controller(&mut self, fault: Fault) {
        match fault {
            Fault::Weather(weather) => self.set_weather(weather),
            Fault::Mood(mood) => self.set_mood(mood),
            Fault::Crash { away } => self.crash(away),
            Fault::CrashBeforeEffect { away } => self.trouble.crash_before_effect = Some(away),
            Fault::Ask { role, action } => self.ask(role, action),
            Fault::Calm => self.calm(),
            _ => {}
        }
    }

    fn damage(&mut self, node: &str, gpu: u32, damage: Damage) {
        let now = self.clock.now();
        self.site.damage(node, gpu, damage);
        self.trouble.damaged.insert(node.to_owned(), now);
    }

    /// A job on a broken GPU fails sooner or later, or hangs until somebody ends it.
    fn damage_and_fail(&mut self, node: &str, gpu: u32, damage: Damage) {
        let now = self.clock.now();
        self.damage(node, gpu, damage);
        if self.chance.chance(50) {
            let wait = self.chance.millis(500, 40_000);
            self.agenda.at(now + wait, Event::JobDies { node: node.to_owned(), gpu });
        }
    }

    /// Programs on these nodes end badly: many lines, healthy GPUs.
    fn storm(&mut self, nodes: &[String], code: u32, lines: u32) {
        let now = self.clock.now();
        for node in nodes {
            let signals = (0..lines).map(|i| kernel::xid(node, i % layout::GPUS, code, now)).collect();
            self.kernel(node, signals);
        }
    }

    /// Everything that was disturbed is as it should be again, and people do what waits for them. What somebody
    /// outside has drained stays drained.
    fn calm(&mut self) {
        self.set_weather(crate::faults::Weather::CALM);
        self.set_mood(super::Mood::HELPFUL);
        self.site.slurm.away = false;
        self.trouble.crash_before_effect = None;
        for node in self.site.layout.names() {
            self.site.slurm.set_responding(&node, true);
            let gone = self.site.agents.get(&node).is_some_and(|agent| !agent.connected);
            if gone {
                self.connect(&node, true);
            }
        }
        self.ask(Role::Admin, Action::GuardStart);
    }
}
