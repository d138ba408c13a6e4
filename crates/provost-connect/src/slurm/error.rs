//! What can go wrong with a Slurm cluster, and what is known about a write that failed.

use std::time::Duration;

use crate::http;

/// A read or a step of a write failed. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// slurmctld can't be reached: nothing was sent.
    #[error(
        "slurmctld does not answer ({detail}); check `scontrol ping` on this host and that slurmctld runs"
    )]
    ControllerAway {
        /// In Slurm's words, cut.
        detail: String,
    },
    /// No answer in time, or the connection broke in the middle: what was sent may have been done.
    #[error("{tool} got no answer ({detail}); check `scontrol ping` and the load of slurmctld")]
    NoAnswer {
        /// The tool that was asked.
        tool: &'static str,
        /// In Slurm's words, cut; or our time limit.
        detail: String,
    },
    /// slurmdbd or its database can't be reached.
    #[error("sacctmgr got no answer ({detail}); check that slurmdbd runs")]
    DatabaseAway {
        /// In Slurm's words, cut.
        detail: String,
    },
    /// The tool could not be started.
    #[error("{tool} could not be started: {source}; install Slurm's client tools, or set where they are")]
    Spawn {
        /// The tool.
        tool: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// Slurm said no.
    #[error(
        "Slurm refused ({tool}): {message}; where it speaks of permission or user, give our user AdminLevel=Operator"
    )]
    Refused {
        /// The tool that was asked.
        tool: &'static str,
        /// In Slurm's words, cut.
        message: String,
    },
    /// Slurm does not know the node, job or partition.
    #[error("Slurm does not know {what}; compare its name with the inventory")]
    NotFound {
        /// Kind and name.
        what: String,
    },
    /// The answer can't be understood.
    #[error("the answer of {tool} can't be understood ({detail}); report it with the version of Slurm")]
    Unparsable {
        /// The tool that was asked.
        tool: &'static str,
        /// Where it went wrong; holds nothing of the answer.
        detail: String,
    },
    /// The answer is larger than we take.
    #[error("{tool} printed more than {} MiB; the answer was dropped: lower MinJobAge or the number of jobs", limit >> 20)]
    TooLarge {
        /// The tool that was asked.
        tool: &'static str,
        /// In bytes.
        limit: u64,
    },
    /// A name or text of ours can't be handed to Slurm safely.
    #[error(
        "{what} `{text}` can't be handed to Slurm; use letters, digits and `. _ -` in names, one printable line in texts"
    )]
    BadInput {
        /// What it is.
        what: &'static str,
        /// The text, cut.
        text: String,
    },
    /// The JobId now belongs to another job, or the job was requeued since.
    #[error(
        "job {id} is another run than the one that was meant (submitted at another time); look at the job again"
    )]
    OtherJob {
        /// JobId.
        id: u32,
    },
    /// The user submitted it with `--no-requeue`; automation never kills it.
    #[error("job {id} was submitted with --no-requeue and is left alone; tell its user")]
    NotRequeueable {
        /// JobId.
        id: u32,
    },
    /// The job already waits; there is nothing to requeue.
    #[error("job {id} already waits in the queue")]
    AlreadyPending {
        /// JobId.
        id: u32,
    },
    /// The job has ended; what was asked is for jobs that run.
    #[error("job {id} has ended; Slurm changes nothing about it any more")]
    Ended {
        /// JobId.
        id: u32,
    },
    /// The job did not end by a failure.
    #[error("job {id} did not fail; only failed jobs are put back into the queue")]
    NotFailed {
        /// JobId.
        id: u32,
    },
    /// A partition would lose its last node.
    #[error("partition {partition} would have no node left; put another node in first")]
    WouldEmpty {
        /// Its name.
        partition: String,
    },
    /// Slurm took the change, but reading it back does not show it.
    #[error(
        "Slurm accepted {what}, but reading it back does not show it; somebody else may have changed it: look again"
    )]
    NotConfirmed {
        /// What should be seen.
        what: String,
    },
    /// slurmrestd did not answer as it should; reads then go through the tools.
    #[error("slurmrestd: {detail}; check its log, our user and the token file")]
    Rest {
        /// What is wrong; holds no secret.
        detail: String,
    },
    /// slurmrestd could not be asked.
    #[error(transparent)]
    Http(#[from] http::Error),
    /// Nobody's certificate can be checked.
    #[error(transparent)]
    Trust(#[from] crate::tls::TrustError),
}

impl Error {
    /// The scheduler is away, as opposed to one request that failed.
    pub fn is_away(&self) -> bool {
        matches!(self, Error::ControllerAway { .. } | Error::NoAnswer { .. })
    }

    /// Whether a request that ended so may have been carried out all the same.
    fn is_ambiguous(&self) -> bool {
        // A tool that prints too much or garbage has been answered; what it did is not known.
        matches!(self, Error::NoAnswer { .. } | Error::TooLarge { .. } | Error::Unparsable { .. })
    }
}

/// What is known about a write that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was certainly not done.
    NotDone,
    /// It may have been done: probe before trying again.
    Unknown,
}

