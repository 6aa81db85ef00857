//! The event feed: every event in its order, committed together with the records that changed.

use crate::store::EventQuery;
use std::sync::Arc;

use super::records::{account, at, client, event, parsed, payment, plan, session, subscription};
use super::steps::{deleting, feed, limit, writing};
use crate::accounts::RevocationReason;
use crate::events::{Actor, Change, ChangedFields, Event, Subject};
use crate::payments::PaymentStatus;
use crate::store::{ChangeSet, PageLimit, Record, Store};
use crate::subscriptions::SubscriptionStatus;
use crate::values::{Timestamp, Version};

fn telling(events: impl IntoIterator<Item = Event>) -> ChangeSet {
    ChangeSet { events: events.into_iter().collect(), ..ChangeSet::default() }
}

async fn told(store: &Arc<dyn Store>) -> Vec<Event> {
    feed(store).await.into_iter().map(|recorded| recorded.event).collect()
}

/// The order is that of the writes, within one set and from set to set, whatever the ids and times of the events.
pub async fn events_are_read_in_the_order_in_which_they_were_written(store: Arc<dyn Store>) {
    store.commit(telling([event(5), event(1), event(3)])).await.unwrap();
    store.commit(telling([event(4)])).await.unwrap();
    store.commit(telling([event(2), event(0)])).await.unwrap();

    assert_eq!(told(&store).await, [5, 1, 3, 4, 2, 0].map(event));
    let sequences: Vec<_> = feed(&store).await.iter().map(|recorded| recorded.sequence).collect();
    assert!(sequences.is_sorted_by(|a, b| a < b), "{sequences:?}");
}

/// The events of a set are in the feed once, together with the records of the set.
pub async fn events_come_with_their_change(store: Arc<dyn Store>) {
    for n in 1..4 {
        let events = vec![event(n)];
        store.commit(ChangeSet { events, ..writing([Record::from(plan(n))]) }).await.unwrap();

        let expected: Vec<_> = (1..=n).map(event).collect();
        assert_eq!(told(&store).await, expected);
    }
}

