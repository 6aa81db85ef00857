//! A time-out whose timer is created only if the future is not ready at once.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Sleep;

pin_project! {
    /// The output of a future, or `None` if it takes too long.
    ///
    /// Not an `async fn`: it would store the inner future twice and double its size.
    pub(crate) struct LazyTimeout<F> {
        #[pin]
        future: F,
        time: Duration,
        timer: Option<Pin<Box<Sleep>>>,
    }
}

/// Waits for a future for so long at most.
pub(crate) const fn timeout<F: Future>(time: Duration, future: F) -> LazyTimeout<F> {
    LazyTimeout { future, time, timer: None }
}

impl<F: Future> Future for LazyTimeout<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let parts = self.project();
        // The timer first: the future may use up the time slice of the task.
        let is_late =
            parts.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(context).is_ready());
        // A future that is ready by now is not too late.
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
