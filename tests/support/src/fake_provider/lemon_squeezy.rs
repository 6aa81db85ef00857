//! The objects of Lemon Squeezy in the JSON of its API.

use serde_json::{Value, json};
use subscription_core::providers::{ObjectKind, ProviderKind};

use super::catalogue::{PRICES, Price};
use super::model::{Account, Invoice, Order, Subscription, written};

const KIND: ProviderKind = ProviderKind::LemonSqueezy;

/// The payload of a webhook. Events of invoices have no custom data.
pub(super) fn event(account: &Account, name: &str, kind: ObjectKind, id: &str) -> Value {
    let (data, user) = match kind {
        ObjectKind::Subscription => {
            let of = account.subscription(id);
            (subscription(account, of), of.user.as_ref())
        }
        ObjectKind::Order => {
            let of = account.orders[id].last();
            (order(account, of), of.user.as_ref())
        }
        _ => (invoice(account, account.invoices[id].last()), None),
    };
    let mut meta = json!({ "event_name": name, "test_mode": !account.live, "webhook_id": "w" });
    if let Some(user) = user {
        meta["custom_data"] = json!({ "user_id": user });
    }
    json!({ "meta": meta, "data": data })
}

/// A page of objects; pages are counted from 1.
pub(super) fn list(path: &str, all: &[Value], page: usize, size: usize) -> Value {
    let last = all.len().div_ceil(size).max(1);
    let data: Vec<_> = all.iter().skip((page - 1) * size).take(size).collect();
    let link = |page: usize| {
        format!("https://api.lemonsqueezy.com{path}?page%5Bnumber%5D={page}&page%5Bsize%5D={size}")
    };
    let mut links = json!({ "first": link(1), "last": link(last) });
    if page < last {
        links["next"] = link(page + 1).into();
    }
    json!({
        "meta": { "page": { "currentPage": page, "lastPage": last, "perPage": size, "total": all.len() } },
        "jsonapi": { "version": "1.0" }, "links": links, "data": data,
    })
}

/// A single object.
#[expect(clippy::needless_pass_by_value, reason = "the object is made for the answer")]
pub(super) fn single(path: &str, data: Value) -> Value {
    let links = json!({ "self": format!("https://api.lemonsqueezy.com{path}") });
    json!({ "jsonapi": { "version": "1.0" }, "links": links, "data": data })
}

fn number(id: &str) -> i64 {
    id.parse().unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "the attributes are made for the object")]
fn resource(kind: &str, id: &str, attributes: Value) -> Value {
    let link = format!("https://api.lemonsqueezy.com/v1/{kind}/{id}");
    json!({ "type": kind, "id": id, "attributes": attributes, "links": { "self": link } })
}

pub(super) fn subscription(account: &Account, of: &Subscription) -> Value {
    let pause = of.pause.map(|pause| {
        let mode = if pause.free { "free" } else { "void" };
        json!({ "mode": mode, "resumes_at": pause.resumes_at.map(written) })
    });
    let item = (of.status != "on_trial").then(|| {
        json!({ "id": number(&of.id), "subscription_id": number(&of.id), "price_id": 1, "quantity": of.quantity })
    });
    let portal = "https://shop.lemonsqueezy.com/billing?expires=1674045831&signature=82ae290cea";
    let attributes = json!({
        "store_id": 1, "customer_id": number(&of.customer), "order_id": 1, "order_item_id": 1,
        "product_id": number(&of.price().product(KIND)), "variant_id": number(&of.price().id(KIND)),
        "product_name": "Product", "variant_name": "Default", "user_name": "A Person",
        "user_email": account.customers.get(&of.customer), "status": of.status, "status_formatted": of.status,
        "card_brand": "visa", "card_last_four": "4242", "pause": pause,
        "cancelled": of.cancel_at_period_end, "trial_ends_at": of.trial_end.map(written), "billing_anchor": 1,
        "first_subscription_item": item,
        "urls": { "update_payment_method": portal, "customer_portal": portal },
        "renews_at": written(of.period.1), "ends_at": of.ended_at.or(of.cancel_at).map(written),
        "created_at": written(of.created), "updated_at": written(of.updated), "test_mode": !account.live,
    });
    resource("subscriptions", &of.id, attributes)
}

pub(super) fn invoice(account: &Account, of: &Invoice) -> Value {
    let attributes = json!({
        "store_id": 1, "subscription_id": number(&of.subscription), "customer_id": number(&of.customer),
        "user_name": "A Person", "user_email": account.customers.get(&of.customer),
        "billing_reason": of.reason, "card_brand": "visa", "card_last_four": "4242",
        "currency": of.price().currency, "currency_rate": "1.00000000", "status": of.status,
        "status_formatted": of.status, "refunded": of.status == "refunded",
        "refunded_at": (of.refunded > 0).then(|| written(of.created)), "subtotal": of.total, "discount_total": 0,
        "tax": 0, "tax_inclusive": false, "total": of.total, "refunded_amount": of.refunded,
        "total_formatted": formatted(of.price(), of.total), "urls": { "invoice_url": null },
        "created_at": written(of.created), "updated_at": written(of.created), "test_mode": !account.live,
    });
    resource("subscription-invoices", &of.id, attributes)
}

pub(super) fn order(account: &Account, of: &Order) -> Value {
    let price = PRICES[of.price];
    let item = json!({
        "id": number(&of.id), "order_id": number(&of.id), "product_id": number(&price.product(KIND)),
        "variant_id": number(&price.id(KIND)), "price": price.amount, "quantity": 1,
        "test_mode": !account.live,
    });
    let attributes = json!({
        "store_id": 1, "customer_id": number(&of.customer), "identifier": of.id, "order_number": 1,
        "user_name": "A Person", "user_email": account.customers.get(&of.customer), "currency": price.currency,
        "currency_rate": "1.00000000", "subtotal": price.amount, "discount_total": 0, "tax": 0,
        "total": price.amount, "refunded_amount": of.refunded, "status": of.status,
        "status_formatted": of.status, "refunded": of.status == "refunded",
        "refunded_at": (of.refunded > 0).then(|| written(of.created)),
        "total_formatted": formatted(price, price.amount), "first_order_item": item,
        "urls": { "receipt": "https://app.lemonsqueezy.com/my-orders/1?signature=8847fff02e" },
        "created_at": written(of.created), "updated_at": written(of.created), "test_mode": !account.live,
    });
    resource("orders", &of.id, attributes)
}

pub(super) fn customer(account: &Account, id: &str) -> Option<Value> {
    let email = account.customers.get(id)?;
    let attributes =
        json!({ "store_id": 1, "name": "A Person", "email": email, "test_mode": !account.live });
    Some(resource("customers", id, attributes))
}

fn formatted(price: Price, amount: i64) -> String {
    let sign = match price.currency {
        "USD" => "$",
        "JPY" => "¥",
        _ => "€",
    };
    format!("{sign}{}", price.decimal(amount))
}
