//! Subscriptions of Stripe, row by row.

use serde_json::{Value, json};
use subscription_core::providers::{
    FoundItem, FoundObject, FoundSubscription, ObjectKind, PauseMeans, Sold,
};
use subscription_core::subscriptions::Renewal;
use subscription_core::{BillingCycle, Quantity, SubscriptionStatus, Timestamp};
use test_support::service_world::of;

use super::{
    CANCEL_AT, CANCELED_AT, CREATED, ENDED_AT, PERIOD_END, PERIOD_START, RESUMES_AT, TRIAL_END,
    USER, at, former_subscription, found_subscription, item, subscription, unreadable_at, with,
};

#[test]
fn every_field_of_a_subscription_is_mapped_from_the_new_and_the_former_places() {
    let expected = FoundSubscription {
        object: FoundObject {
            id: of("sub_1Tea"),
            live: true,
            customer: Some(of("cus_Ada")),
            user_id: Some(of(USER)),
            email: None,
        },
        external_id: of("sub_1Tea"),
        former_id: None,
        status: SubscriptionStatus::Active,
        starts_at: at(CREATED),
        trial_ends_at: None,
        resumes_at: None,
        manage_url: None,
        items: vec![FoundItem {
            sold: Sold { price: Some(of("price_1Tea")), product: Some(of("prod_Tea")) },
            quantity: Quantity::new(3).unwrap(),
            price: Some((of("19.99"), of("USD"))),
            billing_cycle: Some(BillingCycle::MONTHLY),
            period_start: Some(at(PERIOD_START)),
            renews_at: Renewal::At(at(PERIOD_END)),
            ends_at: None,
        }],
    };

    for object in [subscription(), former_subscription()] {
        assert_eq!(found_subscription(&object, PauseMeans::Keep), expected);
    }
}

/// The status, the end of the trial, the end of the pause, the next renewal and the end.
type Row = (SubscriptionStatus, Option<Timestamp>, Option<Timestamp>, Renewal, Option<Timestamp>);

fn row(object: &Value, pause: PauseMeans) -> Row {
    let found = found_subscription(object, pause);
    let item = &found.items[0];
    (found.status, found.trial_ends_at, found.resumes_at, item.renews_at, item.ends_at)
}

/// All dates are there, so a row that reads one too many is found.
fn all_dates() -> Value {
    json!({
        "trial_end": TRIAL_END, "cancel_at": CANCEL_AT, "canceled_at": CANCELED_AT,
        "ended_at": ENDED_AT, "cancel_at_period_end": true,
        "pause_collection": { "behavior": "void", "resumes_at": RESUMES_AT },
    })
}

/// Checks a row, with the new and the former places.
fn check(status: &str, changes: &Value, pause: PauseMeans, expected: Row) {
    for object in [subscription(), former_subscription()] {
        let object = with(with(object, &all_dates()), changes);
        let object = with(object, &json!({ "status": status }));
        assert_eq!(row(&object, pause), expected, "{status} {changes} {pause:?}");
    }
}

#[test]
fn every_status_has_its_row() {
    use SubscriptionStatus::{Expired, PastDue, Paused, Pending, Unpaid};
    let not_ended = json!({ "ended_at": null });
    let no_end = json!({ "ended_at": null, "canceled_at": null });
    let no_cancel = json!({ "cancel_at": null, "cancel_at_period_end": false });
    let (all, kept, at_end) = (json!({}), Renewal::Kept, Renewal::At(at(PERIOD_END)));
    for (status, changes, here, renews_at, ends_at) in [
        ("canceled", &all, Expired, Renewal::None, Some(ENDED_AT)),
        ("canceled", &not_ended, Expired, Renewal::None, Some(CANCELED_AT)),
        ("canceled", &no_end, Expired, Renewal::None, Some(CREATED)),
        ("incomplete_expired", &all, Expired, Renewal::None, Some(ENDED_AT)),
        ("incomplete_expired", &no_end, Expired, Renewal::None, Some(CREATED)),
        ("incomplete", &all, Pending, at_end, None),
        ("paused", &all, Paused, kept, None),
        ("past_due", &all, PastDue, kept, Some(CANCEL_AT)),
        ("past_due", &no_cancel, PastDue, kept, None),
        ("unpaid", &all, Unpaid, kept, Some(CANCEL_AT)),
        ("unpaid", &no_cancel, Unpaid, kept, None),
    ] {
        for pause in PauseMeans::ALL {
            check(status, changes, pause, (here, None, None, renews_at, ends_at.map(at)));
        }
    }
}

