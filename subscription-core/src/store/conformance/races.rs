//! Concurrent commits: one wins, the others get an error, and no reader sees a part of a commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::each::every_event;
use super::records::{
    account, answer, asked_payment, at_version, event, one_of_each, parsed, payment, plan,
    subscription,
};
use super::steps::{
    assert_absent, assert_conflict, assert_stored, assert_taken, deleting, feed, limit, listed,
    put, stored, unchanged, writing,
};
use crate::payments::{Payment, PaymentKind};
use crate::plans::{NodeQuota, Plan};
use crate::store::{
    ChangeSet, EventQuery, Guard, Key, PaymentQuery, Record, Store, StoreError, StoreExt as _,
    Unique,
};
use crate::subscriptions::Subscription;
use crate::values::Version;

const RACERS: u64 = 8;
const ROUNDS: u64 = 10;

/// Commits all sets at the same time, each in its own task. Returns the results in the order of the sets.
async fn race(
    store: &Arc<dyn Store>,
    sets: impl IntoIterator<Item = ChangeSet, IntoIter: Send> + Send,
) -> Vec<Result<(), StoreError>> {
    let sets: Vec<_> = sets.into_iter().collect();
    let start = Arc::new(Barrier::new(sets.len()));
    let racers = sets.into_iter().map(|changes| {
        let store = Arc::clone(store);
        let start = Arc::clone(&start);
        tokio::spawn(async move {
            start.wait().await;
            store.commit(changes).await
        })
    });
    let mut answers = Vec::new();
    for racer in racers.collect::<Vec<_>>() {
        answers.push(racer.await.unwrap());
    }
    answers
}

/// The number of the set that was accepted; all other sets must have been refused.
#[track_caller]
fn winner(
    answers: &[Result<(), StoreError>],
    assert_refused: impl Fn(&Result<(), StoreError>),
) -> u64 {
    let won: Vec<_> = (0..).zip(answers).filter(|(_, answer)| answer.is_ok()).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    answers.iter().filter(|answer| answer.is_err()).for_each(assert_refused);
    won.first().map(|(place, _)| *place).unwrap()
}

/// Asserts that the record of the winner exists, and that the records of the others do not.
async fn assert_only(store: &Arc<dyn Store>, first: u64, record: impl Fn(u64) -> Record + Sync) {
    for racer in 0..RACERS {
        let is_made = stored(store, &record(racer).key()).await.is_some();
        assert_eq!(is_made, racer == first, "{:?}", record(racer).key());
    }
}

/// The stored record is the winner's, and the others get a conflict.
pub async fn of_racing_writes_of_one_version_exactly_one_wins(store: Arc<dyn Store>) {
    let by = |racer: u64, version: u64| {
        at_version(Plan { name: parsed(format!("by {racer}")), ..plan(1) }, version)
    };
    for version in 1..=ROUNDS {
        let sets = (0..RACERS).map(|racer| writing([by(racer, version)]));
        let answers = race(&store, sets).await;

        let first = winner(&answers, |refused| assert_conflict(refused, &by(0, version)));
        assert_stored(&store, [by(first, version)]).await;
    }
}

/// Records are created at the same time, as callers of a server create them: some sets are refused, each for a reason
/// of its own, and all others are accepted, with their events and idempotency records.
pub async fn of_many_creates_at_once_each_is_judged_alone(store: Arc<dyn Store>) {
    let bought = Record::from(plan(1));
    let buyer = Record::from(account(1));
    let there = subscription(1);
    put(&store, [bought.clone(), buyer.clone(), there.clone().into()]).await;
    for round in 0..ROUNDS {
        let numbers = 100 * (round + 1)..100 * (round + 1) + 40;
        let create = |n: u64| {
            let mut created = subscription(n);
            let mut guards = vec![unchanged(&bought, 1), unchanged(&buyer, 1)];
            match n % 8 {
                1 => created.id = there.id,
                3 => {
                    created.external_subscription_id.clone_from(&there.external_subscription_id);
                }
                5 => guards = vec![unchanged(&bought, 2), unchanged(&buyer, 1)],
                7 => guards = vec![unchanged(&bought, 1), unchanged(&buyer, 2)],
                _ => {}
            }
            let writes = vec![created.into(), answer(n).into()];
            ChangeSet { guards, writes, events: vec![event(n)], ..ChangeSet::default() }
        };

        let answers = race(&store, numbers.clone().map(create)).await;

        let recorded = every_event(&store).await.len();
        for (n, outcome) in numbers.clone().zip(&answers) {
            match n % 8 {
                1 => assert_conflict(outcome, &there.clone().into()),
                3 => assert_taken(outcome, Unique::ExternalSubscription),
                5 => assert_conflict(outcome, &bought),
                7 => assert_conflict(outcome, &buyer),
                _ => assert!(outcome.is_ok(), "{n}: {outcome:?}"),
            }
            if outcome.is_ok() {
                assert_stored(&store, [Record::from(subscription(n)), answer(n).into()]).await;
            } else {
                assert_absent(&store, [answer(n)]).await;
            }
        }
        let taken = numbers.clone().filter(|n| n % 2 == 0).count();
        assert_eq!(recorded, taken * usize::try_from(round + 1).unwrap());
    }
    assert_stored(&store, [there]).await;
}

