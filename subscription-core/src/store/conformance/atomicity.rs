//! A change set is taken whole or not at all.

use std::fmt::Debug;
use std::sync::Arc;

use super::records::{at_version, event, one_of_each, payment, plan, subscription};
use super::steps::{
    assert_absent, assert_refused, assert_stored, delete, feed, kept_answers, listed, put,
    unchanged, writing,
};
use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::{
    BadChangeSet, ChangeSet, Guard, PaymentQuery, PlanQuery, Record, Store, StoreError,
    SubscriptionQuery, Unique,
};
use crate::subscriptions::Subscription;

/// Everything that a reader of a small store can see.
async fn everything(store: &Arc<dyn Store>) -> impl PartialEq + Debug + use<> {
    (
        listed::<Plan>(store, PlanQuery::default()).await,
        listed::<Subscription>(store, SubscriptionQuery::default()).await,
        listed::<Payment>(store, PaymentQuery::of(subscription(0).id)).await,
        kept_answers(store).await,
        feed(store).await,
    )
}

/// A change set that guards, creates, changes and deletes records of every kind, and writes events. It
/// needs the records of [`prepare`].
fn a_little_of_everything() -> ChangeSet {
    let updates = one_of_each(0).map(|record| at_version(record, 2));
    ChangeSet {
        guards: one_of_each(2).iter().map(|record| unchanged(record, 1)).collect(),
        writes: one_of_each(3).into_iter().chain(updates).collect(),
        deletes: one_of_each(1).iter().map(|record| delete(record, 1)).collect(),
        events: vec![event(2), event(3)],
        forget_events: None,
    }
}

async fn prepare(store: &Arc<dyn Store>) {
    let events = vec![event(0), event(1)];
    store.commit(ChangeSet { events, ..writing(one_of_each(0)) }).await.unwrap();
    put(store, one_of_each(1)).await;
    put(store, one_of_each(2)).await;
}

/// One change set creates, changes and deletes records of every kind, and adds events. Records that it only
/// guards stay as they are.
pub async fn all_parts_of_a_change_set_are_taken_together(store: Arc<dyn Store>) {
    prepare(&store).await;

    store.commit(a_little_of_everything()).await.unwrap();

    assert_stored(&store, a_little_of_everything().writes).await;
    assert_stored(&store, one_of_each(2)).await;
    assert_absent(&store, one_of_each(1)).await;
    let events: Vec<_> = feed(&store).await.into_iter().map(|recorded| recorded.event).collect();
    assert_eq!(events, [0, 1, 2, 3].map(event));
    let payments = listed::<Payment>(&store, PaymentQuery::of(subscription(0).id)).await;
    let numbers = payments.iter().map(|found| found.id).collect::<Vec<_>>();
    assert_eq!(numbers, [0, 2, 3].map(|n| payment(n).id));
}

/// Adds a part to a change set that must be refused.
type Spoil = fn(&mut ChangeSet);

/// Whatever part of a set is refused: no record is written or deleted, no event is written or forgotten.
pub async fn a_refused_change_set_leaves_nothing_behind(store: Arc<dyn Store>) {
    let conflict = |record: Record| StoreError::Conflict(record.key());
    let [guarded, .., kept] = one_of_each(2);
    let cases: [(&str, StoreError, Spoil); 8] = [
        ("a stale write", conflict(payment(2).into()), |set| {
            set.writes.push(at_version(payment(2), 3));
        }),
        ("a first version of a record that exists", conflict(plan(2).into()), |set| {
            set.writes.push(plan(2).into());
        }),
        ("a stale delete", conflict(kept), |set| {
            set.deletes.extend(one_of_each(2).last().map(|kept| delete(kept, 2)));
        }),
        ("a stale guard", conflict(guarded), |set| {
            set.guards.push(unchanged(&plan(2).into(), 2));
        }),
        ("a plan in use", StoreError::PlanInUse(plan(2).id), |set| {
            set.guards.push(Guard::PlanUnused(plan(2).id));
        }),
        ("a taken slug", StoreError::Taken(Unique::PlanSlug), |set| {
            set.writes.push(Plan { slug: plan(2).slug, ..plan(4) }.into());
        }),
        ("a taken external id", StoreError::Taken(Unique::ExternalSubscription), |set| {
            let external_subscription_id = subscription(2).external_subscription_id;
            set.writes.push(Subscription { external_subscription_id, ..subscription(4) }.into());
        }),
        (
            "a record that is named twice",
            StoreError::BadChangeSet(BadChangeSet::NamedTwice(Record::from(plan(3)).key())),
            |set| set.writes.push(plan(3).into()),
        ),
    ];
    prepare(&store).await;
    let before = everything(&store).await;
    let forget_events = feed(&store).await.first().map(|event| event.sequence);
    for (case, error, spoil) in cases {
        let mut changes = ChangeSet { forget_events, ..a_little_of_everything() };
        spoil(&mut changes);

        let answer = store.commit(changes).await;

        assert_refused(&answer, &error, case);
        assert_eq!(everything(&store).await, before, "{case}");
        assert_stored(&store, [0, 1, 2].into_iter().flat_map(one_of_each)).await;
        assert_absent(&store, one_of_each(3)).await;
    }
}
