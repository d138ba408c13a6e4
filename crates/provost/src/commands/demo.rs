//! `provost demo`: the story of the simulated site, paced for people.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use provost_model::time::Timestamp;
use provost_server::{Attend, Live};
use provost_sim::demo::{Demo as Story, DemoOptions, Line};
use provost_sim::world::Scratch;

use super::local;
use crate::cli;
use crate::error::{Error, Exit};
use crate::output;

/// How often a demo that listens looks at what others ask for.
const PACE: Duration = Duration::from_millis(10);
/// What a demo at `--speed 0` lives at once: its story must come to an end, and be asked meanwhile.
const STRIDE: Duration = Duration::from_secs(60);

/// Tells the story line by line.
pub fn run(demo: &cli::Demo, data: Option<PathBuf>) -> Result<(), Error> {
    let options = DemoOptions { nodes: demo.nodes, seed: demo.seed, until: demo.until.map(|span| span.0) };
    if let Some(listen) = demo.listen {
        return attended(options, demo.speed, listen, data);
    }
    let story = match data {
        Some(dir) => {
            empty(&dir)?;
            Story::over(options, dir, None)
        }
        None => Story::new(options).map_err(|e| Error::chain(Exit::Failure, &e))?,
    };
    let begun = Instant::now();
    for line in story {
        let line = line.map_err(|e| Error::chain(Exit::Failure, &e))?;
        if demo.speed > 0 {
            let due = line.at / demo.speed;
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        tell(&line)?;
    }
    Ok(())
}

/// Tells the story to whoever looks, and lets them ask the site meanwhile and afterwards.
fn attended(
    options: DemoOptions,
    speed: u32,
    listen: SocketAddr,
    data: Option<PathBuf>,
) -> Result<(), Error> {
    let scratch = if data.is_none() { Some(Scratch::new()?) } else { None };
    let dir = scratch.as_ref().map(|scratch| scratch.path().to_owned()).or(data).unwrap_or_default();
    empty(&dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let told_to_end = signals(&runtime)?;
    let live = Live::default();
    let records = live.clone();
    let follow: provost_sim::world::Live = Box::new(move |committed| records.tell(committed));
    let mut story = Story::over(options, dir.clone(), Some(follow)).staying();
    // The controller starts with the first moment of the site.
    let first = story.advance_to(Duration::from_millis(1)).map_err(|e| Error::chain(Exit::Failure, &e))?;
    let clock = Arc::new(AtomicI64::new(story.now().as_millis()));
    let shown = Arc::clone(&clock);
    let attend = Attend {
        handle: story.handle().ok_or_else(|| Error::new(Exit::Failure, "the site did not begin"))?,
        live,
        data: dir.clone(),
        site: "demo".to_owned(),
        listen,
        now: Arc::new(move || Timestamp::from_millis(shown.load(Ordering::Relaxed))),
    };
    let attended =
        runtime.block_on(provost_server::attend(attend)).map_err(|e| Error::chain(Exit::Failure, &e))?;
    output::print(&format!(
        "ready {}; ask with: provost --data {} status\n",
        attended.server,
        dir.display()
    ))?;
    first.iter().try_for_each(tell)?;
    live_on(&mut story, speed, &clock, &told_to_end)
}

/// Keeps pace until the site ends or a person has seen enough.
fn live_on(
    story: &mut Story,
    speed: u32,
    clock: &AtomicI64,
    told_to_end: &Receiver<()>,
) -> Result<(), Error> {
    let (begun, at) = (Instant::now(), story.elapsed());
    while !story.is_over() {
        let due = if speed > 0 { at + begun.elapsed() * speed } else { story.elapsed() + STRIDE };
        for line in story.advance_to(due).map_err(|e| Error::chain(Exit::Failure, &e))? {
            tell(&line)?;
        }
        clock.store(story.now().as_millis(), Ordering::Relaxed);
        if told_to_end.recv_timeout(PACE) != Err(RecvTimeoutError::Timeout) {
            return story.stop().map_err(|e| Error::chain(Exit::Failure, &e));
        }
    }
    Ok(())
}

/// Gets a message, or is closed, when the process is told to end.
fn signals(runtime: &tokio::runtime::Runtime) -> Result<Receiver<()>, Error> {
    let (end, told_to_end) = sync_channel(1);
    let ended = runtime.block_on(async { local::termination() })?;
    runtime.spawn(async move {
        ended.await;
        // A second signal finds the message of the first.
        end.try_send(()).ok();
    });
    Ok(told_to_end)
}

/// A demo never writes where somebody has put something.
fn empty(dir: &Path) -> Result<(), Error> {
    match std::fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::new(Exit::Usage, format!("`{}` is not empty", dir.display()))
            .remedy("give the demo a folder of its own, or leave --data out")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => {
            Err(Error::new(Exit::Usage, format!("`{}` cannot be used", dir.display())).why(error.to_string()))
        }
    }
}

fn tell(line: &Line) -> Result<(), Error> {
    output::print(&format!("{}  {}\n", clock(line.at), line.text))
}

/// `mm:ss.t` since the beginning.
fn clock(at: Duration) -> String {
    let tenths = at.as_millis() / 100;
    format!("{:02}:{:02}.{}", tenths / 600, tenths / 10 % 60, tenths % 10)
}
