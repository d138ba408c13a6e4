//! The command line, as a person or a script uses it.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::programs::program;
use crate::site::Site;

/// What a command said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Answer {
    /// Runs a program to its end.
    ///
    /// # Panics
    /// Where it can't be started, or ends by a signal.
    #[track_caller]
    pub fn of(name: &str, args: &[&str]) -> Answer {
        let mut command = Command::new(program(name));
        command.args(args).stdin(Stdio::null());
        for unset in ["PROVOST_SERVER", "PROVOST_CA_FILE", "PROVOST_TOKEN_FILE"] {
            command.env_remove(unset);
        }
        let output = command.output().expect("the program can be started");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let code =
            output.status.code().unwrap_or_else(|| panic!("{name} {args:?}: {}\n{err}", output.status));
        Answer { code, out, err }
    }

    /// The answer, which must be a success.
    ///
    /// # Panics
    /// Where it is none.
    #[track_caller]
    pub fn ok(self) -> Answer {
        assert_eq!(self.code, 0, "out: {}\nerr: {}", self.out, self.err);
        self
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    /// Where it is none.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: `{}`\nerr: {}", self.out, self.err))
    }
}

impl Site {
    /// Runs `provost` against this site's controller.
    #[track_caller]
    pub fn provost(&self, args: &[&str]) -> Answer {
        let data = self.data().display().to_string();
        Answer::of("provost", &[args, &["--data", &data]].concat())
    }

    /// The API's object that a command prints.
    ///
    /// # Panics
    /// Where the command fails.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        self.provost(&[args, &["-o", "json"]].concat()).ok().json()
    }

    /// The rows that a command lists; none where the controller does not answer.
    pub fn try_items(&self, args: &[&str]) -> Option<Vec<Value>> {
        let answer = self.provost(&[args, &["-o", "json"]].concat());
        (answer.code == 0).then(|| answer.json()["items"].as_array().cloned().unwrap_or_default())
    }

    /// The rows that a command lists.
    ///
    /// # Panics
    /// Where the command fails.
    #[track_caller]
    pub fn items(&self, args: &[&str]) -> Vec<Value> {
        let page = self.json(args);
        page["items"].as_array().cloned().unwrap_or_else(|| panic!("no list: {page}"))
    }

    /// Records of these types, the oldest first.
    ///
    /// # Panics
    /// Where the command fails.
    #[track_caller]
    pub fn records(&self, kind: &str) -> Vec<Value> {
        self.items(&["audit", "search", "--type", kind, "--oldest", "--limit", "500"])
    }
}
