//! Unique values: at most one stored record has a slug, an external id, a period of a subscription, a live key,
//! an identity or an address.

use std::sync::Arc;

use super::records::{account, asked_payment, at, at_version, parsed, payment, plan, subscription};
use super::steps::{assert_refused, assert_stored, assert_taken, deleting, found, put, writing};
use crate::accounts::{IdentityKey, User};
use crate::payments::{Payment, PaymentKind, PaymentStatus};
use crate::plans::Plan;
use crate::store::{ChangeSet, Key, Record, Store, StoreError, Unique, UniqueValue};
use crate::subscriptions::Subscription;

const ALL: [Unique; 7] = [
    Unique::PlanSlug,
    Unique::ExternalSubscription,
    Unique::ExternalPayment,
    Unique::PaymentPeriod,
    Unique::LiveSubscription,
    Unique::UserIdentity,
    Unique::UserEmail,
];

/// Record `n` of the kind that has this kind of unique value, with this value.
fn holder(unique: Unique, n: u64, value: &str) -> Record {
    match unique {
        Unique::PlanSlug => Record::from(Plan { slug: parsed(value), ..plan(n) }),
        Unique::ExternalSubscription => Record::from(Subscription {
            external_subscription_id: Some(parsed(value)),
            ..subscription(n)
        }),
        Unique::ExternalPayment => {
            Record::from(Payment { external_payment_id: Some(parsed(value)), ..payment(n) })
        }
        // These payments, subscriptions and users have other numbers than those above, because a case may use both.
        Unique::PaymentPeriod => {
            Record::from(asked_payment(100 + n, PaymentKind::Renewal, period(value)))
        }
        Unique::LiveSubscription => {
            Record::from(Subscription { live_key: Some(value.into()), ..subscription(100 + n) })
        }
        Unique::UserIdentity => Record::from(User {
            identity: IdentityKey { subject: parsed(value), ..account(n).identity },
            ..account(n)
        }),
        Unique::UserEmail => {
            Record::from(User { email: parsed(format!("{value}@example.com")), ..account(100 + n) })
        }
    }
}

/// The start of the period that stands for a value, in seconds.
fn period(value: &str) -> u64 {
    value.bytes().map(u64::from).sum()
}

/// The key of the record that is found by a value.
async fn held_by(store: &Arc<dyn Store>, unique: Unique, value: &str) -> Option<Key> {
    let record = match unique {
        Unique::PlanSlug => found(store, UniqueValue::PlanSlug(&parsed(value))).await,
        Unique::ExternalSubscription => {
            found(store, UniqueValue::ExternalSubscription(&parsed(value))).await
        }
        Unique::ExternalPayment => found(store, UniqueValue::ExternalPayment(&parsed(value))).await,
        Unique::PaymentPeriod => {
            let period = UniqueValue::PaymentPeriod(subscription(0).id, at(period(value)));
            found(store, period).await
        }
        Unique::LiveSubscription => found(store, UniqueValue::LiveKey(value)).await,
        Unique::UserIdentity => {
            let identity = IdentityKey { subject: parsed(value), ..account(0).identity };
            found(store, UniqueValue::UserIdentity(&identity)).await
        }
        Unique::UserEmail => {
            found(store, UniqueValue::UserEmail(&parsed(format!("{value}@example.com")))).await
        }
    };
    record.map(|record| record.key())
}

