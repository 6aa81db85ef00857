//! Records and values that somebody else holds in an open transaction: who needs them waits or is refused, and nobody
//! else is delayed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use subscription_core::billing::{Billing, Policy};
use subscription_core::store::{ChangeSet, PostgresOptions, PostgresStore, Record, StoreError};
use subscription_core::{
    Clock as _, ManualClock, NewPlan, NewSubscription, Plan, Store as _, Subscription,
    SubscriptionChanges, SubscriptionService, SystemRandomness, UserId,
};
use test_support::cluster::fresh_schema;
use test_support::service_world::{new_plan, of};
use test_support::trials;
use test_support::trials::Trial;

use super::shared;
use crate::records::{at, plan, put, subscription};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_subscription_that_somebody_holds_delays_no_step_of_another,
        many_subscriptions_that_somebody_holds_take_no_place_in_a_round,
        a_set_of_several_statements_does_not_wait_for_a_held_record,
        a_value_that_somebody_holds_delays_no_create_of_another,
    ]
}

/// So long that whoever waits for a lock with it waits for longer than a test.
const LONG: Duration = Duration::from_secs(100);

/// A service with billing over PostgreSQL, and somebody else in its database.
struct World {
    store: Arc<PostgresStore>,
    billing: Billing,
    clock: ManualClock,
    outsider: PgConnection,
}

impl World {
    async fn new(statement_timeout: Duration) -> Self {
        let schema = fresh_schema(shared()).await;
        let how = PostgresOptions::url(shared()).unwrap().schema(&schema);
        let store = Arc::new(how.statement_timeout(statement_timeout).open().await.unwrap());
        let clock = ManualClock::at(at("2025-01-31T00:00:00Z"));
        let service = SubscriptionService::builder(Arc::clone(&store)).clock(clock.clone()).build();
        let billing = Billing::new(service, Policy::default());
        let mut outsider = PgConnection::connect(shared()).await.unwrap();
        say(&mut outsider, &format!("SET search_path TO {schema}")).await;
        Self { store, billing, clock, outsider }
    }

    async fn plan(&self, slug: &str) -> Arc<Plan> {
        let plan = NewPlan { currency: Some(of("EUR")), ..new_plan(slug) };
        self.billing.service().create_plan(plan).await.unwrap()
    }

    /// Subscriptions that the clock renews.
    async fn subscriptions(&self, plan: &Plan, count: usize) -> Vec<Arc<Subscription>> {
        let mut made = Vec::with_capacity(count);
        for _ in 0..count {
            let user = UserId::new(self.clock.now(), &SystemRandomness).unwrap();
            let new = NewSubscription::new(user, plan.id);
            made.push(self.billing.service().create_subscription(new).await.unwrap());
        }
        made
    }

    /// Somebody else locks subscriptions, until [`World::let_go`].
    async fn hold(&mut self, column: &str, value: impl std::fmt::Display) {
        let rows = format!("SELECT 1 FROM subscriptions WHERE {column} = '{value}' FOR UPDATE");
        say(&mut self.outsider, &format!("BEGIN; {rows}")).await;
    }

    async fn let_go(&mut self) {
        say(&mut self.outsider, "ROLLBACK").await;
    }

    /// Takes all due steps that can be taken, and returns their number and the number of those that were not taken.
    async fn advance(&self, limit: usize) -> (usize, usize) {
        let mut steps = 0;
        loop {
            let advanced = self.billing.advance(limit);
            let advanced = tokio::time::timeout(Duration::from_mins(1), advanced).await;
            let advanced = advanced.unwrap().unwrap();
            assert_eq!((advanced.failed, advanced.refused), (0, 0), "{advanced:?}");
            steps += advanced.steps;
            if !advanced.more {
                return (steps, advanced.busy);
            }
        }
    }
}

async fn say(connection: &mut PgConnection, text: &str) {
    sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(connection).await.unwrap();
}

/// How long a step takes is printed, with and without the lock.
async fn a_subscription_that_somebody_holds_delays_no_step_of_another() {
    const EACH: usize = 300;
    let mut world = World::new(LONG).await;
    let plan = world.plan("pro").await;
    let subscriptions = world.subscriptions(&plan, EACH).await;
    let next = |span: u64| Duration::from_hours(24 * 40 * span);
    // Once for the statements to be prepared.
    for month in 1..=2 {
        world.clock.set(at("2025-01-31T00:00:00Z").saturating_add(next(month)));
        world.advance(20).await;
    }
    let before = subscriptions.first().unwrap();
    for is_held in [false, true] {
        world.clock.set(world.clock.now().saturating_add(next(1)));
        if is_held {
            world.hold("id", before.id).await;
        }
        let begun = Instant::now();
        let (steps, busy) = world.advance(20).await;
        let micros = begun.elapsed().as_micros() / u128::try_from(steps).unwrap();
        println!("a step takes {micros} µs; a row is locked: {is_held}");
        assert_eq!(busy > 0, is_held, "{busy}");
        assert!(steps >= EACH - usize::from(is_held), "{steps}");
    }

    // A request for another subscription does not wait either, and the next round finds the one that was left.
    let other = subscriptions.last().unwrap();
    let change =
        world.billing.service().update_subscription(other.id, SubscriptionChanges::default());
    tokio::time::timeout(Duration::from_mins(1), change).await.unwrap().unwrap();
    world.let_go().await;
    assert!(world.advance(20).await.0 >= 1);
    assert_eq!(world.advance(20).await, (0, 0));
}

