//! Many change sets in one call are one transaction.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use subscription_core::store::{
    ChangeSet, Guard, Key, PostgresOptions, PostgresStore, Record, StoreError,
};
use subscription_core::{
    NewPayment, Payment, PaymentId, Plan, Store, Subscription, SystemRandomness,
};
use test_support::cluster::fresh_schema;
use test_support::trials;
use test_support::trials::Trial;

use super::shared;
use crate::records::{plan, put, subscription};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        steps_of_the_clock_are_one_transaction,
        a_value_that_moves_is_committed_by_itself,
        a_locked_record_refuses_its_own_set_and_the_others_are_one_transaction,
        a_locked_record_delays_its_own_creates_and_no_others,
        updates_of_callers_who_wait_together_are_one_transaction,
    ]
}

struct World {
    store: Arc<PostgresStore>,
    schema: String,
    subscriptions: Vec<Subscription>,
}

impl World {
    async fn with_subscriptions(count: usize) -> Self {
        let schema = fresh_schema(shared()).await;
        let how = PostgresOptions::url(shared()).unwrap().schema(&schema);
        // Groups wait for a locked table for a fiftieth of this time.
        let store = how.statement_timeout(Duration::from_mins(10)).open().await.unwrap();
        let plan = plan("pro");
        let subscriptions: Vec<_> = (0..count).map(|_| subscription(&plan)).collect();
        let writes = subscriptions.iter().cloned().map(Record::from).collect();
        store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
        Self { store: Arc::new(store), schema, subscriptions }
    }

    /// How many transactions wrote the subscriptions of this version.
    async fn transactions(&self, version: i64) -> i64 {
        let text = format!(
            "SELECT count(DISTINCT xmin::text) FROM {}.subscriptions WHERE version = $1",
            self.schema
        );
        let query = sqlx::query_scalar(AssertSqlSafe(text)).bind(version);
        query.fetch_one(&mut connect().await).await.unwrap()
    }
}

async fn connect() -> PgConnection {
    PgConnection::connect(shared()).await.unwrap()
}

/// The next version of a subscription, and a payment for it.
fn renewed(subscription: &Subscription) -> ChangeSet {
    let renewed = Subscription { version: subscription.version.next(), ..subscription.clone() };
    let (amount, currency) = ("19.90".parse().unwrap(), "EUR".parse().unwrap());
    let now = subscription.created_at;
    let new = NewPayment::new(subscription.id, amount, currency);
    let id = PaymentId::new(now, &SystemRandomness).unwrap();
    let paid = Payment::create(new, subscription.billing_cycle, id, now).unwrap();
    ChangeSet { writes: vec![renewed.into(), paid.into()], ..ChangeSet::default() }
}

async fn steps_of_the_clock_are_one_transaction() {
    let world = World::with_subscriptions(200).await;
    let (first, last) = world.subscriptions.split_at(100);

    let outcomes = world.store.commit_each(first.iter().map(renewed).collect()).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(world.transactions(2).await, 1);

    // Those of the first call have another version by now.
    let outcomes = world.store.commit_each(world.subscriptions.iter().map(renewed).collect()).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), last.len());
    assert_eq!(world.transactions(2).await, 2);
}

/// An external id that is new to a subscription may be another one's: each set is judged after the others.
async fn a_value_that_moves_is_committed_by_itself() {
    let world = World::with_subscriptions(3).await;
    let named = world.subscriptions.iter().map(|subscription| {
        let external_subscription_id = Some("the same".parse().unwrap());
        renewed(&Subscription { external_subscription_id, ..subscription.clone() })
    });

    let outcomes = world.store.commit_each(named.collect()).await;

    assert!(
        matches!(
            outcomes.as_slice(),
            [Ok(()), Err(StoreError::Taken(_)), Err(StoreError::Taken(_))]
        ),
        "{outcomes:?}"
    );
}

async fn a_locked_record_refuses_its_own_set_and_the_others_are_one_transaction() {
    let world = World::with_subscriptions(40).await;
    let held = world.subscriptions.get(20).unwrap().id;
    let mut holder = connect().await;
    let lock = format!("SELECT id FROM {}.subscriptions WHERE id = $1 FOR UPDATE", world.schema);
    let mut holding = holder.begin().await.unwrap();
    sqlx::query(AssertSqlSafe(lock)).bind(held.uuid()).execute(&mut *holding).await.unwrap();

    let outcomes = world.store.commit_each(world.subscriptions.iter().map(renewed).collect()).await;

    let refused: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    let [StoreError::Busy(Key::Subscription(id))] = refused.as_slice() else {
        panic!("{refused:?}")
    };
    assert_eq!(*id, held);
    assert_eq!(world.transactions(2).await, 1);
    holding.rollback().await.unwrap();
}

async fn a_locked_record_delays_its_own_creates_and_no_others() {
    let world = World::with_subscriptions(0).await;
    let (locked, free) = (plan("locked"), plan("free"));
    for plan in [&locked, &free] {
        put(&world.store, plan).await.unwrap();
    }
    let mut outsider = connect().await;
    let lock =
        format!("BEGIN; SELECT FROM {}.plans WHERE id = '{}' FOR UPDATE", world.schema, locked.id);
    sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut outsider).await.unwrap();
    let create = |plan: &Plan| {
        let guard = Guard::Unchanged { key: Key::Plan(plan.id), version: plan.version };
        let writes = vec![subscription(plan).into()];
        let changes = ChangeSet { guards: vec![guard], writes, ..ChangeSet::default() };
        let store = Arc::clone(&world.store);
        tokio::spawn(async move { store.commit(changes).await })
    };

    let waiting: Vec<_> = (0..4).map(|_| create(&locked)).collect();
    let others: Vec<_> = (0..20).map(|_| create(&free)).collect();

    for other in others {
        other.await.unwrap().unwrap();
    }
    assert!(waiting.iter().all(|create| !create.is_finished()));
    outsider.close().await.unwrap();
    for create in waiting {
        create.await.unwrap().unwrap();
    }
}

/// While the table is locked two groups wait for it, and all callers who come meanwhile are one group after them. Of two
/// callers who write one record the first wins, and the others are told of a conflict.
async fn updates_of_callers_who_wait_together_are_one_transaction() {
    let world = World::with_subscriptions(42).await;
    let mut outsider = connect().await;
    let lock = format!("BEGIN; LOCK TABLE {}.subscriptions", world.schema);
    sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut outsider).await.unwrap();
    let update = |subscription: &Subscription| {
        let updated = Subscription { version: subscription.version.next(), ..subscription.clone() };
        let changes = ChangeSet { writes: vec![updated.into()], ..ChangeSet::default() };
        let store = Arc::clone(&world.store);
        Box::pin(async move { store.commit(changes).await })
    };
    let (twin, others) = world.subscriptions.split_first().unwrap();
    let mut callers: Vec<_> = others.iter().map(update).collect();
    callers.extend((0..5).map(|_| update(twin)));
    for caller in &mut callers {
        assert!(caller.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }

    outsider.close().await.unwrap();
    let mut outcomes = Vec::new();
    for caller in callers {
        outcomes.push(caller.await);
    }

    assert!(world.transactions(2).await <= 4);
    let (first, last) = outcomes.split_at(others.len());
    assert!(first.iter().all(Result::is_ok), "{first:?}");
    let won = last.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(won, 1, "{last:?}");
    let is_lost = |outcome: &&Result<(), StoreError>| matches!(outcome, Err(StoreError::Conflict(key)) if *key == Key::Subscription(twin.id));
    assert_eq!(last.iter().filter(is_lost).count(), 4, "{last:?}");
}
