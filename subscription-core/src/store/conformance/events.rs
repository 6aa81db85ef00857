//! The feed: what happened, in order, exactly with its change.

use crate::store::EventQuery;
use std::sync::Arc;

use super::records::{account, at, client, event, parsed, payment, plan, session, subscription};
use super::steps::{deleting, feed, limit, writing};
use crate::accounts::RevocationReason;
use crate::events::{Actor, Change, ChangedFields, Event, Subject};
use crate::payments::PaymentStatus;
use crate::store::{ChangeSet, PageLimit, Record, Store};
use crate::subscriptions::SubscriptionStatus;
use crate::values::clock::Timestamp;
use crate::values::version::Version;

fn telling(events: impl IntoIterator<Item = Event>) -> ChangeSet {
    ChangeSet { events: events.into_iter().collect(), ..ChangeSet::default() }
}

async fn told(store: &Arc<dyn Store>) -> Vec<Event> {
    feed(store).await.into_iter().map(|recorded| recorded.event).collect()
}

/// Of one set and of one set after another, whatever the ids and times of the events.
pub async fn events_are_read_in_the_order_in_which_they_were_written(store: Arc<dyn Store>) {
    store.commit(telling([event(5), event(1), event(3)])).await.unwrap();
    store.commit(telling([event(4)])).await.unwrap();
    store.commit(telling([event(2), event(0)])).await.unwrap();

    assert_eq!(told(&store).await, [5, 1, 3, 4, 2, 0].map(event));
    let sequences: Vec<_> = feed(&store).await.iter().map(|recorded| recorded.sequence).collect();
    assert!(sequences.is_sorted_by(|a, b| a < b), "{sequences:?}");
}

/// Once with each set, beside its records.
pub async fn events_come_with_their_change(store: Arc<dyn Store>) {
    for n in 1..4 {
        let events = vec![event(n)];
        store.commit(ChangeSet { events, ..writing([Record::from(plan(n))]) }).await.unwrap();

        let expected: Vec<_> = (1..=n).map(event).collect();
        assert_eq!(told(&store).await, expected);
    }
}

/// About every kind of record, every kind of change and every actor.
pub async fn every_field_of_an_event_reads_back(store: Arc<dyn Store>) {
    let subjects = [
        Subject::Plan(plan(1).id),
        Subject::Subscription(subscription(1).id),
        Subject::Payment(payment(1).id),
        Subject::User(account(1).id),
        Subject::Session(session(1).id),
        Subject::Client(client(1).id),
    ];
    let changes = [
        Change::Created,
        Change::Updated { fields: ChangedFields::default() },
        Change::Updated { fields: plan(1).changed_fields(&plan(2)) },
        Change::SubscriptionStatusChanged {
            from: SubscriptionStatus::OnTrial,
            to: SubscriptionStatus::PastDue,
        },
        Change::PaymentStatusChanged {
            from: PaymentStatus::Succeeded,
            to: PaymentStatus::PartiallyRefunded,
        },
        Change::Revoked { reason: RevocationReason::RefreshReuse },
        Change::Deleted,
    ];
    let actors = [
        Some(Actor::Client(parsed("a-client-0"))),
        Some(Actor::User(account(1).id)),
        Some(Actor::Clock),
        Some(Actor::Provider(parsed("provider"))),
        Some(Actor::Command),
        Some(Actor::Library),
        // As a release wrote it that knew no actors.
        None,
    ];
    let times = [Timestamp::MIN, parsed("2024-02-29T23:59:59.999999Z"), Timestamp::MAX];
    let events: Vec<_> = subjects
        .into_iter()
        .zip(times.into_iter().cycle())
        .flat_map(|about| changes.clone().map(|change| (about.clone(), change)))
        .zip(actors.into_iter().cycle())
        .zip(1..)
        .map(|((((subject, at), change), actor), n)| Event {
            at,
            subject,
            version: Version::from(n * 1_000),
            change,
            actor,
            ..event(n)
        })
        .collect();

    store.commit(telling(events.clone())).await.unwrap();

    assert_eq!(told(&store).await, events);
}

/// A reader goes on after the last that it has seen; nothing follows the end.
pub async fn the_feed_is_read_on_from_a_sequence(store: Arc<dyn Store>) {
    store.commit(telling((0..10).map(event))).await.unwrap();

    let mut after = 0;
    let mut seen = Vec::new();
    for size in [3, 3, 3, 1, 0] {
        let page = store.events(&EventQuery::after(after, limit(3))).await.unwrap().items;
        assert_eq!(page.len(), size, "after {after}");
        after = page.last().map_or(after, |recorded| recorded.sequence);
        seen.extend(page.into_iter().map(|recorded| recorded.event));
    }

    assert_eq!(seen, (0..10).map(event).collect::<Vec<_>>());
}

