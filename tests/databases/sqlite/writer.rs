//! The one writer, and the many that share its transactions.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use subscription_core::store::{EventQuery, StoreExt as _};
use subscription_core::subscriptions::Subscription;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Executor as _, SqliteConnection};
use subscription_core::events::{Actor, Change, Event, Subject};
use subscription_core::store::{
    ChangeSet, Guard, Key, PageLimit, Record, SqliteOptions, SqliteStore, StoreError,
    SubscriptionFilter, SubscriptionQuery, Unique,
};
use subscription_core::{
    EventId, Plan, Store as _, SubscriptionStatus, SystemRandomness, Timestamp, Version,
};
use test_support::trials;
use test_support::trials::Trial;
use tokio::task::JoinHandle;

use super::fresh;
use crate::folder::folder;
use crate::records::{at, plan, put, renamed, subscription};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_refused_set_hurts_no_neighbour,
        a_set_of_a_few_records_is_written_whole_or_not_at_all,
        a_commit_whose_caller_left_is_taken_whole_or_not_at_all,
        others_are_served_between_the_sets_of_one_call,
        others_who_come_between_the_sets_of_one_call_have_their_own_outcomes,
        calls_that_wait_for_each_other_have_their_own_outcomes,
        a_call_with_many_sets_is_answered_before_the_next_one_is_written,
        a_stop_waits_for_the_sets_of_a_call,
        a_new_period_with_other_changes_is_written_whole,
        while_another_holds_the_file_nothing_is_written_and_all_is_read,
    ]
}

/// The plan with the event that tells of it.
fn told(plan: &Plan) -> ChangeSet {
    let event = Event {
        id: EventId::new(plan.created_at, &SystemRandomness).unwrap(),
        at: plan.created_at,
        subject: Subject::Plan(plan.id),
        version: plan.version,
        change: Change::Created,
        actor: Actor::Library,
    };
    let writes = vec![Record::from(plan.clone())];
    ChangeSet { writes, events: vec![event], ..ChangeSet::default() }
}

async fn feed(store: &SqliteStore) -> Vec<(u64, Subject)> {
    let mut all: Vec<(u64, Subject)> = Vec::new();
    loop {
        let after = all.last().map_or(0, |(sequence, _)| *sequence);
        let page = store.events(&EventQuery::after(after, PageLimit::MAX)).await.unwrap().items;
        if page.is_empty() {
            return all;
        }
        all.extend(page.into_iter().map(|told| (told.sequence, told.event.subject)));
    }
}

/// Every third is refused after it has told its event; its place goes to the next.
async fn a_refused_set_hurts_no_neighbour() {
    let store = Arc::new(fresh().await);
    put(&store, &plan("taken")).await.unwrap();

    let asked = (0..600).map(|nth| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let (good, bad) = (plan(&format!("plan-{nth}")), plan("taken"));
            let changes = if nth % 3 == 0 { told(&bad) } else { told(&good) };
            (good.id, nth % 3 == 0, store.commit(changes).await)
        })
    });
    let mut taken = Vec::new();
    for asked in asked.collect::<Vec<_>>() {
        let (id, is_bad, answer) = asked.await.unwrap();
        match answer {
            Ok(()) if !is_bad => taken.push(Subject::Plan(id)),
            Err(StoreError::Taken(_)) if is_bad => {}
            other => panic!("{other:?}"),
        }
    }

    let (places, mut subjects): (Vec<_>, Vec<_>) = feed(&store).await.into_iter().unzip();
    assert_eq!(places, (1..=400).collect::<Vec<u64>>());
    subjects.sort();
    taken.sort();
    assert_eq!(subjects, taken);
}

