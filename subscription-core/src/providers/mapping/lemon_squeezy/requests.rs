//! The requests to the API of Lemon Squeezy, and its pages.

use serde_json::Value;

use crate::providers::ApiPage;
use crate::providers::api::requests::Requests;
use crate::providers::mapping::finding::Unmapped;
use crate::providers::mapping::object::{ObjectId, ObjectKind, ObjectList};
use crate::providers::mapping::read::JsonPath;
use crate::values::Timestamp;

pub(in crate::providers) const REQUESTS: Requests = Requests {
    host: "https://api.lemonsqueezy.com",
    headers: &[("accept", "application/vnd.api+json")],
    object,
    object_in: |mut answer| answer.get_mut("data").map(Value::take).unwrap_or_default(),
    added: &[],
    list,
    page,
};

fn object(kind: ObjectKind, id: &ObjectId) -> Option<String> {
    let folder = match kind {
        ObjectKind::Customer => "customers",
        ObjectKind::Subscription => "subscriptions",
        ObjectKind::Invoice => "subscription-invoices",
        ObjectKind::Order => "orders",
        ObjectKind::CheckoutSession | ObjectKind::PaymentIntent => return None,
    };
    Some(format!("/v1/{folder}/{id}"))
}

/// The path and query of a page. Pages are numbered. The newest objects come first, so a new object moves others to a
/// later page, and no object is missed.
fn list(list: &ObjectList, after: Option<&str>) -> Option<String> {
    let folder = match list {
        ObjectList::Subscriptions => "subscriptions",
        ObjectList::Invoices(_) => "subscription-invoices",
        ObjectList::Orders(_) => "orders",
        ObjectList::Refunds(_)
        | ObjectList::Disputes(_)
        | ObjectList::InvoicePaymentsOf(_)
        | ObjectList::SessionsOf(_) => return None,
    };
    let number = number(after)?;
    Some(format!("/v1/{folder}?page%5Bsize%5D=100&page%5Bnumber%5D={number}&sort=-createdAt"))
}

fn number(after: Option<&str>) -> Option<u32> {
    after.map_or(Some(1), |after| after.parse().ok())
}

/// The page in a response. The API has no filter by time. So the list ends at the first page that has an object which
/// was created before the time in `list`.
fn page(list: &ObjectList, after: Option<&str>, mut answer: Value) -> Result<ApiPage, Unmapped> {
    let since = match list {
        ObjectList::Invoices(since) | ObjectList::Orders(since) => *since,
        ObjectList::Subscriptions
        | ObjectList::Refunds(_)
        | ObjectList::Disputes(_)
        | ObjectList::InvoicePaymentsOf(_)
        | ObjectList::SessionsOf(_) => Timestamp::MIN,
    };
    let root = JsonPath::root(&answer);
    let counts = root.field("meta").field("page");
    let total = counts.field("total").integer()?;
    let pages = counts.field("lastPage").integer()?;
    // An object whose time cannot be read stays in the page: the mapping of the object reports the fault.
    let is_old = |object: &JsonPath<'_>| {
        let created_at = object.field("attributes").field("created_at").parsed::<Timestamp>();
        created_at.is_ok_and(|created_at| created_at < since)
    };
    let old: Vec<bool> = root.field("data").items()?.iter().map(is_old).collect();
    let number = number(after).unwrap_or(u32::MAX);
    let ends = old.is_empty() || old.contains(&true) || i64::from(number) >= pages;
    let items = answer.get_mut("data").and_then(Value::as_array_mut).map(std::mem::take);
    let items = items.into_iter().flatten().zip(old).filter(|(_, old)| !old);
    Ok(ApiPage {
        items: items.map(|(object, _)| object).collect(),
        next: (!ends).then(|| number.saturating_add(1).to_string().into()),
        total: if since == Timestamp::MIN { u64::try_from(total).ok() } else { None },
    })
}