/// However far beyond the end.
pub async fn nothing_follows_the_end_of_the_feed(store: Arc<dyn Store>) {
    for end in [0, 1, i64::MAX.unsigned_abs(), u64::MAX] {
        assert_eq!(
            store.events(&EventQuery::after(end, PageLimit::MAX)).await.unwrap().items,
            [],
            "{end}"
        );
    }

    store.commit(telling([event(1)])).await.unwrap();

    let last = feed(&store).await.last().unwrap().sequence;
    for end in [last, last + 1, i64::MAX.unsigned_abs(), u64::MAX] {
        assert_eq!(
            store.events(&EventQuery::after(end, PageLimit::MAX)).await.unwrap().items,
            [],
            "{end}"
        );
    }
}

/// No sooner than it must, no more than it may.
pub async fn a_page_of_events_keeps_to_its_limit(store: Arc<dyn Store>) {
    store.commit(telling((0..250).map(event))).await.unwrap();

    for size in [1, 2, 199, 200] {
        assert_eq!(
            store.events(&EventQuery::after(0, limit(size))).await.unwrap().items.len(),
            size
        );
    }
}

/// Up to and with the sequence that is named, and no other.
pub async fn events_are_forgotten_up_to_a_sequence(store: Arc<dyn Store>) {
    store.commit(telling((0..5).map(event))).await.unwrap();
    let all = feed(&store).await;
    let sequence = |n: usize| all.get(n).map(|recorded| recorded.sequence);

    for (forget_events, left) in
        [(Some(0), 5), (sequence(1), 3), (sequence(0), 3), (sequence(2), 2)]
    {
        store.commit(ChangeSet { forget_events, ..ChangeSet::default() }).await.unwrap();

        let kept: Vec<_> = all.iter().skip(5 - left).cloned().collect();
        assert_eq!(feed(&store).await, kept, "{forget_events:?}");
    }
    let read_on =
        store.events(&EventQuery::after(sequence(3).unwrap(), PageLimit::MAX)).await.unwrap().items;
    assert_eq!(read_on.first(), all.last());
}

/// Even after all that came before are forgotten: a reader would miss what comes next.
pub async fn sequences_go_on_rising_after_events_are_forgotten(store: Arc<dyn Store>) {
    let mut last = 0;
    for n in 0..4 {
        store.commit(telling([event(2 * n), event(2 * n + 1)])).await.unwrap();

        let read = store.events(&EventQuery::after(last, PageLimit::MAX)).await.unwrap().items;
        let events: Vec<_> = read.iter().map(|recorded| recorded.event.clone()).collect();
        assert_eq!(events, [event(2 * n), event(2 * n + 1)]);

        last = read.last().unwrap().sequence;
        let forget_events = Some(last);
        store.commit(ChangeSet { forget_events, ..ChangeSet::default() }).await.unwrap();
        assert_eq!(feed(&store).await, [], "{last}");
    }
}

/// The events of a set are not among those that it forgets.
pub async fn a_set_may_forget_old_events_and_tell_new_ones(store: Arc<dyn Store>) {
    store.commit(telling([event(1), event(2)])).await.unwrap();
    let forget_events = feed(&store).await.last().map(|recorded| recorded.sequence);

    store.commit(ChangeSet { forget_events, ..telling([event(3)]) }).await.unwrap();

    assert_eq!(told(&store).await, [event(3)]);
}

/// The feed and the records are kept apart: a deleted record's history stays.
pub async fn events_outlive_the_record_that_they_tell_of(store: Arc<dyn Store>) {
    let record = Record::from(plan(1));
    let created = event(1);
    let deleted =
        Event { at: at(9), version: Version::from(2), change: Change::Deleted, ..event(2) };
    let deleted = Event { subject: created.subject.clone(), ..deleted };
    store
        .commit(ChangeSet { events: vec![created.clone()], ..writing([record.clone()]) })
        .await
        .unwrap();

    let changes = deleting([record]);
    store.commit(ChangeSet { events: vec![deleted.clone()], ..changes }).await.unwrap();

    assert_eq!(told(&store).await, [created, deleted]);
}
