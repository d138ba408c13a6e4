//! Pure functions from State to the shapes of the API.
//!
//! Each makes one row; whoever lists looks at the keys first, so that a page costs what it shows. They run under
//! the read lock, so none walks more than the node, incident or hold that it is about needs.

mod fleet;
mod response;
mod status;
#[cfg(test)]
mod tests;
mod timeline;
mod words;

pub use fleet::{gpu, gpu_id, hold, job, marks, node, spare};
pub use response::{alert, execution, incident, runbook};
pub use status::{guard, status};
pub use timeline::timeline_text;
