//! Subscriptions of Stripe.

use serde_json::Value;

use super::object;
use crate::plans::{BillingCycle, CycleUnit};
use crate::providers::PauseMeans;
use crate::providers::mapping::finding::{FoundItem, FoundSubscription, Sold, Unmapped};
use crate::providers::mapping::money;
use crate::providers::mapping::read::JsonPath;
use crate::subscriptions::{Quantity, Renewal, SubscriptionStatus};
use crate::values::{Currency, Timestamp};

/// A date of an item: `At` is a moment that the subscription names, `PeriodEnd` the end of the item's own period,
/// `Kept` the date that our record already has. `Never` means that the item has no such date.
#[derive(Clone, Copy)]
enum When {
    Never,
    Kept,
    At(Timestamp),
    PeriodEnd,
}

/// The status of a subscription, with the dates that depend on it.
struct State {
    status: SubscriptionStatus,
    trial_ends_at: Option<Timestamp>,
    resumes_at: Option<Timestamp>,
    ends_at: When,
    renews_at: When,
}

/// Maps a subscription. Stripe names no page at which the subscriber manages a subscription.
pub(crate) fn subscription(
    value: &Value,
    pause: PauseMeans,
) -> Result<FoundSubscription, Unmapped> {
    let root = JsonPath::root(value);
    let state = state(&root, pause)?;
    let items = root.field("items").field("data").items()?;
    Ok(FoundSubscription {
        object: object(&root)?,
        external_id: root.field("id").parsed()?,
        former_id: None,
        status: state.status,
        starts_at: root.field("start_date").seconds()?,
        trial_ends_at: state.trial_ends_at,
        resumes_at: state.resumes_at,
        manage_url: None,
        items: items.iter().map(|it| item(&root, it, &state)).collect::<Result<_, _>>()?,
    })
}

fn state(root: &JsonPath<'_>, pause: PauseMeans) -> Result<State, Unmapped> {
    let moment = |name: &str| root.field(name).optional(JsonPath::seconds);
    let maybe = |at: Option<Timestamp>| at.map_or(When::Never, When::At);
    let state = |status, ends_at, renews_at| State {
        status,
        trial_ends_at: None,
        resumes_at: None,
        ends_at,
        renews_at,
    };
    let status = root.field("status");
    Ok(match status.text()? {
        "canceled" | "incomplete_expired" => {
            let ended_at = match moment("ended_at")?.or(moment("canceled_at")?) {
                Some(at) => at,
                None => root.field("created").seconds()?,
            };
            state(SubscriptionStatus::Expired, When::At(ended_at), When::Never)
        }
        "incomplete" => state(SubscriptionStatus::Pending, When::Never, When::PeriodEnd),
        "paused" => state(SubscriptionStatus::Paused, When::Never, When::Kept),
        // At Stripe, these subscriptions are already in the period after the unpaid renewal. Our record keeps the
        // renewal date that it already has, which is the date of the unpaid renewal.
        "past_due" => state(SubscriptionStatus::PastDue, maybe(moment("cancel_at")?), When::Kept),
        "unpaid" => state(SubscriptionStatus::Unpaid, maybe(moment("cancel_at")?), When::Kept),
        name @ ("trialing" | "active") => {
            let paused = root.field("pause_collection").present();
            let cancel_at = moment("cancel_at")?;
            if let (Some(paused), PauseMeans::Stop) = (paused, pause) {
                let resumes_at = paused.field("resumes_at").optional(JsonPath::seconds)?;
                State { resumes_at, ..state(SubscriptionStatus::Paused, When::Never, When::Kept) }
            } else if cancel_at.is_some() || root.field("cancel_at_period_end").flag()? {
                let ends_at = cancel_at.map_or(When::PeriodEnd, When::At);
                state(SubscriptionStatus::Cancelled, ends_at, When::Never)
            } else if name == "trialing" {
                let trial_end = root.field("trial_end").seconds()?;
                State {
                    trial_ends_at: Some(trial_end),
                    ..state(SubscriptionStatus::OnTrial, When::Never, When::At(trial_end))
                }
            } else {
                state(SubscriptionStatus::Active, When::Never, When::PeriodEnd)
            }
        }
        _ => return Err(status.unreadable()),
    })
}

fn item(root: &JsonPath<'_>, item: &JsonPath<'_>, state: &State) -> Result<FoundItem, Unmapped> {
    // API versions before 2025-03-31 have the period at the subscription, not at its items.
    let period = |name: &str| match root.field(name).present() {
        Some(place) if item.field(name).present().is_none() => place.seconds(),
        _ => item.field(name).seconds(),
    };
    let period_end = period("current_period_end")?;
    let price = item.field("price");
    let recurring = price.field("recurring");
    let quantity = item.field("quantity").optional(|place| {
        let quantity = u64::try_from(place.integer()?).ok().and_then(|n| Quantity::new(n).ok());
        quantity.ok_or_else(|| place.unreadable())
    })?;
    Ok(FoundItem {
        sold: Sold {
            price: Some(price.field("id").id()?),
            product: Some(price.field("product").id()?),
        },
        quantity: quantity.unwrap_or_default(),
        price: price.field("unit_amount").optional(|units| {
            let currency: Currency = price.field("currency").parsed()?;
            let amount = money::stripe(units.integer()?, currency);
            Ok((amount.ok_or_else(|| units.unreadable())?, currency))
        })?,
        billing_cycle: Some(billing_cycle(&recurring)?),
        period_start: Some(period("current_period_start")?),
        renews_at: match state.renews_at {
            When::Never => Renewal::None,
            When::Kept => Renewal::Kept,
            When::At(at) => Renewal::At(at),
            When::PeriodEnd => Renewal::At(period_end),
        },
        ends_at: match state.ends_at {
            When::Never | When::Kept => None,
            When::At(at) => Some(at),
            When::PeriodEnd => Some(period_end),
        },
    })
}

fn billing_cycle(recurring: &JsonPath<'_>) -> Result<BillingCycle, Unmapped> {
    let interval = recurring.field("interval");
    let unit = match interval.text()? {
        "day" => CycleUnit::Day,
        "week" => CycleUnit::Week,
        "month" => CycleUnit::Month,
        "year" => CycleUnit::Year,
        _ => return Err(interval.unreadable()),
    };
    let count = recurring.field("interval_count");
    let cycle =
        u16::try_from(count.integer()?).ok().and_then(|n| BillingCycle::every(n, unit).ok());
    cycle.ok_or_else(|| count.unreadable())
}
