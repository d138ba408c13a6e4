//! What goes wrong, and how one seed draws it.

use std::time::Duration;

use provost_model::input::Action;
use provost_model::policy::Role;

use crate::draw::Draw;
use crate::site::layout::{GPUS, Layout};
use crate::world::Mood;

/// How reliable messages are; in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// Results, orders and answers that never arrive.
    pub lost: u64,
    /// Results, orders and batches of signals that arrive twice.
    pub doubled: u64,
    /// Writes that are refused for no good reason, and actions that hang.
    pub refused: u64,
    /// Calls and batches that take seconds.
    pub slow: u64,
}

impl Weather {
    /// Everything arrives, once and soon.
    pub const CALM: Weather = Weather { lost: 0, doubled: 0, refused: 0, slow: 0 };
}

/// One thing that goes wrong, or is mended.
#[derive(Clone, Debug)]
pub enum Fault {
    /// A GPU falls off the bus, with Xid 79 or with the lines that have no code (case B01).
    GpuLost {
        /// Node.
        node: String,
        /// GPU.
        gpu: u32,
        /// Without a code.
        lines: bool,
    },
    /// As with Xid 79, and the job on it hangs until somebody ends it.
    HangingGpu {
        /// Node.
        node: String,
        /// GPU.
        gpu: u32,
    },
    /// A GPU breaks with another code.
    Xid {
        /// Node.
        node: String,
        /// GPU.
        gpu: u32,
        /// Code.
        code: u32,
    },
    /// Programs end badly on healthy GPUs (case B04).
    Storm {
        /// Nodes.
        nodes: Vec<String>,
        /// Code.
        code: u32,
        /// Lines on each node.
        lines: u32,
    },
    /// An agent is cut off.
    AgentGone(String),
    /// It comes back.
    AgentBack(String),
    /// An agent's clock is ahead.
    Skew {
        /// Node.
        node: String,
        /// By so many milliseconds; behind, where negative.
        millis: i64,
    },
    /// A machine is off: no agent, and soon the scheduler sees it too.
    NodeDead(String),
    /// The scheduler gives it up.
    NodeDown(String),
    /// It is on again.
    NodeAlive(String),
    /// Somebody has repaired it.
    Repair(String),
    /// slurmctld does not answer.
    SchedulerAway,
    /// It does again.
    SchedulerBack,
    /// `scontrol reconfigure`.
    Reconfigure,
    /// Nodes have registered again after it.
    Reregister,
    /// Somebody drains a node by hand.
    ForeignDrain {
        /// Node.
        node: String,
        /// Their words.
        reason: String,
    },
    /// They take their drain back.
    ForeignResume(String),
    /// Somebody resumes a node that they did not drain.
    Undo(String),
    /// Messages become so reliable.
    Weather(Weather),
    /// People become so.
    Mood(Mood),
    /// The controller ends at once.
    Crash {
        /// It is away for so long.
        away: Duration,
    },
    /// The controller ends after the next commit that asks for something, before anything of it is begun.
    CrashBeforeEffect {
        /// It is away for so long.
        away: Duration,
    },
    /// A person asks for something.
    Ask {
        /// As.
        role: Role,
        /// What.
        action: Action,
    },
    /// Everything is mended that people and machines can mend.
    Calm,
}

/// What happens in one seed, with the time since the beginning.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Faults in no particular order.
    pub faults: Vec<(Duration, Fault)>,
    /// When everything is mended.
    pub calm: Duration,
}

/// Faults begin after this time: the site has work then.
const FIRST: Duration = Duration::from_secs(20);
/// And before this.
const LAST: Duration = Duration::from_secs(300);
/// Everything is mended then.
const CALM: Duration = Duration::from_secs(400);

/// Codes of a GPU that a reset brings back: memory, its processors, its links, a row that waits.
const RESETS: [u32; 7] = [95, 64, 48, 63, 119, 74, 167];

struct Drawing<'a> {
    draw: Draw,
    names: Vec<String>,
    faults: &'a mut Vec<(Duration, Fault)>,
}

impl Plan {
    /// Draws the faults of a seed.
    pub fn draw(draw: &Draw, layout: &Layout) -> Plan {
        let mut faults = Vec::new();
        let mut drawing = Drawing { draw: draw.child("faults"), names: layout.names(), faults: &mut faults };
        drawing.conditions();
        for _ in 0..2 + drawing.draw.below(6) {
            drawing.one();
        }
        faults.push((CALM, Fault::Calm));
        Plan { faults, calm: CALM }
    }
}

