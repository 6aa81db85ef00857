//! A set of futures that run while their owner awaits something else.

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

/// Futures that are running, and the results of those that have ended. Dropping this value cancels the futures.
pub(crate) struct Running<'r, T> {
    futures: FuturesUnordered<BoxFuture<'r, T>>,
    ended: Vec<T>,
}

impl<'r, T> Running<'r, T> {
    pub(crate) fn new() -> Self {
        Self { futures: FuturesUnordered::new(), ended: Vec::new() }
    }

    pub(crate) fn push(&self, future: impl Future<Output = T> + Send + 'r) {
        self.futures.push(future.boxed());
    }

    /// The number of futures that are still running.
    pub(crate) fn len(&self) -> usize {
        self.futures.len()
    }

    /// True if no future is running and all results have been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.futures.is_empty() && self.ended.is_empty()
    }

    pub(crate) fn take_ended(&mut self) -> Vec<T> {
        mem::take(&mut self.ended)
    }

    /// Polls all futures. Returns true if there are results to take.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        while let Poll::Ready(Some(result)) = self.futures.poll_next_unpin(cx) {
            self.ended.push(result);
        }
        !self.ended.is_empty()
    }

    /// Awaits `call` and returns its result, while the futures continue to run.
    pub(crate) async fn beside<C>(&mut self, call: impl Future<Output = C>) -> C {
        let mut call = pin!(call);
        poll_fn(|cx| {
            self.poll(cx);
            call.as_mut().poll(cx)
        })
        .await
    }

    /// Waits until a future has ended, or for `signal`. Returns the output of the signal, or `None` if there are
    /// results to take. The signal is polled last.
    pub(crate) async fn any_or<S>(&mut self, signal: impl Future<Output = S>) -> Option<S> {
        let mut signal = pin!(signal);
        poll_fn(
            |cx| {
                if self.poll(cx) { Poll::Ready(None) } else { signal.as_mut().poll(cx).map(Some) }
            },
        )
        .await
    }

    /// Waits until all futures have ended.
    pub(crate) async fn all(&mut self) {
        poll_fn(|cx| {
            self.poll(cx);
            if self.futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
