//! Stores that wrap another one pass on the call for many change sets, and look at each set's result.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use subscription_core::events::{Actor, Change, Event, Subject};
use subscription_core::store::conformance::at_version;
use subscription_core::store::{
    CacheInvalidator, CachedStore, ChangeSet, EventPage, EventQuery, FeedSignal, Key, Page, Query,
    Record, StoreCall, StoreError, StoreMeter, TimedStore, UniqueValue,
};
use subscription_core::{
    BillingCycle, EventId, MemoryStore, NewPlan, Plan, PlanId, Store, SystemRandomness, Version,
};
use test_support::service_world::at;

/// A store in memory that counts the calls for many change sets.
#[derive(Debug, Default)]
struct Counted {
    inner: MemoryStore,
    calls: AtomicUsize,
}

#[async_trait]
impl Store for Counted {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        self.inner.get(key).await
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        self.inner.find(value).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        self.inner.list(query).await
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        self.inner.events(query).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.inner.commit(changes).await
    }

    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.inner.commit_each(sets).await
    }
}

#[derive(Debug, Default, Clone)]
struct Calls(Arc<AtomicUsize>);

impl StoreMeter for Calls {
    fn called(&self, call: StoreCall, _: Duration, error: Option<&StoreError>) {
        assert!(matches!(error, Some(StoreError::Conflict(_))));
        self.0.fetch_add(usize::from(call == StoreCall::CommitEach), Ordering::SeqCst);
    }
}

fn plan(slug: &str) -> Record {
    let now = at("2025-01-31T00:00:00Z");
    let (name, price) = ("Pro".parse().unwrap(), "19.90".parse().unwrap());
    let new = NewPlan::new(name, slug.parse().unwrap(), price, BillingCycle::MONTHLY);
    Plan::create(new, PlanId::new(now, &SystemRandomness).unwrap(), now).unwrap().into()
}

/// Two new plans with events, and between them a plan at a version that it does not have.
fn sets() -> Vec<ChangeSet> {
    let [first, stale, last] = [plan("first"), at_version(plan("stale"), 7), plan("last")];
    [first, stale, last].map(|write| writing(write, true)).into()
}

fn writing(write: Record, with_event: bool) -> ChangeSet {
    let now = at("2025-01-31T00:00:00Z");
    let Record::Plan(plan) = &write else { unreachable!("only plans are written here") };
    let event = Event {
        id: EventId::new(now, &SystemRandomness).unwrap(),
        at: now,
        subject: Subject::Plan(plan.id),
        version: Version::FIRST,
        change: Change::Created,
        actor: Actor::Library,
    };
    let events = if with_event { vec![event] } else { Vec::new() };
    ChangeSet { events, writes: vec![write], ..ChangeSet::default() }
}

#[tokio::test]
async fn every_wrapper_passes_the_call_on() {
    let counted = Arc::new(Counted::default());
    let inner = || Arc::clone(&counted);
    let wrappers: [Box<dyn Store>; 5] = [
        Box::new(inner()),
        Box::new(Box::new(inner()) as Box<dyn Store>),
        Box::new(CachedStore::new(inner(), CacheInvalidator::LAG)),
        Box::new(FeedSignal::new(inner(), || {})),
        Box::new(TimedStore::new(inner(), Calls::default())),
    ];

    for (before, wrapper) in wrappers.iter().enumerate() {
        wrapper.commit_each(vec![writing(at_version(plan("stale"), 7), false)]).await;

        assert_eq!(counted.calls.load(Ordering::SeqCst), before + 1, "{wrapper:?}");
    }
}

#[tokio::test]
async fn a_cache_looks_at_the_result_of_each_set() {
    let counted = Arc::new(Counted::default());
    let cached = CachedStore::new(Arc::clone(&counted), Duration::from_hours(1));
    let sets = sets();
    let [first, stale, last] = sets.as_slice() else { unreachable!("three sets") };

    let outcomes = cached.commit_each(sets.clone()).await;

    assert!(matches!(outcomes.as_slice(), [Ok(()), Err(StoreError::Conflict(_)), Ok(())]));
    for (changes, hits) in [(first, 1), (stale, 1), (last, 2)] {
        let read = cached.get(&changes.writes[0].key()).await.unwrap();
        assert_eq!(read, counted.inner.get(&changes.writes[0].key()).await.unwrap());
        assert_eq!(cached.cache().hits(), hits);
    }
}

#[tokio::test]
async fn a_feed_is_signalled_once_if_an_event_was_written() {
    let signals = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&signals);
    let store = FeedSignal::new(MemoryStore::default(), move || {
        told.fetch_add(1, Ordering::SeqCst);
    });

    store.commit_each(vec![writing(at_version(plan("stale"), 7), true)]).await;
    store.commit_each(vec![writing(plan("silent"), false)]).await;
    assert_eq!(signals.load(Ordering::SeqCst), 0);

    store.commit_each(sets()).await;
    assert_eq!(signals.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_meter_gets_one_call_with_an_error_of_a_set() {
    let calls = Calls::default();
    let store = TimedStore::new(MemoryStore::default(), calls.clone());

    store.commit_each(sets()).await;

    assert_eq!(calls.0.load(Ordering::SeqCst), 1);
}
