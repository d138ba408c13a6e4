//! Waiting: for file descriptors, for another thread, for the end.
//!
//! Every thread of the agent sleeps in one place, [`wait`], and always also for the [`Shutdown`], so that the
//! whole agent ends at once when it is told to.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Wakes a thread that waits for it. A wake-up that comes first is not lost.
#[derive(Debug)]
pub(crate) struct Wake(OwnedFd);

impl Wake {
    pub(crate) fn new() -> io::Result<Wake> {
        Ok(Wake(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes.
    pub(crate) fn set(&self) {
        // It fails only where 2^64 - 2 wake-ups are pending, and then the thread is awake anyhow.
        rustix::io::write(&self.0, &1_u64.to_ne_bytes()).ok();
    }

    /// Takes the pending wake-ups; look for work after this, not before.
    pub(crate) fn clear(&self) {
        // It fails only where nothing is pending.
        rustix::io::read(&self.0, &mut [0_u8; 8]).ok();
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Tells every thread of an agent to end. Clones are the same thing.
#[derive(Clone, Debug)]
pub struct Shutdown(Arc<Wake>);

impl Shutdown {
    /// Not triggered.
    ///
    /// # Errors
    /// Where the process may not open another file descriptor.
    pub fn new() -> io::Result<Shutdown> {
        Ok(Shutdown(Arc::new(Wake::new()?)))
    }

    /// Tells. It can't be taken back.
    pub fn trigger(&self) {
        self.0.set();
    }

    /// Whether it was told.
    pub fn is_triggered(&self) -> bool {
        wait([(self.as_fd(), Interest::Read)], Some(Duration::ZERO)) == [true]
    }

    /// Sleeps for `length`, less where the end comes first. True where it did.
    pub(crate) fn sleep(&self, length: Duration) -> bool {
        wait([(self.as_fd(), Interest::Read)], Some(length)) == [true]
    }
}

impl AsFd for Shutdown {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }
}

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    ReadWrite,
}

/// Waits until one of the descriptors is ready, has an error or has come to its end, or the time is over. Says
/// for each descriptor whether it was. A signal handler may end the wait early.
pub(crate) fn wait<const N: usize>(
    of: [(BorrowedFd<'_>, Interest); N],
    timeout: Option<Duration>,
) -> [bool; N] {
    let mut fds = of.map(|(fd, interest)| {
        let flags = match interest {
            Interest::Read => PollFlags::IN,
            Interest::ReadWrite => PollFlags::IN | PollFlags::OUT,
        };
        PollFd::from_borrowed_fd(fd, flags)
    });
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) => fds.map(|fd| !fd.revents().is_empty()),
        // Interrupted, or no memory in the kernel: the caller looks around and waits again.
        Err(_) => [false; N],
    }
}
