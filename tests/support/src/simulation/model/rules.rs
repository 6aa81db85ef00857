//! A second, independent implementation of the rules of the domain.
//!
//! The rules come from the description of the interface, as data if possible. They call no code that they check.

use chrono::{DateTime, Datelike, Months, Utc};
use subscription_core::plans::CycleUnit;
use subscription_core::{BillingCycle, Subscription, Timestamp};

type Moves = [(&'static str, &'static [&'static str])];

pub(in super::super) const SUBSCRIPTION_MOVES: &Moves = &[
    ("pending", &["on_trial", "active", "expired"]),
    ("on_trial", &["active", "past_due", "paused", "cancelled", "expired"]),
    ("active", &["past_due", "paused", "cancelled", "expired"]),
    ("past_due", &["active", "unpaid", "paused", "cancelled", "expired"]),
    ("unpaid", &["active", "cancelled", "expired"]),
    ("paused", &["active", "past_due", "cancelled", "expired"]),
    ("cancelled", &["active", "on_trial", "expired"]),
    ("expired", &[]),
];

pub(in super::super) const PAYMENT_MOVES: &Moves = &[
    ("pending", &["processing", "succeeded", "failed", "canceled"]),
    ("processing", &["succeeded", "failed", "canceled"]),
    ("failed", &["pending", "processing", "succeeded", "canceled"]),
    ("succeeded", &["partially_refunded", "refunded", "disputed", "failed"]),
    ("partially_refunded", &["refunded", "disputed"]),
    ("disputed", &["succeeded", "partially_refunded", "refunded"]),
    ("canceled", &[]),
    ("refunded", &[]),
];

/// The states that grant access, from the start until the end.
const GRANTING: [&str; 4] = ["on_trial", "active", "past_due", "cancelled"];

/// The states of a payment that has been paid.
pub(in super::super) const SETTLED: [&str; 4] =
    ["succeeded", "partially_refunded", "refunded", "disputed"];

/// The states that may follow `from`.
pub(in super::super) fn moves(table: &Moves, from: &str) -> &'static [&'static str] {
    table.iter().find(|(state, _)| *state == from).map_or(&[], |(_, next)| next)
}

/// True if `subscription` grants access at `now`, or would if it were not blocked.
pub(in super::super) fn grants(subscription: &Subscription, now: Timestamp) -> bool {
    // A time before the last write of the record counts as the time of that write.
    let now = now.max(subscription.updated_at);
    may_grant(subscription)
        && subscription.starts_at <= now
        && subscription.ends_at.is_none_or(|end| now < end)
}

/// True if `subscription` grants access from its start until its end.
pub(in super::super) fn may_grant(subscription: &Subscription) -> bool {
    GRANTING.contains(&subscription.status.as_str())
}

/// True if `subscription` grants access at `now`.
pub(in super::super) fn is_active(subscription: &Subscription, now: Timestamp) -> bool {
    !subscription.blocked && grants(subscription, now)
}

/// The subscription with the access that it grants at `now`.
pub(in super::super) fn shown(subscription: &Subscription, now: Timestamp) -> Subscription {
    Subscription { is_active: is_active(subscription, now), ..subscription.clone() }
}

/// The start of period `number`, counted from the anchor.
pub(in super::super) fn period_start(
    anchor: Timestamp,
    cycle: BillingCycle,
    number: u32,
) -> Option<Timestamp> {
    const DAY_MICROS: i64 = 86_400_000_000;
    let (unit, count) = cycle.length()?;
    let units = number.checked_mul(u32::from(count))?;
    match unit {
        CycleUnit::Day => later(anchor, DAY_MICROS.checked_mul(units.into())?),
        CycleUnit::Week => later(anchor, (7 * DAY_MICROS).checked_mul(units.into())?),
        CycleUnit::Month => months_later(anchor, units),
        CycleUnit::Year => months_later(anchor, units.checked_mul(12)?),
    }
}

/// True if a period starts at `at`. Always true for a cycle that is paid once, because it has no periods.
pub(in super::super) fn on_grid(anchor: Timestamp, cycle: BillingCycle, at: Timestamp) -> bool {
    let Some((unit, count)) = cycle.length() else { return true };
    let (from, to): (DateTime<Utc>, DateTime<Utc>) = (anchor.into(), at.into());
    let months =
        (to.year() - from.year()) * 12 + to.month().cast_signed() - from.month().cast_signed();
    let units = match unit {
        CycleUnit::Day => (to - from).num_days(),
        CycleUnit::Week => (to - from).num_days() / 7,
        CycleUnit::Month => months.into(),
        CycleUnit::Year => (months / 12).into(),
    };
    let nearest = u32::try_from(units / i64::from(count)).ok();
    at >= anchor && nearest.and_then(|k| period_start(anchor, cycle, k)) == Some(at)
}

/// The first start of a period after `at`. Periods are counted from the anchor. If `at` is before the anchor, this is
/// the anchor.
pub(in super::super) fn next_period(
    anchor: Timestamp,
    cycle: BillingCycle,
    at: Timestamp,
) -> Option<Timestamp> {
    if at < anchor {
        return Some(anchor);
    }
    // This is a binary search, because there are too many periods to count them one by one.
    let (mut low, mut high) = (0, u32::MAX);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match period_start(anchor, cycle, middle) {
            Some(start) if start <= at => low = middle,
            Some(_) | None => high = middle,
        }
    }
    period_start(anchor, cycle, high)
}

/// The moment from which the periods of a subscription are counted.
pub(in super::super) fn anchor(subscription: &Subscription) -> Timestamp {
    subscription.anchor_at.unwrap_or(subscription.starts_at)
}

fn later(at: Timestamp, micros: i64) -> Option<Timestamp> {
    Timestamp::from_micros(at.micros().checked_add(micros)?).ok()
}

fn months_later(at: Timestamp, months: u32) -> Option<Timestamp> {
    let moved = DateTime::<Utc>::from(at).checked_add_months(Months::new(months))?;
    Timestamp::try_from(moved).ok()
}
