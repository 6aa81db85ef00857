//! Lemon Squeezy: its webhooks and the mapping of its objects.
//!
//! An object is the `data` of a response (JSON:API): `{"type", "id", "attributes"}`. Its id is text, and the ids in
//! its attributes are numbers.

pub(crate) mod requests;

use serde_json::Value;

use super::finding::{
    Finding, FoundInvoice, FoundItem, FoundObject, FoundOrder, FoundPayment, FoundPeriods,
    FoundSubscription, Hint, Sold, Unmapped, Webhook,
};
use super::money;
use super::object::{ObjectKind, ObjectRef};
use super::read::JsonPath;
use crate::payments::{PaymentKind, PaymentStatus};
use crate::providers::PauseMeans;
use crate::subscriptions::{Quantity, Renewal, SubscriptionStatus};
use crate::values::{Currency, ExternalId, Href, Timestamp};

/// The field `type` of the objects that this service copies.
const TYPES: [(&str, ObjectKind); 3] = [
    ("subscriptions", ObjectKind::Subscription),
    ("subscription-invoices", ObjectKind::Invoice),
    ("orders", ObjectKind::Order),
];

/// Reads a webhook. The type of its object decides whether the webhook is used, not the name of the event. So
/// undocumented events are used too.
pub(crate) fn webhook(body: &[u8]) -> Webhook {
    let Ok(payload) = serde_json::from_slice::<Value>(body) else {
        return Webhook::Unreadable { event_type: None, path: "".into() };
    };
    let payload = JsonPath::root(&payload);
    let name = payload.field("meta").field("event_name");
    let visible = |name: &&str| name.len() <= 100 && name.bytes().all(|b| b.is_ascii_graphic());
    let name = name.text().ok().filter(|name| !name.is_empty()).filter(visible);
    match hint(&payload, name) {
        Ok(hint) => hint.map_or(Webhook::Unlisted, Webhook::Hint),
        Err(unmapped) => Webhook::Unreadable {
            event_type: name.map(Into::into),
            path: match unmapped {
                Unmapped::Unreadable { path } => path,
                Unmapped::CurrencyUnverified
                | Unmapped::NotASubscription
                | Unmapped::ZeroAmount => "".into(),
            },
        },
    }
}

