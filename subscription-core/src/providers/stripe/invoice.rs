//! Invoices of Stripe and their payments.

use serde_json::Value;

use super::object;
use crate::payments::{PaymentKind, PaymentStatus};
use crate::providers::finding::{FoundInvoice, FoundPayment, FoundPeriods, Sold, Unmapped};
use crate::providers::money;
use crate::providers::object::ObjectId;
use crate::providers::read::Place;
use crate::values::clock::Timestamp;

/// Maps an invoice with its payments, their intents and charges, and the added field `disputes`.
pub(super) fn invoice(value: &Value) -> Result<FoundInvoice, Unmapped> {
    let root = Place::root(value);
    let parent = root.field("parent").field("subscription_details").field("subscription");
    // The second place is the one before 2025-03-31.
    let subscription = parent.present().or_else(|| root.field("subscription").present());
    let found = FoundInvoice {
        object: object(&root)?,
        subscription: subscription.ok_or(Unmapped::NotASubscription)?.id()?,
        kind: match root.field("billing_reason").optional(Place::text)? {
            Some("subscription_create") => Some(PaymentKind::Initial),
            Some("subscription_cycle") => Some(PaymentKind::Renewal),
            Some("subscription_update") => Some(PaymentKind::Proration),
            _ => None,
        },
        periods: FoundPeriods::Lines(lines(&root)?),
        payments: payments(&root)?,
    };
    if found.payments.is_empty() { Err(Unmapped::ZeroAmount) } else { Ok(found) }
}

/// The periods of the lines that have a price, those of prorations last.
fn lines(root: &Place<'_>) -> Result<Vec<(Sold, Timestamp, Timestamp)>, Unmapped> {
    let mut lines = Vec::new();
    for line in root.field("lines").field("data").items()? {
        let details = line.field("pricing").field("price_details");
        // The second places are those before 2025-03-31.
        let (price, product) = match (details.present(), line.field("price").present()) {
            (Some(details), _) => (details.field("price"), details.field("product")),
            (None, Some(price)) => (price.field("id"), price.field("product")),
            (None, None) => continue,
        };
        let parent = line.field("parent");
        let mut proration = ["subscription_item_details", "invoice_item_details"]
            .map(|details| parent.field(details).field("proration"))
            .into_iter()
            .chain([line.field("proration")])
            .filter_map(Place::present);
        let proration = proration.next().is_some_and(|place| place.flag() == Ok(true));
        let sold = Sold { price: Some(price.id()?), product: Some(product.id()?) };
        let period = line.field("period");
        let (start, end) = (period.field("start").seconds()?, period.field("end").seconds()?);
        lines.push((proration, (sold, start, end)));
    }
    lines.sort_by_key(|(proration, _)| *proration);
    Ok(lines.into_iter().map(|(_, line)| line).collect())
}

/// The payments of an invoice whose amount is not 0.
fn payments(root: &Place<'_>) -> Result<Vec<FoundPayment>, Unmapped> {
    let invoice_status = one_of(&root.field("status"), &INVOICE)?;
    let disputes = root.field("disputes").optional(Place::items)?.unwrap_or_default();
    let entries = match root.field("payments").present() {
        Some(list) => {
            let list = list.field("data").present().unwrap_or(list);
            list.items()?.iter().map(Entry::read).collect::<Result<_, _>>()?
        }
        None => Entry::read_from_invoice(root)?,
    };
    let mut payments = Vec::new();
    let mut out_of_band = if invoice_status != "paid" {
        0
    } else if root.field("paid_out_of_band").optional(Place::flag)? == Some(true) {
        root.field("amount_due").integer()?
    } else {
        root.field("amount_paid").integer()?
    };
    for entry in entries {
        let status = entry.status(invoice_status, &disputes)?;
        let units = entry.units.integer()?;
        if status.is_settled() {
            out_of_band = out_of_band.saturating_sub(units);
        }
        payments.extend(payment(&entry.id, units, &entry.units, &entry.currency, status)?);
    }
    // The rest was paid outside of Stripe, and has no id of its own.
    if out_of_band > 0 {
        let (id, paid) = (root.field("id").id()?, root.field("amount_paid"));
        let currency = root.field("currency");
        payments.extend(payment(&id, out_of_band, &paid, &currency, PaymentStatus::Succeeded)?);
    }
    Ok(payments)
}

/// A payment; `None` if its amount is 0.
fn payment(
    id: &ObjectId,
    units: i64,
    place: &Place<'_>,
    currency: &Place<'_>,
    status: PaymentStatus,
) -> Result<Option<FoundPayment>, Unmapped> {
    let currency = currency.parsed()?;
    let amount = money::stripe(units, currency).ok_or_else(|| place.unreadable())?;
    let external_id = id.as_str().parse().map_err(|_| place.unreadable())?;
    let payment = FoundPayment { external_id, amount, currency, status };
    Ok((!amount.value().is_zero()).then_some(payment))
}

/// A payment of an invoice, with its intent or charge.
struct Entry<'a> {
    id: ObjectId,
    intent: Option<Place<'a>>,
    charge: Option<Place<'a>>,
    /// The status of the invoice payment: none before 2025-03-31.
    status: Option<Place<'a>>,
    units: Place<'a>,
    currency: Place<'a>,
}

