//! What happens in the story, and when. The site is full, so that the job that lost its GPU needs the spare.

use std::collections::BTreeMap;
use std::time::Duration;

use provost_model::policy::{EngineConfig, GovernorLimits, Timers};
use provost_model::scheduler::{JobState, Tier};
use provost_model::time::Span;

use crate::draw::Draw;
use crate::faults::Fault;
use crate::site::layout::{BATCH, BEGIN, GPUS, Layout, SERVING};
use crate::site::queue::Request;
use crate::world::{Event, Mood, World};

/// Slurm's own default: a requeued job starts only when its credential has expired.
pub(super) const CRED_EXPIRE: Duration = Duration::from_secs(120);
/// The technician needs three minutes to the rack and back.
pub(super) const MOOD: Mood = Mood { answers_after: Some(Duration::from_secs(180)), ..Mood::AWAY };

const FAULT: Duration = Duration::from_secs(20);
const STORM: Duration = Duration::from_secs(75);
const STORM_NODES: usize = 20;
/// The job that is hit runs for so long, each time from its start.
const TRAINING: Duration = Duration::from_secs(220);

/// The controller's configuration: the defaults, with waits of minutes where they are hours.
pub(super) fn config(layout: &Layout) -> EngineConfig {
    let seconds = |s| Span(Duration::from_secs(s));
    EngineConfig {
        site: "demo".to_owned(),
        timers: Timers {
            clear_hold: seconds(30),
            resolve_hold: seconds(60),
            soak: seconds(60),
            probation: seconds(180),
            ..Timers::default()
        },
        governor: GovernorLimits::default(),
        ..layout.config()
    }
}

/// The story as far as it has come.
pub(super) struct Story {
    draw: Draw,
    layout: Layout,
    training: Option<u32>,
    victim: Option<String>,
    stormed: bool,
    next_small: Duration,
}

impl Story {
    /// Puts the first jobs into the queue: services, the job that will be hit, and other training up to the brim.
    pub(super) fn new(seed: u64, layout: Layout, world: &mut World) -> Story {
        let mut draw = Draw::root(seed).child("story");
        let serving = (layout.nodes / 8).max(1);
        let long = Duration::from_secs(7_200);
        for _ in 0..serving {
            world.site.slurm.queue.submit(BEGIN, request(Tier::Serving, SERVING, 1, 6, long));
        }
        let size = (layout.nodes / 16).clamp(2, 4);
        let training = request(Tier::Batch, BATCH, size, GPUS, TRAINING);
        let training = world.site.slurm.queue.submit(BEGIN, training);
        let mut left = layout.nodes.saturating_sub(serving + size);
        while left > 0 {
            let nodes = u32::try_from(2 + draw.below(7)).unwrap_or(2).min(left);
            world.site.slurm.queue.submit(BEGIN, request(Tier::Batch, BATCH, nodes, GPUS, long));
            left -= nodes;
        }
        Story {
            draw,
            layout,
            training: Some(training),
            victim: None,
            stormed: false,
            next_small: Duration::from_secs(2),
        }
    }

    /// The node that lost its GPU.
    pub(super) fn victim(&self) -> Option<&str> {
        self.victim.as_deref()
    }

    /// Everything that was planned has happened.
    pub(super) fn is_played(&self) -> bool {
        self.victim.is_some() && self.stormed && self.training.is_none()
    }

    /// Lets happen what is due.
    pub(super) fn go_on(&mut self, world: &mut World) {
        let now = world.elapsed();
        if self.victim.is_none() && now >= FAULT {
            self.strike(world);
        }
        if !self.stormed && now >= STORM {
            self.storm(world);
        }
        if now >= self.next_small {
            self.small(world, now);
        }
        let ended = |id: u32| world.site.slurm.queue.job(id).is_none_or(|job| job.state.ended());
        if self.training.is_some_and(ended) {
            self.training = None;
        }
    }

    /// A GPU under the training job falls off the bus. The job hangs, as jobs do that wait for each other.
    fn strike(&mut self, world: &mut World) {
        let on: Vec<String> = self
            .training
            .and_then(|id| world.site.slurm.queue.job(id))
            .filter(|job| job.state == JobState::Running)
            .map(|job| job.on.keys().cloned().collect())
            .unwrap_or_default();
        let Some(node) = self.draw.pick(&on).cloned() else { return };
        let gpu = u32::try_from(self.draw.below(u64::from(GPUS))).unwrap_or(0);
        world.strike(Fault::HangingGpu { node: node.clone(), gpu });
        self.victim = Some(node);
    }

    /// Many programs end at once on healthy nodes, and each GPU writes several lines about it.
    fn storm(&mut self, world: &mut World) {
        self.stormed = true;
        let victim = self.victim.clone();
        let busy = |name: &String| {
            Some(name) != victim.as_ref()
                && world.site.slurm.node(name).is_some_and(|node| node.used.len() == 8)
        };
        let mut nodes: Vec<String> = self.layout.production().into_iter().filter(busy).collect();
        self.draw.shuffle(&mut nodes);
        nodes.truncate(STORM_NODES);
        world.strike(Fault::Storm { nodes, code: 45, lines: 40 });
    }

    /// A small job comes; the services leave room for it.
    fn small(&mut self, world: &mut World, now: Duration) {
        let tier = if self.draw.chance(50) { Tier::Interactive } else { Tier::Scavenger };
        let length = self.draw.between(Duration::from_secs(20), Duration::from_secs(90));
        world.plan(now, Event::Submit(Box::new(request(tier, BATCH, 1, 1, length))));
        self.next_small = now + self.draw.millis(8_000, 20_000);
    }
}

fn request(tier: Tier, partition: &str, nodes: u32, gpus: u32, run_for: Duration) -> Request {
    Request {
        project: match tier {
            Tier::Serving => "clinic",
            Tier::Interactive => "borealis",
            Tier::Batch => "atlas",
            Tier::Scavenger => "delta",
        }
        .to_owned(),
        tier,
        partition: partition.to_owned(),
        nodes,
        gpus,
        requeue: true,
        pinned: Vec::new(),
        run_for,
    }
}

/// Counts of things by tier, highest first: `8 serving, 2 interactive`.
pub(super) fn by_tier(counts: &BTreeMap<Tier, usize>) -> String {
    let name = |tier: &Tier| match tier {
        Tier::Serving => "serving",
        Tier::Interactive => "interactive",
        Tier::Batch => "batch",
        Tier::Scavenger => "scavenger",
    };
    let parts: Vec<String> =
        counts.iter().rev().map(|(tier, count)| format!("{count} {}", name(tier))).collect();
    parts.join(", ")
}