/// A write failed.
#[derive(Debug, thiserror::Error)]
#[error("{source}{}", match outcome { Outcome::NotDone => "", Outcome::Unknown => "; whether it was done is not known yet" })]
pub struct WriteError {
    /// What is known about it.
    pub outcome: Outcome,
    /// Why.
    pub source: Error,
}

impl WriteError {
    /// It failed before anything was sent.
    pub(super) fn before(source: Error) -> WriteError {
        WriteError { outcome: Outcome::NotDone, source }
    }

    /// What to report when the read-back failed too; `sent` is what became of the write itself.
    pub(super) fn unread(sent: Result<(), Error>, read: Error) -> WriteError {
        match sent {
            Err(source) if !source.is_ambiguous() => WriteError { outcome: Outcome::NotDone, source },
            _ => WriteError { outcome: Outcome::Unknown, source: read },
        }
    }
}

/// Settles a write by what reading it back shows; the tool's own word only explains a failure.
pub(super) fn settle(
    sent: Result<(), Error>,
    shown: bool,
    what: impl FnOnce() -> String,
) -> Result<(), WriteError> {
    match sent {
        _ if shown => Ok(()),
        // A request that was given up may still lie in slurmctld's queue.
        Err(source) if source.is_ambiguous() => Err(WriteError { outcome: Outcome::Unknown, source }),
        Err(source) => Err(WriteError { outcome: Outcome::NotDone, source }),
        Ok(()) => Err(WriteError { outcome: Outcome::NotDone, source: Error::NotConfirmed { what: what() } }),
    }
}

/// What a look at Slurm says about a write whose outcome is not known.
#[derive(Debug)]
pub enum Probe {
    /// Slurm shows it.
    Done,
    /// Slurm does not show it.
    NotDone,
    /// Slurm could not be asked, or what it shows does not tell.
    Unknown(Error),
}

impl Probe {
    pub(super) fn shown(shown: Result<bool, Error>) -> Probe {
        match shown {
            Ok(true) => Probe::Done,
            Ok(false) => Probe::NotDone,
            Err(error) => Probe::Unknown(error),
        }
    }
}

/// The first line of what Slurm said, cut and without control characters. Slurm names ids and its own texts
/// there, never the name of a job.
pub(super) fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no message");
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Our time limit, in words.
pub(super) fn within(limit: Duration) -> String {
    format!("not within {} ms", limit.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_settled_by_what_is_read() {
        let refused = || Err(Error::Refused { tool: "scontrol", message: String::new() });
        let silent = || Err(Error::NoAnswer { tool: "scontrol", detail: String::new() });
        let check = |sent, shown, expected| {
            assert_eq!(settle(sent, shown, String::new).map_err(|e| e.outcome), expected);
        };
        check(Ok(()), true, Ok(()));
        check(refused(), true, Ok(()));
        check(silent(), true, Ok(()));
        check(Ok(()), false, Err(Outcome::NotDone));
        check(refused(), false, Err(Outcome::NotDone));
        check(silent(), false, Err(Outcome::Unknown));
        let away = || Error::ControllerAway { detail: String::new() };
        assert_eq!(WriteError::unread(refused(), away()).outcome, Outcome::NotDone);
        assert_eq!(WriteError::unread(Ok(()), away()).outcome, Outcome::Unknown);
        assert_eq!(WriteError::unread(silent(), away()).outcome, Outcome::Unknown);
    }

    #[test]
    fn messages_are_cut_to_one_clean_line() {
        assert_eq!(first_line("\n slurm_update error: x\u{7}\nmore"), "slurm_update error: x");
        assert_eq!(first_line(""), "no message");
        assert_eq!(first_line(&"x".repeat(1000)).len(), 200);
    }
}
