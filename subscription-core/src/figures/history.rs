//! The figures of each month at its end, from the payments that are for a period.
//!
//! For each subscription, `HistoryFold` stores a list of monthly amounts, each with a set of bits: one bit for each
//! month whose end is covered by a payment of this amount. If several payments cover the end of a month, only the
//! newest of them counts. Payments of the same amount share an entry of the list, so a subscription needs only a few
//! entries, however long it runs.

#![expect(missing_docs, reason = "defined in the guide")]

use std::collections::HashMap;

use foldhash::fast::RandomState;
use rust_decimal::Decimal;
use serde::Serialize;
use uuid::Uuid;

use super::months::{Total, millionths, month_end, month_name, month_number, rounded, worth};
use super::now::change;
use crate::payments::{Currency, Payment, PaymentKind, PaymentStatus};
use crate::store::Direction;
use crate::subscriptions::Subscription;
use crate::values::{Amount, Timestamp};

/// The largest number of months that are returned.
pub const MONTHS_MAX: usize = 60;

/// The figures of the last months, from the oldest to the running month. `docs/figures.md` defines each number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Months {
    pub as_of: Timestamp,
    pub without_period: u64,
    pub data: Vec<Month>,
}

/// The figures of a month: at its last microsecond, or at [`Months::as_of`] while it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Month {
    pub month: String,
    pub complete: bool,
    pub paying_users: u64,
    pub new_users: u64,
    pub returned_users: u64,
    pub churned_users: u64,
    pub churn_rate: Option<Amount>,
    pub money: Vec<MonthMoney>,
    pub payments: Vec<MonthPayments>,
}

/// The monthly recurring revenue in one currency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MonthMoney {
    pub currency: Currency,
    pub mrr: Total,
    pub at_risk: Total,
}

/// The payments of a month in one currency and one status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MonthPayments {
    pub currency: Currency,
    pub status: PaymentStatus,
    pub count: u64,
    pub amount: Total,
}

/// The bit that stands for all months before the first stored month.
const EARLIER: u64 = 1 << 63;

/// The user of each subscription, and the time at which the subscription ends, in microseconds; `i64::MAX` if it has no
/// end.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(HashMap<Uuid, (Uuid, i64), RandomState>);

impl Subscriptions {
    pub(super) fn add(&mut self, held: &Subscription) {
        let ends_at = held.ends_at.map_or(i64::MAX, Timestamp::micros);
        self.0.insert(held.id.uuid(), (held.user_id.uuid(), ends_at));
    }
}

/// The monthly amounts that were paid for a subscription.
#[derive(Debug)]
struct Paid {
    /// The end of the earliest month before the first stored month that has a payment whose period contains this end,
    /// in microseconds. `i64::MAX` if all such payments are of later months.
    earliest: i64,
    shares: Vec<Share>,
    /// The months whose ends are covered by the payments that were read backwards from the newest: one bit for each
    /// month.
    by_newer: u64,
}

/// A monthly amount in millionths (`month`), and the months whose ends it covers, with one bit for each month
/// (`months`).
#[derive(Debug)]
struct Share {
    month: i128,
    currency: Currency,
    at_risk: bool,
    months: u64,
}

/// Adds up payments that are read at the same time forwards from the oldest and backwards from the newest.
#[derive(Debug)]
pub(super) struct HistoryFold {
    /// The figures of the months, with one more month at the start. The extra month is not returned, but the churn of
    /// the first returned month is computed from it.
    months: Months,
    /// The number of the first month in `months`: see `month_number`.
    first: i32,
    /// The moments of the figures: the end of each month, and `as_of` for the running month. Each moment has one bit.
    moments: Vec<i64>,
    /// The ids of the last payment that was read forwards from the oldest, and of the last that was read backwards
    /// from the newest.
    reached: (Option<Uuid>, Option<Uuid>),
    /// The paid amounts, by the id of the subscription.
    paid: HashMap<Uuid, Paid, RandomState>,
}

/// True if the period of a payment counts: the payment was made, or it is a renewal or a proration that can still be
/// paid.
fn counts(payment: &Payment) -> bool {
    use PaymentStatus::{
        Canceled, Disputed, Failed, PartiallyRefunded, Pending, Processing, Refunded, Succeeded,
    };
    let is_later = matches!(payment.kind(), Some(PaymentKind::Renewal | PaymentKind::Proration));
    match payment.status {
        Succeeded | PartiallyRefunded | Disputed => true,
        Pending | Processing => is_later,
        Failed => is_later && payment.next_attempt_at().is_some(),
        Canceled | Refunded => false,
    }
}

impl HistoryFold {
    pub(super) fn new(as_of: Timestamp) -> Self {
        let running = month_number(as_of.micros());
        let numbers = running - 60..=running;
        let data = numbers.clone().map(|number| Month {
            month: month_name(number),
            complete: number != running,
            ..Month::default()
        });
        let months = Months { as_of, without_period: 0, data: data.collect() };
        let moments = numbers.map(|number| month_end(number).min(as_of.micros())).collect();
        Self {
            months,
            first: running - 60,
            moments,
            reached: (None, None),
            paid: HashMap::default(),
        }
    }