/// Changes to records 1 and 2 of a kind.
enum Step {
    /// Creates records in one set, each with its value.
    Create(&'static [(u64, &'static str)]),
    /// Changes a record to its next version, with this value.
    Change(u64, u64, &'static str),
    /// Deletes a record that has this value.
    Delete(u64, &'static str),
    /// Deletes a record and creates another in one set, with the same value.
    Replace(u64, u64, &'static str),
}
use Step::{Change, Create, Delete, Replace};

impl Step {
    fn of(&self, unique: Unique) -> ChangeSet {
        match *self {
            Create(records) => writing(records.iter().map(|(n, value)| holder(unique, *n, value))),
            Change(n, version, value) => writing([at_version(holder(unique, n, value), version)]),
            Delete(n, value) => deleting([holder(unique, n, value)]),
            Replace(old, new, value) => ChangeSet {
                deletes: deleting([holder(unique, old, value)]).deletes,
                ..writing([holder(unique, new, value)])
            },
        }
    }
}

/// Commits steps for each kind of value: the last step must be refused if `is_taken`, and all other steps must be
/// accepted. Then record `holder_of_one` is found by "one", and `holder_of_two` by "two".
async fn assert_holders(
    store: &Arc<dyn Store>,
    steps: &[Step],
    is_taken: bool,
    [holder_of_one, holder_of_two]: [Option<u64>; 2],
) {
    for unique in ALL {
        for (left, step) in (0..steps.len()).rev().zip(steps) {
            let answer = store.commit(step.of(unique)).await;
            if is_taken && left == 0 {
                assert_taken(&answer, unique);
            } else {
                answer.unwrap();
            }
        }
        for (value, holder_of) in [("one", holder_of_one), ("two", holder_of_two)] {
            let expected = holder_of.map(|n| holder(unique, n, value).key());
            assert_eq!(held_by(store, unique, value).await, expected, "{unique} {value}");
        }
    }
}

/// A new record with the value of another is refused.
pub async fn a_value_that_another_record_has_is_refused_to_a_new_one(store: Arc<dyn Store>) {
    let steps = [Create(&[(1, "one")]), Create(&[(2, "one")])];
    assert_holders(&store, &steps, true, [Some(1), None]).await;
}

/// A record that has another value cannot change to a value that is taken.
pub async fn a_value_that_another_record_has_is_refused_to_a_change(store: Arc<dyn Store>) {
    let steps = [Create(&[(1, "one"), (2, "two")]), Change(2, 2, "one")];
    assert_holders(&store, &steps, true, [Some(1), Some(2)]).await;
}

/// Neither of two new records with the same value is created.
pub async fn a_value_given_twice_in_one_set_is_refused(store: Arc<dyn Store>) {
    assert_holders(&store, &[Create(&[(1, "one"), (2, "one")])], true, [None, None]).await;
}

/// The error names the value that is taken.
pub async fn a_set_of_many_kinds_is_told_which_value_is_taken(store: Arc<dyn Store>) {
    put(&store, ALL.map(|unique| holder(unique, 1, "one"))).await;

    for taken in ALL {
        let value = |unique| if unique == taken { "one" } else { "two" };
        let answer = store.commit(writing(ALL.map(|it| holder(it, 2, value(it))))).await;

        assert_refused(&answer, &StoreError::Taken(taken), "by a set of all kinds");
    }
}

/// Only records that exist have their values.
pub async fn a_value_is_free_once_its_record_is_deleted(store: Arc<dyn Store>) {
    let steps = [Create(&[(1, "one")]), Delete(1, "one"), Create(&[(2, "one")])];
    assert_holders(&store, &steps, false, [Some(2), None]).await;
}

/// The deletes of a set come before its writes.
pub async fn a_set_may_delete_a_record_and_give_its_value_to_a_new_one(store: Arc<dyn Store>) {
    let steps = [Create(&[(1, "one")]), Replace(1, 2, "one")];
    assert_holders(&store, &steps, false, [Some(2), None]).await;
}

/// The old value finds the record that has it now.
pub async fn a_value_is_free_once_its_record_has_another(store: Arc<dyn Store>) {
    let steps = [Create(&[(1, "one")]), Change(1, 2, "two"), Create(&[(2, "one")])];
    assert_holders(&store, &steps, false, [Some(2), Some(1)]).await;
}

/// A record does not clash with its own earlier version.
pub async fn a_record_keeps_its_value_when_it_is_changed(store: Arc<dyn Store>) {
    let steps = [Create(&[(1, "one")]), Change(1, 2, "one"), Change(1, 3, "one")];
    assert_holders(&store, &steps, false, [Some(1), None]).await;
}

/// Any number of records may have no external id, in one set or in many. A record that gives up its external id is no
/// longer found by it, and another record may have it.
pub async fn having_no_external_id_is_not_unique(store: Arc<dyn Store>) {
    let without = |n, version| {
        let subscription = Subscription { external_subscription_id: None, ..subscription(n) };
        let payment = Payment { external_payment_id: None, ..payment(n) };
        [at_version(subscription, version), at_version(payment, version)]
    };
    let external = [Unique::ExternalSubscription, Unique::ExternalPayment];
    put(&store, external.map(|unique| holder(unique, 1, "one"))).await;

    put(&store, without(1, 2)).await;
    put(&store, [3, 4].into_iter().flat_map(|n| without(n, 1))).await;
    put(&store, without(5, 1)).await;

    for unique in external {
        assert_eq!(held_by(&store, unique, "one").await, None, "{unique}");
        let second = holder(unique, 2, "one");
        put(&store, [second.clone()]).await;
        assert_eq!(held_by(&store, unique, "one").await, Some(second.key()), "{unique}");
    }
}

/// External ids that differ by case, by how an accent is written, or by a blank within.
pub async fn external_ids_that_differ_in_a_byte_are_different(store: Arc<dyn Store>) {
    let ids = ["abc", "ABC", "a bc", "a  bc", "é", "e\u{301}", "ß", "ss"];
    for unique in [Unique::ExternalSubscription, Unique::ExternalPayment] {
        for (id, n) in ids.into_iter().zip(1..) {
            put(&store, [holder(unique, n, id)]).await;
        }

        for (id, n) in ids.into_iter().zip(1..) {
            let expected = Some(holder(unique, n, id).key());
            assert_eq!(held_by(&store, unique, id).await, expected, "{unique} {id:?}");
        }
    }
}

/// The payment that has the period of subscription 0 which starts after `seconds`.
async fn payment_of(store: &Arc<dyn Store>, start: u64) -> Option<Record> {
    found(store, UniqueValue::PaymentPeriod(subscription(0).id, at(start))).await
}

/// A payment holds its period in every status but one. Once it is cancelled, another payment may be for the period, and
/// the first payment cannot hold the period again.
pub async fn a_period_is_free_once_its_payment_is_cancelled(store: Arc<dyn Store>) {
    for (status, n) in PaymentStatus::all().zip((0..).step_by(10)) {
        let first = Payment { status, ..asked_payment(n, PaymentKind::Renewal, n) };
        let second = asked_payment(n + 1, PaymentKind::Initial, n);
        put(&store, [first.clone()]).await;
        if status != PaymentStatus::Canceled {
            assert_eq!(payment_of(&store, n).await, Some(first.clone().into()), "{status}");
            let answer = store.commit(writing([second.clone()])).await;
            assert_refused(&answer, &StoreError::Taken(Unique::PaymentPeriod), status.as_str());
        }

        let cancelled = Payment { status: PaymentStatus::Canceled, ..first.clone() };
        put(&store, [at_version(cancelled.clone(), 2)]).await;

        assert_eq!(payment_of(&store, n).await, None, "{status}");
        assert_stored(&store, [at_version(cancelled, 2)]).await;
        put(&store, [second.clone()]).await;
        assert_eq!(payment_of(&store, n).await, Some(second.into()), "{status}");
        let pending = Payment { status: PaymentStatus::Pending, ..first };
        assert_taken(&store.commit(writing([at_version(pending, 3)])).await, Unique::PaymentPeriod);
    }
}

/// The payments are for periods of two subscriptions, for two periods of one subscription, and for no period.
pub async fn a_period_is_that_of_its_subscription(store: Arc<dyn Store>) {
    let first = asked_payment(1, PaymentKind::Renewal, 1);
    let other = Payment {
        subscription_id: subscription(1).id,
        ..asked_payment(2, PaymentKind::Renewal, 1)
    };
    let next = asked_payment(3, PaymentKind::Renewal, 2);

    put(&store, [first.clone(), other.clone(), next.clone(), payment(4), payment(5)]).await;

    assert_eq!(payment_of(&store, 1).await, Some(first.into()));
    assert_eq!(payment_of(&store, 2).await, Some(next.into()));
    let period = UniqueValue::PaymentPeriod(subscription(1).id, at(1));
    assert_eq!(found(&store, period).await, Some(other.into()));
}

/// Any number of prorations may exist beside the payment for the period.
pub async fn a_proration_has_no_period_of_its_own(store: Arc<dyn Store>) {
    let prorations = [1, 2].map(|n| asked_payment(n, PaymentKind::Proration, 1));
    put(&store, prorations).await;
    assert_eq!(payment_of(&store, 1).await, None);
    let renewal = asked_payment(3, PaymentKind::Renewal, 1);

    put(&store, [renewal.clone()]).await;
    put(&store, [asked_payment(4, PaymentKind::Proration, 1)]).await;

    assert_eq!(payment_of(&store, 1).await, Some(renewal.into()));
}

/// A record that is written without its live key or its period passes this value to another record of the same set, in
/// any order.
pub async fn a_set_may_pass_a_live_key_or_a_period_on(store: Arc<dyn Store>) {
    let live = |n: u64| holder(Unique::LiveSubscription, n, "one");
    let asked = |n: u64| holder(Unique::PaymentPeriod, n, "one");
    // The record without the value, and without any other value by which the records could be sorted.
    let ended = |n: u64| Subscription { external_subscription_id: None, ..subscription(100 + n) };
    let cancelled = |n: u64| Payment {
        status: PaymentStatus::Canceled,
        ..asked_payment(100 + n, PaymentKind::Renewal, period("one"))
    };
    put(&store, [live(1), asked(1)]).await;

    // The value passes to a new record.
    put(&store, [live(2), at_version(ended(1), 2)]).await;
    put(&store, [at_version(cancelled(1), 2), asked(2)]).await;

    for unique in [Unique::LiveSubscription, Unique::PaymentPeriod] {
        let expected = Some(holder(unique, 2, "one").key());
        assert_eq!(held_by(&store, unique, "one").await, expected, "{unique}");
    }

    // The value passes back to the record that had it.
    put(&store, [at_version(ended(2), 2), at_version(live(1), 3)]).await;
    put(&store, [at_version(asked(1), 3), at_version(cancelled(2), 2)]).await;

    for unique in [Unique::LiveSubscription, Unique::PaymentPeriod] {
        let expected = Some(holder(unique, 1, "one").key());
        assert_eq!(held_by(&store, unique, "one").await, expected, "{unique}");
        // A record that keeps the value does not pass it on.
        let kept = at_version(holder(unique, 1, "one"), 4);
        let answer = store.commit(writing([holder(unique, 3, "one"), kept])).await;
        assert_taken(&answer, unique);
    }
}
