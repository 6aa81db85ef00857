//! Invoices of Stripe and their payments.

use serde_json::Value;

use super::object;
use crate::payments::{PaymentKind, PaymentStatus};
use crate::providers::mapping::finding::{
    FoundInvoice, FoundPayment, FoundPeriods, Sold, Unmapped,
};
use crate::providers::mapping::money;
use crate::providers::mapping::read::JsonPath;
use crate::values::Timestamp;

/// Maps an invoice with its payments, their intents and charges, and with the field `disputes`, which an invoice of
/// Stripe does not have: our client of Stripe's API adds it.
pub(crate) fn invoice(value: &Value) -> Result<FoundInvoice, Unmapped> {
    let root = JsonPath::root(value);
    let parent = root.field("parent").field("subscription_details").field("subscription");
    // API versions before 2025-03-31 name the subscription in the second of these two fields.
    let subscription = parent.present().or_else(|| root.field("subscription").present());
    let (payments, is_listed) = payments(&root)?;
    let paid_at = root.field("status_transitions").field("paid_at");
    let found = FoundInvoice {
        object: object(&root)?,
        subscription: subscription.ok_or(Unmapped::NotASubscription)?.id()?,
        kind: match root.field("billing_reason").optional(JsonPath::text)? {
            Some("subscription_create") => Some(PaymentKind::Initial),
            Some("subscription_cycle") => Some(PaymentKind::Renewal),
            Some("subscription_update") => Some(PaymentKind::Proration),
            _ => None,
        },
        periods: FoundPeriods::Lines(lines(&root)?),
        payments,
        unlisted_since: if is_listed { None } else { paid_at.optional(JsonPath::seconds)? },
    };
    if found.payments.is_empty() { Err(Unmapped::ZeroAmount) } else { Ok(found) }
}

/// The lines that have a price: the item sold, and the start and the end of the period. Lines of prorations come last:
/// if several lines are for one plan, the caller uses the first of them.
fn lines(root: &JsonPath<'_>) -> Result<Vec<(Sold, Timestamp, Timestamp)>, Unmapped> {
    let mut lines = Vec::new();
    for line in root.field("lines").field("data").items()? {
        let details = line.field("pricing").field("price_details").present();
        // API versions before 2025-03-31 have the price and the product in the field `price` of the line.
        let (price, product) = match (details, line.field("price").present()) {
            (Some(details), _) => (details.field("price"), details.field("product")),
            (None, Some(price)) => (price.field("id"), price.field("product")),
            (None, None) => continue,
        };
        let parent = line.field("parent");
        let proration = [
            parent.field("subscription_item_details"),
            parent.field("invoice_item_details"),
            line.clone(),
        ]
        .iter()
        .any(|place| place.field("proration").flag() == Ok(true));
        let sold = Sold { price: Some(price.id()?), product: Some(product.id()?) };
        let period = line.field("period");
        let start = period.field("start").seconds()?;
        let end = period.field("end").seconds()?;
        lines.push((proration, (sold, start, end)));
    }
    lines.sort_by_key(|(proration, _)| *proration);
    Ok(lines.into_iter().map(|(_, line)| line).collect())
}

/// The payments of an invoice, without those that have the amount 0. The flag is true if the list of payments accounts
/// for all money that was paid.
fn payments(root: &JsonPath<'_>) -> Result<(Vec<FoundPayment>, bool), Unmapped> {
    let invoice =
        one_of(&root.field("status"), &["draft", "open", "paid", "uncollectible", "void"])?;
    let disputes = root.field("disputes").optional(JsonPath::items)?.unwrap_or_default();
    let mut elsewhere = match root.field("paid_out_of_band").optional(JsonPath::flag)? {
        _ if invoice != "paid" => 0,
        Some(true) => root.field("amount_due").integer()?,
        _ => root.field("amount_paid").integer()?,
    };
    let mut payments = Vec::new();
    for entry in entries(root)? {
        let status = entry.status(invoice, &disputes)?;
        let units = entry.units.integer()?;
        if status.is_settled() {
            elsewhere = elsewhere.saturating_sub(units);
        }
        payments.extend(payment(&entry.named, &entry.place, units, status)?);
    }
    // The list does not account for the rest of the money, for example because the rest was paid outside of Stripe. A
    // payment of the rest is added, with the id of the invoice.
    if elsewhere > 0 {
        payments.extend(payment(root, root, elsewhere, PaymentStatus::Succeeded)?);
    }
    Ok((payments, elsewhere <= 0))
}

/// A payment of `units` in the smallest unit of the currency. Its id is that of the object `named`, its currency that
/// of the object `place`. `None` if the amount is 0.
fn payment(
    named: &JsonPath<'_>,
    place: &JsonPath<'_>,
    units: i64,
    status: PaymentStatus,
) -> Result<Option<FoundPayment>, Unmapped> {
    let currency = place.field("currency").parsed()?;
    let amount = money::stripe(units, currency);
    let amount = amount.ok_or_else(|| place.field("amount_paid").unreadable())?;
    let external_id = named.id()?.as_str().parse().map_err(|_| named.unreadable())?;
    let payment = FoundPayment { external_id, amount, currency, status };
    Ok((!amount.is_zero()).then_some(payment))
}

