//! A sending job over a store in memory that counts calls.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use subscription_core::store::PageLimit;
use subscription_core::webhooks::{
    Deliver, DeliveryRequest, DeliveryResult, EndpointId, FirstEvent, NewEndpoint, Sender,
    SenderSignals, ShownEndpoint, Webhooks,
};
use subscription_core::{
    Clock as _, ManualClock, Plan, PlanChanges, SeededRandomness, SubscriptionService, Timestamp,
};
use test_support::service_world::{at, new_plan, of};
use test_support::spy_store::{CallCounts, SpyStore};
use tokio::sync::Semaphore;

use crate::auth::world::{SERVER_KEY, server_key};

/// A delivery that was received.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) request: DeliveryRequest,
    pub(crate) body: Value,
    pub(crate) sequence: u64,
    pub(crate) at: Timestamp,
}

/// The receivers of all endpoints.
#[derive(Debug, Clone)]
pub(crate) struct Receivers {
    script: Arc<Mutex<Script>>,
    /// The answers that may be given, while they are held back.
    permits: Arc<Semaphore>,
    clock: ManualClock,
}

#[derive(Debug)]
struct Script {
    received: Vec<Received>,
    answer: DeliveryResult,
    answers: BTreeMap<u64, DeliveryResult>,
    /// The part of the URLs whose answers are held back.
    held: Option<String>,
    in_flight: BTreeMap<String, usize>,
}

impl Receivers {
    fn new(clock: &ManualClock) -> Self {
        let script = Script {
            received: Vec::new(),
            answer: DeliveryResult::answered(204),
            answers: BTreeMap::new(),
            held: None,
            in_flight: BTreeMap::new(),
        };
        let permits = Arc::new(Semaphore::new(0));
        Self { script: Arc::new(Mutex::new(script)), permits, clock: clock.clone() }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// Answers all deliveries so.
    pub(crate) fn answer(&self, outcome: DeliveryResult) {
        let mut script = self.script();
        script.answer = outcome;
        script.answers.clear();
    }

    /// Answers the deliveries of an event so.
    pub(crate) fn answer_to(&self, sequence: u64, outcome: DeliveryResult) {
        self.script().answers.insert(sequence, outcome);
    }

    /// Holds back the answers of the URLs with this part, or to an event (`#50;`).
    pub(crate) fn hold(&self, part: &str) {
        self.script().held = Some(part.to_owned());
    }

    /// Gives so many answers that were held back.
    pub(crate) fn release(&self, count: usize) {
        self.permits.add_permits(count);
    }

    /// The sequences of the deliveries that were received since the last call of this.
    pub(crate) fn take(&self) -> Vec<u64> {
        self.take_all().iter().map(|received| received.sequence).collect()
    }

    pub(crate) fn take_all(&self) -> Vec<Received> {
        std::mem::take(&mut self.script().received)
    }

    pub(crate) fn in_flight(&self, url: &str) -> usize {
        self.script().in_flight.get(url).copied().unwrap_or_default()
    }
}

#[async_trait]
impl Deliver for Receivers {
    async fn deliver(&self, request: DeliveryRequest) -> DeliveryResult {
        let url = request.url.to_string();
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let sequence = body.get("sequence").and_then(Value::as_u64).unwrap();
        let is_held = {
            let mut script = self.script();
            let received = Received { request, body, sequence, at: self.clock.now() };
            script.received.push(received);
            *script.in_flight.entry(url.clone()).or_default() += 1;
            let place = format!("{url}#{sequence};");
            script.held.as_ref().is_some_and(|part| place.contains(part))
        };
        if is_held {
            self.permits.acquire().await.unwrap().forget();
        }
        let mut script = self.script();
        *script.in_flight.entry(url).or_default() -= 1;
        script.answers.get(&sequence).unwrap_or(&script.answer).clone()
    }
}

/// Time passes when the job has nothing else to do: a task runs when all others wait.
pub(crate) struct Passing(ManualClock);

#[async_trait]
impl SenderSignals for Passing {
    async fn wait(&self, longest: Duration) {
        tokio::spawn(std::future::ready(())).await.unwrap();
        self.0.advance(longest);
    }

