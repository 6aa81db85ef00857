//! Reads at the same time, several of which one statement answers.
//!
//! Somebody else locks the table, so that a statement is under way for as long as a test needs it.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use subscription_core::store::{
    ChangeSet, Page, PostgresOptions, PostgresStore, Record, StoreError, StoreExt as _,
    SubscriptionFilter, SubscriptionQuery,
};
use subscription_core::{Plan, Store as _, Subscription, SystemRandomness, UserId};
use test_support::cluster::fresh_schema;
use test_support::trials;
use test_support::trials::Trial;
use tokio::task::JoinHandle;

use super::shared;
use crate::records::{at, plan, put, renamed, subscription};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        callers_at_the_same_time_get_each_its_own_rows,
        a_caller_gets_no_rows_of_a_statement_that_was_sent_before,
        a_caller_sees_what_was_committed_before_however_many_read,
        callers_who_are_cancelled_strand_nobody,
        a_statement_that_fails_fails_each_of_its_callers,
        a_connection_that_is_cut_fails_nobody_unless_it_is_cut_again,
        a_caller_who_stops_in_the_middle_delays_nobody,
        callers_give_up_on_a_statement_that_hangs_and_send_their_own,
    ]
}

/// Longer than any test takes, so that what waits for it fails.
const LONG: Duration = Duration::from_secs(150);

/// A store, and somebody else in its database.
struct World {
    store: Arc<PostgresStore>,
    schema: String,
    outsider: PgConnection,
}

type Read<T> = JoinHandle<Result<T, StoreError>>;

impl World {
    /// A caller waits for others for a fifth of the patience.
    async fn with(statement_timeout: Duration, patience: Duration) -> Self {
        let schema = fresh_schema(shared()).await;
        let how = PostgresOptions::url(shared()).unwrap().schema(&schema).connections(8);
        let how = how.statement_timeout(statement_timeout).patience(patience);
        let store = how.open().await.unwrap();
        let outsider = PgConnection::connect(shared()).await.unwrap();
        Self { store: Arc::new(store), schema, outsider }
    }

    async fn new() -> Self {
        Self::with(LONG, LONG).await
    }

    async fn say(&mut self, text: &str) {
        sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(&mut self.outsider).await.unwrap();
    }

    /// Statements that read this table wait until [`World::unlock`].
    async fn lock(&mut self, table: &str) {
        let schema = &self.schema;
        let text = format!("BEGIN; LOCK TABLE {schema}.{table} IN ACCESS EXCLUSIVE MODE");
        self.say(&text).await;
    }

    async fn unlock(&mut self) {
        self.say("ROLLBACK").await;
    }

    /// The processes whose statements wait for the lock, once there are so many or more.
    async fn waiting(&mut self, count: usize) -> Vec<i32> {
        let text = "SELECT pid FROM pg_locks LEFT JOIN pg_class ON pg_class.oid = relation \
                    WHERE NOT granted AND (relnamespace = $1::regnamespace OR objid = $1::regnamespace)";
        let waiting = tokio::time::timeout(Duration::from_mins(1), async {
            loop {
                let rows = sqlx::query(text).bind(&self.schema).fetch_all(&mut self.outsider);
                let rows = rows.await.unwrap();
                if rows.len() >= count {
                    return rows.iter().map(|row| row.get(0)).collect();
                }
                tokio::task::yield_now().await;
            }
        });
        waiting.await.unwrap()
    }

    /// Begins to read a plan. When this returns, the caller has sent its statement or waits for another.
    fn read(&self, plan: &Plan) -> Read<Option<Arc<Plan>>> {
        let (store, id) = (Arc::clone(&self.store), plan.id);
        begun(async move { store.get_as::<Plan>(&id).await })
    }

    /// The same for the subscriptions of a user that are active.
    fn list(&self, user: UserId) -> Read<Page<Arc<Subscription>>> {
        let store = Arc::clone(&self.store);
        let filter = SubscriptionFilter::default().with_user_id(user).with_is_active(true);
        let now = at("2025-02-01T00:00:00Z");
        let query = SubscriptionQuery::default().with_filter(filter).with_now(now);
        begun(async move { store.list_as::<Subscription>(query).await })
    }

    async fn plans(&self, count: usize) -> Vec<Plan> {
        let plans: Vec<_> = (0..count).map(|nth| plan(&format!("plan-{nth}"))).collect();
        for plan in &plans {
            put(&self.store, plan).await.unwrap();
        }
        plans
    }
}

