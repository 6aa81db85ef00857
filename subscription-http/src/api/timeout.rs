//! What must be done in time.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Sleep;

pin_project! {
    /// What comes of something, or nothing if it takes too long.
    ///
    /// A timer is set only for what is not there at once. This is no `async fn` because that would keep
    /// two places for what it waits for.
    pub(crate) struct Within<F> {
        #[pin]
        future: F,
        time: Duration,
        timer: Option<Pin<Box<Sleep>>>,
    }
}

/// Waits for something so long and no longer.
pub(crate) const fn within<F: Future>(time: Duration, future: F) -> Within<F> {
    Within { future, time, timer: None }
}

impl<F: Future> Future for Within<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let parts = self.project();
        // First, so that nothing can use up the time of the task before it is looked at.
        let is_late =
            parts.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(context).is_ready());
        // What is done by now is not too late.
        if let Poll::Ready(done) = parts.future.poll(context) {
            return Poll::Ready(Some(done));
        }
        if is_late {
            return Poll::Ready(None);
        }
        if parts.timer.is_none() {
            let timer = parts.timer.insert(Box::pin(tokio::time::sleep(*parts.time)));
            return timer.as_mut().poll(context).map(|()| None);
        }
        Poll::Pending
    }
}