    fn is_stopped(&self) -> bool {
        false
    }
}

/// No time passes. When it is stopped, the time of the tries in flight is over at once.
#[derive(Default)]
pub(crate) struct Standing(AtomicBool, tokio::sync::Notify);

impl Standing {
    pub(crate) fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.notify_one();
    }

    pub(crate) fn signal(&self) {
        self.1.notify_one();
    }
}

#[async_trait]
impl SenderSignals for Standing {
    async fn wait(&self, _: Duration) {
        if !self.is_stopped() {
            self.1.notified().await;
        }
    }

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) struct SendingWorld {
    pub(crate) webhooks: Webhooks,
    pub(crate) service: SubscriptionService,
    pub(crate) store: Arc<SpyStore<CallCounts>>,
    pub(crate) clock: ManualClock,
    pub(crate) receivers: Receivers,
    pub(crate) sender: Sender,
}

impl SendingWorld {
    pub(crate) fn new() -> Self {
        test_support::logs::listen();
        let clock = ManualClock::at(at("2025-01-31T00:00:00.000000Z"));
        let store = SpyStore::new(CallCounts::default());
        let service = SubscriptionService::builder(Arc::clone(&store))
            .clock(clock.clone())
            .randomness(SeededRandomness::new(1))
            .build();
        let receivers = Receivers::new(&clock);
        let webhooks = Webhooks::new(service.clone(), server_key(1, SERVER_KEY), receivers.clone());
        let webhooks = webhooks.with_clock(clock.clone());
        let sender = webhooks.sender();
        Self { webhooks, service, store, clock, receivers, sender }
    }

    /// An endpoint for all events from the start of the feed.
    pub(crate) async fn endpoint(&self, url: &str) -> EndpointId {
        let new = NewEndpoint { from: FirstEvent::Start, ..NewEndpoint::new(url.parse().unwrap()) };
        self.webhooks.create(new).await.unwrap().endpoint.id
    }

    /// Makes plans, with an event each; the sequence of the last event.
    pub(crate) async fn plans(&self, count: u64) -> u64 {
        let last = self.last().await;
        for nth in last..last + count {
            self.plan(&format!("plan-{nth}")).await;
        }
        self.last().await
    }

    pub(crate) async fn plan(&self, slug: &str) -> Arc<Plan> {
        self.service.create_plan(new_plan(slug)).await.unwrap()
    }

    /// Changes a plan, with an event.
    pub(crate) async fn change(&self, plan: &Plan) -> Arc<Plan> {
        let tier = of(&(plan.version.get() % 100).to_string());
        let changes = PlanChanges { tier: Some(tier), ..PlanChanges::default() };
        self.service.update_plan(&plan.slug, changes).await.unwrap()
    }

    pub(crate) async fn last(&self) -> u64 {
        let newest = self.service.events(0, PageLimit::MAX);
        let mut last = newest.await.unwrap().last().map_or(0, |event| event.sequence);
        while let Some(event) = self.service.events(last, PageLimit::MAX).await.unwrap().last() {
            last = event.sequence;
        }
        last
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Runs the job until nothing is due; when something is.
    pub(crate) async fn run(&mut self) -> Option<Timestamp> {
        let wake = Passing(self.clock.clone());
        self.sender.run(&wake).await.unwrap()
    }

    /// Waits until something is due, and runs the job.
    pub(crate) async fn run_at(&mut self, next_at: Option<Timestamp>) -> Option<Timestamp> {
        self.clock.set(next_at.unwrap().max(self.now()));
        self.run().await
    }

    pub(crate) async fn shown(&self, id: EndpointId) -> ShownEndpoint {
        self.webhooks.get(id).await.unwrap()
    }

    /// The events that are set aside: sequence, state and tries.
    pub(crate) async fn parked(&self, id: EndpointId) -> Vec<(u64, String, u32)> {
        let page = self.webhooks.parked(id, None, PageLimit::MAX).await.unwrap();
        let row = |it: &subscription_core::webhooks::ListedParked| {
            (it.event.sequence, it.state.to_string(), it.attempts)
        };
        page.items.iter().map(row).collect()
    }
}

/// Lets other parts of a test run until they wait.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