#[test]
fn a_running_subscription_is_paused_or_cancelled_before_it_is_on_trial_or_active() {
    use SubscriptionStatus::{Active, Cancelled, OnTrial, Paused};
    let (keep, stop) = (PauseMeans::Keep, PauseMeans::Stop);
    let paused = |resumes_at: Option<i64>| (Paused, None, resumes_at.map(at), Renewal::Kept, None);
    let cancelled = |ends_at: i64| (Cancelled, None, None, Renewal::None, Some(at(ends_at)));
    let on_trial = (OnTrial, Some(at(TRIAL_END)), None, Renewal::At(at(TRIAL_END)), None);
    let active = (Active, None, None, Renewal::At(at(PERIOD_END)), None);
    let no_resume = json!({ "pause_collection": { "resumes_at": null } });
    let no_pause = json!({ "pause_collection": null });
    let at_period_end = json!({ "pause_collection": null, "cancel_at": null });
    let at_moment = json!({ "pause_collection": null, "cancel_at_period_end": false });
    let no_cancel = json!({ "cancel_at": null, "cancel_at_period_end": false });
    let neither =
        json!({ "cancel_at": null, "cancel_at_period_end": false, "pause_collection": null });
    for (status, runs) in [("trialing", on_trial), ("active", active)] {
        check(status, &json!({}), stop, paused(Some(RESUMES_AT)));
        check(status, &no_resume, stop, paused(None));
        check(status, &no_cancel, stop, paused(Some(RESUMES_AT)));
        check(status, &json!({}), keep, cancelled(CANCEL_AT));
        for pause in [keep, stop] {
            check(status, &no_pause, pause, cancelled(CANCEL_AT));
            check(status, &at_moment, pause, cancelled(CANCEL_AT));
            check(status, &at_period_end, pause, cancelled(PERIOD_END));
            check(status, &neither, pause, runs);
        }
        check(status, &no_cancel, keep, runs);
    }
}

#[test]
fn an_unknown_status_is_not_guessed() {
    for status in [json!("pausing"), json!("ACTIVE"), json!(""), json!(null), json!(1)] {
        let object = with(subscription(), &json!({ "status": status }));
        assert_eq!(unreadable_at(ObjectKind::Subscription, &object), "/status");
    }
}

#[test]
fn a_missing_field_is_named_by_its_place() {
    let price = |changes: Value| json!({ "items": { "data": { "price": changes } } });
    for (changes, path) in [
        (json!({ "id": null }), "/id"),
        (json!({ "id": "sub_1/../x" }), "/id"),
        (json!({ "livemode": null }), "/livemode"),
        (json!({ "start_date": null }), "/start_date"),
        (json!({ "start_date": "2026" }), "/start_date"),
        (json!({ "start_date": -1 }), "/start_date"),
        (json!({ "start_date": i64::MAX }), "/start_date"),
        (json!({ "cancel_at_period_end": null }), "/cancel_at_period_end"),
        (json!({ "status": "trialing" }), "/trial_end"),
        (json!({ "status": "canceled", "created": null }), "/created"),
        (json!({ "customer": 1.5 }), "/customer"),
        (json!({ "items": { "data": null } }), "/items/data"),
        (
            json!({ "items": { "data": { "current_period_end": null } } }),
            "/items/data/0/current_period_end",
        ),
        (
            json!({ "items": { "data": { "current_period_start": null } } }),
            "/items/data/0/current_period_start",
        ),
        (json!({ "items": { "data": { "quantity": 0 } } }), "/items/data/0/quantity"),
        (json!({ "items": { "data": { "quantity": 1_000_001 } } }), "/items/data/0/quantity"),
        (json!({ "items": { "data": { "quantity": -1 } } }), "/items/data/0/quantity"),
        (price(json!({ "id": null })), "/items/data/0/price/id"),
        (price(json!({ "product": null })), "/items/data/0/price/product"),
        (price(json!({ "currency": "xxx" })), "/items/data/0/price/currency"),
        (price(json!({ "unit_amount": -1 })), "/items/data/0/price/unit_amount"),
        (price(json!({ "unit_amount": "19.99" })), "/items/data/0/price/unit_amount"),
        (price(json!({ "recurring": null })), "/items/data/0/price/recurring/interval"),
        (
            price(json!({ "recurring": { "interval": "fortnight" } })),
            "/items/data/0/price/recurring/interval",
        ),
        (
            price(json!({ "recurring": { "interval_count": 0 } })),
            "/items/data/0/price/recurring/interval_count",
        ),
    ] {
        let object = with(subscription(), &changes);
        assert_eq!(unreadable_at(ObjectKind::Subscription, &object), path, "{changes}");
    }
}