async fn a_commit_whose_caller_left_is_taken_whole_or_not_at_all() {
    let store = Arc::new(fresh().await);
    let mut asked = Vec::new();
    for nth in 0..100 {
        let plan = plan(&format!("plan-{nth}"));
        let patience = Duration::from_micros(nth * 10);
        tokio::time::timeout(patience, store.commit(told(&plan))).await.ok();
        asked.push(plan);
    }
    put(&store, &plan("last")).await.unwrap();

    let mut taken = Vec::new();
    for plan in &asked {
        if store.get_as::<Plan>(&plan.id).await.unwrap().is_some() {
            taken.push(Subject::Plan(plan.id));
        }
    }
    println!("{} of 100 commits whose callers left were taken", taken.len());
    let told: Vec<_> = feed(&store).await.into_iter().map(|(_, subject)| subject).collect();
    assert_eq!(told, taken);
}

type Batch = JoinHandle<Vec<Result<(), StoreError>>>;

/// Commits many plans by one call, of which the first is stored and the last is not yet.
async fn unfinished(store: &Arc<SqliteStore>) -> (Batch, Vec<Plan>) {
    let plans: Vec<_> = (0..5_000).map(|nth| plan(&format!("plan-{nth}"))).collect();
    let (sets, calling) = (plans.iter().map(told).collect(), Arc::clone(store));
    let batch = tokio::spawn(async move { calling.commit_each(sets).await });
    let (first, last) = (&plans[0], &plans[plans.len() - 1]);
    for nth in 0.. {
        put(store, &plan(&format!("other-{nth}"))).await.unwrap();
        if store.get_as::<Plan>(&first.id).await.unwrap().is_some() {
            break;
        }
    }
    assert!(store.get_as::<Plan>(&last.id).await.unwrap().is_none(), "others wait for all sets");
    (batch, plans)
}

async fn others_are_served_between_the_sets_of_one_call() {
    let store = Arc::new(fresh().await);

    let (batch, plans) = unfinished(&store).await;

    assert!(batch.await.unwrap().iter().all(Result::is_ok));
    let told: Vec<_> = feed(&store).await.into_iter().map(|(_, subject)| subject).collect();
    assert_eq!(told, plans.iter().map(|plan| Subject::Plan(plan.id)).collect::<Vec<_>>());
}

/// Their change sets share the transaction of the call's.
async fn others_who_come_between_the_sets_of_one_call_have_their_own_outcomes() {
    let store = Arc::new(fresh().await);
    put(&store, &plan("taken")).await.unwrap();
    let (batch, _) = unfinished(&store).await;

    let mut others = Vec::new();
    for nth in 0..20 {
        let good = plan(&format!("good-{nth}"));
        let (bad, free) = (told(&plan("taken")), told(&good));
        let (refused, made) = tokio::join!(store.commit(bad), store.commit(free));
        assert!(matches!(refused, Err(StoreError::Taken(_))), "{refused:?}");
        made.unwrap();
        others.push(Subject::Plan(good.id));
    }

    assert!(batch.await.unwrap().iter().all(Result::is_ok));
    let (places, told): (Vec<_>, Vec<_>) = feed(&store).await.into_iter().unzip();
    assert_eq!(places, (1..=5_020).collect::<Vec<u64>>());
    let told: Vec<_> = told.into_iter().filter(|subject| others.contains(subject)).collect();
    assert_eq!(told, others);
}

/// The third set of each has the slug of the first.
async fn calls_that_wait_for_each_other_have_their_own_outcomes() {
    let store = Arc::new(fresh().await);
    let mut calls = Vec::new();
    for call in 0..8 {
        let plans = (0..100).map(|nth| plan(&format!("{call}-{}", if nth == 2 { 0 } else { nth })));
        let (plans, store) = (plans.collect::<Vec<_>>(), Arc::clone(&store));
        calls.push(tokio::spawn(async move {
            let outcomes = store.commit_each(plans.iter().map(told).collect()).await;
            (plans, outcomes)
        }));
    }

    let mut taken = Vec::new();
    for call in calls {
        let (plans, outcomes) = call.await.unwrap();
        assert_eq!(outcomes.len(), plans.len());
        for (nth, (plan, outcome)) in plans.iter().zip(outcomes).enumerate() {
            let stored = store.get_as::<Plan>(&plan.id).await.unwrap().is_some();
            assert_eq!((outcome.is_ok(), stored), (nth != 2, nth != 2), "{}", plan.slug);
            taken.extend(stored.then_some(Subject::Plan(plan.id)));
        }
    }

    let mut told: Vec<_> = feed(&store).await.into_iter().map(|(_, subject)| subject).collect();
    told.sort();
    taken.sort();
    assert_eq!(told, taken);
}