impl Drawing<'_> {
    fn push(&mut self, at: Duration, fault: Fault) {
        self.faults.push((at, fault));
    }

    fn node(&mut self) -> String {
        self.draw.pick(&self.names).cloned().unwrap_or_default()
    }

    fn time(&mut self) -> Duration {
        self.draw.between(FIRST, LAST)
    }

    fn length(&mut self) -> Duration {
        self.draw.millis(1_000, 60_000)
    }

    /// How messages, people and clocks are in this seed.
    fn conditions(&mut self) {
        if self.draw.chance(40) {
            let draw = &mut self.draw;
            let weather = Weather {
                lost: draw.below(15),
                doubled: draw.below(20),
                refused: draw.below(15),
                slow: draw.below(20),
            };
            self.push(Duration::from_secs(2), Fault::Weather(weather));
        }
        let mood = match self.draw.below(4) {
            0 => Mood::AWAY,
            1 => Mood { wrong: 50, ..Mood::HELPFUL },
            2 => {
                let (pauses, aborts) = (self.draw.below(20), self.draw.below(8));
                let after = self.draw.millis(1_000, 40_000);
                Mood { answers_after: Some(after), wrong: 10, pauses, aborts }
            }
            _ => Mood::HELPFUL,
        };
        self.push(Duration::ZERO, Fault::Mood(mood));
        if self.draw.chance(30) {
            let (node, millis) =
                (self.node(), i64::try_from(self.draw.below(240_000)).unwrap_or(0) - 120_000);
            self.push(Duration::ZERO, Fault::Skew { node, millis });
        }
    }

    fn one(&mut self) {
        let (at, node) = (self.time(), self.node());
        let gpu = u32::try_from(self.draw.below(u64::from(GPUS))).unwrap_or(0);
        match self.draw.below(17) {
            0..=3 => {
                let lines = self.draw.chance(30);
                self.push(at, Fault::GpuLost { node: node.clone(), gpu, lines });
                self.around(at, &node);
            }
            4 => {
                let code = self.draw.pick(&RESETS).copied().unwrap_or(95);
                self.push(at, Fault::Xid { node, gpu, code });
            }
            5 | 6 => self.storm(at),
            7 => self.pair(at, Fault::AgentGone(node.clone()), Fault::AgentBack(node)),
            8 => self.dead(at, node),
            9 => self.pair(at, Fault::SchedulerAway, Fault::SchedulerBack),
            10 => self.push(at, Fault::Reconfigure),
            11 => self.foreign(at, node),
            12 => self.push(at, Fault::Undo(node)),
            13 => {
                let away = self.draw.millis(300, 15_000);
                self.push(at, Fault::Crash { away });
            }
            14 => {
                let away = self.draw.millis(300, 5_000);
                self.push(at, Fault::CrashBeforeEffect { away });
            }
            15 => {
                let ask = |action| Fault::Ask { role: Role::Admin, action };
                self.pair(at, ask(Action::GuardStop), ask(Action::GuardStart));
            }
            _ => {
                let ask = |action| Fault::Ask { role: Role::Operator, action };
                let (first, last) = (Action::NodeDrain { node: node.clone() }, Action::NodeResume { node });
                self.pair(at, ask(first), ask(last));
            }
        }
    }

    /// Trouble that comes close to a fault, where it matters most.
    fn around(&mut self, at: Duration, node: &str) {
        let close = at + self.draw.millis(0, 8_000);
        let away = self.draw.millis(300, 4_000);
        match self.draw.below(8) {
            0 => self.push(at, Fault::CrashBeforeEffect { away }),
            1 => self.push(close, Fault::Crash { away }),
            2 => self.foreign(close, node.to_owned()),
            3 => self.foreign(at.saturating_sub(Duration::from_secs(10)), node.to_owned()),
            4 => self.pair(close, Fault::SchedulerAway, Fault::SchedulerBack),
            5 => self.push(close, Fault::Undo(node.to_owned())),
            _ => {}
        }
    }

    fn pair(&mut self, at: Duration, first: Fault, last: Fault) {
        let length = self.length();
        self.push(at, first);
        self.push(at + length, last);
    }

    fn storm(&mut self, at: Duration) {
        let mut nodes = self.names.clone();
        self.draw.shuffle(&mut nodes);
        nodes.truncate(1 + self.draw.index(self.names.len()));
        let code = self.draw.pick(&[13, 31, 43, 45]).copied().unwrap_or(45);
        let lines = u32::try_from(1 + self.draw.below(40)).unwrap_or(1);
        self.push(at, Fault::Storm { nodes, code, lines });
    }

    fn dead(&mut self, at: Duration, node: String) {
        let length = self.length();
        self.push(at, Fault::NodeDead(node.clone()));
        self.push(at + Duration::from_secs(16), Fault::NodeDown(node.clone()));
        self.push(at + length, Fault::NodeAlive(node));
    }

    /// A drain by hand; every third stays for good.
    fn foreign(&mut self, at: Duration, node: String) {
        let length = self.length();
        self.push(at, Fault::ForeignDrain { node: node.clone(), reason: "dimm".to_owned() });
        if self.draw.chance(66) {
            self.push(at + length, Fault::ForeignResume(node));
        }
    }
}
