//! How many signals a second the inbox takes, each of them an episode of its own that is durable when its agent
//! hears of it.
//!
//! A whole controller over a journal on disk; a generator in a thread of its own sends batches as agents do and
//! waits for their acknowledgements. What the generator itself costs is told apart: on two cores it takes a part
//! of the machine that a real site's agents do not.
//!
//! `inbox_bench [SECONDS] [ROUNDS] [DIR]`

mod support;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use provost_controller::{Handle, Message};
use support::{Folder, open, signal, site};

/// Signals in a batch of an agent.
const BATCH: u64 = 64;
/// Batches that wait for their acknowledgement, over all agents.
const IN_FLIGHT: usize = 256;
const TARGET: u32 = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let folder = Folder::new(arguments.next().as_deref(), "inbox")?;
    let controller = open(folder.path(), &mut |_| ())?;
    let handle = controller.handle();
    let running = std::thread::Builder::new().name("controller".to_owned()).spawn(|| controller.run())?;
    for input in site() {
        handle.send(Message::Input(input))?;
    }
    let mut generator = Generator { handle: handle.clone(), next: 0 };
    // Until the merger and the episodes are as full as they get.
    generator.run(Duration::from_secs(seconds.min(5)))?;
    let mut all = Vec::new();
    for _ in 0..rounds {
        all.push(generator.run(Duration::from_secs(seconds))?);
    }
    all.sort_by(|a, b| a.signals.total_cmp(&b.signals));
    let median = &all[all.len() / 2];
    println!(
        "bench: signals_per_s={:.0} records_per_signal={:.3} signals_per_commit={:.0} \
         generator_cpu_percent={:.0} process_cpu_percent={:.0} rounds={rounds} target={TARGET}",
        median.signals,
        median.records_per_signal,
        median.signals_per_commit,
        median.generator,
        median.process,
    );
    handle.send(Message::Stop)?;
    running.join().map_err(|_| "the controller panicked")??;
    Ok(())
}

/// One round.
struct Round {
    /// A second.
    signals: f64,
    records_per_signal: f64,
    signals_per_commit: f64,
    /// Of one core.
    generator: f64,
    /// Of one core, the generator included.
    process: f64,
}

struct Generator {
    handle: Handle,
    next: u64,
}

impl Generator {
    /// Sends for a while and waits for the last acknowledgement.
    fn run(&mut self, time: Duration) -> Result<Round, Box<dyn Error>> {
        let counters = self.handle.counters();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (records, commits) = (count(&counters.records), count(&counters.commits));
        let (first, begun) = (self.next, Instant::now());
        let (generator, process) = (cpu("/proc/thread-self/schedstat")?, process_cpu()?);
        let acknowledged = Arc::new(AtomicU64::new(0));
        let (permits, freed) = permits();
        while begun.elapsed() < time {
            freed.recv()?;
            let signals = (self.next..self.next + BATCH).map(signal).collect();
            self.next += BATCH;
            let (permits, acknowledged) = (permits.clone(), Arc::clone(&acknowledged));
            let ack = Box::new(move || {
                acknowledged.fetch_add(BATCH, Ordering::Relaxed);
                // Nobody waits any more after the last round.
                permits.try_send(()).unwrap_or_default();
            });
            self.handle.send(Message::Signals { signals, ack })?;
        }
        for _ in 0..IN_FLIGHT {
            freed.recv()?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        let signals = count(&acknowledged);
        if signals != self.next - first {
            return Err(format!("{signals} of {} signals were acknowledged", self.next - first).into());
        }
        let signals = signals as f64;
        let counters = self.handle.counters();
        Ok(Round {
            signals: signals / seconds,
            records_per_signal: (count(&counters.records) - records) as f64 / signals,
            signals_per_commit: signals / (count(&counters.commits) - commits) as f64,
            generator: (cpu("/proc/thread-self/schedstat")? - generator) / seconds * 100.0,
            process: (process_cpu()? - process) / seconds * 100.0,
        })
    }
}

/// As many as may be in flight.
fn permits() -> (crossbeam_channel::Sender<()>, Receiver<()>) {
    let (sender, receiver) = bounded(IN_FLIGHT);
    (0..IN_FLIGHT).for_each(|_| sender.try_send(()).unwrap_or_default());
    (sender, receiver)
}

/// Processor seconds of all threads.
fn process_cpu() -> Result<f64, Box<dyn Error>> {
    let mut all = 0.0;
    for task in std::fs::read_dir("/proc/self/task")? {
        all += cpu(task?.path().join("schedstat").to_str().unwrap_or_default())?;
    }
    Ok(all)
}

/// Processor seconds of a thread; the first field is nanoseconds.
fn cpu(path: &str) -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string(path)?;
    let nanoseconds: f64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(nanoseconds / 1e9)
}
