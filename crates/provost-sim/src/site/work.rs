//! What people ask of the site: jobs of four tiers, one after the other.

use std::time::Duration;

use provost_model::scheduler::Tier;

use super::layout::{BATCH, GPUS, Layout, SERVING};
use super::queue::Request;
use crate::draw::Draw;

/// Draws jobs.
#[derive(Debug)]
pub struct Work {
    draw: Draw,
    largest: u32,
}

const PROJECTS: [&str; 4] = ["atlas", "borealis", "clinic", "delta"];

impl Work {
    /// The work of a site.
    pub fn new(draw: Draw, layout: &Layout) -> Work {
        Work { draw, largest: (layout.nodes / 8).clamp(1, 8) }
    }

    /// How long until somebody submits again.
    pub fn pause(&mut self) -> Duration {
        self.draw.millis(2_000, 12_000)
    }

    /// The next job.
    pub fn request(&mut self) -> Request {
        let draw = &mut self.draw;
        let project = draw.pick(&PROJECTS).copied().unwrap_or("atlas").to_owned();
        let (tier, nodes, gpus, seconds) = match draw.below(10) {
            0 => (Tier::Serving, 1, 4, (600, 3_600)),
            1 | 2 => (Tier::Interactive, 1, 1 + draw.below(2), (20, 200)),
            3 | 4 => (Tier::Scavenger, 1, 1 + draw.below(4), (10, 90)),
            _ => (Tier::Batch, 1 + draw.below(u64::from(self.largest)), u64::from(GPUS), (30, 300)),
        };
        Request {
            project,
            tier,
            partition: if tier == Tier::Serving { SERVING } else { BATCH }.to_owned(),
            nodes: u32::try_from(nodes).unwrap_or(1),
            gpus: u32::try_from(gpus).unwrap_or(1),
            requeue: !draw.chance(15),
            pinned: Vec::new(),
            run_for: draw.between(Duration::from_secs(seconds.0), Duration::from_secs(seconds.1)),
        }
    }
}
