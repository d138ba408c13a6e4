//! Nodes, GPUs, holds, jobs and spares.

use clap::Subcommand;
use provost_model::time::Timestamp;

use super::{Named, Reason, Target, Watch};

#[derive(Debug, Subcommand)]
pub enum Node {
    /// List nodes
    List {
        /// Only nodes in these phases, comma-separated
        #[arg(long)]
        phase: Option<String>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Show a node
    Show(Named),
    /// Keep new work off a node
    Hold {
        #[command(flatten)]
        target: Target,
        /// The hold ends by itself then
        #[arg(long, value_name = "TIME")]
        until: Option<Timestamp>,
    },
    /// Take a node out for planned work
    Drain(Target),
    /// End planned work: check the node and let it return
    Resume(Target),
    /// Expect no agent on a node any more; it is expected again as soon as it reports
    Forget(Target),
}

#[derive(Debug, Subcommand)]
pub enum Gpu {
    /// List GPUs
    List {
        /// Only those of this node
        #[arg(long)]
        node: Option<String>,
    },
    /// Show a GPU
    Show(Named),
}

#[derive(Debug, Subcommand)]
pub enum Hold {
    /// List holds
    List {
        /// Only those on this node
        #[arg(long)]
        node: Option<String>,
    },
    /// Show a hold
    Show(Named),
    /// Release a hold of one's own
    Release(Target),
}

#[derive(Debug, Subcommand)]
pub enum Job {
    /// List jobs that hold nodes
    List {
        /// Only those on this node
        #[arg(long)]
        node: Option<String>,
        /// Also those that ended lately
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Show a job
    Show(Named),
    /// Put a job back into the queue
    Requeue(Target),
}

#[derive(Debug, Subcommand)]
pub enum Spare {
    /// List spares
    List,
    /// Let a spare serve in a node's slot
    Activate {
        /// Node whose slot needs it
        #[arg(long = "for", value_name = "NODE")]
        node: String,
        #[command(flatten)]
        reason: Reason,
    },
    /// Send a spare back
    Return(Target),
}
