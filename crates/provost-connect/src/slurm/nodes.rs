//! Takes nodes out of service and puts them back (ruling 17), with a look before and after each write.

use std::time::Instant;

use provost_model::scheduler::{COMMENT_PREFIX, ObservedNode, REASON_PREFIX};

use super::error::{Error, Probe, WriteError, settle};
use super::gap::{Gap, GapWatch};
use super::text::{self, MAX_REASON};
use super::{Cluster, checked, checked_text};

/// What a hold of ours writes on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldMark {
    /// `provost INC-2026-000412: <short, no personal data>`
    pub reason: String,
    /// `provost:<hold id>`
    pub comment: String,
}

impl HoldMark {
    fn check(&self) -> Result<(), Error> {
        checked_text("reason", &self.reason, REASON_PREFIX, MAX_REASON)?;
        checked_text("comment", &self.comment, COMMENT_PREFIX, MAX_REASON)?;
        Ok(())
    }
}

/// Who a reason or comment belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// There is none.
    Nobody,
    /// Us.
    Ours,
    /// Somebody else, by the name that Slurm gives (comments have none).
    Foreign(Option<String>),
}

/// The owner of a node's reason.
fn reason_owner(node: &ObservedNode) -> Owner {
    match node.reason.as_str() {
        "" => Owner::Nobody,
        _ if node.reason_is_ours() => Owner::Ours,
        _ => Owner::Foreign(node.reason_user.clone()),
    }
}

/// The owner of a node's comment.
fn comment_owner(node: &ObservedNode) -> Owner {
    match node.comment.as_str() {
        "" => Owner::Nobody,
        comment if comment.starts_with(COMMENT_PREFIX) => Owner::Ours,
        _ => Owner::Foreign(None),
    }
}

/// No new work comes to this node: it is drained, failing or down.
fn is_closed(node: &ObservedNode) -> bool {
    node.drain || node.down
}

/// A hold as Slurm shows it: everything here was read back.
#[derive(Clone, Debug)]
pub struct Held {
    /// The node after the write.
    pub node: ObservedNode,
    /// Whose reason it carries now. A foreign one was there first or came in between, and stays.
    pub reason: Owner,
    /// Whose comment it carries now. A foreign one stays, and Slurm then shows no mark of this hold.
    pub comment: Owner,
    /// Words that ours replaced: a reason without a drain, which Slurm forgets by itself.
    pub replaced: Option<String>,
    /// Hand it to [`Cluster::check_gap`] within a few seconds: it finds a foreign drain that our write hid.
    /// Absent where nothing was drained by us.
    pub watch: Option<GapWatch>,
}

/// A release as Slurm shows it: everything here was read back.
#[derive(Clone, Debug)]
pub struct Released {
    /// The node after the write.
    pub node: ObservedNode,
    /// The node was drained by us and no longer is.
    pub resumed: bool,
    /// Whose reason it carries now; foreign: its drain was left, only our comment is gone.
    pub reason: Owner,
    /// What the look for a foreign drain that our resume swept away found.
    pub gap: Gap,
}

impl Cluster {
    /// One node, as scontrol shows it.
    pub async fn node(&self, name: &str) -> Result<ObservedNode, Error> {
        checked("node", name)?;
        let parsed = text::nodes(&self.tools.run("scontrol", &["-a", "show", "node", name]).await?);
        let Some(node) = parsed.items.into_iter().find(|(found, _)| found == name) else {
            return Err(match parsed.unparsed {
                0 => Error::NotFound { what: format!("node {name}") },
                _ => Error::Unparsable { tool: "scontrol", detail: format!("node {name}") },
            });
        };
        Ok(node.1)
    }

    /// Keeps new work from a node: DRAIN with our reason, or, where somebody else keeps it closed already, our
    /// comment alone. May be repeated.
    pub async fn hold_node(&self, name: &str, mark: &HoldMark) -> Result<Held, WriteError> {
        mark.check().map_err(WriteError::before)?;
        let looked = Instant::now();
        let before = self.node(name).await.map_err(WriteError::before)?;
        let plan = HoldPlan::new(&before, mark);
        let sent = match plan.is_empty() {
            true => Ok(()),
            false => self.write_hold(name, mark, &plan).await,
        };
        let window = looked.elapsed();
        let node = match self.node(name).await {
            Ok(node) => node,
            Err(read) => return Err(WriteError::unread(sent, read)),
        };
        let shown = is_closed(&node) && (!plan.comment || node.comment == mark.comment);
        settle(sent, shown, || format!("the drain of {name}"))?;
        Ok(Held {
            reason: reason_owner(&node),
            comment: comment_owner(&node),
            replaced: Some(before.reason)
                .filter(|r| plan.drain && !r.is_empty() && !r.starts_with(REASON_PREFIX)),
            watch: node
                .reason_at
                .filter(|_| plan.drain && node.reason_is_ours())
                .map(|at| GapWatch::hold(name, at, window)),
            node,
        })
    }

