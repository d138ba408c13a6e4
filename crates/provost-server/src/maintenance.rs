//! What the journal needs now and then and must not pay for while it appends: its write-ahead log is copied back
//! and its hash tiles are written, so that a later proof names the very record that was changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_journal::{Error, Maintenance};
use tokio::time::{MissedTickBehavior, interval};

/// Keeps the journal in `data` until the task is dropped. A round that fails is tried again; that is told once.
pub(crate) async fn keep(data: PathBuf, every: Duration) {
    let mut tick = interval(every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut kept, mut is_told) = (None, false);
    loop {
        tick.tick().await;
        let (dir, opened) = (data.clone(), kept.take());
        match tokio::task::spawn_blocking(move || round(&dir, opened)).await {
            Ok(Ok(maintenance)) => (kept, is_told) = (Some(maintenance), false),
            Ok(Err(error)) if is_told => tracing::debug!(error = %error, "the journal was not kept"),
            Ok(Err(error)) => {
                tracing::warn!(error = %error, "the journal's log could not be copied back or its tiles written");
                is_told = true;
            }
            Err(ended) => {
                tracing::error!(error = %ended, "keeping the journal has ended");
                return;
            }
        }
    }
}

fn round(dir: &Path, opened: Option<Maintenance>) -> Result<Maintenance, Error> {
    let mut maintenance = opened.map_or_else(|| Maintenance::open(dir), Ok)?;
    maintenance.run()?;
    Ok(maintenance)
}

#[cfg(test)]
mod tests {
    use provost_journal::{Entry, Journal, Options};

    use super::*;

    #[tokio::test]
    async fn tiles_are_written_beside_the_running_journal() {
        let dir = std::env::temp_dir().join(format!("provost-maintenance-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut journal = Journal::open(&dir, Options::new("test")).unwrap();
        let entries: Vec<Entry> = (0..300)
            .map(|seq| Entry {
                seq,
                at_ms: 1,
                kind: "test",
                bytes: format!("{{\"seq\":{seq}}}").into_bytes(),
            })
            .collect();
        journal.append(&entries).unwrap();
        let keeping = tokio::spawn(keep(dir.clone(), Duration::from_millis(5)));
        let tile = dir.join("tiles/tile/0/000");
        let written = async {
            while !tile.exists() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), written).await.expect("a full tile is written");
        keeping.abort();
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
