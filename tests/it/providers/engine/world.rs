//! A service with two sources over a store in memory, and an API in the process that a test sets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::{Value, json};
use subscription_core::billing::{Billing, Policy};
use subscription_core::providers::{
    ApiFailed, ApiPage, EventFilter, FetchOutcome, ListedEvent, ObjectId, ObjectKind, ObjectList,
    ObjectRef, ObservedNow, ProviderAccount, ProviderApi, ProviderKind, Providers, Received,
};
use subscription_core::store::{
    Collection, Document, DocumentFilter, DocumentQuery, PageLimit, PaymentQuery, StoreExt as _,
    SubscriptionQuery,
};
use subscription_core::{
    ManualClock, MemoryStore, NewPlan, Payment, Plan, SeededRandomness, Slug, Subscription,
    SubscriptionService, Timestamp, UserId,
};
use tokio::sync::Notify;

pub(crate) const ADA: &str = "0198c0de-0000-7000-8000-00000000000a";
pub(crate) const BOB: &str = "0198c0de-0000-7000-8000-00000000000b";
pub(crate) const START: &str = "2026-01-05T09:00:00Z";
const SECRET: &str = "a secret of a shop";

/// An API whose objects a test sets.
#[derive(Debug, Default)]
pub(crate) struct Double {
    objects: Mutex<BTreeMap<(ObjectKind, String), Value>>,
    lists: Mutex<BTreeMap<String, Vec<Value>>>,
    pub(crate) fetched: Mutex<Vec<String>>,
    /// The answer to every read, if it fails.
    pub(crate) fails: Mutex<Option<fn() -> ApiFailed>>,
    /// If set, reads of objects fail, and those of pages do not.
    pub(crate) fails_object: AtomicBool,
    /// If set, the next read of an object takes its answer and then waits.
    pub(crate) holds: AtomicBool,
    /// The same for the next page.
    pub(crate) holds_page: AtomicBool,
    pub(crate) held: Notify,
    pub(crate) release: Notify,
}

impl Double {
    pub(crate) fn set(&self, kind: ObjectKind, object: &Value) {
        let id = object["id"].as_str().unwrap().to_owned();
        self.objects.lock().unwrap().insert((kind, id), object.clone());
    }

    pub(crate) fn list(&self, name: &str, items: Vec<Value>) {
        self.lists.lock().unwrap().insert(name.to_owned(), items);
    }

    pub(crate) fn fetches(&self) -> usize {
        self.fetched.lock().unwrap().len()
    }

    async fn hold(&self, holds: &AtomicBool) {
        if holds.swap(false, Ordering::SeqCst) {
            self.held.notify_one();
            self.release.notified().await;
        }
    }

    fn failure(&self) -> Result<(), ApiFailed> {
        self.fails.lock().unwrap().map_or(Ok(()), |fails| Err(fails()))
    }
}

#[async_trait]
impl ProviderApi for Double {
    async fn object(&self, kind: ObjectKind, id: &ObjectId) -> Result<Option<Value>, ApiFailed> {
        self.fetched.lock().unwrap().push(format!("{kind} {id}"));
        self.failure()?;
        let object = self.objects.lock().unwrap().get(&(kind, id.to_string())).cloned();
        self.hold(&self.holds).await;
        if self.fails_object.load(Ordering::SeqCst) { Err(unavailable()) } else { Ok(object) }
    }

    /// Pages of two objects; the place of the next page is its number.
    async fn page(&self, list: &ObjectList, after: Option<&str>) -> Result<ApiPage, ApiFailed> {
        self.fetched.lock().unwrap().push(format!("{list:?} {after:?}"));
        self.failure()?;
        let name = match list {
            ObjectList::Subscriptions => "subscriptions".to_owned(),
            ObjectList::Invoices(_) => "invoices".to_owned(),
            ObjectList::Orders(_) => "orders".to_owned(),
            ObjectList::Refunds(_) => "refunds".to_owned(),
            ObjectList::Disputes(_) => "disputes".to_owned(),
            ObjectList::InvoicePaymentsOf(id) => format!("payments of {id}"),
            ObjectList::SessionsOf(id) => format!("sessions of {id}"),
        };
        let all = self.lists.lock().unwrap().get(&name).cloned().unwrap_or_default();
        self.hold(&self.holds_page).await;
        let page = after.map_or(0, |after| after.parse().unwrap());
        let items: Vec<_> = all.iter().skip(page * 2).take(2).cloned().collect();
        let next = ((page + 1) * 2 < all.len()).then(|| (page + 1).to_string().into());
        Ok(ApiPage { items, next, total: u64::try_from(all.len()).ok() })
    }
}

