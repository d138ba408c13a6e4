//! Everything that can go wrong, once: what the person reads, and the exit code.

use std::process::ExitCode;

/// Exit codes; `docs/reference/cli.md` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Failed.
    Failure = 1,
    /// The command line, or a configuration.
    Usage = 2,
    /// No such thing.
    NotFound = 3,
    /// Not authenticated, or not allowed.
    Denied = 4,
    /// The state does not allow it.
    Conflict = 5,
    /// Took too long.
    TimedOut = 6,
    /// The governor says no.
    Guarded = 8,
    /// No server answers.
    Unreachable = 10,
}

/// An error on its way to the person.
#[derive(Debug)]
pub struct Error {
    /// Exit code.
    pub exit: Exit,
    /// What failed.
    pub title: String,
    /// Why.
    pub why: Option<String>,
    /// What to do.
    pub remedy: Option<String>,
    /// Names the request in the server's log.
    pub trace: Option<String>,
}

impl Error {
    /// An error with a title.
    pub fn new(exit: Exit, title: impl Into<String>) -> Error {
        Error { exit, title: title.into(), why: None, remedy: None, trace: None }
    }

    /// Adds why.
    pub fn why(mut self, why: impl Into<String>) -> Error {
        self.why = Some(why.into());
        self
    }

    /// Adds what to do.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Error {
        self.remedy = Some(remedy.into());
        self
    }

    /// A failure with the whole chain of its causes.
    pub fn chain(exit: Exit, error: &(dyn std::error::Error + 'static)) -> Error {
        let mut causes = Vec::new();
        let mut next = error.source();
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        let new = Error::new(exit, error.to_string());
        if causes.is_empty() { new } else { new.why(causes.join(": ")) }
    }

    /// Prints it, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        eprintln!("error: {}", self.title);
        for (label, text) in [("why", &self.why), ("try", &self.remedy), ("trace", &self.trace)] {
            if let Some(text) = text {
                eprintln!("{label}: {text}");
            }
        }
        ExitCode::from(self.exit as u8)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::new(Exit::Failure, error.to_string())
    }
}
