//! The way into the controller's bounded inbox from async code.

use std::time::Duration;

use provost_controller::{Handle, Message, TrySendError};
use provost_model::input::{Input, Reply};

/// How long a sender waits before it tries a full inbox again.
const PAUSE: Duration = Duration::from_millis(2);

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing can be recorded.
    #[error(transparent)]
    Unavailable(#[from] provost_controller::Unavailable),
    /// The controller has ended.
    #[error("the controller is stopping")]
    Stopping,
}

/// Puts an input in, from a task of its own where the inbox is full.
pub fn put(handle: &Handle, input: Input) {
    let handle = handle.clone();
    match handle.try_send(Message::Input(input.clone())) {
        Ok(()) | Err(TrySendError::Stopped) => {}
        Err(TrySendError::Full) => {
            tokio::spawn(async move { put_waiting(&handle, Message::Input(input)).await });
        }
    }
}

/// Puts a message in and waits while the inbox is full.
pub async fn put_waiting(handle: &Handle, message: Message) {
    let mut message = Some(message);
    while let Some(waiting) = message.take() {
        match handle.offer(waiting) {
            Ok(()) => return,
            Err((TrySendError::Stopped, _)) => return,
            Err((TrySendError::Full, back)) => {
                message = Some(back);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Asks and waits until the answer is durable.
///
/// # Errors
/// Where nothing can be recorded, or the controller is stopping.
pub async fn ask(handle: &Handle, input: Input) -> Result<Reply, Error> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let answer = Box::new(move |answer| drop(sender.send(answer)));
    put_waiting(handle, Message::Ask { input, answer }).await;
    Ok(receiver.await.map_err(|_| Error::Stopping)??)
}
