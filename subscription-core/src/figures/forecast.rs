//! The forecast: the payments that the clock will create in the next months, if every payment succeeds.
//!
//! The rules of billing compute the future steps of each subscription, and `ForecastFold` adds up the payments that
//! these steps create. Nothing is estimated.

#![expect(missing_docs, reason = "defined in the guide")]

use std::collections::BTreeMap;

use serde::Serialize;

use super::months::{Total, millionths, month_end, month_name, month_number};
use super::now::change;
use crate::payments::Currency;
use crate::service::Rules;
use crate::subscriptions::{ManagedBy, Subscription, SubscriptionStatus};
use crate::values::Timestamp;

/// The number of months of a forecast, including the running month.
pub const FORECAST_MONTHS: i32 = 12;

/// The payments that the clock will create, by month. `docs/figures.md` defines each number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Forecast {
    pub as_of: Timestamp,
    pub until: Timestamp,
    pub not_included: BTreeMap<ManagedBy, u64>,
    pub data: Vec<ForecastMonth>,
}

/// The payments for periods that begin in a month.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForecastMonth {
    pub month: String,
    pub complete: bool,
    pub money: Vec<ForecastMoney>,
}

/// The payments of a month in one currency, by the status of their subscription at [`Forecast::as_of`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForecastMoney {
    pub currency: Currency,
    pub contracted: ForecastSum,
    pub at_risk: ForecastSum,
    pub trial: ForecastSum,
}

/// A number of payments, and their sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ForecastSum {
    pub count: u64,
    pub amount: Total,
}

/// Adds up the payments that the subscriptions will have.
#[derive(Debug)]
pub(super) struct ForecastFold {
    forecast: Forecast,
    /// The number of the running month: see `month_number`.
    running: i32,
}

impl ForecastFold {
    pub(super) fn new(as_of: Timestamp) -> Self {
        let running = month_number(as_of.micros());
        let end = running + FORECAST_MONTHS;
        let data = (running..end).map(|number| ForecastMonth {
            month: month_name(number),
            complete: number != running,
            money: Vec::new(),
        });
        let until = Timestamp::from_micros(month_end(end - 1)).unwrap_or(Timestamp::MAX);
        let not_included = [(ManagedBy::Caller, 0), (ManagedBy::Provider, 0)].into();
        Self { forecast: Forecast { as_of, until, not_included, data: data.collect() }, running }
    }

    /// Adds the payments that the clock will create for a subscription.
    pub(super) fn subscription(&mut self, held: &Subscription, rules: &dyn Rules) {
        use SubscriptionStatus::{Expired, OnTrial, PastDue, Pending};
        let Self { forecast, running } = self;
        if let Some(count) = forecast.not_included.get_mut(&held.managed_by) {
            *count += u64::from(held.status != Expired);
            return;
        }
        let is_pending = held.status == Pending;
        let part: fn(&mut ForecastMoney) -> &mut ForecastSum = if held.status == OnTrial
            || is_pending && held.trial_ends_at().is_some()
        {
            |money| &mut money.trial
        } else if held.status == PastDue || is_pending && held.current_period_start().is_some() {
            |money| &mut money.at_risk
        } else {
            |money| &mut money.contracted
        };
        rules.ahead(held, forecast.as_of, forecast.until, &mut |step| {
            let Some(payment) = step.outcome.ask else { return };
            let nth = month_number(payment.period_start.micros()) - *running;
            let Some(month) = forecast.data.get_mut(usize::try_from(nth).unwrap_or(0)) else {
                return;
            };
            let currency = payment.currency;
            let zero = ForecastSum { count: 0, amount: Total::new(0, Some(currency)) };
            let new = || ForecastMoney { currency, contracted: zero, at_risk: zero, trial: zero };
            change(
                &mut month.money,
                |money| money.currency == currency,
                new,
                |money| {
                    let sum = part(money);
                    sum.count += 1;
                    sum.amount.add(millionths(payment.amount));
                },
            );
        });
    }

    pub(super) fn finish(self) -> Forecast {
        let mut forecast = self.forecast;
        for month in &mut forecast.data {
            month.money.sort_by_key(|money| money.currency.code());
        }
        forecast
    }
}