#[test]
fn every_interval_is_a_billing_cycle() {
    for (interval, count, cycle) in [
        ("day", 1, "daily"),
        ("week", 2, "biweekly"),
        ("month", 3, "quarterly"),
        ("month", 18, "P18M"),
        ("year", 1, "yearly"),
    ] {
        let recurring = json!({ "interval": interval, "interval_count": count });
        let changes = json!({ "items": { "data": { "price": { "recurring": recurring } } } });
        let found = found_subscription(&with(subscription(), &changes), PauseMeans::Keep);
        assert_eq!(found.items[0].billing_cycle, Some(of(cycle)));
    }
}

#[test]
fn an_item_without_quantity_is_one_and_a_tiered_price_is_none() {
    let changes =
        json!({ "items": { "data": { "quantity": null, "price": { "unit_amount": null } } } });

    let found = found_subscription(&with(subscription(), &changes), PauseMeans::Keep);

    assert_eq!(found.items[0].quantity, Quantity::ONE);
    assert_eq!(found.items[0].price, None);
}

#[test]
fn every_item_has_its_own_period() {
    let mut object = with(subscription(), &json!({ "cancel_at_period_end": true }));
    let other = with(item("price_2", "prod_2"), &json!({ "current_period_end": ENDED_AT }));
    object["items"]["data"].as_array_mut().unwrap().push(other);

    let found = found_subscription(&object, PauseMeans::Keep);

    let ends: Vec<_> = found.items.iter().map(|item| item.ends_at).collect();
    assert_eq!(ends, [Some(at(PERIOD_END)), Some(at(ENDED_AT))]);
    assert_eq!(found.items[1].sold.price, Some(of("price_2")));
}

#[test]
fn the_period_of_an_item_is_preferred_to_that_of_the_subscription() {
    let object = with(subscription(), &json!({ "current_period_end": ENDED_AT }));

    let found = found_subscription(&object, PauseMeans::Keep);

    assert_eq!(found.items[0].renews_at, Renewal::At(at(PERIOD_END)));
}

#[test]
fn only_a_uuid_in_the_metadata_is_a_user() {
    for user in [json!("ada"), json!(""), json!(17), json!(null), json!({ "id": USER })] {
        let object = with(subscription(), &json!({ "metadata": { "user_id": user } }));
        assert_eq!(found_subscription(&object, PauseMeans::Keep).object.user_id, None, "{user}");
    }
}

#[test]
fn a_customer_or_product_that_is_expanded_is_named_by_its_id() {
    let changes = json!({
        "customer": { "id": "cus_Ada", "email": "ada@example.com" },
        "items": { "data": { "price": { "product": { "id": "prod_Tea" } } } },
    });

    let found = found_subscription(&with(subscription(), &changes), PauseMeans::Keep);

    assert_eq!(found, found_subscription(&subscription(), PauseMeans::Keep));
}