pub(crate) fn unavailable() -> ApiFailed {
    ApiFailed::Unavailable { retry_after: None, source: "no route".into() }
}

pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) service: SubscriptionService,
    pub(crate) providers: Providers,
    pub(crate) api: Arc<Double>,
}

impl World {
    /// The reads from the provider of the source `shop`, by outcome.
    pub(crate) fn fetches(&self) -> BTreeMap<FetchOutcome, u64> {
        self.providers.counters().remove(&slug("shop")).unwrap().fetches
    }

    pub(crate) async fn new() -> Self {
        Self::with(|source| source).await
    }

    /// The sources `shop` (Lemon Squeezy) and `stripe`, changed by the test.
    pub(crate) async fn with(
        change: impl Fn(ProviderAccount) -> ProviderAccount + Send + Sync,
    ) -> Self {
        let clock = ManualClock::at(START.parse().unwrap());
        let store = Arc::new(MemoryStore::default());
        let service = SubscriptionService::builder(Arc::clone(&store))
            .clock(clock.clone())
            .randomness(SeededRandomness::new(17))
            .build();
        let service = Billing::new(service, Policy::default()).service().clone();
        let api = Arc::new(Double::default());
        let source = |name: &str, kind| {
            let secrets = vec![SecretString::from(SECRET)];
            let api = Arc::<Double>::clone(&api) as Arc<dyn ProviderApi>;
            change(ProviderAccount::new(slug(name), kind, secrets, api).with_any_user(true))
        };
        let sources = vec![
            source("shop", ProviderKind::LemonSqueezy),
            source("stripe", ProviderKind::Stripe),
        ];
        let providers = Providers::new(service.clone(), sources);
        let world = Self { clock, store, service, providers, api };
        world.plan("tea", &json!({ "product_id": "500", "variants": ["501"] })).await;
        world
    }

    /// The same store for another process, which remembers nothing.
    pub(crate) fn restarted(&self, change: impl Fn(ProviderAccount) -> ProviderAccount) -> Self {
        let sources = self.providers.sources().cloned().map(change).collect();
        Self {
            clock: self.clock.clone(),
            store: Arc::clone(&self.store),
            service: self.service.clone(),
            providers: Providers::new(self.service.clone(), sources),
            api: Arc::clone(&self.api),
        }
    }

    pub(crate) async fn plan(&self, name: &str, fields: &Value) -> Arc<Plan> {
        let mut input = json!({ "name": name, "slug": name, "price": "9.99", "currency": "EUR",
            "billing_cycle": "monthly",
            "tier": 1 });
        input.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let input = NewPlan::from_json(input.to_string().as_bytes()).unwrap();
        self.service.create_plan(input).await.unwrap()
    }

