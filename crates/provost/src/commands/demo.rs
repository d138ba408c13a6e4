//! `provost demo`: the story of the simulated site, paced for people.

use std::time::{Duration, Instant};

use provost_sim::demo::{Demo as Story, DemoOptions};

use crate::cli;
use crate::error::{Error, Exit};
use crate::output;

/// Tells the story line by line.
pub fn run(demo: &cli::Demo) -> Result<(), Error> {
    let options = DemoOptions { nodes: demo.nodes, seed: demo.seed, until: demo.until.map(|span| span.0) };
    let story = Story::new(options).map_err(|e| Error::chain(Exit::Failure, &e))?;
    let begun = Instant::now();
    for line in story {
        let line = line.map_err(|e| Error::chain(Exit::Failure, &e))?;
        if demo.speed > 0 {
            let due = line.at / demo.speed;
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        output::print(&format!("{}  {}\n", clock(line.at), line.text))?;
    }
    Ok(())
}

/// `mm:ss.t` since the beginning.
fn clock(at: Duration) -> String {
    let tenths = at.as_millis() / 100;
    format!("{:02}:{:02}.{}", tenths / 600, tenths / 10 % 60, tenths % 10)
}
