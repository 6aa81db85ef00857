//! The scopes that a caller needs to make an endpoint send events.

use crate::accounts::Scope;
use crate::error::{Error, Forbidden};
use crate::events::TypePattern;
use crate::webhooks::Webhooks;

/// The scopes that read the records whose events a pattern admits: a delivery contains the whole record.
fn reading(types: &TypePattern) -> &'static [Scope] {
    use Scope::{PaymentsRead, PlansRead, SubscriptionsRead, UsersRead};
    match types.kind() {
        Some("plan") => &[PlansRead],
        Some("subscription") => &[SubscriptionsRead],
        Some("payment") => &[PaymentsRead],
        // Events of sessions and clients are never sent.
        Some("user" | "session" | "client") => &[UsersRead],
        None => &[PlansRead, SubscriptionsRead, PaymentsRead],
        // A kind without a row of its own needs all of them.
        Some(_) => &[PlansRead, SubscriptionsRead, PaymentsRead, UsersRead],
    }
}

impl Webhooks {
    /// Checks that the caller may read the records that an endpoint with these types gets.
    pub(super) fn expect_scopes(&self, types: &[TypePattern]) -> Result<(), Error> {
        let Some(allowed) = &self.allowed else { return Ok(()) };
        match types.iter().flat_map(reading).find(|scope| !allowed.contains(scope)) {
            Some(missing) => Err(Forbidden::ScopeMissing(*missing).into()),
            None => Ok(()),
        }
    }
}
