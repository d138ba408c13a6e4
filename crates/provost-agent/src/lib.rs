//! What runs on a node: it reads the kernel log and tells the controller what it means.

pub mod kernel_log;
