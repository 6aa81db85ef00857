//! Lists of what is due: subscriptions that the clock must look at, and payments to collect or to retry.

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
    /// The last moment.
    pub until: Timestamp,
    /// The position after which the page begins; from the start if `None`.
    pub after: Option<Position>,
    /// The largest number of records on the page.
    pub limit: PageLimit,
}

impl DueSubscriptions {
    /// The subscriptions that are longest due.
    pub fn until(until: Timestamp) -> Self {
        Self { until, after: None, limit: PageLimit::default() }
    }

    /// The position of a subscription in the list; `None` if the clock need not look at it.
    pub fn position(subscription: &Subscription) -> Option<Position> {
        let at = subscription.next_action_at()?;
        Some(Position { key: SortKey::DueAt(at), id: subscription.id.uuid() })
    }
}

/// A page of the payments in one status whose [`action_at`](Payment::action_at) is at `until` or before, the
/// longest due first: pending ones to collect, processing ones whose collection has begun, or failed ones to
/// retry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DuePayments {
    /// The status.
    pub status: PaymentStatus,
    /// The last moment.
    pub until: Timestamp,
    /// The position after which the page begins; from the start if `None`.
    pub after: Option<Position>,
    /// The largest number of records on the page.
    pub limit: PageLimit,
}

impl DuePayments {
    /// The payments in a status that are longest due.
    pub fn until(status: PaymentStatus, until: Timestamp) -> Self {
        Self { status, until, after: None, limit: PageLimit::default() }
    }

    /// The position of a payment in the list; `None` if nothing is to be done about it.
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
