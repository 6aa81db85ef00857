//! Invariants that hold after every step, whatever was requested and whatever failed.
//!
//! | invariant | says |
//! | --- | --- |
//! | [`references_resolve`] | the plan of every subscription exists |
//! | [`keys_are_unique`] | two records never share a slug or an external id, and a look-up by either finds its record |
//! | [`versions_rise_by_one`] | along a record's events: 1 at its creation, one more each time, none after its deletion |
//! | [`every_change_has_one_event`] | a record has its last event's version, and exists unless that event deleted it |
//! | [`nothing_is_half_made`] | every idempotency record was stored with its record and its event |
//! | [`access_follows_status_time_and_block`] | `is_active` was right when it was written; lists use it as of now |
//! | [`expired_stays_expired`] | the status of an `expired` subscription never changes |
//! | [`what_is_over_has_an_end`] | `cancelled` and `expired` have an `ends_at` |
//! | [`nothing_lies_before_the_start`] | `renews_at` and `ends_at` are not before `starts_at` |
//! | [`renewals_lie_on_the_grid`] | `renews_at` is the start of a period, counted from the anchor |
//! | [`settled_payments_are_history`] | amount, currency and subscription of a payment stay once it was paid |
//! | [`lists_agree_with_reads`] | the pages of a list have every record that exists, each once |
//! | [`every_key_has_its_answer`] | every record that was created with an idempotency key has its idempotency record |
//! | [`the_model_agrees_with_the_store`] | records and idempotency records are those of the model |
//!
//! Further invariants are checked when a result is received: `answers_agree_with_the_model`, `events_tell_what_changed`
//! and `failures_of_the_store_are_told`. For actors that run at the same time there are also
//! `every_acknowledged_change_was_made` and `a_key_has_one_record_at_a_time`.

use std::collections::{BTreeMap, BTreeSet};

use subscription_core::events::{Change, Subject};
use subscription_core::{BillingCycle, SubscriptionId, Timestamp, Version};

use super::feed::{Feed, Told};
use super::model::{self, Model, rules};
use super::operation::{Record, made_at, subject, version};
use super::snapshot::{List, Snapshot};

pub use super::verdict::Broken;

/// The data that invariants check.
#[derive(Debug)]
pub struct View<'a> {
    pub now: Timestamp,
    /// The store before this step.
    pub before: &'a Snapshot,
    /// The store after this step.
    pub store: &'a Snapshot,
    /// The feed.
    pub feed: &'a Feed,
    /// The events that this step wrote.
    pub fresh: &'a [Told],
}

type Alone = fn(&View<'_>) -> Result<(), String>;
type WithModel = fn(&View<'_>, &Model) -> Result<(), String>;

/// Invariants of the store alone.
const OF_THE_STORE: [(&str, Alone); 12] = [
    ("references_resolve", references_resolve),
    ("keys_are_unique", keys_are_unique),
    ("versions_rise_by_one", versions_rise_by_one),
    ("every_change_has_one_event", every_change_has_one_event),
    ("nothing_is_half_made", nothing_is_half_made),
    ("access_follows_status_time_and_block", access_follows_status_time_and_block),
    ("expired_stays_expired", expired_stays_expired),
    ("what_is_over_has_an_end", what_is_over_has_an_end),
    ("nothing_lies_before_the_start", nothing_lies_before_the_start),
    ("renewals_lie_on_the_grid", renewals_lie_on_the_grid),
    ("settled_payments_are_history", settled_payments_are_history),
    ("lists_agree_with_reads", lists_agree_with_reads),
];

/// Invariants that compare the store with the model.
const OF_THE_MODEL: [(&str, WithModel); 2] = [
    ("every_key_has_its_answer", every_key_has_its_answer),
    ("the_model_agrees_with_the_store", the_model_agrees_with_the_store),
];

/// Checks the invariants that need no model. The error names the first that does not hold.
pub fn check_store(view: &View<'_>) -> Result<(), Broken> {
    OF_THE_STORE
        .iter()
        .try_for_each(|(name, holds)| holds(view).map_err(|detail| Broken::new(name, detail)))
}

/// Checks the store against the model.
pub fn check_model(view: &View<'_>, model: &Model) -> Result<(), Broken> {
    OF_THE_MODEL.iter().try_for_each(|(name, holds)| {
        holds(view, model).map_err(|detail| Broken::new(name, detail))
    })
}

/// Returns the error `wrong` unless `holds` is true.
fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong()) }
}

