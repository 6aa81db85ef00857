//! The rules between the fields of a stored payment.

use super::{Payment, check_amount};
use crate::values::faults::{FaultCode, Faults, InvalidValue};

impl Payment {
    /// Checks the rules between the fields of a payment that comes from an import. The service writes no
    /// payment that breaks them.
    pub fn check(&self) -> Result<(), Faults> {
        let mut faults = Faults::default();
        for checked in
            [check_amount(self.amount), self.currency.check_digits(self.amount, "amount")]
        {
            checked.unwrap_or_else(|fault| faults.push(fault));
        }
        if self.status.is_settled() && !self.settled {
            let message = format!("must be true: it is {}", self.status);
            faults.push(InvalidValue::new(FaultCode::NotAllowedValue, message).at("settled"));
        }
        faults.into_result()
    }
}
