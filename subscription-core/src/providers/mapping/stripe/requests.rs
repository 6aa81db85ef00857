//! The requests to the API of Stripe, and its pages.

use serde_json::Value;

use crate::providers::ApiPage;
use crate::providers::api::requests::{Added, Requests};
use crate::providers::mapping::finding::Unmapped;
use crate::providers::mapping::object::{ObjectId, ObjectKind, ObjectList};
use crate::providers::mapping::read::JsonPath;
use crate::values::Timestamp;

/// The API version is sent with each request, because the version of the account may be older or newer. The version
/// that is sent is the last one of the release `basil`. Within a release, Stripe only adds fields.
pub(in crate::providers) const REQUESTS: Requests = Requests {
    host: "https://api.stripe.com",
    headers: &[("stripe-version", "2025-08-27.basil")],
    object,
    object_in: |answer| answer,
    added: &[
        Added { kind: ObjectKind::Invoice, field: "payments", lists: payments },
        Added { kind: ObjectKind::Invoice, field: "disputes", lists: disputes },
    ],
    list,
    page: |_, _, answer| page(answer),
};

fn object(kind: ObjectKind, id: &ObjectId) -> Option<String> {
    let folder = match kind {
        ObjectKind::Customer => "customers",
        ObjectKind::Subscription => "subscriptions",
        ObjectKind::Invoice => "invoices",
        ObjectKind::CheckoutSession => "checkout/sessions",
        ObjectKind::PaymentIntent => "payment_intents",
        ObjectKind::Order => return None,
    };
    Some(format!("/v1/{folder}/{id}"))
}

/// The path of the payments of an invoice with their charges. They are read by a request of their own, because the
/// charge lies five levels below the invoice, and Stripe expands at most four levels.
fn payments(invoice: &Value) -> Vec<String> {
    let expand =
        "expand%5B%5D=data.payment.payment_intent.latest_charge&expand%5B%5D=data.payment.charge";
    let id = JsonPath::root(invoice).field("id").id();
    id.map(|id| format!("/v1/invoice_payments?invoice={id}&limit=100&{expand}"))
        .into_iter()
        .collect()
}

/// The paths of the disputes of an invoice: one list for each charge of its payments that is marked as disputed.
fn disputes(invoice: &Value) -> Vec<String> {
    let disputed = |entry: JsonPath<'_>| {
        let payment = entry.field("payment");
        let charge = payment.field("charge").present();
        let charge =
            charge.unwrap_or_else(|| payment.field("payment_intent").field("latest_charge"));
        let id = charge.id().ok().filter(|_| charge.field("disputed").flag() == Ok(true))?;
        Some(format!("/v1/disputes?charge={id}&limit=100"))
    };
    let payments = JsonPath::root(invoice).field("payments").items().unwrap_or_default();
    payments.into_iter().filter_map(disputed).collect()
}

fn list(list: &ObjectList, after: Option<&str>) -> Option<String> {
    let since = |name: &str, at: &Timestamp| {
        format!("{name}?created%5Bgte%5D={}", at.micros().div_euclid(1_000_000))
    };
    let path = match list {
        ObjectList::Subscriptions => "subscriptions?status=all".to_owned(),
        ObjectList::Invoices(at) => since("invoices", at),
        ObjectList::Refunds(at) => since("refunds", at),
        ObjectList::Disputes(at) => since("disputes", at),
        ObjectList::InvoicePaymentsOf(intent) => format!(
            "invoice_payments?payment%5Btype%5D=payment_intent&payment%5Bpayment_intent%5D={intent}"
        ),
        ObjectList::SessionsOf(subscription) => {
            format!("checkout/sessions?subscription={subscription}")
        }
        ObjectList::Orders(_) => return None,
    };
    Some(match after {
        Some(after) => {
            let after: ObjectId = after.parse().ok()?;
            format!("/v1/{path}&limit=100&starting_after={after}")
        }
        None => format!("/v1/{path}&limit=100"),
    })
}

/// The page in a response. The next page begins after the last object of this page.
fn page(mut answer: Value) -> Result<ApiPage, Unmapped> {
    let root = JsonPath::root(&answer);
    let items = root.field("data").items()?;
    let next = match items.last() {
        Some(last) if root.field("has_more").flag()? => Some(last.id()?.as_str().into()),
        _ => None,
    };
    let items = answer.get_mut("data").and_then(Value::as_array_mut).map(std::mem::take);
    Ok(ApiPage { items: items.unwrap_or_default(), next, total: None })
}