    /// Sends a signed webhook of Lemon Squeezy about an object of the API.
    pub(crate) async fn webhook(&self, r#type: &str, id: &str, user: Option<&str>) -> Received {
        let custom = user.map(|user| json!({ "user_id": user }));
        let nonce = format!("{} {}", self.api.fetches(), self.service.now());
        let body = json!({
            "meta": { "event_name": "updated", "test_mode": true, "custom_data": custom, "nonce": nonce },
            "data": { "type": r#type, "id": id, "attributes": {} },
        });
        self.send(&body).await
    }

    pub(crate) async fn send(&self, body: &Value) -> Received {
        let body = body.to_string();
        let signature = signature(body.as_bytes());
        let signatures: &[&[u8]] = &[signature.as_bytes()];
        self.providers.receive_webhook(&slug("shop"), signatures, body.as_bytes()).await.unwrap()
    }

    /// Applies all that is due, and then returns the states of all events, by type and object.
    pub(crate) async fn advance(&self) -> Vec<String> {
        self.clock.advance(Duration::from_secs(2));
        while self.providers.advance(100).await.unwrap().more {}
        self.states().await
    }

    pub(crate) async fn events(&self) -> Vec<ListedEvent> {
        let filter = EventFilter::default();
        self.providers.events(&filter, None, PageLimit::MAX).await.unwrap().items
    }

    pub(crate) async fn states(&self) -> Vec<String> {
        let events = self.events().await.into_iter();
        let mut states: Vec<_> = events.map(|listed| state(&listed)).collect();
        states.sort();
        states
    }

    pub(crate) async fn subscriptions(&self) -> Vec<Arc<Subscription>> {
        let query = SubscriptionQuery::default();
        self.service.subscriptions(query).await.unwrap().items
    }

    /// The only subscription.
    pub(crate) async fn subscription(&self) -> Arc<Subscription> {
        let all = self.subscriptions().await;
        let [only] = &*all else { panic!("{all:?}") };
        Arc::clone(only)
    }

    pub(crate) async fn payments(&self) -> Vec<Arc<Payment>> {
        let of = self.subscription().await.id;
        self.service.payments(PaymentQuery::of(of)).await.unwrap().items
    }

    /// The documents of a collection.
    pub(crate) async fn documents(&self, collection: &'static str) -> Vec<Arc<Document>> {
        let collection = Collection::named(collection);
        let query = DocumentQuery::new(collection, DocumentFilter::All).with_limit(PageLimit::MAX);
        self.store.list_as::<Document>(query).await.unwrap().items
    }

    pub(crate) async fn now(&self, kind: ObjectKind, id: &str, user: Option<&str>) -> ObservedNow {
        let target = ObjectRef { kind, id: id.parse().unwrap() };
        let user = user.map(|user| user.parse().unwrap());
        let source = if id.contains('_') { "stripe" } else { "shop" };
        self.providers.observe_now(&slug(source), &target, user).await.unwrap()
    }
}

pub(crate) fn state(listed: &ListedEvent) -> String {
    let object =
        listed.event.object.as_ref().map(|object| format!("{} {}", object.kind, object.id));
    let reason = listed.event.reason.map(|reason| format!(":{reason}")).unwrap_or_default();
    format!("{} {}{reason}", object.unwrap_or_default(), listed.event.state)
}

pub(crate) fn signature(body: &[u8]) -> String {
    test_support::fake_provider::mac(SECRET, body)
}

pub(crate) fn slug(text: &str) -> Slug {
    text.parse().unwrap()
}

pub(crate) fn user(text: &str) -> UserId {
    text.parse().unwrap()
}

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A subscription of customer 31 at Lemon Squeezy.
pub(crate) fn tea(id: &str, status: &str) -> Value {
    json!({ "type": "subscriptions", "id": id, "attributes": {
        "customer_id": 31, "product_id": 500, "variant_id": 501, "user_email": "ada@example.com",
        "status": status, "pause": { "mode": "void", "resumes_at": null }, "trial_ends_at": null,
        "first_subscription_item": { "quantity": 1 }, "urls": { "customer_portal": null },
        "renews_at": "2026-02-05T09:00:00Z", "ends_at": "2026-03-05T09:00:00Z",
        "created_at": "2026-01-05T09:00:00Z", "test_mode": true,
    } })
}

pub(crate) fn invoice(id: &str, of: &str, total: u64) -> Value {
    json!({ "type": "subscription-invoices", "id": id, "attributes": {
        "customer_id": 31, "subscription_id": of.parse::<u64>().unwrap(), "status": "paid",
        "billing_reason": "initial", "total": total, "currency": "EUR", "refunded_amount": 0,
        "total_formatted": "", "created_at": "2026-01-05T09:00:00Z", "test_mode": true,
    } })
}

pub(crate) fn order(id: &str, variant: u64) -> Value {
    json!({ "type": "orders", "id": id, "attributes": {
        "customer_id": 31, "status": "paid", "total": 4_900, "currency": "EUR",
        "refunded_amount": 0, "total_formatted": "", "test_mode": true,
        "first_order_item": { "product_id": 500, "variant_id": variant },
        "created_at": "2026-01-05T09:00:00Z", "user_email": "ada@example.com",
    } })
}

/// A paid invoice of `sub_1` at Stripe, with the payments that are listed.
pub(crate) fn stripe_invoice(payments: &Value) -> Value {
    let start = 1_767_603_600;
    json!({ "id": "in_1", "livemode": false, "customer": "cus_Ada", "status": "paid",
        "billing_reason": "subscription_create", "amount_due": 999, "amount_paid": 999,
        "currency": "eur", "status_transitions": { "paid_at": start },
        "parent": { "subscription_details": { "subscription": "sub_1" } },
        "lines": { "data": [{ "period": { "start": start, "end": start + 2_678_400 },
            "pricing": { "price_details": { "price": "501", "product": "500" } } }] },
        "payments": payments, "disputes": [] })
}

/// A subscription of customer `cus_Ada` at Stripe.
pub(crate) fn stripe_tea(user: Option<&str>) -> Value {
    let start = 1_767_603_600;
    json!({ "id": "sub_1", "livemode": false, "customer": "cus_Ada", "status": "active",
        "created": start, "start_date": start, "cancel_at": null, "cancel_at_period_end": false,
        "metadata": { "user_id": user }, "items": { "data": [{ "quantity": 1,
            "current_period_start": start, "current_period_end": start + 2_678_400,
            "price": { "id": "501", "product": "500", "currency": "eur", "unit_amount": 999,
                "recurring": { "interval": "month", "interval_count": 1 } } }] } })
}
