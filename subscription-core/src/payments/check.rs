//! The rules between the fields of a stored payment.

use super::input::period_faults;
use super::{Payment, check_amount};
use crate::values::{Faults, InvalidValue};

impl Payment {
    /// Checks the rules between the fields of a payment that comes from an import. The service writes no
    /// payment that breaks them.
    pub fn check(&self) -> Result<(), Faults> {
        let period = self.asked.as_ref();
        let period = period.map(|it| (Some(it.kind), Some(it.period_start), it.period_end));
        let mut faults = period_faults(period.unwrap_or_default(), None, None);
        for checked in
            [check_amount(self.amount), self.currency.check_digits(self.amount, "amount")]
        {
            checked.unwrap_or_else(|fault| faults.push(fault));
        }
        if self.status.is_settled() && !self.settled {
            let message = format!("must be true: the status of the payment is {}", self.status);
            faults.push(InvalidValue::not_allowed(message).at("settled"));
        }
        faults.into_result()
    }
}
