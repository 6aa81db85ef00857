//! The discount of a subscription: the reduction, and the number of periods.

use serde::{Deserialize, Serialize};

use crate::plans::{Percent, Reduction};
use crate::values::decimal::whole_number;
use crate::values::input::amount;
use crate::values::{Amount, Currency, FaultCode, Fields, InputError, InvalidValue};

/// The largest number of periods of a discount.
const PERIODS_MAX: u32 = 120;

/// A discount of a subscription that the clock bills. It reduces the price of whole periods, and counts the periods
/// whose price it has reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discount {
    /// The reduction of the price of each period.
    pub off: Reduction,
    /// The number of periods that the discount applies to; `None` if it has no end.
    pub periods: Option<u32>,
    /// The number of periods whose price the discount has reduced.
    pub used: u32,
    /// True if the discount has reduced the price of the running period.
    pub applied: bool,
}

impl Discount {
    /// The number of further periods that the discount applies to; `None` if it has no end.
    pub fn periods_left(&self) -> Option<u32> {
        self.periods.map(|periods| periods.saturating_sub(self.used))
    }

    /// The discount in the form that the API returns.
    pub fn shown(&self) -> ShownDiscount {
        let (percent, amount) = match self.off {
            Reduction::Percent(percent) => (Some(percent), None),
            Reduction::Amount(amount) => (None, Some(amount)),
        };
        let Self { periods, applied, .. } = *self;
        ShownDiscount { percent, amount, periods, periods_left: self.periods_left(), applied }
    }

    /// True if the numbers are within the limits of this service. A discount has 1 to 120 periods or no end, and has
    /// reduced the price of at most this number of periods. An amount is more than 0, and has at most as many digits
    /// after the point as the currency.
    pub(crate) fn is_sound(&self, currency: Option<Currency>) -> bool {
        let fits =
            |amount: Amount| currency.is_none_or(|it| amount.fraction_digits() <= it.digits());
        let is_amount = match self.off {
            Reduction::Percent(_) => true,
            Reduction::Amount(amount) => !amount.is_zero() && fits(amount),
        };
        let counts =
            self.periods.is_none_or(|it| (1..=PERIODS_MAX).contains(&it) && self.used <= it);
        is_amount && counts
    }
}

/// A discount in the form that the API returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ShownDiscount {
    percent: Option<Percent>,
    amount: Option<Amount>,
    periods: Option<u32>,
    periods_left: Option<u32>,
    applied: bool,
}

/// The input that gives a subscription a discount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NewDiscount {
    /// The reduction of the price of each period.
    pub off: Reduction,
    /// The number of periods that the discount applies to: 1 to 120, or `None` for a discount without an end.
    pub periods: Option<u32>,
}

impl NewDiscount {
    /// Parses a JSON object, and returns all its faults at once.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let has_percent = fields.has("percent");
        let has_amount = fields.has("amount");
        let percent = fields.optional("percent", |json| amount(json)?.try_into());
        let fixed = fields.optional("amount", positive);
        let has_periods = fields.has("periods");
        let periods = fields.nullable("periods", periods);
        let mut fault = |code, message, field| {
            fields.note(InvalidValue::new(code, message).at(field));
        };
        if has_percent && has_amount {
            fault(FaultCode::NotAllowedValue, "must not be sent together with percent", "amount");
        }
        if !has_percent && !has_amount {
            fault(FaultCode::Required, "is required, unless amount is sent", "percent");
        }
        if !has_periods {
            fault(FaultCode::Required, "is required; null means no limit", "periods");
        }
        let off = percent.map(Reduction::Percent).or(fixed.map(Reduction::Amount));
        fields.finish(off.map(|off| Self { off, periods: periods.or(None) }))
    }

    /// The discount before it has reduced the price of a period.
    pub(crate) const fn unused(self) -> Discount {
        Discount { off: self.off, periods: self.periods, used: 0, applied: false }
    }
}

/// Parses an amount of more than 0.
fn positive(json: &str) -> Result<Amount, InvalidValue> {
    let amount = amount(json)?;
    if amount.is_zero() {
        return Err(InvalidValue::out_of_range("must be more than 0"));
    }
    Ok(amount)
}

fn periods(json: &str) -> Result<u32, InvalidValue> {
    if let Some(Ok(periods @ 1..=PERIODS_MAX)) = whole_number(json)?.map(u32::try_from) {
        return Ok(periods);
    }
    let message = format!("must be from 1 to {PERIODS_MAX}, or null");
    Err(InvalidValue::out_of_range(message))
}
