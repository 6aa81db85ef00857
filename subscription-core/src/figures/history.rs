//! What was true at the end of each month, from the payments that carry a period.
//!
//! For each subscription the fold remembers which month's end each monthly amount covers, as one bit a month. The newest
//! payment that covers an end takes its bit from the others. Payments of the same amount share an entry, so that a
//! subscription has one or a few, however long it runs.

use std::collections::HashMap;

use rust_decimal::Decimal;
use serde::Serialize;
use uuid::Uuid;

use super::months::{Total, millionths, month_number, month_start, rounded, worth};
use super::now::ByCurrency;
use crate::payments::{Currency, Payment, PaymentKind, PaymentStatus};
use crate::subscriptions::Subscription;
use crate::values::clock::Timestamp;
use crate::values::decimal::Amount;

/// The largest number of months that can be shown.
pub const MONTHS_MAX: usize = 60;

/// The figures of the last months, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "docs/figures.md defines each number")]
#[non_exhaustive]
pub struct Months {
    pub as_of: Timestamp,
    pub without_period: u64,
    pub data: Vec<Month>,
}

/// The figures of a month: at its last microsecond, or at [`Months::as_of`] while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "docs/figures.md defines each number")]
#[non_exhaustive]
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

/// The recurring revenue in one currency at a month's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "docs/figures.md defines each number")]
#[non_exhaustive]
pub struct MonthMoney {
    pub currency: Currency,
    pub mrr: Total,
    pub at_risk: Total,
}

/// The payments of a month in one currency and one status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "docs/figures.md defines each number")]
#[non_exhaustive]
pub struct MonthPayments {
    pub currency: Currency,
    pub status: PaymentStatus,
    pub count: u64,
    pub amount: Total,
}

/// The bit of all months before the first that is remembered.
const EARLIER: u64 = 1 << 63;

/// A subscription and the monthly amounts that were paid for it.
#[derive(Debug)]
struct Held {
    user: Uuid,
    ends_at: i64,
    /// It was paid for at the end of a month before the first that is remembered.
    paid_earlier: bool,
    shares: Vec<Share>,
}

impl Held {
    const fn new(user: Uuid, ends_at: i64) -> Self {
        Self { user, ends_at, paid_earlier: false, shares: Vec::new() }
    }
}

/// A monthly amount, and the months whose ends it covers.
#[derive(Debug, PartialEq)]
struct Share {
    month: i128,
    currency: Currency,
    at_risk: bool,
    months: u64,
}

/// The sums of one month.
#[derive(Debug, Clone, Default)]
struct Sums {
    paying_users: u64,
    new_users: u64,
    returned_users: u64,
    churned_users: u64,
    /// The recurring revenue, and the part of it that is at risk.
    money: ByCurrency<(i128, i128)>,
    payments: ByCurrency<Vec<(PaymentStatus, u64, i128)>>,
}

/// Adds subscriptions up, and then payments in the order of their ids.
#[derive(Debug)]
pub(super) struct HistoryFold {
    as_of: Timestamp,
    /// The number of the first month, which is not shown.
    first: i32,
    /// The moments of the figures, a bit for each: the ends of the months, and `as_of`.
    moments: Vec<i64>,
    months: Vec<Sums>,
    held: HashMap<Uuid, Held, foldhash::fast::RandomState>,
    without_period: u64,
}

/// True if the period of a payment counts: it was paid, or it is for a later period and was not given up.
fn counts(payment: &Payment) -> bool {
    let later = matches!(payment.kind(), Some(PaymentKind::Renewal | PaymentKind::Proration));
    match payment.status {
        PaymentStatus::Succeeded | PaymentStatus::PartiallyRefunded | PaymentStatus::Disputed => {
            true
        }
        PaymentStatus::Pending | PaymentStatus::Processing => later,
        PaymentStatus::Failed => later && payment.next_attempt_at().is_some(),
        PaymentStatus::Canceled | PaymentStatus::Refunded => false,
    }
}

impl HistoryFold {
    pub(super) fn new(as_of: Timestamp) -> Self {
        let running = month_number(as_of.micros());
        let before = (1..=60).rev().map(|back| month_start(running - back + 1) - 1);
        let moments: Vec<_> = before.chain([as_of.micros()]).collect();
        let months = vec![Sums::default(); moments.len()];
        let (held, without_period) = (HashMap::default(), 0);
        Self { as_of, first: running - 60, moments, months, held, without_period }
    }

    pub(super) fn subscription(&mut self, held: &Subscription) {
        let ends_at = held.ends_at.map_or(i64::MAX, Timestamp::micros);
        self.held.insert(held.id.uuid(), Held::new(held.user_id.uuid(), ends_at));
    }

