//! Many at once: one wins, the others are told, and no reader sees it happen.

use crate::accounts::User;
use crate::store::{EventQuery, StoreExt as _};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::records::{
    account, answer, at_version, event, one_of_each, parsed, payment, plan, subscription,
};
use super::steps::{
    assert_conflict, assert_taken, deleting, feed, limit, stored, unchanged, writing,
};
use crate::payments::Payment;
use crate::plans::{NodeQuota, Plan};
use crate::store::{
    ChangeSet, Guard, IdempotencyRecord, Key, PaymentQuery, Record, Store, StoreError, Unique,
};
use crate::subscriptions::Subscription;
use crate::values::version::Version;

const RACERS: u64 = 8;
const ROUNDS: u64 = 10;

/// Commits all sets at the same moment, as far as there is such a thing.
async fn race(
    store: &Arc<dyn Store>,
    sets: impl IntoIterator<Item = ChangeSet, IntoIter: Send> + Send,
) -> Vec<Result<(), StoreError>> {
    let sets: Vec<_> = sets.into_iter().collect();
    let start = Arc::new(Barrier::new(sets.len()));
    let racers = sets.into_iter().map(|changes| {
        let (store, start) = (Arc::clone(store), Arc::clone(&start));
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

/// The place of the one that won; all others must have been refused.
#[track_caller]
fn winner(
    answers: &[Result<(), StoreError>],
    assert_refused: impl Fn(&Result<(), StoreError>),
) -> usize {
    let won: Vec<_> = (0..).zip(answers).filter(|(_, answer)| answer.is_ok()).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    answers.iter().filter(|answer| answer.is_err()).for_each(assert_refused);
    won.first().map(|(place, _)| *place).unwrap()
}

/// The record is what the winner wrote; the others are told that it has changed.
pub async fn of_racing_writes_of_one_version_exactly_one_wins(store: Arc<dyn Store>) {
    let by = |racer: u64, version: u64| {
        let named = Plan { name: parsed(format!("by {racer}")), ..plan(1) };
        at_version(Record::from(named), version)
    };
    for version in 1..=ROUNDS {
        let sets = (0..RACERS).map(|racer| writing([by(racer, version)]));
        let answers = race(&store, sets).await;

        let first = winner(&answers, |refused| assert_conflict(refused, &by(0, version)));
        let written = by(u64::try_from(first).unwrap(), version);
        assert_eq!(stored(&store, &written.key()).await, Some(written));
    }
}

/// Each kind of value, by records that have nothing else in common.
pub async fn of_racing_records_with_one_value_exactly_one_is_made(store: Arc<dyn Store>) {
    for round in 0..ROUNDS {
        let number = |racer| round * RACERS + racer;
        let value = format!("round-{round}");
        let with_slug = |racer| Record::from(Plan { slug: parsed(&value), ..plan(number(racer)) });
        let subscription = |racer| {
            let external_subscription_id = Some(parsed(&value));
            let rest = subscription(number(racer));
            Record::from(Subscription { external_subscription_id, ..rest })
        };
        let payment = |racer| {
            let external_payment_id = Some(parsed(&value));
            Record::from(Payment { external_payment_id, ..payment(number(racer)) })
        };
        let kinds: [(Unique, &(dyn Fn(u64) -> Record + Sync)); 3] = [
            (Unique::PlanSlug, &with_slug),
            (Unique::ExternalSubscription, &subscription),
            (Unique::ExternalPayment, &payment),
        ];
        for (unique, record) in kinds {
            let answers = race(&store, (0..RACERS).map(|racer| writing([record(racer)]))).await;

            let first = winner(&answers, |refused| assert_taken(refused, unique));
            for racer in 0..RACERS {
                let is_made = stored(&store, &record(racer).key()).await.is_some();
                assert_eq!(is_made, usize::try_from(racer) == Ok(first), "{unique}");
            }
        }
    }
}

/// The work of a request is done once, however often it is sent.
pub async fn of_racing_requests_with_one_key_exactly_one_is_answered(store: Arc<dyn Store>) {
    for round in 0..ROUNDS {
        let number = |racer| round * RACERS + racer;
        let kept = Record::from(answer(round));
        let sets = (0..RACERS).map(|racer| {
            let rest = answer(round);
            let kept =
                IdempotencyRecord { fingerprint: [u8::try_from(racer).unwrap(); 32], ..rest };
            writing([Record::from(plan(number(racer))), Record::from(kept)])
        });
        let answers = race(&store, sets).await;

        let first = winner(&answers, |refused| assert_conflict(refused, &kept));
        for racer in 0..RACERS {
            let is_made = store.get_as::<Plan>(&plan(number(racer)).id).await.unwrap().is_some();
            assert_eq!(is_made, usize::try_from(racer) == Ok(first), "{racer}");
        }
    }
}

/// A request that is sent twice asks for the same values too: its twin is told that the request was
/// answered, not that a value is taken.
pub async fn of_racing_twins_the_second_is_told_of_its_key(store: Arc<dyn Store>) {
    for round in 0..ROUNDS {
        let kept = Record::from(answer(round));
        let sets = (0..RACERS).map(|racer| {
            let number = round * RACERS + racer;
            let slug = parsed(format!("twin-{round}"));
            let external_subscription_id = Some(parsed(format!("twin {round}")));
            writing([
                Record::from(Plan { slug, ..plan(number) }),
                Record::from(Subscription { external_subscription_id, ..subscription(number) }),
                kept.clone(),
            ])
        });
        let answers = race(&store, sets).await;

        winner(&answers, |refused| assert_conflict(refused, &kept));
    }
}

/// A refused set blocks no other, in whatever order each locks its records.
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

/// A refused writer reads again and tries again; in the end all are counted.
pub async fn no_increment_is_lost_if_the_refused_try_again(store: Arc<dyn Store>) {
    let id = plan(1).id;
    store.commit(writing([Record::from(plan(1))])).await.unwrap();

    let counters = (0..RACERS).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut counted = 0;
            // Far more than it takes: who is refused was refused because another was counted.
            for _ in 0..10 * RACERS * ROUNDS {
                if counted == ROUNDS {
                    break;
                }
                let read = store.get_as::<Plan>(&id).await.unwrap().unwrap();
                let node_quota = NodeQuota::new(read.node_quota.get() + 1).unwrap();
                let next = Plan { node_quota, version: read.version.next(), ..(*read).clone() };
                match store.commit(writing([Record::from(next)])).await {
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

/// Each says that the other's record is as it was read: both cannot be right.
pub async fn of_two_sets_that_guard_each_others_record_one_wins(store: Arc<dyn Store>) {
    let [a, b] = [Record::from(plan(1)), Record::from(plan(2))];
    let mut versions = [1, 1];
    store.commit(writing([a.clone(), b.clone()])).await.unwrap();
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

/// Two commits run at the same time: one creates a subscription if its plan is unchanged, the other deletes
/// the plan if it is unused.
pub async fn no_subscription_is_left_without_its_plan(store: Arc<dyn Store>) {
    for n in 0..2 * ROUNDS {
        let made = Record::from(plan(n));
        store.commit(writing([made.clone()])).await.unwrap();
        let guards = vec![unchanged(&made, 1)];
        let subscribing = ChangeSet { guards, ..writing([Record::from(subscription(n))]) };
        let guards = vec![Guard::PlanUnused(plan(n).id)];
        let deleting = ChangeSet { guards, ..deleting([made.clone()]) };
        // The order of the two, in which their tasks start, changes from round to round.
        let subscriber_first = n % 2 == 0;
        let sets = if subscriber_first { [subscribing, deleting] } else { [deleting, subscribing] };
        let answers = race(&store, sets).await;

        let first = winner(&answers, |refused| match refused {
            Err(StoreError::PlanInUse(id)) => assert_eq!(*id, plan(n).id),
            refused => assert_conflict(refused, &made),
        });
        let subscribed = (first == 0) == subscriber_first;
        let has_subscription =
            store.get_as::<Subscription>(&subscription(n).id).await.unwrap().is_some();
        let has_plan = store.get_as::<Plan>(&plan(n).id).await.unwrap().is_some();
        assert_eq!((has_plan, has_subscription), (subscribed, subscribed), "{answers:?}");
    }
}

/// Subscribing under a guard of the user races the deletion of a user without live subscriptions.
pub async fn no_subscription_is_left_to_a_deleted_user(store: Arc<dyn Store>) {
    for n in 0..2 * ROUNDS {
        let made = Record::from(account(n));
        store.commit(writing([made.clone()])).await.unwrap();
        let guards = vec![unchanged(&made, 1)];
        let subscribing = ChangeSet { guards, ..writing([Record::from(subscription(n))]) };
        let guards = vec![Guard::NoOtherLiveSubscription(account(n).id)];
        let deleting = ChangeSet { guards, ..deleting([made.clone()]) };
        let subscriber_first = n % 2 == 0;
        let sets = if subscriber_first { [subscribing, deleting] } else { [deleting, subscribing] };
        let answers = race(&store, sets).await;

        let first = winner(&answers, |refused| assert_conflict(refused, &made));
        let subscribed = (first == 0) == subscriber_first;
        let has_subscription =
            store.get_as::<Subscription>(&subscription(n).id).await.unwrap().is_some();
        let has_user = store.get_as::<User>(&account(n).id).await.unwrap().is_some();
        assert_eq!((has_user, has_subscription), (subscribed, subscribed), "{answers:?}");
    }
}

/// Runs `write` over and over while `read` runs over and over.
async fn while_writing<W: Future<Output = ()> + Send, R: Future<Output = ()> + Send + 'static>(
    write: impl Fn(u64) -> W + Send,
    read: impl Fn() -> R + Send + 'static,
) {
    let done = Arc::new(AtomicBool::new(false));
    let is_done = Arc::clone(&done);
    // A set of tasks ends with its owner: a writer that panics leaves no reader behind.
    let mut reader = JoinSet::new();
    reader.spawn(async move {
        while !is_done.load(Ordering::SeqCst) {
            read().await;
            tokio::task::yield_now().await;
        }
        read().await;
    });
    for round in 0..10 * ROUNDS {
        write(round).await;
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::SeqCst);
    reader.join_next().await.unwrap().unwrap();
}

/// Two payments that are always written together have the same version on every page.
pub async fn no_page_shows_a_part_of_a_commit(store: Arc<dyn Store>) {
    let both = |version| [1, 2].map(|n| at_version(Record::from(payment(n)), version));
    store.commit(writing(both(1))).await.unwrap();
    let reader = Arc::clone(&store);

    while_writing(
        |round| {
            let changes = writing(both(round + 2));
            let store = &store;
            async move { store.commit(changes).await.unwrap() }
        },
        move || {
            let store = Arc::clone(&reader);
            async move {
                let query = PaymentQuery::of(subscription(0).id);
                let page = store.list_as::<Payment>(query.clone()).await.unwrap();
                let versions: Vec<_> = page.items.iter().map(|found| found.version).collect();
                let [first, second] = versions.as_slice() else { panic!("{versions:?}") };
                assert_eq!(first, second);
            }
        },
    )
    .await;
}

/// A reader who has seen one record of a commit sees the others too, of whatever kind, and its event.
pub async fn what_was_committed_together_is_seen_together(store: Arc<dyn Store>) {
    let commit = |version| {
        let events = vec![event(version)];
        ChangeSet { events, ..writing(one_of_each(1).map(|record| at_version(record, version))) }
    };
    store.commit(commit(1)).await.unwrap();
    let reader = Arc::clone(&store);

    while_writing(
        |round| {
            let changes = commit(round + 2);
            let store = &store;
            async move { store.commit(changes).await.unwrap() }
        },
        move || {
            let store = Arc::clone(&reader);
            async move {
                for seen in one_of_each(1) {
                    let seen = stored(&store, &seen.key()).await.unwrap().version();
                    for other in one_of_each(1) {
                        let other = stored(&store, &other.key()).await.unwrap();
                        assert!(other.version() >= seen, "{other:?} after version {seen}");
                    }
                    let told = feed(&store).await.len();
                    assert!(u64::try_from(told).unwrap() >= seen.get(), "{told} of {seen}");
                }
            }
        },
    )
    .await;
}

/// A reader that goes on from the last sequence it saw gets every event once, though many write.
pub async fn a_reader_that_follows_the_feed_misses_no_event(store: Arc<dyn Store>) {
    let all = RACERS * ROUNDS;
    let writers = (0..RACERS).map(|racer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for round in 0..ROUNDS {
                let n = racer * ROUNDS + round;
                let events = vec![event(n)];
                let changes = ChangeSet { events, ..writing([Record::from(plan(n))]) };
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
