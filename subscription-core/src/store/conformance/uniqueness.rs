//! A slug, or an id that a provider gave, names at most one of the records that exist.

use crate::store::{StoreExt as _, UniqueValue};
use std::sync::Arc;

use super::records::{account, at_version, parsed, payment, plan, subscription, user};
use super::steps::{assert_taken, deleting, stored, writing};
use crate::accounts::{IdentityKey, User};
use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::{ChangeSet, Key, Record, Store, Unique};
use crate::subscriptions::Subscription;

const ALL: [Unique; 5] = [
    Unique::PlanSlug,
    Unique::ExternalSubscription,
    Unique::ExternalPayment,
    Unique::UserIdentity,
    Unique::UserEmail,
];

/// Record `n` of the kind that has such a value, with this value.
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
        Unique::UserIdentity => Record::from(User {
            identity: IdentityKey { subject: parsed(value), ..account(n).identity },
            ..account(n)
        }),
        // Other users than those of the identities: a case may have both.
        Unique::UserEmail => {
            Record::from(User { email: parsed(format!("{value}@example.com")), ..account(100 + n) })
        }
    }
}

/// The record that is found by a value.
async fn held_by(store: &Arc<dyn Store>, unique: Unique, value: &str) -> Option<Key> {
    match unique {
        Unique::PlanSlug => {
            let found = store.find_as::<Plan>(UniqueValue::PlanSlug(&parsed(value))).await.unwrap();
            found.map(|found| Key::Plan(found.id))
        }
        Unique::ExternalSubscription => {
            let found = store
                .find_as::<Subscription>(UniqueValue::ExternalSubscription(&parsed(value)))
                .await
                .unwrap();
            found.map(|found| Key::Subscription(found.id))
        }
        Unique::ExternalPayment => {
            let found = store
                .find_as::<Payment>(UniqueValue::ExternalPayment(&parsed(value)))
                .await
                .unwrap();
            found.map(|found| Key::Payment(found.id))
        }
        Unique::UserIdentity => {
            let identity = IdentityKey { subject: parsed(value), ..account(0).identity };
            let found = store.find_as::<User>(UniqueValue::UserIdentity(&identity)).await.unwrap();
            found.map(|found| Key::User(found.id))
        }
        Unique::UserEmail => {
            // Nobody is looked up by address: the few users of a case are asked one by one.
            let email = parsed(format!("{value}@example.com"));
            for n in 100..110 {
                let found = store.get_as::<User>(&user(n)).await.unwrap();
                if let Some(found) = found.filter(|found| found.email == email) {
                    return Some(Key::User(found.id));
                }
            }
            None
        }
    }
}

/// By a new record.
pub async fn a_value_that_another_record_has_is_refused_to_a_new_one(store: Arc<dyn Store>) {
    for unique in ALL {
        let [first, second] = [1, 2].map(|n| holder(unique, n, "one"));
        store.commit(writing([first.clone()])).await.unwrap();

        let answer = store.commit(writing([second.clone()])).await;

        assert_taken(&answer, unique);
        assert_eq!(stored(&store, &second.key()).await, None, "{unique}");
        assert_eq!(held_by(&store, unique, "one").await, Some(first.key()), "{unique}");
    }
}

/// By a record that had another value before.
pub async fn a_value_that_another_record_has_is_refused_to_a_change(store: Arc<dyn Store>) {
    for unique in ALL {
        let [first, second] = [(1, "one"), (2, "two")].map(|(n, value)| holder(unique, n, value));
        store.commit(writing([first.clone(), second.clone()])).await.unwrap();

        let clashing = at_version(holder(unique, 2, "one"), 2);
        assert_taken(&store.commit(writing([clashing])).await, unique);

        assert_eq!(held_by(&store, unique, "one").await, Some(first.key()), "{unique}");
        assert_eq!(held_by(&store, unique, "two").await, Some(second.key()), "{unique}");
    }
}

/// Neither of two new records gets it.
pub async fn a_value_given_twice_in_one_set_is_refused(store: Arc<dyn Store>) {
    for unique in ALL {
        let both = [1, 2].map(|n| holder(unique, n, "one"));

        assert_taken(&store.commit(writing(both)).await, unique);

        assert_eq!(held_by(&store, unique, "one").await, None, "{unique}");
    }
}

/// The error names the value that is taken, not merely that one is.
pub async fn a_set_of_many_kinds_is_told_which_value_is_taken(store: Arc<dyn Store>) {
    store.commit(writing(ALL.map(|unique| holder(unique, 1, "one")))).await.unwrap();

    for taken in ALL {
        let value = |unique| if unique == taken { "one" } else { "two" };
        let writes = ALL.map(|unique| holder(unique, 2, value(unique)));

        assert_taken(&store.commit(writing(writes)).await, taken);
    }
}

/// Only records that exist count.
pub async fn a_value_is_free_once_its_record_is_deleted(store: Arc<dyn Store>) {
    for unique in ALL {
        let [first, second] = [1, 2].map(|n| holder(unique, n, "one"));
        store.commit(writing([first.clone()])).await.unwrap();
        assert_eq!(held_by(&store, unique, "one").await, Some(first.key()), "{unique}");
        store.commit(deleting([first])).await.unwrap();
        assert_eq!(held_by(&store, unique, "one").await, None, "{unique}");

        store.commit(writing([second.clone()])).await.unwrap();

        assert_eq!(held_by(&store, unique, "one").await, Some(second.key()), "{unique}");
    }
}

