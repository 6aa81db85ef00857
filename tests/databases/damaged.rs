//! One record that cannot be read, among many: the clock, the lists and the webhooks of all others go on.
#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use subscription_core::billing::{Billing, Policy};
use subscription_core::store::{
    Direction, DuePayments, DueSubscriptions, PageLimit, PostgresOptions, SqliteOptions,
    StoreError, StoreExt as _, SubscriptionQuery,
};
use subscription_core::subscriptions::Subscription;
use subscription_core::webhooks::{
    Deliver, DeliveryRequest, DeliveryResult, NewEndpoint, SenderSignals, Webhooks,
};
use subscription_core::{
    Clock as _, ManualClock, NewSubscription, PaymentStatus, ServerKeys, Store, SubscriptionId,
    SubscriptionService, SystemRandomness, UserId,
};
use test_support::cluster::fresh_schema;
use test_support::service_world::{at, new_plan, of};
use test_support::trials;
use test_support::trials::Trial;

use crate::folder::folder;
use crate::postgres::shared;

/// The number of subscriptions, one of which is damaged.
const MANY: usize = 400;

pub(crate) fn trials() -> Vec<Trial> {
    trials![one_damaged_record_in_a_file_stops_nobody]
}

pub(crate) fn trials_with_a_server() -> Vec<Trial> {
    trials![one_damaged_record_in_a_database_stops_nobody]
}

async fn one_damaged_record_in_a_file_stops_nobody() {
    let file: PathBuf = folder().join("store.db");
    let store = Arc::new(SqliteOptions::file(&file).relaxed().open().await.unwrap());
    let damage = async |text: String| {
        let url = format!("sqlite://{}", file.display());
        let mut outsider = SqliteConnection::connect(&url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut outsider).await.unwrap();
    };
    one_damaged_record_stops_nobody(store, damage, |id| format!("x'{}'", id.uuid().simple())).await;
}

async fn one_damaged_record_in_a_database_stops_nobody() {
    let schema = fresh_schema(shared()).await;
    let store = PostgresOptions::url(shared()).unwrap().schema(&schema).open().await.unwrap();
    let damage = async |text: String| {
        let mut outsider = PgConnection::connect(shared()).await.unwrap();
        let path = format!("SET search_path TO {schema}");
        sqlx::raw_sql(AssertSqlSafe(path)).execute(&mut outsider).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut outsider).await.unwrap();
    };
    one_damaged_record_stops_nobody(Arc::new(store), damage, |id| format!("'{id}'")).await;
}

/// `damage` runs a statement past the store; `id` writes an id in SQL.
async fn one_damaged_record_stops_nobody(
    store: Arc<dyn Store>,
    damage: impl AsyncFn(String),
    id: fn(SubscriptionId) -> String,
) {
    let clock = ManualClock::at(at("2025-01-31T00:00:00Z"));
    let service = SubscriptionService::builder(Arc::clone(&store)).clock(clock.clone()).build();
    let billing = Billing::new(service, Policy::default());
    let service = billing.service();
    let plan = new_plan("pro");
    let plan = subscription_core::NewPlan { currency: Some(of("USD")), ..plan };
    let plan = service.create_plan(plan).await.unwrap();
    let mut made = Vec::new();
    for _ in 0..MANY {
        let user = UserId::new(clock.now(), &SystemRandomness).unwrap();
        let new = NewSubscription::new(user, plan.id);
        made.push(service.create_subscription(new).await.unwrap());
    }
    // The first one in each list: it would stand before all others.
    made.sort_by_key(|subscription| subscription.id);
    let damaged = made[0].id;

    damage(format!("UPDATE subscriptions SET billing = '{{' WHERE id = {}", id(damaged))).await;

    is_left_out_of_lists(&store, damaged).await;
    let sent = sent(service).await;
    assert!(sent.len() > 2 * MANY, "{}", sent.len());
    let is_of_it = |body: &&Value| body["data"]["id"] == damaged.to_string();
    let of_it: Vec<_> = sent.iter().filter(is_of_it).collect();
    assert!(!of_it.is_empty());
    for body in of_it {
        assert_eq!(
            (&body["data"]["object_omitted"], body["data"].get("object")),
            (&true.into(), None)
        );
    }
    let omitted = sent.iter().filter(|body| body["data"].get("object_omitted").is_some());
    assert!(omitted.clone().all(|body| is_of_it(&body)), "{omitted:?}");

    clock.set(made[1].next_action_at().unwrap());
    let mut steps = 0;
    loop {
        let advanced = billing.advance(50).await.unwrap();
        steps += advanced.steps;
        assert_eq!((advanced.failed, advanced.failure), (0, None));
        if !advanced.more {
            break;
        }
    }
    assert_eq!(steps, MANY - 1, "the steps of all others");
}

