//! The interface as a client sees it: real controller, real journal, no socket.

mod access;
mod commands;
mod harness;
mod history;
mod reading;
mod streams;