/// Deletes come before writes.
pub async fn a_set_may_delete_a_record_and_give_its_value_to_a_new_one(store: Arc<dyn Store>) {
    for unique in ALL {
        let [first, second] = [1, 2].map(|n| holder(unique, n, "one"));
        store.commit(writing([first.clone()])).await.unwrap();

        let deletes = deleting([first.clone()]).deletes;
        store.commit(ChangeSet { deletes, ..writing([second.clone()]) }).await.unwrap();

        assert_eq!(stored(&store, &first.key()).await, None, "{unique}");
        assert_eq!(held_by(&store, unique, "one").await, Some(second.key()), "{unique}");
    }
}

/// And it no longer finds the record that had it.
pub async fn a_value_is_free_once_its_record_has_another(store: Arc<dyn Store>) {
    for unique in ALL {
        store.commit(writing([holder(unique, 1, "one")])).await.unwrap();
        let changed = at_version(holder(unique, 1, "two"), 2);
        store.commit(writing([changed.clone()])).await.unwrap();
        assert_eq!(held_by(&store, unique, "one").await, None, "{unique}");
        assert_eq!(held_by(&store, unique, "two").await, Some(changed.key()), "{unique}");

        let second = holder(unique, 2, "one");
        store.commit(writing([second.clone()])).await.unwrap();

        assert_eq!(held_by(&store, unique, "one").await, Some(second.key()), "{unique}");
    }
}

/// A record does not stand in its own way.
pub async fn a_record_keeps_its_value_when_it_is_changed(store: Arc<dyn Store>) {
    for unique in ALL {
        store.commit(writing([holder(unique, 1, "one")])).await.unwrap();

        for version in [2, 3] {
            let same = at_version(holder(unique, 1, "one"), version);
            store.commit(writing([same.clone()])).await.unwrap();

            assert_eq!(held_by(&store, unique, "one").await, Some(same.key()), "{unique}");
        }
    }
}

/// Any number of records may have no external id, in one set or in many.
pub async fn having_no_external_id_is_not_unique(store: Arc<dyn Store>) {
    for n in [0, 2] {
        let without = [n, n + 1].into_iter().flat_map(|n| {
            let subscription = Subscription { external_subscription_id: None, ..subscription(n) };
            let payment = Payment { external_payment_id: None, ..payment(n) };
            [Record::from(subscription), Record::from(payment)]
        });
        store.commit(writing(without)).await.unwrap();
    }

    for n in 0..4 {
        assert!(store.get_as::<Subscription>(&subscription(n).id).await.unwrap().is_some(), "{n}");
        assert!(store.get_as::<Payment>(&payment(n).id).await.unwrap().is_some(), "{n}");
    }
}

/// A record that gives up its external id is no longer found by it, and another may have it.
pub async fn an_external_id_is_free_once_its_record_has_none(store: Arc<dyn Store>) {
    let [mut subscription, mut payment] =
        [Unique::ExternalSubscription, Unique::ExternalPayment].map(|u| holder(u, 1, "one"));
    store.commit(writing([subscription.clone(), payment.clone()])).await.unwrap();

    if let Record::Subscription(record) = &mut subscription {
        Arc::make_mut(record).external_subscription_id = None;
    }
    if let Record::Payment(record) = &mut payment {
        Arc::make_mut(record).external_payment_id = None;
    }
    let without = [subscription, payment].map(|record| at_version(record, 2));
    store.commit(writing(without)).await.unwrap();

    for unique in [Unique::ExternalSubscription, Unique::ExternalPayment] {
        assert_eq!(held_by(&store, unique, "one").await, None, "{unique}");
        let second = holder(unique, 2, "one");
        store.commit(writing([second.clone()])).await.unwrap();
        assert_eq!(held_by(&store, unique, "one").await, Some(second.key()), "{unique}");
    }
}

/// By case, by how an accent is written, or by a blank within.
pub async fn external_ids_that_differ_in_a_byte_are_different(store: Arc<dyn Store>) {
    let ids = ["abc", "ABC", "a bc", "a  bc", "é", "e\u{301}", "ß", "ss"];
    for unique in [Unique::ExternalSubscription, Unique::ExternalPayment] {
        for (id, n) in ids.into_iter().zip(1..) {
            store.commit(writing([holder(unique, n, id)])).await.unwrap();
        }

        for (id, n) in ids.into_iter().zip(1..) {
            let found = held_by(&store, unique, id).await;
            assert_eq!(found, Some(holder(unique, n, id).key()), "{unique} {id:?}");
        }
    }
}

/// A subscription and a payment may have the same id at their provider.
pub async fn values_of_different_kinds_do_not_clash(store: Arc<dyn Store>) {
    let all = ALL.map(|unique| holder(unique, 1, "one"));

    store.commit(writing(all.clone())).await.unwrap();

    for (unique, record) in ALL.into_iter().zip(all) {
        assert_eq!(held_by(&store, unique, "one").await, Some(record.key()), "{unique}");
    }
}
