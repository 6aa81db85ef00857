//! Lists of due records: subscriptions whose next billing step (such as a renewal) is due, and payments to collect or
//! to retry.

use super::query::{PageLimit, Position, SortKey};
use crate::payments::{Payment, PaymentStatus};
use crate::subscriptions::Subscription;
use crate::values::Timestamp;
use crate::with_fields;

/// A page of the subscriptions whose [`next_action_at`](Subscription::next_action_at) is at `until` or before,
/// the longest due first.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueSubscriptions {
    /// Records that are due at this moment or before are listed.
    pub until: Timestamp,
    /// The position after which the page begins; from the start if `None`.
    pub after: Option<Position>,
    /// The largest number of records on the page.
    pub limit: PageLimit,
}

impl DueSubscriptions {
    /// The first page of the subscriptions that are due at `until` or before.
    pub fn until(until: Timestamp) -> Self {
        Self { until, after: None, limit: PageLimit::default() }
    }

    /// The position of a subscription in the list; `None` if it has no next action.
    pub fn position(subscription: &Subscription) -> Option<Position> {
        let at = subscription.next_action_at()?;
        Some(Position { key: SortKey::DueAt(at), id: subscription.id.uuid() })
    }
}

/// A page of the payments in one status whose [`action_at`](Payment::action_at) is at `until` or before, the longest
/// due first: pending payments to collect, processing payments whose collection has begun, or failed payments to retry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DuePayments {
    /// The status of the listed payments.
    pub status: PaymentStatus,
    /// Records that are due at this moment or before are listed.
    pub until: Timestamp,
    /// The position after which the page begins; from the start if `None`.
    pub after: Option<Position>,
    /// The largest number of records on the page.
    pub limit: PageLimit,
}

impl DuePayments {
    /// The first page of the payments in a status that are due at `until` or before.
    pub fn until(status: PaymentStatus, until: Timestamp) -> Self {
        Self { status, until, after: None, limit: PageLimit::default() }
    }

    /// The position of a payment in the list; `None` if no action on the payment will be due.
    pub fn position(payment: &Payment) -> Option<Position> {
        Some(Position { key: SortKey::DueAt(payment.action_at()?), id: payment.id.uuid() })
    }
}

with_fields! {
    DueSubscriptions {
        with_after(impl Into<Option<Position>>) => after,
        with_limit(PageLimit) => limit,
    }
    DuePayments {
        with_after(impl Into<Option<Position>>) => after,
        with_limit(PageLimit) => limit,
    }
}