/// A payment of an invoice, as the fields of Stripe's objects from which it is read.
struct Entry<'a> {
    /// The object that has the amount and the currency: Stripe's invoice payment, or the invoice itself in API versions
    /// before 2025-03-31.
    place: JsonPath<'a>,
    /// The status of the invoice payment; `None` in API versions before 2025-03-31.
    status: Option<&'a str>,
    units: JsonPath<'a>,
    /// The payment intent, charge or payment record. Its id becomes the external id of our payment.
    named: JsonPath<'a>,
    intent: Option<JsonPath<'a>>,
    charge: Option<JsonPath<'a>>,
}

/// The payments of an invoice, from its list of payments. Before API version 2025-03-31 an invoice has no such list,
/// and names at most one payment: the result is then that payment.
fn entries<'a>(root: &JsonPath<'a>) -> Result<Vec<Entry<'a>>, Unmapped> {
    let list = root.field("payments");
    let read =
        |place: &JsonPath<'a>, payment: &JsonPath<'a>, status: Option<&'a str>, unpaid: &str| {
            let intent = payment.field("payment_intent").present();
            let charge = payment.field("charge").present();
            let record = payment.field("payment_record").present();
            let named = intent.as_ref().or(charge.as_ref()).or(record.as_ref()).cloned()?;
            let paid = place.field("amount_paid").present();
            let paid = paid.filter(|paid| status.is_some() || paid.integer() != Ok(0));
            Some(Entry {
                units: paid.unwrap_or_else(|| place.field(unpaid)),
                charge: charge.or_else(|| intent.as_ref()?.field("latest_charge").present()),
                place: place.clone(),
                status,
                named,
                intent,
            })
        };
    if list.clone().present().is_none() {
        let entry = read(root, root, None, "amount_due");
        let elsewhere = root.field("paid_out_of_band").flag() == Ok(true);
        return match entry {
            None if !elsewhere && root.field("amount_due").integer()? != 0 => {
                Err(list.unreadable())
            }
            entry => Ok(entry.into_iter().collect()),
        };
    }
    let entry = |place: &JsonPath<'a>| {
        let payment = place.field("payment");
        let status = one_of(&place.field("status"), &["open", "paid", "canceled"])?;
        read(place, &payment, Some(status), "amount_requested").ok_or_else(|| payment.unreadable())
    };
    list.field("data").present().unwrap_or(list).items()?.iter().map(entry).collect()
}

impl Entry<'_> {
    fn status(&self, invoice: &str, disputes: &[JsonPath<'_>]) -> Result<PaymentStatus, Unmapped> {
        if let Some(charge) = &self.charge {
            let dispute = disputed(charge, disputes)?;
            let refunded = charge.field("refunded").flag()?;
            let units = charge.field("amount_refunded").integer()?;
            match dispute {
                Some(PaymentStatus::Disputed) => return Ok(PaymentStatus::Disputed),
                Some(_) => return Ok(PaymentStatus::Refunded),
                None if refunded => return Ok(PaymentStatus::Refunded),
                None if units > 0 => return Ok(PaymentStatus::PartiallyRefunded),
                None => {}
            }
        }
        let intent = self.intent.as_ref().map(|intent| one_of(&intent.field("status"), &INTENT));
        let declined =
            |intent: &JsonPath<'_>| intent.field("last_payment_error").present().is_some();
        let declined = self.intent.as_ref().is_some_and(declined);
        Ok(match intent.transpose()? {
            Some("succeeded") => PaymentStatus::Succeeded,
            _ if self.status.unwrap_or(invoice) == "paid" => PaymentStatus::Succeeded,
            Some("processing") => PaymentStatus::Processing,
            Some("canceled") => PaymentStatus::Canceled,
            _ if self.status == Some("canceled") || invoice == "void" => PaymentStatus::Canceled,
            _ if invoice == "uncollectible" => PaymentStatus::Failed,
            Some("requires_payment_method") if declined => PaymentStatus::Failed,
            _ => PaymentStatus::Pending,
        })
    }
}

/// The statuses of a payment intent.
const INTENT: [&str; 7] = [
    "succeeded",
    "processing",
    "canceled",
    "requires_payment_method",
    "requires_confirmation",
    "requires_action",
    "requires_capture",
];

/// `Disputed` if a dispute of the charge is open, `Refunded` if a dispute is lost, otherwise `None`. The flag
/// `disputed` of the charge remains true after its disputes are over, so the statuses of the disputes decide. If the
/// flag is true, but the list `disputes` has no dispute of the charge, the result is `Disputed`.
fn disputed(
    charge: &JsonPath<'_>,
    disputes: &[JsonPath<'_>],
) -> Result<Option<PaymentStatus>, Unmapped> {
    if !charge.field("disputed").flag()? {
        return Ok(None);
    }
    let mut found = Vec::new();
    for dispute in disputes {
        if dispute.field("charge").id()? == charge.id()? {
            let status = dispute.field("status");
            found.push(match status.text()? {
                "needs_response"
                | "under_review"
                | "warning_needs_response"
                | "warning_under_review" => Some(PaymentStatus::Disputed),
                "lost" => Some(PaymentStatus::Refunded),
                "won" | "warning_closed" | "prevented" => None,
                _ => return Err(status.unreadable()),
            });
        }
    }
    // An open dispute takes precedence over a lost one: `Disputed` is greater than `Refunded`, and both are greater
    // than `None`.
    Ok(found.into_iter().max().unwrap_or(Some(PaymentStatus::Disputed)))
}

/// The text at `place`, if it is one of `names`.
fn one_of<'a>(place: &JsonPath<'a>, names: &[&str]) -> Result<&'a str, Unmapped> {
    let text = place.text()?;
    if names.contains(&text) { Ok(text) } else { Err(place.unreadable()) }
}
