//! Requests of callers who wait at the same time, handled as groups.
//!
//! A request is handled at once, unless the maximum number of groups is running. Then it waits, and joins the next
//! group with the other requests that wait by then. So a group begins only after all its requests were made.
//!
//! A separate task handles the groups, so that a caller who is cancelled does not cancel the requests of others.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::values::locked;

/// The largest number of requests in a group.
const GROUP_MAX: usize = 64;

/// Handles requests, several at a time.
pub(super) trait Handler: Debug + Send + Sync + 'static {
    type Request: Debug + Send;
    type Answer: Debug + Send;

    /// The largest number of groups that run at the same time.
    const GROUPS_MAX: usize;

    /// Handles the requests, and returns the results in their order.
    fn handle(
        &self,
        requests: Vec<Self::Request>,
    ) -> impl Future<Output = Vec<Self::Answer>> + Send;
}

/// A handler, and the requests that wait for it.
#[derive(Debug)]
pub(super) struct Groups<H: Handler> {
    pub(super) handler: H,
    queue: Mutex<Queue<H>>,
}

/// A request, and the caller who waits for its result.
type Waiting<H> = (<H as Handler>::Request, oneshot::Sender<<H as Handler>::Answer>);

#[derive(Debug)]
struct Queue<H: Handler> {
    waiting: VecDeque<Waiting<H>>,
    /// The number of groups that are running.
    under_way: usize,
}

impl<H: Handler> Groups<H> {
    pub(super) fn new(handler: H) -> Arc<Self> {
        let queue = Queue { waiting: VecDeque::new(), under_way: 0 };
        Arc::new(Self { handler, queue: Mutex::new(queue) })
    }

    /// The result of a request; `None` if the runtime ends before the result is known, or if the handler panics.
    pub(super) async fn answer(self: &Arc<Self>, request: H::Request) -> Option<H::Answer> {
        let (tell, told) = oneshot::channel();
        let begins = {
            let mut queue = locked(&self.queue);
            queue.waiting.push_back((request, tell));
            let begins = queue.under_way < H::GROUPS_MAX;
            queue.under_way += usize::from(begins);
            begins
        };
        if begins {
            tokio::spawn(Running { groups: Arc::clone(self), is_done: false }.run());
        }
        told.await.ok()
    }
}

/// A task that handles groups until nobody waits.
struct Running<H: Handler> {
    groups: Arc<Groups<H>>,
    /// True once the task is no longer counted as running.
    is_done: bool,
}

impl<H: Handler> Running<H> {
    async fn run(mut self) {
        while let Some(next) = self.next() {
            let (requests, callers): (Vec<_>, Vec<_>) = next.into_iter().unzip();
            let answers = self.groups.handler.handle(requests).await;
            for (caller, answer) in callers.into_iter().zip(answers) {
                // A caller who was cancelled needs no result.
                caller.send(answer).ok();
            }
        }
    }

    /// The next group; `None` if nobody waits, and the task must end.
    fn next(&mut self) -> Option<Vec<Waiting<H>>> {
        let mut queue = locked(&self.groups.queue);
        // Callers who were cancelled no longer wait.
        queue.waiting.retain(|(_, caller)| !caller.is_closed());
        if queue.waiting.is_empty() {
            queue.under_way -= 1;
            self.is_done = true;
            return None;
        }
        let size = queue.waiting.len().min(GROUP_MAX);
        Some(queue.waiting.drain(..size).collect())
    }
}

impl<H: Handler> Drop for Running<H> {
    fn drop(&mut self) {
        if !self.is_done {
            // The runtime has ended, or the handler has panicked. The callers who wait get an error.
            let mut queue = locked(&self.groups.queue);
            queue.under_way -= 1;
            queue.waiting.clear();
        }
    }
}
