//! The rules between the fields of a stored subscription.

use super::{Subscription, before_start};
use crate::values::faults::{FaultCode, Faults, InvalidValue};

impl Subscription {
    /// Checks the rules between the fields of a subscription that comes from an import. The service writes no
    /// subscription that breaks them.
    pub fn check(&self) -> Result<(), Faults> {
        let mut faults = Faults::default();
        for fault in before_start(self.starts_at, self.renews_at, self.ends_at) {
            faults.push(fault);
        }
        if self.ends_at.is_none() && self.ends_by_status() {
            let message = format!("must be set: it is {}", self.status);
            faults.push(InvalidValue::new(FaultCode::Required, message).at("ends_at"));
        }
        if self.is_active && self.blocked {
            let message = "must not be true: it is blocked";
            faults.push(InvalidValue::new(FaultCode::NotAllowedValue, message).at("is_active"));
        }
        faults.into_result()
    }

    /// True if a subscription with this status always has an end.
    fn ends_by_status(&self) -> bool {
        let mut endless = Self { ends_at: None, ..self.clone() };
        endless.set_end_by_status(self.updated_at);
        endless.ends_at.is_some()
    }
}