    async fn write_hold(&self, name: &str, mark: &HoldMark, plan: &HoldPlan) -> Result<(), Error> {
        let mut args = vec![format!("NodeName={name}")];
        if plan.drain {
            args.extend(["State=DRAIN".to_owned(), format!("Reason={}", mark.reason)]);
            // Another's timer would lift our drain as well (seen on 24.11; 22.05 has no timers).
            if self.version().await? >= (24, 11) {
                args.push("ResumeAfter=-1".to_owned());
            }
        }
        if plan.comment {
            args.push(format!("Comment={}", mark.comment));
        }
        self.update(&args.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    /// Whether Slurm shows a hold.
    pub async fn probe_hold(&self, name: &str, mark: &HoldMark) -> Probe {
        Probe::shown(self.node(name).await.map(|node| HoldPlan::new(&node, mark).is_empty()))
    }

    /// Ends our hold on a node: undrains it where the reason is ours, takes our comment off, then looks for a
    /// foreign drain that was lost between our look and our write, and puts it back. May be repeated.
    ///
    /// A node that went DOWN while it carried our reason is resumed as a whole: slurmctld never does
    /// that by itself while the reason is ours.
    pub async fn release_node(&self, name: &str) -> Result<Released, WriteError> {
        let before = self.node(name).await.map_err(WriteError::before)?;
        let ours = before.reason_is_ours();
        let unmark = comment_owner(&before) == Owner::Ours;
        let mut args = vec![format!("NodeName={name}")];
        if ours && before.down {
            args.push("State=RESUME".to_owned());
        } else if ours && before.drain {
            // Not RESUME: that is refused where the node is idle by now.
            args.push("State=UNDRAIN".to_owned());
        }
        if unmark {
            args.push("Comment=".to_owned());
        }
        let sent = match args.len() {
            1 => Ok(()),
            _ => self.update(&args.iter().map(String::as_str).collect::<Vec<_>>()).await,
        };
        let node = match self.node(name).await {
            Ok(node) => node,
            Err(read) => return Err(WriteError::unread(sent, read)),
        };
        settle(sent, !has_mark(&node), || format!("the release of {name}"))?;
        let resumed = ours && is_closed(&before) && !node.drain;
        let gap = match before.reason_at.filter(|_| ours && is_closed(&before)) {
            Some(at) => self.check_gap(&GapWatch::release(name, at)).await,
            None => Gap::Clean,
        };
        // The node as it is now, with a drain that was put back.
        let node = match gap {
            Gap::Restored { .. } => self.node(name).await.unwrap_or(node),
            _ => node,
        };
        Ok(Released { reason: reason_owner(&node), resumed: resumed && !node.drain, node, gap })
    }

    /// Whether Slurm shows no mark of ours on the node any more.
    pub async fn probe_release(&self, name: &str) -> Probe {
        Probe::shown(self.node(name).await.map(|node| !has_mark(&node)))
    }
}

/// A reason of ours that keeps the node closed, or a comment of ours. A reason of ours on an open node is no
/// mark: Slurm forgets it when the node next registers.
fn has_mark(node: &ObservedNode) -> bool {
    (node.reason_is_ours() && is_closed(node)) || comment_owner(node) == Owner::Ours
}

/// What a hold has to write, from what the node shows.
#[derive(Debug, PartialEq, Eq)]
struct HoldPlan {
    drain: bool,
    comment: bool,
}

impl HoldPlan {
    fn new(node: &ObservedNode, mark: &HoldMark) -> HoldPlan {
        let drain = match reason_owner(node) {
            Owner::Ours => !node.drain || node.reason != mark.reason,
            // Somebody closed it, also where no reason was given (24.11 allows that).
            _ => !is_closed(node),
        };
        let comment = comment_owner(node) != Owner::Foreign(None) && node.comment != mark.comment;
        HoldPlan { drain, comment }
    }

    fn is_empty(&self) -> bool {
        !self.drain && !self.comment
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm::words::node_from_flags;

    fn mark() -> HoldMark {
        HoldMark { reason: "provost INC-1: gpu lost".to_owned(), comment: "provost:hold_1".to_owned() }
    }

    #[test]
    fn a_hold_writes_only_what_is_missing_and_ours() {
        let check = |state: &str, reason: &str, comment: &str, expected: &str| {
            let mut node = node_from_flags(state.split('+')).unwrap();
            node.reason = reason.to_owned();
            node.comment = comment.to_owned();
            let plan = HoldPlan::new(&node, &mark());
            let words = [(plan.drain, "drain"), (plan.comment, "comment")];
            let words: Vec<&str> = words.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
            assert_eq!(words.join(" "), expected, "{state} {reason} {comment}");
        };
        check("IDLE", "", "", "drain comment");
        check("MIXED", "", "rack 7", "drain");
        check("IDLE", "watch this", "", "drain comment");
        check("IDLE+DRAIN", "provost INC-1: gpu lost", "provost:hold_1", "");
        check("IDLE+DRAIN", "provost INC-0: older", "provost:hold_0", "drain comment");
        check("IDLE", "provost INC-1: gpu lost", "provost:hold_1", "drain");
        check("IDLE+DRAIN", "dimm", "", "comment");
        check("IDLE+DRAIN", "dimm", "provost:hold_1", "");
        check("IDLE+DRAIN", "dimm", "rack 7", "");
        check("IDLE+DRAIN", "", "", "comment");
        check("IDLE+FAIL", "dimm", "", "comment");
        check("DOWN+NOT_RESPONDING", "Not responding", "", "comment");
        check("DOWN", "", "", "comment");
        check("DOWN", "provost INC-1: gpu lost", "provost:hold_1", "drain");
        // Only `provost ` is ours.
        check("IDLE+DRAIN", "provost: INC-1", "", "comment");
    }

    #[test]
    fn marks_are_checked_before_they_are_sent() {
        let check = |reason: &str, comment: &str, fine: bool| {
            let mark = HoldMark { reason: reason.to_owned(), comment: comment.to_owned() };
            assert_eq!(mark.check().is_ok(), fine, "{reason} {comment}");
        };
        check("provost INC-1: x", "provost:h", true);
        check("INC-1", "provost:h", false);
        check("provost INC-1: x", "h", false);
        check("provost a\nState=DOWN", "provost:h", false);
        check("provost \"a\"", "provost:h", false);
        check(&format!("provost {}", "x".repeat(300)), "provost:h", false);
    }
}
