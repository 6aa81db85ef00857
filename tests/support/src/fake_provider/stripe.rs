//! The objects of Stripe in the JSON of its API.

use serde_json::{Map, Value, json};
use subscription_core::providers::{ObjectKind, ProviderKind};

use super::catalogue::Price;
use super::model::{Account, Invoice, Payment, Places, Session, Subscription};

const KIND: ProviderKind = ProviderKind::Stripe;

/// The payload of a webhook.
pub(super) fn event(
    account: &Account,
    name: &str,
    number: &str,
    kind: ObjectKind,
    id: &str,
) -> Value {
    let object = match kind {
        ObjectKind::Subscription => subscription(account, account.subscription(id)),
        ObjectKind::CheckoutSession => session(account, account.sessions[id].last()),
        ObjectKind::Invoice if name == "invoice_payment.paid" => {
            let of = account.invoices[id].last();
            of.payments.last().map_or(Value::Null, |paid| invoice_payment(account, of, paid, 0))
        }
        ObjectKind::Invoice => invoice(account, account.invoices[id].last(), 0),
        _ => {
            let of = account.invoice_of(id).unwrap();
            let payment = of.payments.iter().find(|payment| payment.id == id).unwrap();
            if name.starts_with("charge.dispute.") {
                dispute(account, payment)
            } else if name.starts_with("charge.") {
                charge(account, of, payment)
            } else {
                intent(account, of, payment, false)
            }
        }
    };
    json!({
        "id": number, "object": "event", "api_version": "2025-03-31.basil", "created": account.now,
        "data": { "object": object }, "livemode": account.live, "pending_webhooks": 1,
        "request": { "id": null, "idempotency_key": null }, "type": name,
    })
}

/// A page of objects, the newest first. `after` is the last id of the previous page.
#[expect(clippy::needless_pass_by_value, reason = "the list is made for the answer")]
pub(super) fn list(path: &str, all: Vec<Value>, after: Option<&str>, limit: usize) -> Value {
    let is_after = |item: &Value| after.is_some_and(|after| item["id"] == after);
    let start = all.iter().position(is_after).map_or(0, |place| place + 1);
    let data: Vec<_> = all.iter().skip(start).take(limit).cloned().collect();
    let has_more = start + data.len() < all.len();
    json!({ "object": "list", "url": path, "has_more": has_more, "data": data })
}

pub(super) fn subscription(account: &Account, of: &Subscription) -> Value {
    let mut item = json!({
        "id": format!("si_{}", of.id), "object": "subscription_item", "created": of.created,
        "metadata": {}, "price": price(account, of.price()), "quantity": of.quantity,
        "subscription": of.id,
    });
    let mut metadata = Map::new();
    if let Some(user) = &of.user {
        metadata.insert("user_id".into(), user.clone().into());
    }
    let pause = of.pause.map(|pause| {
        let behavior = if pause.free { "void" } else { "keep_as_draft" };
        json!({ "behavior": behavior, "resumes_at": pause.resumes_at })
    });
    let mut shown = json!({
        "id": of.id, "object": "subscription", "application": null, "automatic_tax": { "enabled": false },
        "billing_cycle_anchor": of.created, "cancel_at": of.cancel_at,
        "cancel_at_period_end": of.cancel_at_period_end, "canceled_at": of.canceled_at,
        "collection_method": "charge_automatically", "created": of.created, "currency": of.price().currency.to_lowercase(),
        "customer": of.customer, "ended_at": of.ended_at, "livemode": account.live, "metadata": metadata,
        "pause_collection": pause, "schedule": null, "start_date": of.created, "status": of.status,
        "trial_end": of.trial_end, "trial_start": of.trial_end.map(|_| of.created),
    });
    let place = match account.places {
        Places::Before => &mut shown,
        Places::After => &mut item,
    };
    place["current_period_start"] = of.period.0.into();
    place["current_period_end"] = of.period.1.into();
    shown["items"] =
        json!({ "object": "list", "has_more": false, "total_count": 1, "data": [item] });
    shown
}

fn price(account: &Account, price: Price) -> Value {
    let (interval, count) = match price.months {
        12 => ("year", 1),
        months => ("month", months),
    };
    json!({
        "id": price.id(KIND), "object": "price", "active": true, "billing_scheme": "per_unit",
        "currency": price.currency.to_lowercase(), "livemode": account.live, "product": price.product(KIND),
        "recurring": { "interval": interval, "interval_count": count, "usage_type": "licensed" },
        "tiers_mode": null, "type": "recurring", "unit_amount": price.amount,
        "unit_amount_decimal": price.amount.to_string(),
    })
}