/// Records that have nothing else in common race for each kind of unique value.
pub async fn of_racing_records_with_one_value_exactly_one_is_made(store: Arc<dyn Store>) {
    for round in 0..ROUNDS {
        let number = |racer| round * RACERS + racer;
        let value = format!("round-{round}");
        let external = || Some(parsed(&value));
        let value = || parsed(&value);
        let records = |racer| {
            let slug = value();
            let external_subscription_id = external();
            let held = subscription(number(racer));
            [
                Record::from(Plan { slug, ..plan(number(racer)) }),
                Record::from(Subscription { external_subscription_id, ..held }),
                Record::from(Payment { external_payment_id: external(), ..payment(number(racer)) }),
                Record::from(asked_payment(1_000 + number(racer), PaymentKind::Renewal, round)),
                Record::from(Subscription {
                    live_key: Some(format!("round {round}").into()),
                    ..subscription(1_000 + number(racer))
                }),
            ]
        };
        let kinds = [
            Unique::PlanSlug,
            Unique::ExternalSubscription,
            Unique::ExternalPayment,
            Unique::PaymentPeriod,
            Unique::LiveSubscription,
        ];
        for (kind, unique) in kinds.into_iter().enumerate() {
            let record = |racer| records(racer).into_iter().nth(kind).unwrap();
            let answers = race(&store, (0..RACERS).map(|racer| writing([record(racer)]))).await;

            let first = winner(&answers, |refused| assert_taken(refused, unique));
            assert_only(&store, first, record).await;
        }
    }
}

/// A request that is sent several times has the same unique values too: all but one get a conflict over its
/// key, not the error that a value is taken, and one record is made.
pub async fn of_racing_requests_with_one_key_exactly_one_is_answered(store: Arc<dyn Store>) {
    for round in 0..ROUNDS {
        let kept = Record::from(answer(round));
        let made = |racer| {
            let slug = parsed(format!("twin-{round}"));
            Record::from(Plan { slug, ..plan(round * RACERS + racer) })
        };
        let sets = (0..RACERS).map(|racer| {
            let external_subscription_id = Some(parsed(format!("twin {round}")));
            let subscription = subscription(round * RACERS + racer);
            let subscription = Subscription { external_subscription_id, ..subscription };
            writing([made(racer), Record::from(subscription), kept.clone()])
        });
        let answers = race(&store, sets).await;

        let first = winner(&answers, |refused| assert_conflict(refused, &kept));
        assert_only(&store, first, made).await;
    }
}

/// Sets that name the same values in opposite orders do not deadlock.
pub async fn of_racing_sets_with_crossed_values_exactly_one_is_taken(store: Arc<dyn Store>) {
    for round in 0..ROUNDS {
        let sets = (0..RACERS).map(|racer| {
            let place = |nth: u64| (round * RACERS + racer) * 4 + nth;
            let value = |nth: u64| if racer % 2 == 0 { nth } else { 3 - nth };
            writing((0..4).map(|nth| {
                let slug = parsed(format!("crossed-{round}-{}", value(nth)));
                Record::from(Plan { slug, ..plan(place(nth)) })
            }))
        });
        let answers = race(&store, sets).await;

        winner(&answers, |refused| assert_taken(refused, Unique::PlanSlug));
    }
}

/// Refused writers read again and retry, until every increment is counted.
pub async fn no_increment_is_lost_if_the_refused_try_again(store: Arc<dyn Store>) {
    let id = plan(1).id;
    put(&store, [plan(1)]).await;

    let counters = (0..RACERS).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut counted = 0;
            // This number of attempts is more than enough: an increment is refused only because another increment was
            // counted.
            for _ in 0..10 * RACERS * ROUNDS {
                if counted == ROUNDS {
                    break;
                }
                let read = store.get_as::<Plan>(&id).await.unwrap().unwrap();
                let node_quota = NodeQuota::new(read.node_quota.get() + 1).unwrap();
                let next = Plan { node_quota, version: read.version.next(), ..(*read).clone() };
                match store.commit(writing([next])).await {
                    Ok(()) => counted += 1,
                    Err(StoreError::Conflict(_)) => tokio::task::yield_now().await,
                    Err(other) => panic!("{other:?}"),
                }
            }
        })
    });
    for counter in counters.collect::<Vec<_>>() {
        counter.await.unwrap();
    }

    let counted = store.get_as::<Plan>(&id).await.unwrap().unwrap();
    assert_eq!(counted.node_quota.get(), RACERS * ROUNDS);
    assert_eq!(counted.version, Version::from(1 + RACERS * ROUNDS));
}

