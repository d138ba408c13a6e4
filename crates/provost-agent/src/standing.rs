//! Whether the node may take work: what the controller says is kept in a file, and a scheduler's prolog or epilog
//! is answered from that file alone.
//!
//! No path of a scheduler may depend on Provost. So the answer needs neither the controller nor this agent, waits
//! for nothing, and is *yes* wherever the file is missing, damaged, or so old that nobody stands behind it any
//! more. It is *no* only while a controller that is in touch with the node holds it in mode `act`.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_model::time::Timestamp;
use provost_wire::Standing;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::store::{Store, StoreError};
use crate::wait::Wake;

/// Name of the file in the node's folder.
const FILE: &str = "standing.json";
/// Layout of the file. A helper that does not know it answers yes.
const VERSION: u32 = 1;
/// While the controller is in touch, the file is written anew this often.
const REFRESH_MS: i64 = 5_000;
/// After this nobody stands behind the file.
const STALE_MS: i64 = 30_000;
/// A file of more bytes was not written by an agent.
const MAX_FILE: u64 = 4 * 1024;
/// Bytes of a reason.
const MAX_WHY: usize = 200;

/// What stands in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    v: u32,
    /// When the controller was last known to mean it.
    at: Timestamp,
    may_work: bool,
    why: String,
}

/// What the controller said last, between the thread of the connection and the one that writes files.
#[derive(Debug)]
pub(crate) struct Kept {
    told: Mutex<Option<Written>>,
    written: Mutex<Option<Written>>,
    wake: Arc<Wake>,
}

impl Kept {
    /// Nothing was said; `wake` is set when there is something to write at once.
    pub(crate) fn new(wake: Arc<Wake>) -> Kept {
        Kept { told: Mutex::default(), written: Mutex::default(), wake }
    }

    /// A controller is there that has not said anything yet. One of the version before never will.
    pub(crate) fn forget(&self) {
        *lock(&self.told) = None;
    }

    /// The controller said it.
    pub(crate) fn tell(&self, standing: Standing) {
        let Standing { may_work, mut why } = standing;
        why.truncate(why.floor_char_boundary(MAX_WHY));
        *lock(&self.told) = Some(Written { v: VERSION, at: clock::now(), may_work, why });
        self.wake.set();
    }

    /// The controller is still in touch.
    pub(crate) fn refresh(&self) {
        if let Some(told) = &mut *lock(&self.told) {
            told.at = clock::now();
        }
    }

    /// Writes what is new, or known anew.
    pub(crate) fn save(&self, store: &Store) -> Result<(), StoreError> {
        let Some(told) = lock(&self.told).clone() else { return Ok(()) };
        let mut written = lock(&self.written);
        let is_known = written.as_ref().is_some_and(|written| {
            let age = told.at.as_millis() - written.at.as_millis();
            (written.may_work, &written.why) == (told.may_work, &told.why) && (0..REFRESH_MS).contains(&age)
        });
        if !is_known {
            store.write(FILE, &told, false)?;
            *written = Some(told);
        }
        Ok(())
    }
}

/// What is behind the locks is whole after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a prolog or epilog is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing of Provost's keeps work from the node.
    Yes,
    /// It is not known, so the node may take work. Why it is not known.
    YesUnsure(&'static str),
    /// The controller holds the node. Why.
    No(String),
}

/// Answers from the file of `node` in `state_dir`. Never waits for anybody.
pub fn ask(state_dir: &Path, node: &str) -> Answer {
    ask_at(state_dir, node, clock::now())
}