/// An invoice. `levels` says how deep it is expanded: 1 to its payments, 4 to their payment intents, 5 to the charges.
pub(super) fn invoice(account: &Account, of: &Invoice, levels: usize) -> Value {
    let paid: i64 = if of.status == "paid" { of.total } else { 0 };
    let mut line = json!({
        "id": format!("il_{}", of.id), "object": "line_item", "amount": of.total,
        "currency": of.price().currency.to_lowercase(), "invoice": of.id, "livemode": account.live,
        "period": { "start": of.period.0, "end": of.period.1 }, "quantity": 1,
    });
    // The period of an invoice is the time between the previous invoice and this one.
    let mut shown = json!({
        "id": of.id, "object": "invoice", "amount_due": of.total, "amount_paid": paid,
        "amount_remaining": of.total - paid, "attempted": true, "billing_reason": of.reason,
        "created": of.created, "currency": of.price().currency.to_lowercase(), "customer": of.customer,
        "customer_email": account.customers.get(&of.customer), "livemode": account.live, "metadata": {},
        "period_end": of.created, "period_start": of.created, "status": of.status, "total": of.total,
    });
    let (price, product) = (of.price().id(KIND), of.price().product(KIND));
    match account.places {
        Places::Before => {
            line["price"] = json!({ "id": price, "object": "price", "product": product });
            line["subscription"] = of.subscription.clone().into();
            line["proration"] = false.into();
            line["type"] = "subscription".into();
            shown["subscription"] = of.subscription.clone().into();
            shown["paid"] = (of.status == "paid").into();
            shown["paid_out_of_band"] = (of.status == "paid" && of.payments.is_empty()).into();
            shown["payment_intent"] = of.payments.last().map_or(Value::Null, |last| {
                if levels >= 1 { intent(account, of, last, true) } else { last.id.clone().into() }
            });
        }
        Places::After => {
            line["pricing"] = json!({
                "price_details": { "price": price, "product": product }, "type": "price_details",
            });
            line["parent"] = json!({
                "subscription_item_details": {
                    "proration": false, "subscription": of.subscription,
                    "subscription_item": format!("si_{}", of.subscription),
                },
                "type": "subscription_item_details",
            });
            shown["parent"] = json!({
                "quote_details": null, "type": "subscription_details",
                "subscription_details": { "metadata": {}, "subscription": of.subscription },
            });
            if levels > 0 {
                let payments = of.payments.iter();
                let data: Vec<_> =
                    payments.map(|payment| invoice_payment(account, of, payment, levels)).collect();
                shown["payments"] = json!({ "object": "list", "has_more": false, "data": data });
            }
        }
    }
    shown["lines"] =
        json!({ "object": "list", "has_more": false, "total_count": 1, "data": [line] });
    shown
}

/// An invoice payment. With 4 or more levels its payment intent is expanded, with 5 or more also the charge.
pub(super) fn invoice_payment(
    account: &Account,
    of: &Invoice,
    payment: &Payment,
    levels: usize,
) -> Value {
    let status = match payment.status {
        "succeeded" => "paid",
        "canceled" => "canceled",
        _ => "open",
    };
    let shown: Value = if levels >= 4 {
        intent(account, of, payment, levels >= 5)
    } else {
        payment.id.clone().into()
    };
    json!({
        "id": format!("inpay_{}", payment.id), "object": "invoice_payment",
        "amount_paid": (status == "paid").then_some(payment.amount), "amount_requested": payment.amount,
        "created": of.created, "currency": of.price().currency.to_lowercase(), "invoice": of.id,
        "is_default": true, "livemode": account.live,
        "payment": { "payment_intent": shown, "type": "payment_intent" }, "status": status,
    })
}

fn intent(account: &Account, of: &Invoice, payment: &Payment, with_charge: bool) -> Value {
    let error = payment.has_error.then(|| json!({ "code": "card_declined", "type": "card_error" }));
    let charge = (payment.status == "succeeded").then(|| {
        if with_charge { charge(account, of, payment) } else { format!("ch_{}", payment.id).into() }
    });
    json!({
        "id": payment.id, "object": "payment_intent", "amount": payment.amount, "created": of.created,
        "currency": of.price().currency.to_lowercase(), "customer": of.customer, "last_payment_error": error,
        "latest_charge": charge, "livemode": account.live, "status": payment.status,
    })
}

fn charge(account: &Account, of: &Invoice, payment: &Payment) -> Value {
    json!({
        "id": format!("ch_{}", payment.id), "object": "charge", "amount": payment.amount,
        "amount_refunded": payment.refunded, "created": of.created,
        "currency": of.price().currency.to_lowercase(), "customer": of.customer,
        "disputed": payment.dispute.is_some(), "livemode": account.live, "paid": true,
        "payment_intent": payment.id, "refunded": payment.refunded == payment.amount, "status": "succeeded",
    })
}

pub(super) fn dispute(account: &Account, payment: &Payment) -> Value {
    let of = payment.dispute.as_ref();
    json!({
        "id": of.map(|dispute| dispute.id.as_str()), "object": "dispute", "amount": payment.amount,
        "charge": format!("ch_{}", payment.id), "created": account.now, "livemode": account.live,
        "payment_intent": payment.id, "status": of.map(|dispute| dispute.status),
    })
}

pub(super) fn refund(payment: &Payment) -> Value {
    json!({
        "id": format!("re_{}", payment.id), "object": "refund", "amount": payment.refunded,
        "charge": format!("ch_{}", payment.id), "payment_intent": payment.id, "status": "succeeded",
    })
}

pub(super) fn session(account: &Account, of: &Session) -> Value {
    json!({
        "id": of.id, "object": "checkout.session", "client_reference_id": of.user, "created": of.created,
        "customer": of.customer, "livemode": account.live, "metadata": {}, "mode": "subscription",
        "payment_status": "paid", "status": "complete", "subscription": of.subscription,
    })
}

pub(super) fn customer(account: &Account, id: &str) -> Option<Value> {
    let email = account.customers.get(id)?;
    Some(
        json!({ "id": id, "object": "customer", "email": email, "livemode": account.live, "metadata": {} }),
    )
}
