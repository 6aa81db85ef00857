//! A change set is taken whole or not at all.

use crate::payments::Payment;
use crate::store::StoreExt as _;
use std::sync::Arc;

use super::records::{answer, at_version, event, one_of_each, payment, plan, subscription};
use super::steps::{
    assert_bad, assert_conflict, assert_in_use, assert_taken, delete, feed, kept_answers, stored,
    unchanged, writing,
};
use crate::plans::Plan;
use crate::store::{
    BadChangeSet, ChangeSet, Guard, PaymentQuery, PlanQuery, Record, Store, StoreError,
    SubscriptionQuery, Unique,
};
use crate::subscriptions::Subscription;

/// Everything that a reader of a small store can see.
async fn everything(store: &Arc<dyn Store>) -> impl PartialEq + std::fmt::Debug + use<> {
    let payments = PaymentQuery::of(subscription(0).id);
    (
        store.list_as::<Plan>(PlanQuery::default()).await.unwrap(),
        store.list_as::<Subscription>(SubscriptionQuery::default()).await.unwrap(),
        store.list_as::<Payment>(payments.clone()).await.unwrap(),
        kept_answers(store).await,
        feed(store).await,
    )
}

/// Commits a set that does a little of everything and has one part that must be refused; nothing of
/// it may be seen.
async fn refused(
    store: &Arc<dyn Store>,
    add_refused_part: impl FnOnce(&mut ChangeSet) + Send,
) -> Result<(), StoreError> {
    let events = vec![event(0), event(1)];
    store.commit(ChangeSet { events, ..writing(one_of_each(0)) }).await.unwrap();
    store.commit(writing(one_of_each(1))).await.unwrap();
    store.commit(writing(one_of_each(2))).await.unwrap();
    let before = everything(store).await;
    let forgotten = feed(store).await.first().map(|event| event.sequence);

    let updates = one_of_each(0).map(|record| at_version(record, 2));
    let mut changes = ChangeSet {
        guards: one_of_each(2).iter().map(|record| unchanged(record, 1)).collect(),
        writes: one_of_each(3).into_iter().chain(updates).collect(),
        deletes: one_of_each(1).iter().map(|record| delete(record, 1)).collect(),
        events: vec![event(2), event(3)],
        forget_events: forgotten,
    };
    add_refused_part(&mut changes);
    let answer = store.commit(changes).await;

    assert_eq!(everything(store).await, before);
    for record in one_of_each(3) {
        assert_eq!(stored(store, &record.key()).await, None);
    }
    answer
}

/// One change set creates, changes and deletes records of every kind, and adds an event.
pub async fn all_parts_of_a_change_set_are_taken_together(store: Arc<dyn Store>) {
    store.commit(writing(one_of_each(0))).await.unwrap();
    store.commit(writing(one_of_each(1))).await.unwrap();

    let updated = one_of_each(0).map(|record| at_version(record, 2));
    let changes = ChangeSet {
        guards: vec![Guard::PlanUnused(plan(7).id)],
        writes: one_of_each(2).into_iter().chain(updated.clone()).collect(),
        deletes: one_of_each(1).iter().map(|record| delete(record, 1)).collect(),
        events: vec![event(5)],
        forget_events: None,
    };
    store.commit(changes).await.unwrap();

    for record in one_of_each(2).into_iter().chain(updated) {
        assert_eq!(stored(&store, &record.key()).await, Some(record));
    }
    for record in one_of_each(1) {
        assert_eq!(stored(&store, &record.key()).await, None);
    }
    let events: Vec<_> = feed(&store).await.into_iter().map(|recorded| recorded.event).collect();
    assert_eq!(events, [event(5)]);
}

