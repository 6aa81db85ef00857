//! The tables of statuses in the guide for Stripe and Lemon Squeezy, held against the mapping itself.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

use serde_json::{Value, json};
use subscription_core::SubscriptionStatus;
use subscription_core::providers::{Finding, ObjectKind, PauseMeans, ProviderKind, map};

const GUIDE: &str = include_str!("../../docs/move-from-stripe-or-lemon-squeezy.md");

/// The rows of the table whose first heading is this, each as its cells.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let mut lines = GUIDE.lines().skip_while(|line| !line.starts_with(&format!("| {heading} |")));
    assert!(lines.next().is_some(), "there is no table {heading}");
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The words of a cell that stand in backticks.
fn words(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn written(name: impl std::fmt::Display) -> String {
    format!("`{name}`")
}

/// The access that a status grants, in the words of the guide.
fn access(status: SubscriptionStatus) -> &'static str {
    use SubscriptionStatus::{
        Active, Cancelled, Expired, OnTrial, PastDue, Paused, Pending, Unpaid,
    };
    match status {
        Active | OnTrial | PastDue => "yes",
        Cancelled => "until `ends_at`",
        Pending | Unpaid | Paused | Expired => "no",
    }
}

fn found(provider: ProviderKind, kind: ObjectKind, object: &Value, pause: PauseMeans) -> Finding {
    map(provider, kind, object, pause).unwrap_or_else(|error| panic!("{error}: {object:#}"))
}

fn has_status(row: &[&str], finding: &Finding) {
    let Finding::Subscription(subscription) = finding else { panic!("{row:?}") };
    let status = subscription.status;
    assert_eq!((row[1], row[2]), (&*written(status), access(status)), "{row:?}");
}

fn lemon_squeezy(kind: &str, attributes: &Value) -> Value {
    let mut all = json!({
        "test_mode": true, "customer_id": 1, "variant_id": 2, "product_id": 3,
        "created_at": "2026-01-01T00:00:00.000000Z", "renews_at": "2026-02-01T00:00:00.000000Z",
        "ends_at": "2026-02-01T00:00:00.000000Z", "trial_ends_at": null, "urls": {},
        "first_subscription_item": { "quantity": 1, "is_usage_based": false },
        "first_order_item": { "variant_id": 2, "product_id": 3 },
        "subscription_id": 4, "billing_reason": "renewal", "currency": "USD", "total": 1_990,
        "total_formatted": "$19.90", "refunded_amount": 0,
    });
    for (name, value) in attributes.as_object().unwrap() {
        all[name] = value.clone();
    }
    json!({ "type": kind, "id": "1", "attributes": all })
}

#[test]
fn subscriptions_of_lemon_squeezy_have_the_statuses_of_the_guide() {
    let rows = rows("Lemon Squeezy's subscription");
    assert_eq!(rows.len(), 8);
    for row in rows {
        let said = words(row[0]);
        let pause = said.get(1).map(|mode| json!({ "mode": mode, "resumes_at": null }));
        let attributes = json!({ "status": said[0], "pause": pause });
        let object = lemon_squeezy("subscriptions", &attributes);
        let kind = ObjectKind::Subscription;
        has_status(&row, &found(ProviderKind::LemonSqueezy, kind, &object, PauseMeans::Keep));
    }
}

#[test]
fn subscriptions_of_stripe_have_the_statuses_of_the_guide() {
    let rows = rows("Stripe's subscription");
    assert_eq!(rows.len(), 12);
    for row in rows {
        let said = words(row[0]);
        let has = |word: &str| said.contains(&word);
        let stops = has("pause = \"stop\"");
        let price = json!({
            "id": "price_1", "product": "prod_1", "unit_amount": 1_990, "currency": "usd",
            "recurring": { "interval": "month", "interval_count": 1 },
        });
        let object = json!({
            "id": "sub_1", "livemode": false, "customer": "cus_1", "metadata": {},
            "status": said[0], "start_date": 1, "created": 1, "ended_at": 2, "trial_end": 3,
            "cancel_at_period_end": has("cancel_at_period_end"),
            "cancel_at": has("cancel_at").then_some(4),
            "pause_collection": has("pause_collection").then(|| json!({ "resumes_at": null })),
            "items": { "data": [{
                "price": price, "quantity": 1, "current_period_start": 1, "current_period_end": 5,
            }] },
        });
        let pause = if stops { PauseMeans::Stop } else { PauseMeans::Keep };
        has_status(&row, &found(ProviderKind::Stripe, ObjectKind::Subscription, &object, pause));
    }
}