/// The caller prepares its next sets meanwhile, so that the writer need not wait for them.
async fn a_call_with_many_sets_is_answered_before_the_next_one_is_written() {
    let store = Arc::new(fresh().await);
    let (batch, _) = unfinished(&store).await;
    let next: Vec<_> = (0..5_000).map(|nth| told(&plan(&format!("next-{nth}")))).collect();
    let mut next = pin!(store.commit_each(next));

    let answered = tokio::select! {
        biased;
        _ = &mut next => panic!("both were answered at the same time"),
        outcomes = batch => outcomes.unwrap(),
    };

    assert!(answered.iter().all(Result::is_ok));
    assert!(next.await.iter().all(Result::is_ok));
}

async fn a_stop_waits_for_the_sets_of_a_call() {
    let store = Arc::new(fresh().await);
    let (batch, plans) = unfinished(&store).await;

    // A call that came before the stop, while the sets are written.
    let second = vec![told(&plan("second"))];
    let (second, ()) = tokio::join!(biased; store.commit_each(second), store.close());

    assert!(matches!(second[..], [Ok(())]), "{second:?}");
    let outcomes = batch.await.unwrap();
    assert_eq!(outcomes.len(), plans.len());
    assert!(outcomes.iter().all(Result::is_ok));
}

/// An UPDATE for a new period sets no column of most indexes. One that changes such a column too is written by another.
async fn a_new_period_with_other_changes_is_written_whole() {
    let store = Arc::new(fresh().await);
    let (kept, other) = (plan("kept"), plan("other"));
    let [now, later] = [at("2030-01-01T00:00:00Z"), at("2040-01-01T00:00:00Z")];
    let started = |subscription: &Subscription| {
        let event = Event {
            id: EventId::new(subscription.updated_at, &SystemRandomness).unwrap(),
            at: subscription.updated_at,
            subject: Subject::Subscription(subscription.id),
            version: subscription.version,
            change: Change::PeriodStarted { period_start: now, period_end: None },
            actor: Actor::Clock,
        };
        let writes = vec![Record::from(subscription.clone())];
        ChangeSet { writes, events: vec![event], ..ChangeSet::default() }
    };
    let changes: [fn(&mut Subscription, &Plan, Timestamp); 8] = [
        |_, _, _| {},
        |it, _, at| it.renews_at = Some(at),
        |it, _, at| it.ends_at = Some(at),
        |it, _, _| it.ends_at = Some(it.starts_at),
        |it, _, at| it.starts_at = at,
        |it, _, _| it.blocked = true,
        |it, _, _| it.status = SubscriptionStatus::Paused,
        |it, other, _| it.subscription_plan_id = other.id,
    ];
    let before: Vec<_> = changes.iter().map(|_| subscription(&kept)).collect();
    let writes = before.iter().cloned().map(Record::from).collect();
    put(&store, &kept).await.unwrap();
    put(&store, &other).await.unwrap();
    store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
    let mut after = before.clone();
    for (subscription, change) in after.iter_mut().zip(changes) {
        (subscription.version, subscription.updated_at) = (subscription.version.next(), now);
        change(subscription, &other, later);
    }

    let outcomes = store.commit_each(after.iter().map(started).collect()).await;

    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(feed(&store).await.len(), after.len());
    for (nth, expected) in after.iter().enumerate() {
        let stored = store.get_as::<Subscription>(&expected.id).await.unwrap();
        assert_eq!(stored.as_deref(), Some(expected), "{nth}");
        let filter = SubscriptionFilter::default()
            .with_is_active(true)
            .with_statuses(vec![expected.status])
            .with_subscription_plan_id(Some(expected.subscription_plan_id));
        for at in [now, later] {
            let query = SubscriptionQuery::default().with_filter(filter.clone()).with_now(at);
            let listed = store.list_as::<Subscription>(query).await.unwrap().items;
            let is_listed = listed.iter().any(|it| it.id == expected.id);
            assert_eq!(is_listed, expected.is_active_at(at), "{nth} {at}");
        }
    }
}