fn references_resolve(view: &View<'_>) -> Result<(), String> {
    model::subscriptions(&view.store.records).try_for_each(|held| {
        let plan = Subject::Plan(held.subscription_plan_id);
        ensure(view.store.records.contains_key(&plan), || format!("no {plan} of {held:?}"))
    })
}

fn keys_are_unique(view: &View<'_>) -> Result<(), String> {
    let mut keys = BTreeSet::new();
    for record in view.store.records.values() {
        let key = match record {
            Record::Plan(plan) => Some(("slug", plan.slug.as_str())),
            Record::Subscription(held) => {
                held.external_subscription_id.as_ref().map(|id| ("subscription", id.as_str()))
            }
            Record::Payment(payment) => {
                payment.external_payment_id.as_ref().map(|id| ("payment", id.as_str()))
            }
        };
        let Some(key) = key else { continue };
        ensure(keys.insert(key), || format!("{key:?} twice, at last in {record:?}"))?;
    }
    view.store.look_ups.iter().try_for_each(|(record, found)| {
        ensure(found.as_ref() == Some(record), || format!("the key of {record} leads to {found:?}"))
    })
}

fn versions_rise_by_one(view: &View<'_>) -> Result<(), String> {
    for Told { event, before } in view.fresh {
        let follows = match before {
            None => event.version == Version::FIRST && event.change == Change::Created,
            Some(before) => {
                event.version == before.version.next()
                    && event.change != Change::Created
                    && before.change != Change::Deleted
            }
        };
        ensure(follows, || format!("{event:?}\n  after {before:?}"))?;
    }
    Ok(())
}

fn every_change_has_one_event(view: &View<'_>) -> Result<(), String> {
    for record in view.store.records.values() {
        let last = view.feed.latest.get(&subject(record));
        let told = last.is_some_and(|event| event.version == version(record));
        ensure(told, || format!("{record:?}\n  but its last event is {last:?}"))?;
    }
    for name in &view.store.names {
        let Some(last) = view.feed.latest.get(name) else { continue };
        let exists = view.store.records.contains_key(name);
        let deleted = last.change == Change::Deleted;
        ensure(exists != deleted, || format!("exists: {exists}, but the last event is {last:?}"))?;
    }
    Ok(())
}

fn nothing_is_half_made(view: &View<'_>) -> Result<(), String> {
    for kept in &view.store.answers {
        let answer = Record::from(&kept.result);
        let made_at = made_at(&answer);
        let told_at = view.feed.made_at.get(&subject(&answer));
        let first = version(&answer) == Version::FIRST;
        ensure(first && told_at == Some(&made_at), || format!("{kept:?}, made at {told_at:?}"))?;
    }
    Ok(())
}

fn every_key_has_its_answer(view: &View<'_>, model: &Model) -> Result<(), String> {
    for (key, answer) in &model.answers {
        let kept = view.store.answers.iter().any(|kept| kept.key == *key);
        ensure(kept, || format!("no answer is kept beside {:?}", answer.record))?;
    }
    Ok(())
}

fn access_follows_status_time_and_block(view: &View<'_>) -> Result<(), String> {
    for held in model::subscriptions(&view.store.records) {
        let derived = rules::is_active(held, held.updated_at);
        ensure(held.is_active == derived, || format!("{derived} would be right for {held:?}"))?;
    }
    let granting: BTreeSet<_> = model::subscriptions(&view.store.records)
        .filter(|held| rules::is_active(held, view.now))
        .map(|held| Subject::Subscription(held.id))
        .collect();
    let active = view.store.walks.iter();
    let mut active = active.filter(|walk| matches!(walk.list, List::ActiveSubscriptions));
    active.try_for_each(|walk| {
        let shown: BTreeSet<_> = walk.items.iter().map(subject).collect();
        ensure(shown == granting, || format!("listed {shown:?}\n  granting {granting:?}"))
    })
}

fn expired_stays_expired(view: &View<'_>) -> Result<(), String> {
    for held in model::subscriptions(&view.before.records) {
        let now = view.store.records.get(&Subject::Subscription(held.id));
        if let Some(Record::Subscription(now)) = now
            && held.status.as_str() == "expired"
        {
            ensure(now.status == held.status, || format!("{now:?}\n  was {held:?}"))?;
        }
    }
    Ok(())
}

