//! Stripe: its webhooks, and the mapping of its objects, row by row.

mod invoices;
mod money;
mod mutations;
mod requests;
mod subscriptions;
mod webhooks;

use serde_json::{Value, json};
use subscription_core::providers::{
    Finding, FoundInvoice, FoundSubscription, ObjectKind, PauseMeans, ProviderKind, Unmapped, map,
};

/// 2026-01-05T09:00:00Z, in seconds.
const CREATED: i64 = 1_767_603_600;
const DAY: i64 = 86_400;
const PERIOD_START: i64 = CREATED + 31 * DAY;
const PERIOD_END: i64 = CREATED + 59 * DAY;
const TRIAL_END: i64 = CREATED + 14 * DAY;
const CANCEL_AT: i64 = CREATED + 90 * DAY;
const CANCELED_AT: i64 = CREATED + 40 * DAY;
const ENDED_AT: i64 = CREATED + 41 * DAY;
const RESUMES_AT: i64 = CREATED + 50 * DAY;
const USER: &str = "0198c0de-0000-7000-8000-000000000001";

/// An active subscription, as the API returns it since 2025-03-31.
fn subscription() -> Value {
    json!({
        "id": "sub_1Tea", "object": "subscription", "livemode": true, "customer": "cus_Ada",
        "status": "active", "created": CREATED, "start_date": CREATED,
        "billing_cycle_anchor": CREATED, "cancel_at": null, "cancel_at_period_end": false,
        "canceled_at": null, "ended_at": null, "trial_start": null, "trial_end": null,
        "pause_collection": null, "currency": "usd", "collection_method": "charge_automatically",
        "metadata": { "user_id": USER, "shop": "north" }, "latest_invoice": "in_1Tea",
        "items": { "object": "list", "has_more": false, "data": [item("price_1Tea", "prod_Tea")] },
    })
}

fn item(price: &str, product: &str) -> Value {
    json!({
        "id": "si_1Tea", "object": "subscription_item", "quantity": 3,
        "current_period_start": PERIOD_START, "current_period_end": PERIOD_END,
        "price": {
            "id": price, "object": "price", "product": product, "currency": "usd",
            "unit_amount": 1_999, "unit_amount_decimal": "1999", "billing_scheme": "per_unit",
            "recurring": { "interval": "month", "interval_count": 1, "usage_type": "licensed" },
        },
    })
}

/// The same subscription with the places before 2025-03-31.
fn former_subscription() -> Value {
    let item = json!({ "current_period_start": null, "current_period_end": null });
    let mut former = subscription();
    merge(&mut former["items"]["data"][0], &item);
    merge(
        &mut former,
        &json!({ "current_period_start": PERIOD_START, "current_period_end": PERIOD_END }),
    );
    former
}

/// A paid invoice of a renewal, with its payment, since 2025-03-31.
fn invoice() -> Value {
    json!({
        "id": "in_1Tea", "object": "invoice", "livemode": false, "customer": "cus_Ada",
        "customer_email": "ada@example.com", "status": "paid", "billing_reason": "subscription_cycle",
        "currency": "usd", "amount_due": 5_997, "amount_paid": 5_997, "amount_remaining": 0,
        "created": PERIOD_START, "metadata": {},
        // The period of the invoice is the one before.
        "period_start": CREATED, "period_end": PERIOD_START,
        "parent": {
            "type": "subscription_details",
            "subscription_details": { "subscription": "sub_1Tea", "metadata": {} },
        },
        "lines": { "object": "list", "has_more": false, "data": [{
            "id": "il_1Tea", "object": "line_item", "amount": 5_997,
            "period": { "start": PERIOD_START, "end": PERIOD_END },
            "parent": {
                "type": "subscription_item_details", "invoice_item_details": null,
                "subscription_item_details": { "subscription_item": "si_1Tea", "proration": false },
            },
            "pricing": {
                "type": "price_details", "unit_amount_decimal": "1999",
                "price_details": { "price": "price_1Tea", "product": "prod_Tea" },
            },
        }] },
        "payments": [{
            "id": "inpay_1Tea", "object": "invoice_payment", "invoice": "in_1Tea", "status": "paid",
            "amount_paid": 5_997, "amount_requested": 5_997, "currency": "usd", "is_default": true,
            "payment": { "type": "payment_intent", "payment_intent": intent() },
        }],
        "disputes": [],
    })
}

fn intent() -> Value {
    json!({
        "id": "pi_1Tea", "object": "payment_intent", "status": "succeeded",
        "last_payment_error": null, "latest_charge": charge(),
    })
}

fn charge() -> Value {
    json!({
        "id": "ch_1Tea", "object": "charge", "amount": 5_997, "amount_refunded": 0,
        "refunded": false, "disputed": false, "payment_intent": "pi_1Tea",
    })
}

/// The same invoice with the places before 2025-03-31.
fn former_invoice() -> Value {
    let mut former = invoice();
    merge(
        &mut former,
        &json!({
            "parent": null, "payments": null, "subscription": "sub_1Tea",
            "payment_intent": intent(), "charge": charge(), "paid": true, "paid_out_of_band": false,
        }),
    );
    let price = json!({ "id": "price_1Tea", "object": "price", "product": "prod_Tea" });
    merge(
        &mut former["lines"]["data"][0],
        &json!({ "parent": null, "pricing": null, "price": price, "proration": false }),
    );
    former
}

/// Replaces fields of an object, at any depth; in arrays, those of the first entry.
fn merge(object: &mut Value, changes: &Value) {
    let Value::Object(fields) = changes else {
        *object = changes.clone();
        return;
    };
    for (name, change) in fields {
        match (&mut object[name], change) {
            (Value::Array(entries), Value::Object(_)) => merge(&mut entries[0], change),
            (place @ Value::Object(_), _) => merge(place, change),
            (place, _) => *place = change.clone(),
        }
    }
}

fn with(mut object: Value, changes: &Value) -> Value {
    merge(&mut object, changes);
    object
}

fn mapped(kind: ObjectKind, object: &Value, pause: PauseMeans) -> Result<Finding, Unmapped> {
    map(ProviderKind::Stripe, kind, object, pause)
}

fn found_subscription(object: &Value, pause: PauseMeans) -> FoundSubscription {
    match mapped(ObjectKind::Subscription, object, pause) {
        Ok(Finding::Subscription(found)) => found,
        other => panic!("{object:#}: {other:?}"),
    }
}

fn found_invoice(object: &Value) -> Result<FoundInvoice, Unmapped> {
    mapped(ObjectKind::Invoice, object, PauseMeans::Keep).map(|found| match found {
        Finding::Invoice(found) => found,
        other @ (Finding::Subscription(_) | Finding::Order(_)) => panic!("{other:?}"),
    })
}

/// The place at which an object cannot be read.
fn unreadable_at(kind: ObjectKind, object: &Value) -> String {
    match mapped(kind, object, PauseMeans::Stop) {
        Err(Unmapped::Unreadable { path }) => path.into(),
        other => panic!("{object:#}: {other:?}"),
    }
}

/// The moment this number of seconds after 1970.
fn at(seconds: i64) -> subscription_core::Timestamp {
    subscription_core::Timestamp::from_micros(seconds * 1_000_000).unwrap()
}