/// Events with every kind of record, every kind of change and every actor.
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
        Change::PeriodStarted { period_start: at(1), period_end: Some(at(2)) },
        Change::PeriodStarted { period_start: at(1), period_end: None },
        Change::PeriodsSkipped { count: 3 },
        Change::PlanChanged { from_plan: plan(1).id, to_plan: plan(2).id },
        Change::TrialWillEnd { trial_ends_at: at(4) },
        Change::RenewalUpcoming { renews_at: at(5) },
        Change::Revoked { reason: RevocationReason::RefreshReuse },
        Change::Deleted,
    ];
    let actors = [
        Actor::Client(parsed("a-client-0")),
        Actor::User(account(1).id),
        Actor::Clock,
        Actor::Provider(parsed("provider")),
        Actor::Command,
        Actor::Library,
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

/// A reader continues after the last event that it has seen. At the end of the feed the page is empty.
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

/// The page is empty after every sequence beyond the end, however large.
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

/// If enough events follow, a page has exactly as many events as its limit.
pub async fn a_page_of_events_keeps_to_its_limit(store: Arc<dyn Store>) {
    store.commit(telling((0..250).map(event))).await.unwrap();

    for size in [1, 2, 199, 200] {
        assert_eq!(
            store.events(&EventQuery::after(0, limit(size))).await.unwrap().items.len(),
            size
        );
    }
}

/// The events up to the named sequence, this one included, are deleted, and no others.
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

/// The sequences rise even after all earlier events were deleted: otherwise a reader would miss the next events.
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

/// A set that deletes events does not delete the events that it adds.
pub async fn a_set_may_forget_old_events_and_tell_new_ones(store: Arc<dyn Store>) {
    store.commit(telling([event(1), event(2)])).await.unwrap();
    let forget_events = feed(&store).await.last().map(|recorded| recorded.sequence);

    store.commit(ChangeSet { forget_events, ..telling([event(3)]) }).await.unwrap();

    assert_eq!(told(&store).await, [event(3)]);
}

/// Reads a query to the end of the feed, and returns its events.
async fn walked(store: &Arc<dyn Store>, mut query: EventQuery) -> Vec<Event> {
    let mut found = Vec::new();
    loop {
        let page = store.events(&query).await.unwrap();
        assert!(page.items.len() <= query.limit.get(), "{query:?}");
        assert!(page.items.iter().all(|event| event.sequence <= page.reached), "{page:?}");
        found.extend(page.items.into_iter().map(|recorded| recorded.event));
        if page.reached >= page.last {
            return found;
        }
        assert!(page.reached > query.after, "the page after {} leads nowhere", query.after);
        query.after = page.reached;
    }
}

/// The events of one record are read, whatever happens to other records meanwhile.
pub async fn events_are_read_by_their_subject(store: Arc<dyn Store>) {
    let history: Vec<_> =
        (0..5).map(|n| Event { subject: event(100).subject, ..event(n) }).collect();
    for (one, n) in history.iter().zip(10..) {
        store.commit(telling([event(n), one.clone(), event(n + 10)])).await.unwrap();
    }
    let subject = plan(100).id.uuid();

    for size in [1, 2, 5, 200] {
        let query = EventQuery::after(0, limit(size)).with_subject(subject);
        assert_eq!(walked(&store, query).await, history, "{size} a page");
    }
    let nobody = EventQuery::after(0, PageLimit::MAX).with_subject(plan(99).id.uuid());
    assert_eq!(walked(&store, nobody).await, []);
    let created = EventQuery::after(0, PageLimit::MAX).with_subject(subject);
    let deleted = created.clone().with_types([parsed("plan.deleted")]);
    assert_eq!(walked(&store, created.with_types([parsed("plan.created")])).await, history);
    assert_eq!(walked(&store, deleted).await, []);
}

/// The query returns each event that one of the patterns admits, and no other.
pub async fn events_are_read_by_their_types(store: Arc<dyn Store>) {
    let became = |n: u64, to| {
        let change = Change::SubscriptionStatusChanged { from: SubscriptionStatus::Active, to };
        Event { subject: Subject::Subscription(subscription(n).id), change, ..event(n) }
    };
    let expired = SubscriptionStatus::Expired;
    let paused = SubscriptionStatus::Paused;
    let user = Event { subject: Subject::User(account(4).id), ..event(4) };
    let deleted = Event { change: Change::Deleted, ..event(5) };
    let all = [event(1), became(2, expired), became(3, paused), user, deleted];
    store.commit(telling(all.clone())).await.unwrap();

    for (types, admitted) in [
        (vec![], vec![0, 1, 2, 3, 4]),
        (vec!["*"], vec![0, 1, 2, 4]),
        (vec!["plan.*"], vec![0, 4]),
        (vec!["user.*", "plan.deleted"], vec![3, 4]),
        (vec!["subscription.status_changed"], vec![1, 2]),
        (vec!["subscription.status_changed.paused"], vec![2]),
        (vec!["payment.*", "session.*"], vec![]),
    ] {
        let expected: Vec<_> = admitted.into_iter().filter_map(|n| all.get::<usize>(n)).collect();
        for size in [1, 200] {
            let query = EventQuery::after(0, limit(size))
                .with_types(types.iter().map(parsed).collect::<Vec<_>>());
            let found = walked(&store, query).await;
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{types:?}, {size} a page");
        }
    }
}

/// A reader who wants few of the events does not read the others again and again.
pub async fn a_page_without_wanted_events_moves_on(store: Arc<dyn Store>) {
    let unwanted = EventQuery::SCANNED_MAX as u64 + 100;
    store.commit(telling((0..unwanted).map(event))).await.unwrap();
    let wanted = Event { subject: Subject::Payment(payment(1).id), ..event(1) };
    store.commit(telling([wanted.clone()])).await.unwrap();
    let payments = EventQuery::after(0, limit(1)).with_types([parsed("payment.*")]);

    let first = store.events(&payments).await.unwrap();

    let all = EventQuery::after(0, PageLimit::MAX);
    let mut scanned = Vec::new();
    while scanned.len() < EventQuery::SCANNED_MAX {
        let after = scanned.last().copied().unwrap_or(0);
        let page = store.events(&EventQuery { after, ..all.clone() }).await.unwrap();
        scanned.extend(page.items.iter().map(|recorded| recorded.sequence));
    }
    assert_eq!(first.items, []);
    let farthest = scanned.get(EventQuery::SCANNED_MAX - 1).copied().unwrap();
    assert!((1..=farthest).contains(&first.reached), "{} of {farthest}", first.reached);
    assert_eq!(walked(&store, payments).await, [wanted]);
}

/// The bounds of the feed: `first_kept` comes after the last deleted event, and `last` is the newest event, deleted or
/// not. What is not stored because it never existed is not deleted.
pub async fn a_page_of_events_tells_the_bounds_of_the_feed(store: Arc<dyn Store>) {
    let bounds = async |after| {
        let page = store.events(&EventQuery::after(after, limit(1))).await.unwrap();
        (page.first_kept, page.last)
    };
    let (from_start, last) = bounds(0).await;
    assert_eq!(from_start, last + 1);
    let forget = |up_to| ChangeSet { forget_events: Some(up_to), ..ChangeSet::default() };
    store.commit(telling((0..3).map(event))).await.unwrap();
    let sequences: Vec<_> = feed(&store).await.iter().map(|event| event.sequence).collect();
    let [first, second, third] = sequences.try_into().unwrap();

    assert_eq!(bounds(0).await, (from_start, third));
    store.commit(forget(0)).await.unwrap();
    assert_eq!(bounds(0).await, (from_start, third));
    store.commit(forget(first)).await.unwrap();
    assert_eq!(bounds(second).await, (first + 1, third));
    store.commit(forget(third)).await.unwrap();
    assert_eq!(bounds(0).await, (third + 1, third));
    assert_eq!(bounds(u64::MAX).await, (third + 1, third));
    store.commit(telling([event(3)])).await.unwrap();

    let (first_kept, last) = bounds(third).await;
    assert_eq!(first_kept, third + 1);
    store.commit(forget(u64::MAX)).await.unwrap();
    assert_eq!(bounds(0).await, (last + 1, last));
    assert!(last > third, "{last} comes after {third}");
}

/// The feed does not depend on the records: the events of a deleted record stay.
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