/// The object that a webhook names; `None` if this service does not copy objects of this type.
fn hint(payload: &JsonPath<'_>, name: Option<&str>) -> Result<Option<Hint>, Unmapped> {
    let meta = payload.field("meta");
    let data = payload.field("data");
    let r#type = data.field("type").text()?;
    let Some((_, kind)) = TYPES.iter().find(|(name, _)| *name == r#type) else { return Ok(None) };
    let id = data.field("id").parsed()?;
    let test_mode = meta.field("test_mode").present();
    let test_mode = test_mode.unwrap_or_else(|| data.field("attributes").field("test_mode"));
    Ok(Some(Hint {
        event_type: name.unwrap_or(r#type).into(),
        event_id: None,
        object: ObjectRef { kind: *kind, id },
        live: !test_mode.flag()?,
        user_id: meta.field("custom_data").field("user_id").parsed().ok(),
    }))
}

/// Maps an object. The mode of a pause at Lemon Squeezy shows whether the subscription continues, so the setting
/// `PauseMeans` is not used.
pub(crate) fn map(kind: ObjectKind, object: &Value, _: PauseMeans) -> Result<Finding, Unmapped> {
    let object = JsonPath::root(object);
    let (r#type, attributes) = (object.field("type"), object.field("attributes"));
    if !TYPES.contains(&(r#type.text()?, kind)) {
        return Err(r#type.unreadable());
    }
    let found = FoundObject {
        id: object.field("id").parsed()?,
        live: !attributes.field("test_mode").flag()?,
        customer: Some(attributes.field("customer_id").id()?),
        user_id: None,
        // An address that we refuse is not the address of any account, so the object is mapped without the address.
        email: attributes.field("user_email").parsed().ok(),
    };
    match kind {
        ObjectKind::Subscription => subscription(found, &attributes).map(Finding::Subscription),
        ObjectKind::Invoice => invoice(found, &attributes).map(Finding::Invoice),
        ObjectKind::Order => order(found, &attributes).map(Finding::Order),
        ObjectKind::Customer | ObjectKind::CheckoutSession | ObjectKind::PaymentIntent => {
            Err(Unmapped::NotASubscription)
        }
    }
}

fn subscription(object: FoundObject, from: &JsonPath<'_>) -> Result<FoundSubscription, Unmapped> {
    use SubscriptionStatus::{Active, Cancelled, Expired, OnTrial, PastDue, Unpaid};
    let moment = |name| from.field(name).parsed::<Timestamp>();
    let place = from.field("status");
    let (status, trial_ends_at, resumes_at, renews_at, ends_at) = match place.text()? {
        "on_trial" => {
            let trial_ends_at = from.field("trial_ends_at").optional(JsonPath::parsed)?;
            let renews_at = trial_ends_at.map_or_else(|| moment("renews_at"), Ok)?;
            (OnTrial, trial_ends_at, None, Renewal::At(renews_at), None)
        }
        "active" => (Active, None, None, Renewal::At(moment("renews_at")?), None),
        // At the provider, `renews_at` of these subscriptions is the next attempt to collect the unpaid renewal. So our
        // record keeps the renewal date that it has.
        "past_due" => (PastDue, None, None, Renewal::Kept, None),
        "unpaid" => (Unpaid, None, None, Renewal::Kept, None),
        "paused" | "pause" => {
            let (status, resumes_at) = pause(&from.field("pause"))?;
            (status, None, resumes_at, Renewal::Kept, None)
        }
        "cancelled" => (Cancelled, None, None, Renewal::None, Some(moment("ends_at")?)),
        "expired" => (Expired, None, None, Renewal::None, Some(moment("ends_at")?)),
        _ => return Err(place.unreadable()),
    };
    let item = FoundItem {
        sold: sold(from)?,
        quantity: quantity(&from.field("first_subscription_item"))?,
        price: None,
        billing_cycle: None,
        period_start: None,
        renews_at,
        ends_at,
    };
    let portal = from.field("urls").field("customer_portal");
    Ok(FoundSubscription {
        external_id: external_id("ls_", &object)?,
        former_id: Some(external_id("", &object)?),
        object,
        status,
        starts_at: moment("created_at")?,
        trial_ends_at,
        resumes_at,
        manage_url: portal.text().ok().and_then(without_query),
        items: vec![item],
    })
}

/// The status of a paused subscription, which depends on the mode of the pause, and the end of the pause.
fn pause(from: &JsonPath<'_>) -> Result<(SubscriptionStatus, Option<Timestamp>), Unmapped> {
    let mode = from.field("mode");
    let status = match mode.text()? {
        "void" => SubscriptionStatus::Paused,
        "free" => SubscriptionStatus::Active,
        _ => return Err(mode.unreadable()),
    };
    Ok((status, from.field("resumes_at").optional(JsonPath::parsed)?))
}

/// The quantity of an item: 1 for an item that is billed by usage, and for a subscription without items (as in a
/// trial).
fn quantity(item: &JsonPath<'_>) -> Result<Quantity, Unmapped> {
    let quantity = item.field("quantity");
    let by_usage = item.field("is_usage_based").flag().unwrap_or(false);
    if by_usage || item.clone().present().is_none() {
        return Ok(Quantity::ONE);
    }
    let number = u64::try_from(quantity.integer()?).unwrap_or(0);
    Quantity::new(number).map_err(|_| quantity.unreadable())
}

/// The URL of the page without its query, because the query signs in anybody who opens the URL. `None` if the URL is
/// not HTTPS.
fn without_query(url: &str) -> Option<Href> {
    let page = url.split(['?', '#']).next()?;
    page.starts_with("https://").then(|| page.parse().ok()).flatten()
}

fn invoice(object: FoundObject, from: &JsonPath<'_>) -> Result<FoundInvoice, Unmapped> {
    let reason = from.field("billing_reason");
    let status = from.field("status");
    let kind = match reason.text()? {
        "initial" => PaymentKind::Initial,
        "renewal" => PaymentKind::Renewal,
        "updated" => PaymentKind::Proration,
        _ => return Err(reason.unreadable()),
    };
    let status = match status.text()? {
        "partial_refund" | "partial_refunded" => PaymentStatus::PartiallyRefunded,
        "paid" | "refunded" if is_partly_refunded(from)? => PaymentStatus::PartiallyRefunded,
        "paid" => PaymentStatus::Succeeded,
        "void" => PaymentStatus::Canceled,
        "refunded" => PaymentStatus::Refunded,
        "pending" => PaymentStatus::Pending,
        _ => return Err(status.unreadable()),
    };
    let payment = payment(external_id("ls_inv_", &object)?, from, status)?;
    Ok(FoundInvoice {
        object,
        subscription: from.field("subscription_id").id()?,
        kind: Some(kind),
        periods: FoundPeriods::CycleFrom(from.field("created_at").parsed()?),
        payments: vec![payment.ok_or(Unmapped::ZeroAmount)?],
        unlisted_since: None,
    })
}

fn order(object: FoundObject, from: &JsonPath<'_>) -> Result<FoundOrder, Unmapped> {
    use SubscriptionStatus::{Active, Expired, Pending};
    let place = from.field("status");
    let (status, paid) = match place.text()? {
        "partial_refund" => (Active, PaymentStatus::PartiallyRefunded),
        "paid" if is_partly_refunded(from)? => (Active, PaymentStatus::PartiallyRefunded),
        "paid" => (Active, PaymentStatus::Succeeded),
        "pending" => (Pending, PaymentStatus::Pending),
        "failed" => (Expired, PaymentStatus::Failed),
        "refunded" => (Expired, PaymentStatus::Refunded),
        "fraudulent" => (Expired, PaymentStatus::Disputed),
        _ => return Err(place.unreadable()),
    };
    let external_id = external_id("ls_ord_", &object)?;
    Ok(FoundOrder {
        object,
        payment: payment(external_id.clone(), from, paid)?,
        external_id,
        sold: sold(&from.field("first_order_item"))?,
        created_at: from.field("created_at").parsed()?,
        status,
    })
}

/// True if a part of the amount was refunded, but not all of it. The provider's status may still be `paid` then.
fn is_partly_refunded(from: &JsonPath<'_>) -> Result<bool, Unmapped> {
    let refunded = from.field("refunded_amount").optional(JsonPath::integer)?.unwrap_or(0);
    Ok(0 < refunded && refunded < from.field("total").integer()?)
}

/// The payment of an invoice or order; `None` if its amount is 0.
fn payment(
    external_id: ExternalId,
    from: &JsonPath<'_>,
    status: PaymentStatus,
) -> Result<Option<FoundPayment>, Unmapped> {
    let currency: Currency = from.field("currency").parsed()?;
    let total = from.field("total");
    if total.integer()? == 0 {
        return Ok(None);
    }
    let amount = money::lemon_squeezy(&total, currency, &from.field("total_formatted"))?;
    Ok(Some(FoundPayment { external_id, amount, currency, status }))
}

fn sold(from: &JsonPath<'_>) -> Result<Sold, Unmapped> {
    let id = |name| from.field(name).id().map(Some);
    Ok(Sold { price: id("variant_id")?, product: id("product_id")? })
}

/// The external id of our record: a prefix and the id of the object.
fn external_id(prefix: &str, object: &FoundObject) -> Result<ExternalId, Unmapped> {
    let unreadable = |_| Unmapped::Unreadable { path: "/id".into() };
    format!("{prefix}{}", object.id).parse().map_err(unreadable)
}