/// Each set writes the record that the other one guards, so only one can be taken.
pub async fn of_two_sets_that_guard_each_others_record_one_wins(store: Arc<dyn Store>) {
    let a = Record::from(plan(1));
    let b = Record::from(plan(2));
    let mut versions = [1, 1];
    put(&store, [a.clone(), b.clone()]).await;
    for _ in 0..ROUNDS {
        let [of_a, of_b] = versions;
        let guarding = |guarded, version, written: &Record, of_written: u64| ChangeSet {
            guards: vec![unchanged(guarded, version)],
            ..writing([at_version(written.clone(), of_written + 1)])
        };
        let sets = [guarding(&b, of_b, &a, of_a), guarding(&a, of_a, &b, of_b)];
        let answers = race(&store, sets).await;

        let is_conflict =
            |refused: &_| assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
        versions =
            if winner(&answers, is_conflict) == 0 { [of_a + 1, of_b] } else { [of_a, of_b + 1] };
    }
}

/// Two commits run at the same time: one creates a subscription and guards the record that the subscription refers to,
/// the other deletes that record under a guard that nothing refers to it. Exactly one must win.
async fn race_against_deletion(
    store: &Arc<dyn Store>,
    needed: impl Fn(u64) -> Record + Send,
    guard: impl Fn(u64) -> Guard + Send,
    assert_refused: impl Fn(u64, &Result<(), StoreError>) + Send,
) {
    for n in 0..2 * ROUNDS {
        put(store, [needed(n)]).await;
        let guards = vec![unchanged(&needed(n), 1)];
        let subscribing = ChangeSet { guards, ..writing([subscription(n)]) };
        let deleting = ChangeSet { guards: vec![guard(n)], ..deleting([needed(n)]) };
        // The order in which the two tasks start changes from round to round.
        let subscriber_first = n % 2 == 0;
        let sets = if subscriber_first { [subscribing, deleting] } else { [deleting, subscribing] };
        let answers = race(store, sets).await;

        let first = winner(&answers, |refused| assert_refused(n, refused));
        let subscribed = (first == 0) == subscriber_first;
        let both = [needed(n).key(), Key::Subscription(subscription(n).id)];
        for key in both {
            assert_eq!(stored(store, &key).await.is_some(), subscribed, "{key:?} {answers:?}");
        }
    }
}

/// Creating a subscription races the deletion of an unused plan.
pub async fn no_subscription_is_left_without_its_plan(store: Arc<dyn Store>) {
    let guard = |n| Guard::PlanUnused(plan(n).id);
    race_against_deletion(
        &store,
        |n| plan(n).into(),
        guard,
        |n, refused| match refused {
            Err(StoreError::PlanInUse(id)) => assert_eq!(*id, plan(n).id),
            refused => assert_conflict(refused, &plan(n).into()),
        },
    )
    .await;
}

/// Creating a subscription races the deletion of a user without live subscriptions.
pub async fn no_subscription_is_left_to_a_deleted_user(store: Arc<dyn Store>) {
    let guard = |n| Guard::NoOtherLiveSubscription(account(n).id);
    race_against_deletion(
        &store,
        |n| account(n).into(),
        guard,
        |n, refused| {
            assert_conflict(refused, &account(n).into());
        },
    )
    .await;
}

