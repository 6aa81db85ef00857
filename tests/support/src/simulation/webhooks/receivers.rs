//! The receivers of all endpoints, and the network between the workers and the receivers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use subscription_core::events::{RecordedEvent, Subject, TypePattern};
use subscription_core::webhooks::{Deliver, DeliveryRequest, DeliveryResult, EndpointId};
use subscription_core::{Clock as _, ManualClock, Timestamp};

use super::broken::Fault;
use super::invariants::{
    FIRST_TRIES_ARE_IN_ORDER, LIMITS_HOLD, NOTHING_IS_SENT_AFTER_A_DELETION,
    PAYLOADS_HAVE_NO_PERSONAL_DATA,
};
use super::life::HIDDEN;
use crate::fake_provider::yield_once;
use crate::rng::Rng;
use crate::simulation::invariants::Broken;

/// The number of tries after which an event may be given up.
const TRIES_MAX: usize = 10;
/// The time after which a delivery times out.
const TIMEOUT: Duration = Duration::from_secs(15);

/// How a receiver behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Well,
    Fails(u16),
    /// The receiver refuses every second event.
    Picky,
    Slow,
    Vanished,
    Gone,
}

/// A receiver, and the endpoint that it belongs to.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) endpoint: EndpointId,
    pub(super) types: Vec<TypePattern>,
    /// The cursor of the endpoint when it was created.
    pub(super) start: u64,
    pub(super) deleted_at: Option<Timestamp>,
    pub(super) mood: Mood,
    /// The ids of the records whose events the receiver refuses.
    pub(super) refused: BTreeSet<String>,
    pub(super) accepted: BTreeSet<u64>,
    pub(super) failures: BTreeMap<u64, usize>,
    /// The highest version of each record that the receiver has received, with the record.
    pub(super) kept: BTreeMap<(String, String), (u64, Value)>,
    /// The number of tries in flight of each worker.
    in_flight: BTreeMap<usize, usize>,
}

impl Receiver {
    pub(super) fn new(endpoint: EndpointId, types: Vec<TypePattern>, start: u64) -> Self {
        Self {
            endpoint,
            types,
            start,
            deleted_at: None,
            mood: Mood::Well,
            refused: BTreeSet::new(),
            accepted: BTreeSet::new(),
            failures: BTreeMap::new(),
            kept: BTreeMap::new(),
            in_flight: BTreeMap::new(),
        }
    }

    pub(super) fn wants(&self, event: &RecordedEvent) -> bool {
        event.sequence > self.start && self.types.iter().any(|it| it.admits(&event.event))
    }

    fn keep(&mut self, body: &Value) {
        let data = &body["data"];
        let text = |name: &str| data[name].as_str().unwrap().to_owned();
        let version = data["object"]["version"].as_u64().or(data["version"].as_u64()).unwrap();
        let kept = self.kept.entry((text("kind"), text("id"))).or_default();
        if version >= kept.0 {
            *kept = (version, data["object"].clone());
        }
    }
}

/// All receivers by the host of their URLs, the feed, and the invariants that deliveries broke.
#[derive(Debug, Default)]
pub(super) struct Receivers {
    pub(super) by_host: BTreeMap<String, Receiver>,
    pub(super) feed: Vec<RecordedEvent>,
    /// The sequences of the events of each record.
    of_record: HashMap<Subject, Vec<u64>>,
    pub(super) broken: Vec<Broken>,
}

impl Receivers {
    pub(super) fn add(&mut self, event: RecordedEvent) {
        let of_record = self.of_record.entry(event.event.subject.clone()).or_default();
        of_record.push(event.sequence);
        self.feed.push(event);
    }

    fn event(feed: &[RecordedEvent], sequence: u64) -> Option<&RecordedEvent> {
        let nth = feed.binary_search_by_key(&sequence, |event| event.sequence).ok()?;
        feed.get(nth)
    }
}

pub(super) type Shared = Arc<Mutex<Receivers>>;

pub(super) fn lock(shared: &Shared) -> MutexGuard<'_, Receivers> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The network that one worker uses.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) receivers: Shared,
    pub(super) worker: usize,
    pub(super) clock: ManualClock,
    pub(super) rng: Rng,
    pub(super) calm: Arc<AtomicBool>,
    pub(super) fault: Option<Fault>,
}

/// A try in flight. Dropping this value ends the try, also if its worker is killed.
struct InFlight<'n>(&'n Network, String);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if let Some(receiver) = lock(&self.0.receivers).by_host.get_mut(&self.1) {
            *receiver.in_flight.entry(self.0.worker).or_default() -= 1;
        }
    }
}