fn ask_at(state_dir: &Path, node: &str, now: Timestamp) -> Answer {
    let bytes = match read(&state_dir.join(node).join(FILE)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Answer::YesUnsure("no controller has spoken to this node's agent yet");
        }
        Err(_) => return Answer::YesUnsure("the agent's file can't be read"),
    };
    let Ok(written) = serde_json::from_slice::<Written>(&bytes) else {
        return Answer::YesUnsure("the agent's file is damaged, or of another version");
    };
    let age = now.as_millis().saturating_sub(written.at.as_millis());
    match () {
        () if written.v != VERSION => Answer::YesUnsure("the agent's file is of another version"),
        () if age > STALE_MS => Answer::YesUnsure("the controller or the agent is away"),
        () if age < -STALE_MS => Answer::YesUnsure("the agent's file is from the future"),
        () if written.may_work => Answer::Yes,
        () => Answer::No(written.why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Without waiting for a writer, should somebody have put a FIFO there.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        file.take(MAX_FILE).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The node's name where none is given: what slurmd calls it, else the host's name up to the first dot.
pub fn default_node() -> Option<String> {
    let given = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty());
    given.or_else(|| {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        Some(name.trim().split('.').next()?.to_owned()).filter(|name| !name.is_empty())
    })
}

/// Puts a line into the system's log, if one is there and takes it at once.
pub fn to_syslog(socket: &Path, text: &str) {
    // 28 is the facility daemon at the level of a warning. Whoever can't log must answer all the same.
    let send = || {
        let sender = UnixDatagram::unbound()?;
        sender.set_nonblocking(true)?;
        sender.send_to(format!("<28>provost-agent: {text}").as_bytes(), socket)
    };
    send().ok();
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::testing::Folder;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn file(at: i64, may_work: bool) -> String {
        let at = Timestamp::from_millis(NOW.as_millis() + at);
        let why = if may_work { "" } else { "provost INC-2026-000001: GPU 0 lost" };
        serde_json::to_string(&Written { v: VERSION, at, may_work, why: why.into() }).unwrap()
    }

    fn asked(text: &str) -> Answer {
        let folder = Folder::new();
        fs::create_dir(folder.path().join("gpu001")).unwrap();
        fs::write(folder.path().join("gpu001").join(FILE), text).unwrap();
        ask_at(folder.path(), "gpu001", NOW)
    }

    #[test]
    fn it_is_no_only_where_a_fresh_whole_file_says_so() {
        let check = |text: &str, expected: &str| {
            let answer = match asked(text) {
                Answer::Yes => "yes",
                Answer::YesUnsure(_) => "unsure",
                Answer::No(_) => "no",
            };
            assert_eq!(answer, expected, "{text}");
        };
        check(&file(-1, true), "yes");
        check(&file(-1, false), "no");
        check(&file(-STALE_MS, false), "no");
        check(&file(-STALE_MS - 1, false), "unsure");
        check(&file(STALE_MS + 1, false), "unsure");
        check(&file(i64::MIN / 2, false), "unsure");
        check(&file(-1, false).replace("\"v\":1", "\"v\":2"), "unsure");
        check("", "unsure");
        check("{}", "unsure");
        check("\u{0}\u{0}\u{0}", "unsure");
        check(&format!("{}{}", file(-1, false), "x".repeat(10_000)), "unsure");
    }

    #[test]
    fn a_file_cut_at_any_byte_allows() {
        let whole = file(-1, false);
        for end in 0..whole.len() {
            assert!(matches!(asked(&whole[..end]), Answer::YesUnsure(_)), "cut at {end}");
        }
    }

    #[test]
    fn nothing_in_the_way_makes_it_wait_or_fail() {
        let folder = Folder::new();
        assert!(matches!(ask(folder.path(), "gpu001"), Answer::YesUnsure(_)));
        fs::create_dir_all(folder.path().join("gpu001").join(FILE)).unwrap();
        assert!(matches!(ask(folder.path(), "gpu001"), Answer::YesUnsure(_)));
        fs::create_dir(folder.path().join("gpu002")).unwrap();
        let fifo = folder.path().join("gpu002").join(FILE);
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert!(matches!(ask(folder.path(), "gpu002"), Answer::YesUnsure(_)));
        to_syslog(&fifo, "x");
        to_syslog(&folder.path().join("absent"), "x");
    }

    #[test]
    fn what_was_told_is_answered_until_the_controller_is_away() {
        let folder = Folder::new();
        let store = Store::open(folder.path(), "gpu001").unwrap();
        let kept = Kept::new(Arc::new(Wake::new().unwrap()));
        kept.refresh();
        kept.save(&store).unwrap();
        assert!(matches!(ask(folder.path(), "gpu001"), Answer::YesUnsure(_)));
        let why = format!("provost INC-2026-000001: GPU 0 lost\n{}", "é".repeat(MAX_WHY));
        kept.tell(Standing { may_work: false, why });
        kept.save(&store).unwrap();
        let Answer::No(why) = ask(folder.path(), "gpu001") else { panic!("no") };
        assert!(why.starts_with("provost INC-2026-000001: GPU 0 lost é") && why.len() <= MAX_WHY, "{why}");
        kept.tell(Standing { may_work: true, why: String::new() });
        kept.save(&store).unwrap();
        assert_eq!(ask(folder.path(), "gpu001"), Answer::Yes);
        // A controller that says nothing refreshes nothing.
        kept.forget();
        kept.refresh();
        fs::remove_file(store.path(FILE)).unwrap();
        kept.save(&store).unwrap();
        assert!(matches!(ask(folder.path(), "gpu001"), Answer::YesUnsure(_)));
    }

    #[test]
    fn it_is_written_anew_while_the_controller_is_in_touch() {
        let folder = Folder::new();
        let store = Store::open(folder.path(), "gpu001").unwrap();
        let kept = Kept::new(Arc::new(Wake::new().unwrap()));
        kept.tell(Standing { may_work: true, why: String::new() });
        let save_at = |age: i64| {
            lock(&kept.told).as_mut().unwrap().at = Timestamp::from_millis(NOW.as_millis() + age);
            kept.save(&store).unwrap();
            store.read::<Written>(FILE).unwrap().unwrap().at.as_millis() - NOW.as_millis()
        };
        assert_eq!(save_at(0), 0);
        assert_eq!(save_at(REFRESH_MS - 1), 0);
        assert_eq!(save_at(REFRESH_MS), REFRESH_MS);
        // The clock was set back.
        assert_eq!(save_at(1), 1);
    }
}