impl<'a> Entry<'a> {
    /// An entry of the list `payments`.
    fn read(entry: &Place<'a>) -> Result<Self, Unmapped> {
        let payment = entry.field("payment");
        let intent = payment.field("payment_intent").present();
        let charge = payment.field("charge").present();
        let record = payment.field("payment_record").present();
        let named = intent.as_ref().or(charge.as_ref()).or(record.as_ref());
        Ok(Self {
            id: named.ok_or_else(|| payment.unreadable())?.id()?,
            charge: charge.or_else(|| intent.as_ref()?.field("latest_charge").present()),
            intent,
            status: Some(entry.field("status")),
            units: entry
                .field("amount_paid")
                .present()
                .unwrap_or_else(|| entry.field("amount_requested")),
            currency: entry.field("currency"),
        })
    }

    /// The one payment of an invoice before 2025-03-31; none if nothing was to be paid, or elsewhere.
    fn read_from_invoice(root: &Place<'a>) -> Result<Vec<Self>, Unmapped> {
        let (intent, charge) =
            (root.field("payment_intent").present(), root.field("charge").present());
        let (due, paid) = (root.field("amount_due"), root.field("amount_paid"));
        let Some(named) = intent.as_ref().or(charge.as_ref()) else {
            let elsewhere = root.field("paid_out_of_band").optional(Place::flag)? == Some(true);
            let none = elsewhere || due.integer()? == 0;
            return if none { Ok(Vec::new()) } else { Err(root.field("payments").unreadable()) };
        };
        Ok(vec![Self {
            id: named.id()?,
            charge: charge.or_else(|| intent.as_ref()?.field("latest_charge").present()),
            intent,
            status: None,
            units: if paid.integer()? == 0 { due } else { paid },
            currency: root.field("currency"),
        }])
    }

    fn status(
        &self,
        invoice_status: &str,
        disputes: &[Place<'_>],
    ) -> Result<PaymentStatus, Unmapped> {
        let intent = self.intent.as_ref().map(|intent| one_of(&intent.field("status"), &INTENT));
        let intent = intent.transpose()?;
        let entry = self.status.as_ref().map(|status| one_of(status, &ENTRY)).transpose()?;
        let paid = entry.unwrap_or(invoice_status) == "paid";
        if let Some(charge) = &self.charge {
            let refunded_units = charge.field("amount_refunded").integer()?;
            let dispute = Dispute::of(charge, disputes)?;
            if dispute == Dispute::Open {
                return Ok(PaymentStatus::Disputed);
            } else if dispute == Dispute::Lost || charge.field("refunded").flag()? {
                return Ok(PaymentStatus::Refunded);
            } else if refunded_units > 0 {
                return Ok(PaymentStatus::PartiallyRefunded);
            }
        }
        let failed = |intent: &Place<'_>| intent.field("last_payment_error").present().is_some();
        Ok(match intent {
            Some("succeeded") => PaymentStatus::Succeeded,
            _ if paid => PaymentStatus::Succeeded,
            Some("processing") => PaymentStatus::Processing,
            Some("canceled") => PaymentStatus::Canceled,
            _ if entry == Some("canceled") || invoice_status == "void" => PaymentStatus::Canceled,
            _ if invoice_status == "uncollectible" => PaymentStatus::Failed,
            Some("requires_payment_method") if self.intent.as_ref().is_some_and(failed) => {
                PaymentStatus::Failed
            }
            _ => PaymentStatus::Pending,
        })
    }
}

/// The statuses of an invoice.
const INVOICE: [&str; 5] = ["draft", "open", "paid", "uncollectible", "void"];
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
/// The statuses of an invoice payment.
const ENTRY: [&str; 3] = ["open", "paid", "canceled"];

/// The text, if it is one of these.
fn one_of<'a>(place: &Place<'a>, names: &[&str]) -> Result<&'a str, Unmapped> {
    let text = place.text()?;
    if names.contains(&text) { Ok(text) } else { Err(place.unreadable()) }
}

/// The disputes of a charge, taken together.
#[derive(Clone, Copy, PartialEq)]
enum Dispute {
    None,
    Lost,
    Open,
}

impl Dispute {
    fn of(charge: &Place<'_>, disputes: &[Place<'_>]) -> Result<Self, Unmapped> {
        // The flag stays when the dispute is over, so the disputes decide.
        if !charge.field("disputed").flag()? {
            return Ok(Self::None);
        }
        let id = charge.id()?;
        let mut found = Vec::new();
        for dispute in disputes {
            if dispute.field("charge").id()? == id {
                let status = dispute.field("status");
                found.push(match status.text()? {
                    "needs_response" | "under_review" => Self::Open,
                    "warning_needs_response" | "warning_under_review" => Self::Open,
                    "lost" => Self::Lost,
                    "won" | "warning_closed" | "prevented" => Self::None,
                    _ => return Err(status.unreadable()),
                });
            }
        }
        let lost = if found.contains(&Self::Lost) { Self::Lost } else { Self::None };
        Ok(if found.is_empty() || found.contains(&Self::Open) { Self::Open } else { lost })
    }
}
