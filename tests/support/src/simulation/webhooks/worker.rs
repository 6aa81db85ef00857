//! A worker: one process that leads, and can be killed between any two awaits.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use subscription_core::store::{Key, Record};
use subscription_core::webhooks::{Sender, SenderSignals, Webhooks};
use subscription_core::{
    Clock as _, Error, ManualClock, SeededRandomness, ServerKeys, Store, SubscriptionService,
    Timestamp,
};

use super::broken::Fault;
use super::receivers::{Network, Shared};
use super::store::PlantedFault;
use crate::rng::Rng;
use crate::simulation::worker_store::WorkerStore;

/// The parts that all workers of a run share.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub(super) store: Arc<dyn Store>,
    pub(super) receivers: Shared,
    pub(super) clock: ManualClock,
    pub(super) calm: Arc<AtomicBool>,
    pub(super) fault: Option<Fault>,
    pub(super) seen: Arc<Mutex<HashMap<Key, Record>>>,
    pub(super) commits: Arc<AtomicUsize>,
}

/// The timer and the signals of a sender. The timer uses the clock of the simulation. Signals may be late or missing.
#[derive(Debug)]
struct Signals {
    clock: ManualClock,
    woken: AtomicBool,
    stopped: AtomicBool,
}

#[async_trait]
impl SenderSignals for Signals {
    async fn wait(&self, longest: Duration) {
        let until = self.clock.now().saturating_add(longest);
        std::future::poll_fn(|_| {
            let is_woken = self.woken.swap(false, Ordering::SeqCst) && !self.is_stopped();
            if is_woken || self.clock.now() >= until { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

type Ran = (Sender, Result<Option<Timestamp>, Error>);

pub(super) struct Worker {
    pub(super) webhooks: Webhooks,
    sender: Option<Sender>,
    run: Option<Pin<Box<dyn Future<Output = Ran> + Send>>>,
    signals: Arc<Signals>,
}

pub(super) fn keys() -> ServerKeys {
    ServerKeys::new(1, b"a key that only our own server ever has".to_vec().into()).unwrap()
}

impl Worker {
    /// Starts a process that has just begun to lead. Each process has its own number.
    pub(super) fn start(common: &Common, rng: &Rng, number: usize) -> Self {
        let Common { store, receivers, clock, calm, fault, seen, commits } = common.clone();
        let (inner, disturbs) = (store, Arc::clone(&calm));
        let planted = PlantedFault { fault, seen, commits };
        let store = WorkerStore { inner, rng: rng.fork(), calm: disturbs, planted };
        let service = SubscriptionService::builder(store)
            .clock(clock.clone())
            .randomness(SeededRandomness::new(rng.number()))
            .build();
        let (turned, rng) = (clock.clone(), rng.fork());
        let network = Network { receivers, worker: number, clock: turned, rng, calm, fault };
        let webhooks = Webhooks::new(service, keys(), network).with_clock(clock.clone());
        let sender = Some(webhooks.sender());
        let (woken, stopped) = (AtomicBool::new(false), AtomicBool::new(false));
        let signals = Arc::new(Signals { clock, woken, stopped });
        Self { webhooks, sender, run: None, signals }
    }

    pub(super) fn signal(&self) {
        self.signals.woken.store(true, Ordering::SeqCst);
    }

    pub(super) fn stop(&self) {
        self.signals.stopped.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.signals.is_stopped() && self.run.is_none()
    }

    /// Polls the job once, and starts it if it does not run. Returns the result if the job has ended.
    pub(super) fn poll(&mut self) -> Option<Result<Option<Timestamp>, Error>> {
        if let Some(mut sender) = self.sender.take() {
            let signals = Arc::clone(&self.signals);
            self.run = Some(Box::pin(async move {
                let result = sender.run(&*signals).await;
                (sender, result)
            }));
        }
        let run = self.run.as_mut()?;
        let Poll::Ready((sender, result)) =
            run.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        else {
            return None;
        };
        (self.sender, self.run) = (Some(sender), None);
        Some(result)
    }
}