fn what_is_over_has_an_end(view: &View<'_>) -> Result<(), String> {
    model::subscriptions(&view.store.records).try_for_each(|held| {
        let over = matches!(held.status.as_str(), "cancelled" | "expired");
        ensure(!over || held.ends_at.is_some(), || format!("{held:?}"))
    })
}

fn nothing_lies_before_the_start(view: &View<'_>) -> Result<(), String> {
    model::subscriptions(&view.store.records).try_for_each(|held| {
        let mut times = [held.renews_at, held.ends_at].into_iter().flatten();
        ensure(times.all(|at| at >= held.starts_at), || format!("{held:?}"))
    })
}

fn renewals_lie_on_the_grid(view: &View<'_>) -> Result<(), String> {
    model::subscriptions(&view.store.records).try_for_each(|held| {
        let on_grid = held.billing_cycle == BillingCycle::ONE_TIME
            || held.renews_at.is_none_or(|renews_at| {
                rules::on_grid(rules::anchor(held), held.billing_cycle, renews_at)
            });
        ensure(on_grid, || format!("{held:?}"))
    })
}

fn settled_payments_are_history(view: &View<'_>) -> Result<(), String> {
    for payment in model::payments(&view.store.records) {
        let paid = rules::SETTLED.contains(&payment.status.as_str());
        ensure(payment.settled || !paid, || {
            format!("paid, but not known as settled: {payment:?}")
        })?;
        let was = view.before.records.get(&Subject::Payment(payment.id));
        if let Some(Record::Payment(was)) = was
            && was.settled
        {
            let kept = payment.settled
                && payment.subscription_id == was.subscription_id
                && payment.amount == was.amount
                && payment.currency == was.currency;
            ensure(kept, || format!("{payment:?}\n  was {was:?}"))?;
        }
    }
    Ok(())
}

fn lists_agree_with_reads(view: &View<'_>) -> Result<(), String> {
    let mut paid: BTreeMap<SubscriptionId, usize> = BTreeMap::new();
    for payment in model::payments(&view.store.records) {
        *paid.entry(payment.subscription_id).or_default() += 1;
    }
    for walk in &view.store.walks {
        let belongs = |record: &Record| match (walk.list, record) {
            (List::Plans, Record::Plan(_)) | (List::Subscriptions, Record::Subscription(_)) => true,
            (List::ActiveSubscriptions, Record::Subscription(held)) => {
                rules::is_active(held, view.now)
            }
            (List::Payments(id), Record::Payment(payment)) => payment.subscription_id == id,
            _ => false,
        };
        let exist = match walk.list {
            // The payments are counted once in advance. There is a list for each subscription, so counting again for
            // each list would take quadratic time.
            List::Payments(id) => paid.get(&id).copied().unwrap_or_default(),
            List::Plans | List::Subscriptions | List::ActiveSubscriptions => {
                view.store.records.values().filter(|record| belongs(record)).count()
            }
        };
        let mut seen = BTreeSet::new();
        for item in &walk.items {
            let name = subject(item);
            let same = view.store.records.get(&name) == Some(item);
            ensure(same && belongs(item), || format!("{:?} shows {item:?}", walk.list))?;
            ensure(seen.insert(name.clone()), || format!("{:?} shows {name} twice", walk.list))?;
        }
        ensure(seen.len() == exist, || {
            format!("{:?} shows {} of {exist} records", walk.list, seen.len())
        })?;
    }
    Ok(())
}

fn the_model_agrees_with_the_store(view: &View<'_>, model: &Model) -> Result<(), String> {
    let names = model.records.keys().chain(view.store.records.keys());
    for name in names {
        let (expected, found) = (model.records.get(name), view.store.records.get(name));
        ensure(expected == found, || format!("expected {expected:?}\n  found {found:?}"))?;
    }
    for kept in &view.store.answers {
        let same = model.answers.get(&kept.key).is_some_and(|expected| {
            (&expected.record, expected.expires_at, expected.version)
                == (&Record::from(&kept.result), kept.expires_at, kept.version)
        });
        ensure(same, || format!("{kept:?}\n  expected {:?}", model.answers.get(&kept.key)))?;
    }
    Ok(())
}
