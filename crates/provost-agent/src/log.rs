//! The agent's own log: lines on standard error, which the service manager keeps.
//!
//! Kernel text, tokens, keys and the output of commands never stand here.

use std::fmt::Display;

use crate::clock;

/// Something went its way.
pub(crate) fn info(node: &str, text: impl Display) {
    line("info", node, &text);
}

/// Something did not, and the agent goes on.
pub(crate) fn warn(node: &str, text: impl Display) {
    line("warn", node, &text);
}

fn line(level: &str, node: &str, text: &dyn Display) {
    eprintln!("{} {level} {node}: {text}", clock::now());
}

/// An error with its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
