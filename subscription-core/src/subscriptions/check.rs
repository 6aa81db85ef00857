//! The rules between the fields of a subscription that is made already.

use super::{Subscription, before_start};
use crate::values::faults::{FaultCode, Faults, InvalidValue};

impl Subscription {
    /// Checks the rules between its fields, which hold for every record that the service has written.
    /// For records that come from elsewhere.
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

    /// True if its status gives an end to what has none.
    fn ends_by_status(&self) -> bool {
        let mut endless = Self { ends_at: None, ..self.clone() };
        endless.set_end_by_status(self.updated_at);
        endless.ends_at.is_some()
    }
}