#[test]
fn payments_of_stripe_have_the_statuses_of_the_guide() {
    let rows = rows("Stripe's payment");
    assert_eq!(rows.len(), 12);
    for row in rows {
        let said = words(row[0]);
        let of_charge = row[0].starts_with("charge");
        let has = |word: &str| said.contains(&word);
        let refunded = i32::from(has("amount_refunded"));
        let charge = json!({
            "id": "ch_1", "amount_refunded": refunded, "refunded": has("refunded"),
            "disputed": has("disputed"),
        });
        let status = if of_charge { "succeeded" } else { said[0] };
        let intent = json!({
            "id": "pi_1", "status": status, "latest_charge": of_charge.then_some(charge),
            "last_payment_error": has("last_payment_error").then(|| json!({})),
        });
        let dispute = has("disputed").then(|| {
            json!({ "id": "dp_1", "charge": "ch_1", "payment_intent": "pi_1", "status": said[1] })
        });
        let is_paid = status == "succeeded";
        let object = json!({
            "id": "in_1", "livemode": false, "customer": "cus_1", "currency": "usd",
            "status": if is_paid { "paid" } else { "open" }, "billing_reason": "subscription_cycle",
            "amount_due": 1_990, "amount_paid": if is_paid { 1_990 } else { 0 },
            "parent": { "subscription_details": { "subscription": "sub_1" } },
            "lines": { "data": [] }, "disputes": dispute.into_iter().collect::<Vec<_>>(),
            "payments": { "data": [{
                "status": if is_paid { "paid" } else { "open" }, "currency": "usd",
                "amount_paid": is_paid.then_some(1_990), "amount_requested": 1_990,
                "payment": { "type": "payment_intent", "payment_intent": intent },
            }] },
        });
        let kind = ObjectKind::Invoice;
        let finding = found(ProviderKind::Stripe, kind, &object, PauseMeans::Keep);
        let Finding::Invoice(invoice) = finding else { panic!("{row:?}") };
        assert_eq!(row[1], written(invoice.payments[0].status), "{row:?}");
    }
}

#[test]
fn invoices_and_orders_of_lemon_squeezy_have_the_statuses_of_the_guide() {
    let all = rows("Lemon Squeezy's invoice");
    assert_eq!(all.len(), 5);
    for row in all {
        let object = lemon_squeezy("subscription-invoices", &json!({ "status": words(row[0])[0] }));
        let kind = ObjectKind::Invoice;
        let finding = found(ProviderKind::LemonSqueezy, kind, &object, PauseMeans::Keep);
        let Finding::Invoice(invoice) = finding else { panic!("{row:?}") };
        assert_eq!(row[1], written(invoice.payments[0].status), "{row:?}");
    }
    let all = rows("Lemon Squeezy's order of a one-time plan");
    assert_eq!(all.len(), 6);
    for row in all {
        let object = lemon_squeezy("orders", &json!({ "status": words(row[0])[0] }));
        let kind = ObjectKind::Order;
        let finding = found(ProviderKind::LemonSqueezy, kind, &object, PauseMeans::Keep);
        let Finding::Order(order) = finding else { panic!("{row:?}") };
        let payment = order.payment.unwrap().status;
        assert_eq!((row[1], row[2]), (&*written(order.status), &*written(payment)), "{row:?}");
    }
}