impl Network {
    /// Records the beginning of a try, and the invariants that it breaks.
    fn begin(&self, host: &str, sequence: u64, text: &str) {
        let mut shared = lock(&self.receivers);
        let Receivers { by_host, feed, of_record, broken } = &mut *shared;
        let receiver = by_host.get_mut(host).unwrap();
        let busy = receiver.in_flight.entry(self.worker).or_default();
        *busy += 1;
        if *busy > 8 {
            broken.push(Broken::new(LIMITS_HOLD, format!("{busy} tries in flight to {host}")));
        }
        let now = self.clock.now();
        let late = Duration::from_secs(2);
        if receiver.deleted_at.is_some_and(|at| now > at.saturating_add(late)) {
            broken
                .push(Broken::new(NOTHING_IS_SENT_AFTER_A_DELETION, format!("{sequence} {host}")));
        }
        if let Some(hidden) = HIDDEN.iter().find(|hidden| text.contains(**hidden)) {
            broken.push(Broken::new(PAYLOADS_HAVE_NO_PERSONAL_DATA, format!("{hidden} in {text}")));
        }
        let Some(event) = Receivers::event(feed, sequence) else { return };
        let earlier = of_record[&event.event.subject].iter().take_while(|it| **it < sequence);
        let open = earlier.filter_map(|it| Receivers::event(feed, *it)).find(|earlier| {
            let failures = receiver.failures.get(&earlier.sequence).copied().unwrap_or_default();
            receiver.wants(earlier)
                && !receiver.accepted.contains(&earlier.sequence)
                && failures < TRIES_MAX
        });
        if let Some(open) = open {
            let detail = format!("{sequence} before {} to {host}", open.sequence);
            broken.push(Broken::new(FIRST_TRIES_ARE_IN_ORDER, detail));
        }
    }

    /// The response of a receiver, after the time that the receiver needs.
    async fn answer(&self, host: &str, sequence: u64, subject: &str) -> DeliveryResult {
        let is_calm = || self.calm.load(Ordering::SeqCst);
        let turns = if is_calm() { 0 } else { self.rng.below(4) };
        for _ in 0..turns {
            yield_once().await;
        }
        let mood = lock(&self.receivers).by_host[host].mood;
        if mood == Mood::Slow {
            let until = self.clock.now().saturating_add(Duration::from_secs(self.rng.below(20)));
            let timeout = self.clock.now().saturating_add(TIMEOUT);
            while self.clock.now() < until.min(timeout) && !is_calm() {
                yield_once().await;
            }
            if self.clock.now() >= timeout {
                return DeliveryResult::TimedOut;
            }
        }
        let is_refused = lock(&self.receivers).by_host[host].refused.contains(subject);
        match mood {
            Mood::Well | Mood::Slow if !is_refused => DeliveryResult::answered(200),
            Mood::Well | Mood::Slow => DeliveryResult::answered(422),
            Mood::Picky => {
                DeliveryResult::answered(if sequence.is_multiple_of(2) { 200 } else { 422 })
            }
            Mood::Fails(status) => DeliveryResult::answered(status),
            Mood::Vanished => DeliveryResult::Unreachable,
            Mood::Gone => DeliveryResult::answered(410),
        }
    }
}

#[async_trait]
impl Deliver for Network {
    async fn deliver(&self, request: DeliveryRequest) -> DeliveryResult {
        let host = request.url.host_str().unwrap().to_owned();
        let mut text = String::from_utf8(request.body).unwrap();
        let body: Value = serde_json::from_str(&text).unwrap();
        if self.fault == Some(Fault::TellsActors) {
            text.push_str("client:shop");
        }
        // A ping has no event.
        let Some(sequence) = body["sequence"].as_u64() else {
            return self.answer(&host, 0, "").await;
        };
        let subject = body["data"]["id"].as_str().unwrap();
        self.begin(&host, sequence, &text);
        let _in_flight = InFlight(self, host.clone());
        let outcome = self.answer(&host, sequence, subject).await;
        let is_lost = !self.calm.load(Ordering::SeqCst) && self.rng.percent(2);
        let mut shared = lock(&self.receivers);
        let receiver = shared.by_host.get_mut(&host).unwrap();
        if outcome.is_delivered() {
            receiver.accepted.insert(sequence);
            receiver.keep(&body);
        }
        // The receiver handled the delivery, but its response is lost.
        let outcome = if is_lost { DeliveryResult::Unreachable } else { outcome };
        if !outcome.is_delivered() {
            *receiver.failures.entry(sequence).or_default() += 1;
        }
        outcome
    }
}