/// A copy is being made of it, say, by a tool that keeps others from writing meanwhile.
async fn while_another_holds_the_file_nothing_is_written_and_all_is_read() {
    let file = folder().join("store.db");
    let store = Arc::new(SqliteOptions::file(&file).relaxed().open().await.unwrap());
    let kept = plan("kept");
    put(&store, &kept).await.unwrap();
    let mut over = subscription(&kept);
    over.status = SubscriptionStatus::Cancelled;
    over.ends_at = Some(over.starts_at);
    let writes = vec![Record::from(over)];
    store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
    let mut other: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    let start = Instant::now();

    let refused = put(&store, &renamed(&kept, "Refused")).await.unwrap_err();
    let filter = SubscriptionFilter::default().with_is_active(false);
    let now = at("2030-01-01T00:00:00Z");
    let query = SubscriptionQuery::default().with_filter(filter).with_now(now);
    let listed = store.list_as::<Subscription>(query.clone()).await.unwrap();

    println!("a commit and a list waited {:?} for a file that another holds", start.elapsed());
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
    assert_eq!(listed.items.len(), 1);
    assert_eq!(store.get_as::<Plan>(&kept.id).await.unwrap().as_deref(), Some(&kept));
    other.execute("ROLLBACK").await.unwrap();
    put(&store, &renamed(&kept, "Written")).await.unwrap();
}

/// Each is refused by another part, after a record that could be written.
async fn a_set_of_a_few_records_is_written_whole_or_not_at_all() {
    let store = Arc::new(fresh().await);
    let kept = plan("kept");
    put(&store, &kept).await.unwrap();
    let kept = renamed(&kept, "Kept");
    put(&store, &kept).await.unwrap();
    let key = Key::Plan(kept.id);
    let unchanged = |version| Some(Guard::Unchanged { key: key.clone(), version });
    let stale = Plan { version: kept.version, ..renamed(&kept, "Stale") };

    for (second, guard, refused) in [
        (stale, None, Some(StoreError::Conflict(key.clone()).to_string())),
        (plan("b"), unchanged(Version::FIRST), Some(StoreError::Conflict(key.clone()).to_string())),
        (plan("c"), unchanged(Version::NEW), Some(StoreError::Conflict(key.clone()).to_string())),
        (plan("kept"), None, Some(StoreError::Taken(Unique::PlanSlug).to_string())),
        (plan("d"), unchanged(kept.version), None),
        (renamed(&kept, "Again"), None, None),
    ] {
        let (first, fed) = (plan("first"), feed(&store).await.len());
        let mut changes = told(&first);
        changes.writes.push(Record::from(second.clone()));
        changes.guards.extend(guard);

        let outcome = store.commit(changes).await;

        assert_eq!(outcome.as_ref().err().map(ToString::to_string), refused, "{second:?}");
        let written = store.get_as::<Plan>(&first.id).await.unwrap().is_some();
        assert_eq!(written, refused.is_none(), "{second:?}");
        assert_eq!(feed(&store).await.len() - fed, usize::from(written), "{second:?}");
        if written {
            let stored = store.get_as::<Plan>(&second.id).await.unwrap();
            assert_eq!(stored.as_deref(), Some(&second));
            let other =
                Plan { slug: first.id.to_string().parse().unwrap(), ..renamed(&first, "F") };
            put(&store, &other).await.unwrap();
        }
    }
}
