//! The file `DIR/STOP`: the way to stop every new action when nothing else can be reached. While it lies there
//! the guard is stopped; starting again is always a command.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use provost_controller::Handle;
use provost_model::input::{Action, Command, Input};
use provost_model::policy::Role;
use provost_model::record::{Actor, ActorKind};

use crate::inbox;

/// Looks for the file until the task is dropped.
pub async fn watch(handle: Handle, path: PathBuf, every: Duration) {
    let mut tick = tokio::time::interval(every);
    loop {
        tick.tick().await;
        let found = tokio::fs::try_exists(&path).await.unwrap_or(false);
        if found && !handle.state().guard.stopped {
            let command = Command {
                actor: Actor { kind: ActorKind::Human, sub: "local:stop-file".to_owned() },
                roles: BTreeSet::from([Role::Operator]),
                request: "stop-file".to_owned(),
                reason: format!("the file {} exists", path.display()),
                action: Action::GuardStop,
            };
            if let Err(error) = inbox::ask(&handle, Input::Command(Box::new(command))).await {
                tracing::error!(error = %error, "the stop file was found, but the stop could not be recorded");
            }
        }
    }
}
