//! When hyper waits for the head of a request, which it tells nobody but its timer.
//!
//! hyper sets a timer when it begins to wait for a head, and drops it once the head is there. Ours never
//! rings, and looks at no clock: how long a head takes is seen where a connection is looked at.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

use super::activity::Activity;

/// hyper's timer.
#[derive(Debug)]
pub(super) struct Heads {
    activity: Arc<Activity>,
    /// What it says that it is.
    now: Instant,
}

/// A head that hyper waits for, until it is dropped.
#[derive(Debug)]
struct Awaited(Arc<Activity>);

impl Heads {
    pub(super) fn new(activity: &Arc<Activity>) -> Self {
        Self { activity: Arc::clone(activity), now: Instant::now() }
    }

    fn awaited(&self) -> Pin<Box<dyn Sleep>> {
        self.activity.awaits_head.set(true);
        Box::pin(Awaited(Arc::clone(&self.activity)))
    }
}

impl Timer for Heads {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
        self.awaited()
    }

    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
        self.awaited()
    }

    fn now(&self) -> Instant {
        self.now
    }
}

impl Future for Awaited {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Sleep for Awaited {}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.awaits_head.set(false);
    }
}