/// Lists go on without the damaged record and name it. A caller who must know all of a list gets an error.
async fn is_left_out_of_lists(store: &Arc<dyn Store>, damaged: SubscriptionId) {
    let until = at("2030-01-01T00:00:00Z");
    for size in [1, 7, 200] {
        let limit = PageLimit::new(size).unwrap();
        let mut query = DueSubscriptions::until(until).with_limit(limit);
        let mut found = Vec::new();
        let mut named = 0;
        loop {
            let page = store.due_subscriptions(query.clone()).await.unwrap();
            assert!(page.items.len() <= size && !page.items.is_empty());
            found.extend(page.items.into_iter().map(|it| it.id));
            named += page.damaged.len();
            assert!(page.damaged.iter().all(|it| it.id == damaged.to_string()), "{named}");
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        found.sort();
        found.dedup();
        assert_eq!((found.len(), named), (MANY - 1, 1), "{size} a page");
        assert!(!found.contains(&damaged));
    }
    let by_creation = SubscriptionQuery::default().with_direction(Direction::Ascending);
    let page = store.readable_as::<Subscription>(by_creation.clone()).await.unwrap();
    assert_eq!((page.items.len(), page.damaged.len()), (50, 1));
    assert_eq!((page.damaged[0].kind, &page.damaged[0].id), ("subscription", &damaged.to_string()));
    let whole = store.list_as::<Subscription>(by_creation).await.unwrap_err();
    assert!(matches!(whole, StoreError::Damaged(_)), "{whole}");
    let payments = DuePayments::until(PaymentStatus::Pending, until).with_limit(PageLimit::MAX);
    assert_eq!(store.due_payments(payments).await.unwrap().damaged, []);
}

/// The bodies of all events, as an endpoint gets them.
async fn sent(service: &SubscriptionService) -> Vec<Value> {
    let receiver = Receiver::default();
    let keys = ServerKeys::new(1, vec![9; 32].into()).unwrap();
    let webhooks = Webhooks::new(service.clone(), keys, receiver.clone());
    let new = NewEndpoint::new("https://a.example/".parse().unwrap());
    let from = subscription_core::webhooks::FirstEvent::Start;
    webhooks.create(NewEndpoint { from, ..new }).await.unwrap();
    webhooks.sender().run(&Awake).await.unwrap();
    std::mem::take(&mut *receiver.0.lock().unwrap())
}

/// A receiver that accepts all events.
#[derive(Debug, Clone, Default)]
pub(crate) struct Receiver(Arc<Mutex<Vec<Value>>>);

#[async_trait]
impl Deliver for Receiver {
    async fn deliver(&self, request: DeliveryRequest) -> DeliveryResult {
        self.0.lock().unwrap().push(serde_json::from_slice(&request.body).unwrap());
        DeliveryResult::answered(204)
    }
}

/// Lets a sender run without a stop.
struct Awake;

#[async_trait]
impl SenderSignals for Awake {
    async fn wait(&self, longest: Duration) {
        tokio::time::sleep(longest).await;
    }

    fn is_stopped(&self) -> bool {
        false
    }
}
