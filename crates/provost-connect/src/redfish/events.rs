//! Event logs of a server.

use provost_model::bmc::Health;
use provost_model::time::Timestamp;
use serde_json::Value;

use super::error::Error;
use super::resource::{self, text};
use super::session::Session;
use super::system;

/// Logs of one system.
const MAX_LOGS: usize = 16;
/// Entries of one log that are looked at: servers list the oldest first, and the newest are wanted.
const MAX_SCANNED: usize = 4_096;
/// Logs whose entries are no events: dumps, and a code for each step of a boot.
const NO_EVENTS: &[&str] = &["Dump", "FDR", "PostCodes", "DebugTokenService"];

/// What was read of the logs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogEntries {
    /// The newest first; those without a time last.
    pub entries: Vec<LogEntry>,
    /// All there is was looked at.
    pub complete: bool,
}

/// One entry. Its time is by the clock of the BMC, which is often wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Log that it stands in.
    pub log: String,
    /// Its id there.
    pub id: String,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// How bad the server thinks it is.
    pub severity: Option<Health>,
    /// Id of the message.
    pub message_id: Option<String>,
    /// In the server's words.
    pub message: Option<String>,
}

/// Reads the logs of every system, `limit` entries at most.
pub(super) async fn read(session: &mut Session<'_>, limit: usize) -> Result<LogEntries, Error> {
    let mut found = LogEntries { entries: Vec::new(), complete: true };
    for path in system::paths(session).await? {
        let Some(value) = session.get_optional(&path).await? else { continue };
        let Some(logs) = resource::link(&value, "LogServices") else { continue };
        for log in session.all(&logs, MAX_LOGS).await? {
            read_log(session, &log, &mut found).await?;
        }
    }
    found.complete &= found.entries.len() <= limit;
    // Stable: what has no time keeps the server's order, at the end.
    found.entries.sort_by_key(|entry| std::cmp::Reverse(entry.created));
    found.entries.truncate(limit);
    Ok(found)
}

async fn read_log(session: &mut Session<'_>, log: &Value, found: &mut LogEntries) -> Result<(), Error> {
    let name = text(log, "Id").unwrap_or_default();
    let Some(entries) = resource::link(log, "Entries").filter(|_| !NO_EVENTS.contains(&name.as_str())) else {
        return Ok(());
    };
    let (members, complete) = match session.members(&entries, MAX_SCANNED).await {
        Err(error) if error.spares_the_rest() => (Vec::new(), false),
        other => other?,
    };
    found.complete &= complete;
    for member in &members {
        match session.full(member).await?.as_ref().and_then(|entry| entry_of(&name, entry)) {
            Some(entry) => found.entries.push(entry),
            None => found.complete = false,
        }
    }
    Ok(())
}

fn entry_of(log: &str, entry: &Value) -> Option<LogEntry> {
    Some(LogEntry {
        log: log.to_owned(),
        id: text(entry, "Id")?,
        created: entry.get("Created").and_then(Value::as_str).and_then(|created| created.parse().ok()),
        severity: entry.get("Severity").and_then(Value::as_str).and_then(resource::health),
        message_id: text(entry, "MessageId"),
        message: text(entry, "Message"),
    })
}