    pub(super) fn payment(&mut self, payment: &Payment) {
        self.without_period += u64::from(payment.asked.is_none());
        let placed = payment.period_start().unwrap_or(payment.created_at);
        let month = usize::try_from(month_number(placed.micros()) - self.first).ok();
        if let Some(month) = month.and_then(|month| self.months.get_mut(month)) {
            let (status, amount) = (payment.status, millionths(payment.amount));
            month.payments.change(Some(payment.currency), |paid| {
                match paid.iter_mut().find(|(known, ..)| *known == status) {
                    Some((_, count, sum)) => (*count, *sum) = (*count + 1, *sum + amount),
                    None => paid.push((status, 1, amount)),
                }
            });
        }
        let period = payment.period_start().zip(payment.period_end());
        let Some(((start, end), worth)) = period.zip(worth(payment)) else { return };
        let id = payment.subscription_id.uuid();
        let ends_at = self.held.get(&id).map_or(i64::MAX, |held| held.ends_at);
        let months = self.covered(start.micros(), end.micros().min(ends_at));
        if months == 0 || !counts(payment) {
            return;
        }
        let (month, currency) = (worth.millionths(), payment.currency);
        // A subscription that was deleted is a user of its own.
        let held = self.held.entry(id).or_insert_with(|| Held::new(id, ends_at));
        held.paid_earlier |= months & EARLIER != 0 && month > 0;
        let (shares, months) = (&mut held.shares, months & !EARLIER);
        shares.retain_mut(|share| {
            share.months &= !months;
            share.months != 0
        });
        let at_risk = payment.status == PaymentStatus::Failed;
        let share = Share { month, currency, at_risk, months: 0 };
        let same = |known: &Share| Share { months: 0, ..*known } == share;
        if let Some(known) = shares.iter_mut().find(|known| same(known)) {
            known.months |= months;
        } else if months != 0 {
            shares.reserve_exact(1);
            shares.push(Share { months, ..share });
        }
    }

    /// The bits of the moments from `start` on and before `end`.
    fn covered(&self, start: i64, end: i64) -> u64 {
        let before = |at: i64| (1_u64 << self.moments.partition_point(|moment| *moment < at)) - 1;
        let first_end = month_start(month_number(start) + 1) - 1;
        let is_earlier = first_end < end && self.moments.first().is_some_and(|at| first_end < *at);
        before(end) & !before(start) | if is_earlier { EARLIER } else { 0 }
    }

    pub(super) fn finish(mut self) -> Months {
        let mut users = HashMap::<Uuid, u64, foldhash::fast::RandomState>::default();
        for held in self.held.values() {
            if held.paid_earlier {
                *users.entry(held.user).or_default() |= EARLIER;
            }
            for share in held.shares.iter().filter(|share| share.month > 0) {
                *users.entry(held.user).or_default() |= share.months;
                let at_risk = if share.at_risk { share.month } else { 0 };
                add(&mut self.months, share.months, |_, sums| {
                    sums.money.change(Some(share.currency), |(mrr, risk)| {
                        (*mrr, *risk) = (*mrr + share.month, *risk + at_risk);
                    });
                });
            }
        }
        for paying in users.into_values() {
            // Bits of the months before move to the months after them; the bit of all earlier ones drops out.
            let before = paying << 1;
            add(&mut self.months, paying, |_, sums| sums.paying_users += 1);
            add(&mut self.months, before & !paying, |_, sums| sums.churned_users += 1);
            add(&mut self.months, paying & !before, |month, sums| {
                let returned = paying & (((1 << month) - 1) | EARLIER) != 0;
                sums.returned_users += u64::from(returned);
                sums.new_users += u64::from(!returned);
            });
        }
        let (mut data, mut paid_before) = (Vec::with_capacity(MONTHS_MAX), 0);
        for (number, sums) in (self.first..).zip(self.months) {
            let paying_users = sums.paying_users;
            data.push(sums.shown(number, paid_before));
            paid_before = paying_users;
        }
        if let Some(running) = data.last_mut() {
            running.complete = false;
        }
        data.remove(0);
        Months { as_of: self.as_of, without_period: self.without_period, data }
    }
}

/// Adds to the sums of those months whose bits are set.
fn add(months: &mut [Sums], mut bits: u64, mut add: impl FnMut(usize, &mut Sums)) {
    while bits != 0 {
        let month = bits.trailing_zeros() as usize;
        if let Some(sums) = months.get_mut(month) {
            add(month, sums);
        }
        bits &= bits - 1;
    }
}

impl Sums {
    /// The figures of a complete month, by its number and the paying users of the month before.
    fn shown(self, number: i32, paid_before: u64) -> Month {
        let money = self.money.sorted().filter_map(|(currency, (mrr, at_risk))| {
            let total = |sum| Total::new(sum, currency);
            Some(MonthMoney { currency: currency?, mrr: total(mrr), at_risk: total(at_risk) })
        });
        let payments = self.payments.sorted().flat_map(|(currency, mut paid)| {
            paid.sort_unstable();
            paid.into_iter().filter_map(move |(status, count, amount)| {
                let amount = Total::new(amount, currency);
                Some(MonthPayments { currency: currency?, status, count, amount })
            })
        });
        let rate = rounded(i128::from(self.churned_users) * 10_000, paid_before.into());
        let rate = Amount::try_from(Decimal::from_i128_with_scale(rate, 4)).ok();
        Month {
            month: format!("{:04}-{:02}", number.div_euclid(12), number.rem_euclid(12) + 1),
            complete: true,
            paying_users: self.paying_users,
            new_users: self.new_users,
            returned_users: self.returned_users,
            churned_users: self.churned_users,
            churn_rate: rate.filter(|_| paid_before > 0),
            money: money.collect(),
            payments: payments.collect(),
        }
    }
}
