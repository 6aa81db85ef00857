//! The API without a socket. It is fast, and the same seed repeats the same order of all calls.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use async_trait::async_trait;
use subscription_core::auth::{Fetch, FetchFailed, FetchRequest};

use super::model::{Shared, shared};
use crate::rng::Rng;

/// Responds to requests with the objects of an account.
pub struct InProcess {
    account: Shared,
    /// The percentage of requests that fail.
    failing: u32,
    rng: Rng,
    calm: Arc<AtomicBool>,
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").finish_non_exhaustive()
    }
}

impl InProcess {
    pub fn new(account: Shared) -> Self {
        Self { account, failing: 0, rng: Rng::new(0), calm: Arc::new(AtomicBool::new(true)) }
    }

    /// Lets other tasks run before and after each request, and lets `failing` percent of the requests fail. Both stop
    /// when `calm` is set.
    pub fn disturbed(self, rng: &Rng, failing: u32, calm: Arc<AtomicBool>) -> Self {
        Self { failing, rng: rng.fork(), calm, ..self }
    }

    fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    async fn let_others_run(&self) {
        let turns = if self.is_calm() { 0 } else { self.rng.below(3) };
        for _ in 0..turns {
            yield_once().await;
        }
    }
}

/// Yields once to other tasks. The `yield_now` of tokio cannot be used: its task wakes only if the runtime itself polls
/// it.
pub(crate) async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[async_trait]
impl Fetch for InProcess {
    async fn fetch(&self, request: FetchRequest) -> Result<Vec<u8>, FetchFailed> {
        self.let_others_run().await;
        if !self.is_calm() && self.rng.percent(self.failing) {
            let mut failed = FetchFailed::new("the provider limits the rate");
            failed.status = self.rng.pick([429, 500, 503]);
            return Err(failed);
        }
        let path = request.url.path().to_owned();
        let query = request.url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let (status, body) = shared(&self.account).answer(&format!("{path}{query}"));
        self.let_others_run().await;
        if status != 200 {
            let mut failed = FetchFailed::new("the status is not 200");
            failed.status = Some(status);
            return Err(failed);
        }
        Ok(body.to_string().into_bytes())
    }
}