/// Takes the first step of a future at once, and the others in the background.
fn begun<T: Send + 'static>(
    future: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Read<T> {
    let mut future: Pin<Box<_>> = Box::pin(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(read) => tokio::spawn(async move { read }),
        Poll::Pending => tokio::spawn(future),
    }
}

async fn callers_at_the_same_time_get_each_its_own_rows() {
    let mut world = World::new().await;
    let plans = world.plans(40).await;
    let stored: Vec<_> = plans.iter().map(subscription).collect();
    // Users with no subscription, one, and two.
    let mut second = subscription(&plans[0]);
    second.user_id = stored[1].user_id;
    let records = stored.iter().chain([&second]).cloned().map(Record::from);
    let changes = ChangeSet { writes: records.collect(), ..ChangeSet::default() };
    world.store.commit(changes).await.unwrap();
    let nobody = UserId::new(plans[0].created_at, &SystemRandomness).unwrap();

    world.lock("subscriptions").await;
    let first = world.list(nobody);
    world.waiting(1).await;
    let lists: Vec<_> = stored.iter().map(|one| world.list(one.user_id)).collect();
    let none = world.list(nobody);
    world.unlock().await;
    world.lock("plans").await;
    let reads: Vec<_> =
        plans.iter().chain([&plan("unknown")]).map(|plan| world.read(plan)).collect();
    world.waiting(1).await;
    world.unlock().await;

    assert!(first.await.unwrap().unwrap().items.is_empty());
    assert!(none.await.unwrap().unwrap().items.is_empty());
    for (nth, list) in lists.into_iter().enumerate() {
        let ids: Vec<_> = list.await.unwrap().unwrap().items.iter().map(|one| one.id).collect();
        // Both were created at the same moment, so the larger id is listed first.
        let mut listed = vec![stored[nth].id];
        listed.extend((nth == 1).then_some(second.id));
        listed.sort_by(|one, other| other.cmp(one));
        assert_eq!(ids, listed, "{nth}");
    }
    for (read, plan) in reads.into_iter().zip(plans.iter().map(Some).chain([None])) {
        assert_eq!(read.await.unwrap().unwrap().as_deref(), plan);
    }
}

async fn a_caller_gets_no_rows_of_a_statement_that_was_sent_before() {
    let mut world = World::new().await;
    let plans = world.plans(1).await;
    let schema = world.schema.clone();
    // A row that a statement has found is returned only once the advisory lock is free.
    let lock = format!("'{schema}'::regnamespace::oid::int8");
    let slow = format!(
        "SET search_path TO {schema}; \
         CREATE FUNCTION wait() RETURNS bool LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_advisory_xact_lock_shared({lock}); RETURN true; END $$; \
         ALTER TABLE plans RENAME TO stored_plans; \
         CREATE VIEW plans AS SELECT * FROM stored_plans WHERE {schema}.wait(); \
         SELECT pg_advisory_lock({lock})"
    );
    world.say(&slow).await;

    let before = world.read(&plans[0]);
    world.waiting(1).await;
    world.say("UPDATE stored_plans SET version = 2").await;
    let after = [world.read(&plans[0]), world.read(&plans[0])];
    world.say(&format!("SELECT pg_advisory_unlock({lock})")).await;

    assert_eq!(before.await.unwrap().unwrap().unwrap().version.get(), 1);
    for after in after {
        assert_eq!(after.await.unwrap().unwrap().unwrap().version.get(), 2);
    }
}

async fn a_caller_sees_what_was_committed_before_however_many_read() {
    let world = World::new().await;
    let plans = world.plans(8).await;
    let readers: Vec<_> = (0..3)
        .flat_map(|_| &plans)
        .map(|plan| {
            let (store, id) = (Arc::clone(&world.store), plan.id);
            tokio::spawn(async move {
                loop {
                    store.get_as::<Plan>(&id).await.unwrap().unwrap();
                }
            })
        })
        .collect();

    let writers = plans.into_iter().map(|plan| {
        let store = Arc::clone(&world.store);
        tokio::spawn(async move {
            let mut newest = plan;
            for nth in 0..100 {
                newest = renamed(&newest, &format!("Name {nth}"));
                put(&store, &newest).await.unwrap();
                let read = store.get_as::<Plan>(&newest.id).await.unwrap();
                assert_eq!(read.as_deref(), Some(&newest));
            }
        })
    });

    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    for reader in readers {
        reader.abort();
        assert!(reader.await.unwrap_err().is_cancelled());
    }
}

