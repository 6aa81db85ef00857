//! A worker: one process that receives webhooks, applies events and syncs. It can be killed between any two awaits.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};

use subscription_core::providers::{
    Applied, HttpProviderApi, ObservedNow, ProviderAccount, Providers, Received, SyncStep,
};
use subscription_core::{Error, ManualClock, SeededRandomness, Store, SubscriptionService};

use super::broken::Fault;
use super::commits::{Commits, PlantedFault};
use crate::fake_provider::{Event, InProcess, KEY, SECRET, Shared, shared};
use crate::rng::Rng;
use crate::simulation::worker_store::WorkerStore;

/// Maximum number of polls until a task must have ended by itself.
pub(super) const POLLS_MAX: usize = 200_000;

/// The result of a task.
#[derive(Debug)]
pub(super) enum Done {
    TookIn(Event, Result<Received, Error>),
    Advanced(Result<Applied, Error>),
    Observed(Result<ObservedNow, Error>),
    Synced(Result<SyncStep, Error>),
    Bound(Result<(), Error>),
    Decided(Result<(), Error>),
}

pub(super) type Task = Pin<Box<dyn Future<Output = Done> + Send>>;

/// The parts that all workers of a run share.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub(super) store: Arc<dyn Store>,
    pub(super) commits: Commits,
    pub(super) account: Shared,
    pub(super) clock: ManualClock,
    pub(super) calm: Arc<AtomicBool>,
    pub(super) fault: Option<Fault>,
}

pub(super) struct Worker {
    pub(super) providers: Providers,
    pub(super) running: Vec<Task>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("running", &self.running.len()).finish_non_exhaustive()
    }
}

impl Worker {
    /// Starts a new process. `configure` sets the options of the source.
    pub(super) fn start(
        common: &Common,
        rng: &Rng,
        configure: impl FnOnce(ProviderAccount) -> ProviderAccount,
    ) -> Self {
        let commits = Arc::clone(&common.commits);
        let store = WorkerStore {
            inner: Arc::clone(&common.store),
            rng: rng.fork(),
            calm: Arc::clone(&common.calm),
            planted: PlantedFault { fault: common.fault, commits },
        };
        let service = SubscriptionService::builder(store)
            .clock(common.clock.clone())
            .randomness(SeededRandomness::new(rng.number()))
            .build();
        let kind = shared(&common.account).kind;
        let fetch = InProcess::new(Arc::clone(&common.account));
        let fetch = Arc::new(fetch.disturbed(rng, 2, Arc::clone(&common.calm)));
        let api = Arc::new(HttpProviderApi::new(kind, KEY.into(), fetch));
        let source = ProviderAccount::new("shop".parse().unwrap(), kind, vec![SECRET.into()], api);
        let providers = Providers::new(service, vec![configure(source)]);
        Self { providers, running: Vec::new() }
    }
}

/// Polls a task once.
pub(super) fn poll(task: &mut Task) -> Option<Done> {
    match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// Polls a task until it ends.
pub(super) fn finish(mut task: Task) -> Done {
    for _ in 0..POLLS_MAX {
        if let Some(done) = poll(&mut task) {
            return done;
        }
    }
    panic!("a task does not end")
}