/// The audit trail tells of no change that never was.
pub async fn a_refused_change_set_leaves_no_event_behind(store: Arc<dyn Store>) {
    store.commit(writing([Record::from(plan(1))])).await.unwrap();

    let fresh = Record::from(plan(2));
    let changes = writing([fresh.clone(), Record::from(plan(1))]);
    let answer = store.commit(ChangeSet { events: vec![event(1), event(2)], ..changes }).await;

    assert_conflict(&answer, &Record::from(plan(1)));
    assert_eq!(stored(&store, &fresh.key()).await, None);
    assert_eq!(feed(&store).await, []);
}

/// A request whose work was refused may be sent again.
pub async fn a_refused_change_set_leaves_no_answer_behind(store: Arc<dyn Store>) {
    store.commit(writing([Record::from(plan(1))])).await.unwrap();

    let kept = Record::from(answer(1));
    let refused = store.commit(writing([kept.clone(), Record::from(plan(1))])).await;

    assert_conflict(&refused, &Record::from(plan(1)));
    assert_eq!(stored(&store, &kept.key()).await, None);
}

/// Events are forgotten with the set or not at all.
pub async fn a_refused_change_set_forgets_no_event(store: Arc<dyn Store>) {
    store.commit(ChangeSet { events: vec![event(1)], ..ChangeSet::default() }).await.unwrap();
    let before = feed(&store).await;

    let changes = writing([at_version(Record::from(plan(1)), 2)]);
    let forget_events = before.last().map(|event| event.sequence);
    let answer = store.commit(ChangeSet { forget_events, ..changes }).await;

    assert_conflict(&answer, &Record::from(plan(1)));
    assert_eq!(feed(&store).await, before);
}

/// Whichever kind of record it is.
pub async fn a_stale_write_leaves_nothing_of_its_set(store: Arc<dyn Store>) {
    let stale = at_version(Record::from(payment(2)), 3);
    let answer = refused(&store, |changes| changes.writes.push(stale.clone())).await;

    assert_conflict(&answer, &stale);
}

/// Though it comes after all writes.
pub async fn a_stale_delete_leaves_nothing_of_its_set(store: Arc<dyn Store>) {
    let [.., kept] = one_of_each(2);
    let stale = delete(&kept, 2);
    let answer = refused(&store, |changes| changes.deletes.push(stale)).await;

    assert_conflict(&answer, &kept);
}

/// Though it is about none of the set's own records.
pub async fn a_stale_guard_leaves_nothing_of_its_set(store: Arc<dyn Store>) {
    let [guarded, ..] = one_of_each(2);
    let stale = unchanged(&guarded, 2);
    let answer = refused(&store, |changes| changes.guards.push(stale)).await;

    assert_conflict(&answer, &guarded);
}

/// Though all versions are right.
pub async fn a_plan_in_use_leaves_nothing_of_its_set(store: Arc<dyn Store>) {
    let in_use = Guard::PlanUnused(plan(2).id);
    let answer = refused(&store, |changes| changes.guards.push(in_use)).await;

    assert_in_use(&answer, plan(2).id);
}

/// Though all versions are right.
pub async fn a_taken_value_leaves_nothing_of_its_set(store: Arc<dyn Store>) {
    let taken = Record::from(Plan { slug: plan(2).slug, ..plan(4) });
    let answer = refused(&store, |changes| changes.writes.push(taken)).await;
    assert_taken(&answer, Unique::PlanSlug);
}

/// Though the value is that of the last record of the set.
pub async fn a_taken_external_id_leaves_nothing_of_its_set(store: Arc<dyn Store>) {
    let external_subscription_id = subscription(2).external_subscription_id;
    let taken = Record::from(Subscription { external_subscription_id, ..subscription(4) });
    let answer = refused(&store, |changes| changes.writes.push(taken)).await;

    assert_taken(&answer, Unique::ExternalSubscription);
}

/// Though each of its parts could be taken alone.
pub async fn a_bad_change_set_leaves_nothing_behind(store: Arc<dyn Store>) {
    let twice = Record::from(plan(3));
    let answer = refused(&store, |changes| changes.writes.push(twice.clone())).await;

    assert_bad(&answer, &BadChangeSet::NamedTwice(twice.key()));
}