async fn callers_who_are_cancelled_strand_nobody() {
    let mut world = World::new().await;
    let plans = world.plans(12).await;
    world.lock("plans").await;
    let mut reads: Vec<_> = plans.iter().map(|plan| world.read(plan)).collect();
    world.waiting(1).await;

    // The statement of the first is under way. The last waits, and so do all others.
    drop_now(reads.pop().unwrap()).await;
    drop_now(reads.remove(0)).await;
    drop_now(reads.remove(0)).await;
    world.unlock().await;

    for (read, plan) in reads.into_iter().zip(&plans[2..]) {
        assert_eq!(read.await.unwrap().unwrap().as_deref(), Some(plan));
    }
}

async fn drop_now<T>(read: Read<T>) {
    read.abort();
    assert!(read.await.is_err_and(|error| error.is_cancelled()));
}

async fn a_statement_that_fails_fails_each_of_its_callers() {
    let mut world = World::with(Duration::from_millis(200), LONG).await;
    let plans = world.plans(12).await;
    world.lock("plans").await;

    let reads: Vec<_> = plans.iter().map(|plan| world.read(plan)).collect();

    for read in reads {
        let error = read.await.unwrap().unwrap_err();
        let StoreError::Unavailable(source) = &error else { panic!("{error:?}") };
        assert!(source.to_string().contains("timeout"), "{source}");
    }
    world.unlock().await;
    assert_eq!(world.read(&plans[0]).await.unwrap().unwrap().as_deref(), Some(&plans[0]));
}

async fn a_connection_that_is_cut_fails_nobody_unless_it_is_cut_again() {
    let mut world = World::new().await;
    let plans = world.plans(12).await;
    for cuts in 1..=2 {
        world.lock("plans").await;
        let reads: Vec<_> = plans.iter().map(|plan| world.read(plan)).collect();

        let mut cut = Vec::new();
        for _ in 0..cuts {
            let before = cut.clone();
            cut = world.waiting(1).await;
            while cut == before {
                cut = world.waiting(1).await;
            }
            world.say(&format!("SELECT pg_terminate_backend({})", cut[0])).await;
        }
        world.unlock().await;

        let mut failed = 0;
        for (read, plan) in reads.into_iter().zip(&plans) {
            match read.await.unwrap() {
                Ok(read) => assert_eq!(read.as_deref(), Some(plan)),
                Err(StoreError::Unavailable(_)) => failed += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        // Those of the statement that was cut twice; the others may have waited for the next one.
        assert_eq!(failed > 0, cuts == 2, "{failed} of 12 failed after {cuts} cuts");
    }
}

async fn a_caller_who_stops_in_the_middle_delays_nobody() {
    let world = World::with(LONG, Duration::from_secs(50)).await;
    let plans = world.plans(2).await;
    // On a busy machine the answer may be there as soon as the statement is sent.
    let stopped = loop {
        let mut read = Box::pin(world.store.get_as::<Plan>(&plans[0].id));
        if read.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            break read;
        }
    };

    let other = world.read(&plans[1]);
    let other = tokio::time::timeout(Duration::from_secs(9), other).await;

    assert_eq!(other.unwrap().unwrap().unwrap().as_deref(), Some(&plans[1]));
    assert_eq!(stopped.await.unwrap().as_deref(), Some(&plans[0]));
}

async fn callers_give_up_on_a_statement_that_hangs_and_send_their_own() {
    let mut world = World::with(LONG, Duration::from_secs(2)).await;
    let plans = world.plans(3).await;
    world.lock("plans").await;

    let hangs = world.read(&plans[0]);
    world.waiting(1).await;
    let waits = world.read(&plans[1]);
    // The one that hangs, and one of each caller.
    world.waiting(3).await;
    let later = world.read(&plans[2]);
    // Had the later caller waited for the first statement too, there would never be more than four.
    world.waiting(5).await;
    world.unlock().await;

    for (read, plan) in [hangs, waits, later].into_iter().zip(&plans) {
        assert_eq!(read.await.unwrap().unwrap().as_deref(), Some(plan));
    }
}