/// Calls that commit steps for the same subscriptions, in opposite orders: each step is taken once, with its
/// payment and its events, and no two calls wait for each other.
pub async fn of_racing_calls_one_writes_each_record(store: Arc<dyn Store>) {
    const STEPS: u64 = 20;
    put(&store, (0..STEPS).map(subscription)).await;
    for version in 2..=ROUNDS {
        let paid = |racer: u64, n: u64| payment((version * RACERS + racer) * STEPS + n);
        let calls = (0..RACERS).map(|racer| {
            let sets = (0..STEPS).map(|n| {
                let n = if racer % 2 == 0 { n } else { STEPS - 1 - n };
                let renewed = at_version(subscription(n), version);
                ChangeSet { events: vec![event(n)], ..writing([renewed, paid(racer, n).into()]) }
            });
            let sets: Vec<_> = sets.collect();
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.commit_each(sets).await })
        });
        let mut taken = BTreeSet::new();
        for (racer, call) in (0..).zip(calls.collect::<Vec<_>>()) {
            for (nth, outcome) in (0..).zip(call.await.unwrap()) {
                let n = if racer % 2 == 0 { nth } else { STEPS - 1 - nth };
                let is_paid = stored(&store, &Key::Payment(paid(racer, n).id)).await.is_some();
                assert_eq!(is_paid, outcome.is_ok());
                match outcome {
                    Ok(()) => assert!(taken.insert(n), "step {n} was taken twice"),
                    Err(StoreError::Busy(key)) => {
                        assert_eq!(key, Key::Subscription(subscription(n).id));
                    }
                    refused => assert_conflict(&refused, &subscription(n).into()),
                }
            }
        }
        assert_eq!(taken, (0..STEPS).collect());
        assert_stored(&store, (0..STEPS).map(|n| at_version(subscription(n), version))).await;
        let told = u64::try_from(every_event(&store).await.len()).unwrap();
        assert_eq!(told, (version - 1) * STEPS);
    }
}

/// Commits `changes` again and again, for versions from 1 on, while `read` runs again and again.
async fn while_writing<R: Future<Output = ()> + Send + 'static>(
    store: Arc<dyn Store>,
    changes: impl Fn(u64) -> ChangeSet + Send,
    read: impl Fn(Arc<dyn Store>) -> R + Send + 'static,
) {
    store.commit(changes(1)).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let reader = Arc::clone(&store);
    let is_done = Arc::clone(&done);
    // A `JoinSet` aborts its tasks when it is dropped, so a writer that panics leaves no reader running.
    let mut readers = JoinSet::new();
    readers.spawn(async move {
        while !is_done.load(Ordering::SeqCst) {
            read(Arc::clone(&reader)).await;
            tokio::task::yield_now().await;
        }
        read(reader).await;
    });
    for version in 2..10 * ROUNDS + 2 {
        store.commit(changes(version)).await.unwrap();
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::SeqCst);
    readers.join_next().await.unwrap().unwrap();
}

/// Two payments that are always written together have the same version on every page.
pub async fn no_page_shows_a_part_of_a_commit(store: Arc<dyn Store>) {
    let both = |version| writing([1, 2].map(|n| at_version(payment(n), version)));
    while_writing(store, both, |store| async move {
        let page = listed::<Payment>(&store, PaymentQuery::of(subscription(0).id)).await;
        let versions: Vec<_> = page.iter().map(|found| found.version).collect();
        let [first, second] = versions.as_slice() else { panic!("{versions:?}") };
        assert_eq!(first, second);
    })
    .await;
}

/// A reader who has seen one record of a commit sees the others too, of whatever kind, and its event.
pub async fn what_was_committed_together_is_seen_together(store: Arc<dyn Store>) {
    let all = |version| {
        let events = vec![event(version)];
        ChangeSet { events, ..writing(one_of_each(1).map(|record| at_version(record, version))) }
    };
    while_writing(store, all, |store| async move {
        for seen in one_of_each(1) {
            let seen = stored(&store, &seen.key()).await.unwrap().version();
            for other in one_of_each(1) {
                let other = stored(&store, &other.key()).await.unwrap();
                assert!(other.version() >= seen, "{other:?} after version {seen}");
            }
            let told = feed(&store).await.len();
            assert!(u64::try_from(told).unwrap() >= seen.get(), "{told} of {seen}");
        }
    })
    .await;
}

/// A reader that continues from the last sequence that it saw gets every event once, although many tasks write.
pub async fn a_reader_that_follows_the_feed_misses_no_event(store: Arc<dyn Store>) {
    let all = RACERS * ROUNDS;
    let writers = (0..RACERS).map(|racer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for round in 0..ROUNDS {
                let n = racer * ROUNDS + round;
                let events = vec![event(n)];
                let changes = ChangeSet { events, ..writing([plan(n)]) };
                store.commit(changes).await.unwrap();
                tokio::task::yield_now().await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();

    let mut told = Vec::new();
    let mut last = 0;
    loop {
        let all_written = writers.iter().all(tokio::task::JoinHandle::is_finished);
        let page = store.events(&EventQuery::after(last, limit(7))).await.unwrap().items;
        if page.is_empty() && all_written {
            break;
        }
        for recorded in page {
            assert!(recorded.sequence > last, "{} after {last}", recorded.sequence);
            last = recorded.sequence;
            told.push(recorded.event.subject);
        }
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }

    let told: BTreeSet<_> = told.into_iter().map(Key::from).collect();
    let made: BTreeSet<_> = (0..all).map(|n| Key::Plan(plan(n).id)).collect();
    assert_eq!(told, made);
}