    /// Adds a payment that is read in the direction `way`. Returns false if the payment was already added by the
    /// reading in the other direction.
    pub(super) fn payment(&mut self, payment: &Payment, way: Direction) -> bool {
        let (id, (oldest, newest)) = (payment.id.uuid(), &mut self.reached);
        if oldest.is_some_and(|to| id <= to) || newest.is_some_and(|to| to <= id) {
            return false;
        }
        *(if way == Direction::Ascending { oldest } else { newest }) = Some(id);
        let currency = payment.currency;
        let status = payment.status;
        self.months.without_period += u64::from(payment.asked.is_none());
        let begun = payment.period_start().unwrap_or(payment.created_at);
        let number = month_number(begun.micros());
        let nth = usize::try_from(number - self.first).ok();
        if let Some(month) = nth.and_then(|nth| self.months.data.get_mut(nth)) {
            let is = |paid: &MonthPayments| (paid.currency, paid.status) == (currency, status);
            let amount = Total::new(0, Some(currency));
            let new = || MonthPayments { currency, status, count: 0, amount };
            change(&mut month.payments, is, new, |paid| {
                paid.count += 1;
                paid.amount.add(millionths(payment.amount));
            });
        }
        let Some((end, worth)) = payment.period_end().zip(worth(payment)) else { return true };
        if !counts(payment) {
            return true;
        }
        let id = payment.subscription_id.uuid();
        let month = worth.millionths();
        let begun = begun.micros();
        let end = end.micros();
        let none = || Paid { earliest: i64::MAX, shares: Vec::new(), by_newer: 0 };
        let paid = self.paid.entry(id).or_insert_with(none);
        if month > 0 && number < self.first && month_end(number) < end {
            paid.earliest = paid.earliest.min(month_end(number));
        }
        let months = bits_before(&self.moments, end) & !bits_before(&self.moments, begun);
        let months = months & !paid.by_newer;
        let at_risk = status == PaymentStatus::Failed;
        if months == 0 {
            return true;
        }
        paid.by_newer |= if way == Direction::Descending { months } else { 0 };
        paid.shares.iter_mut().for_each(|share| share.months &= !months);
        paid.shares.retain(|share| share.months != 0);
        let is = |share: &Share| {
            (share.month, share.currency, share.at_risk) == (month, currency, at_risk)
        };
        let new = || Share { month, currency, at_risk, months: 0 };
        change(&mut paid.shares, is, new, |share| share.months |= months);
        true
    }

    pub(super) fn finish(self, subscriptions: &Subscriptions) -> Months {
        let mut months = self.months;
        let mut users = HashMap::<_, u64, RandomState>::default();
        let data = &mut months.data;
        for (id, paid) in &self.paid {
            // The user of a deleted subscription is not known: the id of the subscription stands for a user.
            let (user, ends_at) = subscriptions.0.get(id).copied().unwrap_or((*id, i64::MAX));
            let paying = users.entry(user).or_default();
            *paying |= if paid.earliest < ends_at { EARLIER } else { 0 };
            for share in paid.shares.iter().filter(|share| share.month > 0) {
                let months = share.months & bits_before(&self.moments, ends_at);
                *paying |= months;
                let currency = share.currency;
                let zero = Total::new(0, Some(share.currency));
                let new = || MonthMoney { currency, mrr: zero, at_risk: zero };
                each(data, months, |_, month| {
                    change(
                        &mut month.money,
                        |money| money.currency == currency,
                        new,
                        |money| {
                            money.mrr.add(share.month);
                            money.at_risk.add(if share.at_risk { share.month } else { 0 });
                        },
                    );
                });
            }
        }
        for paying in users.into_values() {
            // In `before`, the bit of a month is set if the user paid in the month before it: the shift moves each bit
            // to the next month, and drops the bit `EARLIER`.
            let before = paying << 1;
            each(data, paying, |_, month| month.paying_users += 1);
            each(data, before & !paying, |_, month| month.churned_users += 1);
            each(data, paying & !before, |nth, month| {
                let has_paid = paying & (((1 << nth) - 1) | EARLIER) != 0;
                month.returned_users += u64::from(has_paid);
                month.new_users += u64::from(!has_paid);
            });
        }
        let mut before = 0;
        for month in data.iter_mut() {
            let rate = rounded(i128::from(month.churned_users) * 10_000, before);
            let rate = Amount::try_from(Decimal::from_i128_with_scale(rate, 4)).ok();
            month.churn_rate = rate.filter(|_| before > 0);
            before = month.paying_users.into();
            month.money.sort_by_key(|money| money.currency.code());
            month.payments.sort_by_key(|paid| (paid.currency.code(), paid.status));
        }
        data.remove(0);
        months
    }
}

/// The bits of the moments that lie before `at`.
fn bits_before(moments: &[i64], at: i64) -> u64 {
    (1 << moments.partition_point(|moment| *moment < at)) - 1
}

/// Calls `change` with each month whose bit is set, and the index of the month in `months`.
fn each(months: &mut [Month], bits: u64, mut change: impl FnMut(usize, &mut Month)) {
    let mut bits = bits & !EARLIER;
    while bits != 0 {
        let nth = bits.trailing_zeros() as usize;
        months.get_mut(nth).into_iter().for_each(|month| change(nth, month));
        bits &= bits - 1;
    }
}