async fn many_subscriptions_that_somebody_holds_take_no_place_in_a_round() {
    let mut world = World::new(LONG).await;
    let (held, free) = (world.plan("held").await, world.plan("free").await);
    // Those that are held are due first, and there are more of them than a round has steps.
    world.subscriptions(&held, 45).await;
    world.clock.set(at("2025-01-31T01:00:00Z"));
    world.subscriptions(&free, 5).await;
    world.clock.set(at("2025-03-01T00:00:00Z"));

    world.hold("subscription_plan_id", held.id).await;
    let (steps, busy) = world.advance(20).await;
    world.let_go().await;

    assert_eq!(steps, 5);
    assert!(busy >= 45, "{busy}");
    assert_eq!(world.advance(20).await, (45, 0));
}

async fn a_set_of_several_statements_does_not_wait_for_a_held_record() {
    let mut world = World::new(LONG).await;
    let plan = plan("pro");
    let (held, beside, free) = (subscription(&plan), subscription(&plan), subscription(&plan));
    let writes = [&held, &beside, &free].map(|it| Record::from(it.clone())).to_vec();
    world.store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
    let next = |it: &Subscription| -> Record {
        Subscription { version: it.version.next(), ..it.clone() }.into()
    };
    // Two records of a table are no single statement.
    let two = ChangeSet { writes: vec![next(&beside), next(&held)], ..ChangeSet::default() };

    world.hold("id", held.id).await;
    let outcomes = world.store.commit_each(vec![two, ChangeSet::writing(next(&free))]);
    let outcomes = tokio::time::timeout(Duration::from_mins(1), outcomes).await.unwrap();

    assert!(matches!(outcomes.as_slice(), [Err(StoreError::Busy(_)), Ok(())]), "{outcomes:?}");
    world.let_go().await;
}

async fn a_value_that_somebody_holds_delays_no_create_of_another() {
    // One set waits for a lock for a fifth of this time, and several for a fiftieth: 80 seconds and 8.
    let world = World::new(LONG * 4).await;
    let (plan, mut outsider) = (plan("pro"), world.outsider);
    put(&world.store, &plan).await.unwrap();
    let holder = Subscription { external_subscription_id: Some(of("held")), ..subscription(&plan) };
    world.store.commit(ChangeSet::writing(holder)).await.unwrap();
    let text = "BEGIN; UPDATE subscriptions SET external_subscription_id = 'wanted'";
    say(&mut outsider, text).await;
    let create = |id: Option<&str>| {
        let external_subscription_id = id.map(of);
        let new = Subscription { external_subscription_id, ..subscription(&plan) };
        let store = Arc::clone(&world.store);
        tokio::spawn(async move { store.commit(ChangeSet::writing(new)).await })
    };

    // One for each of the two groups that can run at the same time.
    let mut wanted = Vec::new();
    for count in 1..=2 {
        wanted.push(create(Some("wanted")));
        waiting(&mut outsider, count).await;
    }
    let others: Vec<_> = (0..40).map(|_| create(None)).collect();
    for other in others {
        let other = tokio::time::timeout(Duration::from_mins(1), other).await;
        other.unwrap().unwrap().unwrap();
    }

    assert!(wanted.iter().all(|create| !create.is_finished()));
    say(&mut outsider, "ROLLBACK").await;
    let mut taken = 0;
    for create in wanted {
        match create.await.unwrap() {
            Ok(()) => {}
            Err(StoreError::Taken(_)) => taken += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(taken, 1);
}

/// Waits until so many sessions wait for the transaction of this connection.
async fn waiting(holder: &mut PgConnection, count: i64) {
    let text = "SELECT count(*) FROM pg_locks \
                WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))";
    let waits = tokio::time::timeout(Duration::from_mins(1), async {
        while sqlx::query_scalar::<_, i64>(text).fetch_one(&mut *holder).await.unwrap() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waits.await.unwrap();
}
