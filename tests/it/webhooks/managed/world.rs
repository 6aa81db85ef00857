//! Webhooks over a service in memory, with a receiver that answers as it is told.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use subscription_core::events::RecordedEvent;
use subscription_core::store::{
    ChangeSet, Collection, Document, DocumentFilter, DocumentKey, DocumentQuery, PageLimit, Record,
    StoreExt as _,
};
use subscription_core::webhooks::{
    AddressRules, Deliver, DeliveryRequest, DeliveryResult, EndpointId, EndpointWithSecret,
    NewEndpoint, Webhooks,
};
use subscription_core::{
    ManualClock, MemoryStore, SeededRandomness, Store, SubscriptionService, Timestamp, Version,
};
use test_support::service_world::{at, new_plan, of};

use crate::auth::world::{SERVER_KEY, server_key};

pub(crate) const URL: &str = "https://shop.example/webhooks";

/// A receiver that answers with one outcome, and keeps what it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Receiver(Arc<Mutex<(DeliveryResult, Vec<DeliveryRequest>)>>);

impl Default for Receiver {
    fn default() -> Self {
        Self(Arc::new(Mutex::new((DeliveryResult::answered(204), Vec::new()))))
    }
}

impl Receiver {
    pub(crate) fn answers(&self, outcome: DeliveryResult) {
        self.0.lock().unwrap().0 = outcome;
    }

    pub(crate) fn sent(&self) -> Vec<DeliveryRequest> {
        self.0.lock().unwrap().1.clone()
    }
}

#[async_trait]
impl Deliver for Receiver {
    async fn deliver(&self, request: DeliveryRequest) -> DeliveryResult {
        let mut both = self.0.lock().unwrap();
        both.1.push(request);
        both.0.clone()
    }
}

pub(crate) struct WebhookWorld {
    pub(crate) webhooks: Webhooks,
    pub(crate) service: SubscriptionService,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: ManualClock,
    pub(crate) receiver: Receiver,
}

impl WebhookWorld {
    pub(crate) fn new() -> Self {
        Self::over(Arc::new(MemoryStore::default()))
    }

    pub(crate) fn over(store: Arc<dyn Store>) -> Self {
        test_support::logs::listen();
        let clock = ManualClock::at(at("2025-01-31T00:00:00.000000Z"));
        let service = SubscriptionService::builder(Arc::clone(&store))
            .clock(clock.clone())
            .randomness(SeededRandomness::new(1))
            .build();
        let receiver = Receiver::default();
        let webhooks = webhooks_of(&service, &clock, &receiver);
        Self { webhooks, service, store, clock, receiver }
    }

    /// The same store with another server key of the same number.
    pub(crate) fn with_other_keys(self) -> Self {
        let keys = server_key(1, b"another key that only a thief would have");
        let webhooks = Webhooks::new(self.service.clone(), keys, self.receiver.clone());
        Self { webhooks: webhooks.with_clock(self.clock.clone()), ..self }
    }

    pub(crate) async fn endpoint(&self) -> EndpointWithSecret {
        self.webhooks.create(new_endpoint()).await.unwrap()
    }

    /// Writes this number of events, each of a plan of its own, a minute after each other.
    pub(crate) async fn events(&self, count: usize) -> Vec<RecordedEvent> {
        for _ in 0..count {
            let last = self.service.events(0, PageLimit::MAX).await.unwrap().len();
            self.service.create_plan(new_plan(&format!("plan-{last}"))).await.unwrap();
            self.clock.advance(std::time::Duration::from_mins(1));
        }
        self.service.events(0, PageLimit::MAX).await.unwrap()
    }

    /// The documents of a collection.
    pub(crate) async fn documents(&self, collection: &'static str) -> Vec<Arc<Document>> {
        let query = DocumentQuery::new(Collection::named(collection), DocumentFilter::All);
        let page = self.store.list_as::<Document>(query.with_limit(PageLimit::MAX)).await;
        page.unwrap().items
    }

    /// Changes the body of a stored document, as the sending job would.
    pub(crate) async fn rewrite(
        &self,
        collection: &'static str,
        id: EndpointId,
        change: impl FnOnce(&mut Value),
    ) {
        rewrite(&*self.store, collection, &id.to_string(), change).await;
    }

    /// Sets an event aside, as the sending job would.
    pub(crate) async fn park(
        &self,
        id: EndpointId,
        event: &RecordedEvent,
        state: &str,
        due_at: Option<Timestamp>,
    ) {
        park(&*self.store, id, event, state, due_at).await;
    }

    /// The events that are set aside: sequence, state, tries and the next one.
    pub(crate) async fn parked(&self, id: EndpointId) -> Vec<(u64, String, u32, bool)> {
        let page = self.webhooks.parked(id, None, PageLimit::MAX).await.unwrap();
        let now = Some(self.webhooks_now());
        let row = |it: &subscription_core::webhooks::ListedParked| {
            let is_due = it.next_attempt_at.is_some() && it.next_attempt_at <= now;
            (it.event.sequence, it.state.to_string(), it.attempts, is_due)
        };
        page.items.iter().map(row).collect()
    }

    fn webhooks_now(&self) -> Timestamp {
        use subscription_core::Clock as _;
        self.clock.now()
    }
}

pub(crate) fn webhooks_of(
    service: &SubscriptionService,
    clock: &ManualClock,
    receiver: &Receiver,
) -> Webhooks {
    Webhooks::new(service.clone(), server_key(1, SERVER_KEY), receiver.clone())
        .with_clock(clock.clone())
        .with_addresses(AddressRules::default())
}

pub(crate) fn new_endpoint() -> NewEndpoint {
    NewEndpoint::new(URL.parse().unwrap())
}

/// Changes the body of a stored document.
pub(crate) async fn rewrite(
    store: &dyn Store,
    collection: &'static str,
    id: &str,
    change: impl FnOnce(&mut Value),
) {
    let key = DocumentKey { collection: Collection::named(collection), id: of(id) };
    let stored = store.get_as::<Document>(&key).await.unwrap().unwrap();
    let mut body: Value = serde_json::from_str(&stored.body).unwrap();
    change(&mut body);
    let (version, body) = (stored.version.next(), body.to_string().into());
    write(store, Document { version, body, ..(*stored).clone() }).await;
}

/// Stores an event as one that is set aside.
pub(crate) async fn park(
    store: &dyn Store,
    endpoint: EndpointId,
    event: &RecordedEvent,
    state: &str,
    due_at: Option<Timestamp>,
) {
    let id = format!("{endpoint}/{:020}", event.sequence);
    let body = json!({
        "event": event, "state": state, "attempts": 3, "first_failed_at": event.event.at,
        "last": {
            "at": event.event.at, "sequence": event.sequence, "type": event.event.name(),
            "attempt": 3, "outcome": "answered", "status": 500, "duration_ms": 12,
        },
    });
    let document = Document {
        key: DocumentKey { collection: Collection::named("webhook_parked"), id: of(&id) },
        version: Version::FIRST,
        owner: Some(endpoint.uuid()),
        label: Some(of(state)),
        due_at,
        body: body.to_string().into(),
    };
    write(store, document).await;
}

async fn write(store: &dyn Store, document: Document) {
    let writes = vec![Record::from(document)];
    store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
}
