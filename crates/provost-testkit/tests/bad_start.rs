//! What keeps a controller from starting is told in one go, in words that say what to do, and loses nothing.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_testkit::{Answer, Site, wait_until};

const SOON: Duration = Duration::from_secs(10);
const CONFIG: &str = "[site]\nname = \"lonely\"\n";

/// A folder of its own that is gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("pvb{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn text(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Starts a controller that must not start; gives what it says.
fn refused(site: &Site) -> (i32, String) {
    let mut daemon = site.launch();
    let code = daemon.wait_end(SOON);
    (code, daemon.output())
}

/// One error: a title, and what to do either in it or in a line of its own.
fn one_sentence(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "no `{word}` in:\n{said}");
    }
    assert_eq!(said.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn every_error_of_a_configuration_is_told_at_once_with_line_and_key() {
    let folder = Folder::new("config");
    let text = "[site]\nname = \"a b\"\nmode = \"go\"\n[timers]\npoll = \"1 second\"\ncolour = 1\n[governor]\nbreaker_percent = 101\n";
    fs::write(folder.0.join("provost.toml"), text).unwrap();
    let file = folder.text("provost.toml");
    for args in [&["up", "--config", &file, "--data", &folder.text("data")][..], &["config", "check", &file]]
    {
        let answer = Answer::of("provost", args);
        assert_eq!(answer.code, 2, "{}", answer.err);
        for place in [
            "site.name",
            "line 3: site.mode",
            "line 5: timers.poll",
            "line 6: timers.colour",
            "governor.breaker_percent",
        ] {
            assert!(answer.err.contains(place), "no `{place}` in:\n{}", answer.err);
        }
        one_sentence(&answer.err, &["5 error(s)"]);
    }
    assert!(!folder.0.join("data").exists(), "nothing was made");

    // Files that are missing are errors of the configuration like any other.
    let text = "[site]\nname = \"a b\"\n[tls]\ncert_file = \"c.pem\"\nkey_file = \"k.pem\"\n[runbooks]\ndir = \"none\"\n";
    fs::write(folder.0.join("files.toml"), text).unwrap();
    let answer = Answer::of("provost", &["config", "check", &folder.text("files.toml")]);
    assert_eq!(answer.code, 2, "{}", answer.err);
    for place in ["site.name", "line 4: tls.cert_file", "line 5: tls.key_file", "line 7: runbooks.dir"] {
        assert!(answer.err.contains(place), "no `{place}` in:\n{}", answer.err);
    }
    one_sentence(&answer.err, &["4 error(s)"]);
    let answer = Answer::of("provost", &["config", "check", &folder.text("files.toml"), "-o", "json"]);
    assert_eq!((answer.code, answer.json()["errors"].as_array().map(Vec::len)), (2, Some(4)));

    let agent = folder.text("agent.toml");
    fs::write(&agent, "server = \"http://x\"\ncolour = 1\n").unwrap();
    let answer = Answer::of("provost-agent", &["--config", &agent]);
    assert_eq!(answer.code, 2, "{}", answer.err);
    for place in ["line 1: server", "line 2: colour", "ca_file: is missing"] {
        assert!(answer.err.contains(place), "no `{place}` in:\n{}", answer.err);
    }
}

#[test]
fn a_taken_port_is_named() {
    let folder = Folder::new("port");
    let site = Site::alone(&folder.0, CONFIG);
    let _taken = TcpListener::bind(site.address()).unwrap();
    let (code, said) = refused(&site);
    assert_eq!(code, 1, "{said}");
    one_sentence(&said, &["cannot listen on", site.address(), "--listen"]);
}

#[test]
fn a_second_controller_is_refused_and_the_first_goes_on() {
    let folder = Folder::new("second");
    let site = Site::alone(&folder.0, CONFIG).started();
    let second = Site::alone(&folder.0, CONFIG).with_data(site.data());
    let (code, said) = refused(&second);
    assert_eq!(code, 1, "{said}");
    one_sentence(&said, &["another controller is using", "stop it"]);
    // It still is the one that commands find.
    site.provost(&["guard", "stop", "-m", "still here"]).ok();
}

#[test]
fn what_was_written_stays_when_a_key_or_the_journal_cannot_be_used() {
    let folder = Folder::new("damage");
    let mut site = Site::alone(&folder.0, CONFIG).started();
    site.provost(&["guard", "stop", "-m", "remember this"]).ok();
    assert_eq!(site.stop(), 0, "SIGTERM ends it in order");
    site.verify();

    for key in ["journal.ed25519", "seal.key", "ca.key"] {
        let path = site.data().join("keys").join(key);
        let kept = fs::read(&path).unwrap();
        fs::write(&path, "scrambled").unwrap();
        let (code, said) = refused(&site);
        assert_eq!(code, 1, "{said}");
        one_sentence(&said, &[key]);
        fs::write(&path, &kept).unwrap();
    }

    let database = site.data().join("journal.db");
    let format = set_format(&database, 1_000);
    let (code, said) = refused(&site);
    assert_eq!(code, 1, "{said}");
    one_sentence(&said, &["format 1000", "start the newer provost"]);
    assert_eq!(set_format(&database, format), 1_000);

    site.start();
    wait_until("what was asked before is still so", SOON, || {
        let guard = site.json(&["guard", "status"]);
        if guard["stopped"] == true { Ok(()) } else { Err(guard.to_string()) }
    });
    assert_eq!(site.stop(), 0);
    site.verify();
}

#[test]
fn what_is_no_journal_is_told_in_one_sentence_and_a_proof_is_an_object() {
    let folder = Folder::new("verify");
    fs::create_dir_all(folder.0.join("empty")).unwrap();
    fs::create_dir_all(folder.0.join("noise")).unwrap();
    fs::write(folder.0.join("noise/journal.db"), [7u8; 5_000]).unwrap();
    fs::write(folder.0.join("text"), "hello").unwrap();
    for name in ["empty", "noise", "text", "none"] {
        let answer = Answer::of("provost", &["verify", &folder.text(name)]);
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{name}: {}", answer.err);
        one_sentence(&answer.err, &[name, "give "]);
        assert!(!answer.err.contains("rror code"), "{name}: {}", answer.err);
    }

    let mut site = Site::alone(&folder.0, CONFIG).started();
    site.provost(&["guard", "stop", "-m", "remember this"]).ok();
    assert_eq!(site.stop(), 0);
    let data = site.data().display().to_string();
    let ask = |format: &str| Answer::of("provost", &["verify", &data, "--replay", "-o", format]);
    let proof = ask("json").ok().json();
    assert_eq!((&proof["verified"], &proof["independent"]), (&true.into(), &false.into()), "{proof}");
    assert_eq!(proof["replayed"]["records"], proof["to"], "{proof}");
    assert!(proof["checkpoint"]["note"].is_string() && proof["overdue"].is_null(), "{proof}");
    assert_eq!(ask("jsonl").ok().json(), proof);
    assert!(ask("yaml").ok().out.contains("verified: true\n"));
    assert!(ask("table").ok().out.starts_with("The log "));

    let database = rusqlite::Connection::open(site.data().join("journal.db")).unwrap();
    database.execute_batch("DELETE FROM record WHERE seq = 1").unwrap();
    drop(database);
    let answer = ask("json");
    let found = answer.json();
    assert_eq!((answer.code, &found["verified"], &found["record"]), (1, &false.into(), &1.into()), "{found}");
    assert!(found["finding"].as_str().unwrap().contains("is missing"), "{found}");
}

/// Writes the journal's format as another version would; gives the one that was there.
fn set_format(database: &Path, format: i64) -> i64 {
    let database = rusqlite::Connection::open(database).unwrap();
    let found = database.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    database.pragma_update(None, "user_version", format).unwrap();
    found
}
