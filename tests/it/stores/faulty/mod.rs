//! A store with one fault of choice, to show that the suite finds it.

#![expect(clippy::wildcard_enum_match_arm, reason = "each place knows a few of the faults")]

mod commits;
mod fault;
mod lists;
mod users;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use subscription_core::auth::{IdentityKey, Session};
use subscription_core::events::RecordedEvent;
use subscription_core::store::{
    ChangeSet, Document, EventPage, EventQuery, Key, Page, PageLimit, Query, Record, StoreError,
    Unique, UniqueValue,
};
use subscription_core::{
    Amount, EventId, MemoryStore, Metadata, Payment, Plan, PlanId, Slug, Store, Subscription,
    SubscriptionId, Timestamp, Version,
};
use uuid::Uuid;

pub(super) use self::fault::Fault;

/// A [`MemoryStore`] that a fault stands in front of.
#[derive(Debug)]
pub(super) struct FaultyStore {
    fault: Option<Fault>,
    inner: MemoryStore,
    memory: Mutex<Memory>,
}

/// State that faults keep.
#[derive(Debug, Default)]
struct Memory {
    values: HashSet<(Unique, String)>,
    plans: HashMap<PlanId, Option<Record>>,
    slugs: HashMap<Slug, Record>,
    firsts: HashMap<Uuid, Record>,
    places: HashMap<Uuid, usize>,
    subscriptions: HashSet<SubscriptionId>,
    scheduled: HashSet<PlanId>,
    sequences: HashMap<EventId, u64>,
}

impl FaultyStore {
    pub(super) fn new(fault: Option<Fault>) -> Self {
        Self { fault, inner: MemoryStore::default(), memory: Mutex::default() }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap()
    }

    async fn stored(&self, key: &Key) -> Option<Record> {
        self.inner.get(key).await.unwrap()
    }

    async fn version(&self, key: &Key) -> Version {
        self.stored(key).await.map_or(Version::NEW, |found| found.version())
    }

    fn read_subscription(&self, found: Arc<Subscription>) -> Arc<Subscription> {
        let to_millis =
            |at: Timestamp| Timestamp::from_micros(at.micros() / 1_000 * 1_000).unwrap();
        match self.fault {
            Some(Fault::SortsTheKeysOfMetadata) => {
                let metadata = found.metadata.as_ref().and_then(|metadata| {
                    let sorted: BTreeMap<_, _> = metadata.iter().collect();
                    Metadata::new(sorted).unwrap()
                });
                Arc::new(Subscription { metadata, ..(*found).clone() })
            }
            Some(Fault::LosesBilling) => {
                Arc::new(Subscription { billing: None, ..(*found).clone() })
            }
            Some(Fault::LosesBlocked) => {
                Arc::new(Subscription { blocked: false, ..(*found).clone() })
            }
            Some(Fault::CutsTimesToMilliseconds) => Arc::new(Subscription {
                renews_at: found.renews_at.map(to_millis),
                ..(*found).clone()
            }),
            _ => found,
        }
    }

    fn read_plan(&self, found: Arc<Plan>) -> Arc<Plan> {
        if self.has(Fault::NormalizesPrices) {
            let price = Amount::try_from(found.price.value().normalize()).unwrap();
            return Arc::new(Plan { price, ..(*found).clone() });
        }
        found
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        let found = self.inner.get(key).await?.map(|found| match found {
            Record::Plan(plan) => Record::Plan(self.read_plan(plan)),
            Record::Subscription(held) => Record::Subscription(self.read_subscription(held)),
            Record::Payment(payment) if self.has(Fault::LosesSettled) => {
                Payment { settled: false, ..(*payment).clone() }.into()
            }
            Record::Payment(payment) if self.has(Fault::LosesWhatIsAsked) => {
                Payment { asked: None, ..(*payment).clone() }.into()
            }
            Record::Session(session) if self.has(Fault::LosesRevocations) => {
                Session { revoked: None, ..(*session).clone() }.into()
            }
            Record::Document(document) if self.has(Fault::LosesOwners) => {
                Document { owner: None, ..(*document).clone() }.into()
            }
            other => other,
        });
        match key {
            Key::Plan(id) if self.has(Fault::ServesPlansFromAStaleCache) => {
                Ok(self.memory().plans.entry(*id).or_insert(found).clone())
            }
            _ => Ok(found),
        }
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        let found = self.inner.find(value).await?;
        match value {
            UniqueValue::PlanSlug(slug) if self.has(Fault::FindsDeletedPlansBySlug) => {
                Ok(found.or_else(|| self.memory().slugs.get(slug).cloned()))
            }
            UniqueValue::UserIdentity(identity) if self.has(Fault::FindsUsersBySubjectAlone) => {
                for issuer in ["https://id.example.com", "https://other"] {
                    let issuer = issuer.parse().unwrap();
                    let identity = IdentityKey { issuer, ..identity.clone() };
                    let found = self.inner.find(UniqueValue::UserIdentity(&identity)).await?;
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                Ok(found)
            }
            _ => Ok(found),
        }
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        lists::list(self, query.clone()).await
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        let (after, limit) = (query.after, query.limit);
        let mut page = self.inner.events(query).await?;
        let items = async |after, limit| {
            let page = self.inner.events(&EventQuery::after(after, limit)).await?;
            Ok::<_, StoreError>(page.items)
        };
        match self.fault {
            Some(Fault::ReversesTheFeed) => page.items.reverse(),
            Some(Fault::NumbersTheFeedAnew) => {
                let all = items(0, PageLimit::MAX).await?.into_iter().zip(1..);
                let anew = all.map(|(recorded, sequence)| RecordedEvent { sequence, ..recorded });
                let anew = anew.filter(|recorded| recorded.sequence > after);
                page.items = anew.take(limit.get()).collect();
            }
            Some(Fault::RepeatsTheLastEventSeen) => {
                page.items = items(after.saturating_sub(1), limit).await?;
            }
            Some(Fault::NumbersEventsBeforeLocking) => {
                let mut all = items(0, PageLimit::MAX).await?;
                for recorded in &mut all {
                    recorded.sequence = self.memory().sequences[&recorded.event.id];
                }
                all.sort_by_key(|recorded| recorded.sequence);
                all.retain(|recorded| recorded.sequence > after);
                all.truncate(limit.get());
                page.items = all;
            }
            Some(Fault::IgnoresTheLimitOfEvents) => {
                page.items = items(after, PageLimit::MAX).await?;
            }
            Some(Fault::IgnoresTheSubjectOfEvents) => {
                let types = query.types.clone();
                let query = EventQuery::after(after, limit).with_types(types);
                page = self.inner.events(&query).await?;
            }
            Some(Fault::IgnoresTheTypesOfEvents) => {
                page = self.inner.events(&EventQuery::after(after, limit)).await?;
            }
            Some(Fault::StaysBeforeUnwantedEvents) => {
                page.reached = page.items.last().map_or(after, |recorded| recorded.sequence);
            }
            Some(Fault::LosesTheEndOfTheFeed) if page.first_kept > page.last => {
                (page.first_kept, page.last) = (1, 0);
            }
            _ => {}
        }
        Ok(page)
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.commit_faultily(changes).await
    }

    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        self.commit_each_faultily(sets).await
    }
}
