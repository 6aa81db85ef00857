//! The states of a subscription, the transitions between them, and which of the states grant access.

use crate::values::states::{self, reads_and_writes_as_state, row};
use crate::values::{InvalidTransition, InvalidValue, Row, Timestamp};

#[doc = include_str!("transitions.md")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubscriptionStatus {
    /// The subscription has not begun, or waits for its first payment.
    Pending,
    /// The subscription is in its free trial.
    OnTrial,
    /// The subscription is paid for.
    Active,
    /// The last payment failed; the subscription grants access while the payment is retried.
    PastDue,
    /// The retries have ended; the subscription grants no access until it is paid.
    Unpaid,
    /// The subscription is paused, and grants no access.
    Paused,
    /// The subscription will not renew; it grants access until `ends_at`.
    Cancelled,
    /// The subscription has ended.
    Expired,
}

use SubscriptionStatus::{Active, Cancelled, Expired, OnTrial, PastDue, Paused, Pending, Unpaid};

static TABLE: [Row<SubscriptionStatus>; 8] = [
    row(Pending, "pending", &["incomplete", "scheduled"], &[OnTrial, Active, Expired]),
    row(
        OnTrial,
        "on_trial",
        &["trialing", "trial", "in_trial"],
        &[Active, PastDue, Paused, Cancelled, Expired],
    ),
    row(Active, "active", &[], &[PastDue, Paused, Cancelled, Expired]),
    row(PastDue, "past_due", &["overdue"], &[Active, Unpaid, Paused, Cancelled, Expired]),
    row(Unpaid, "unpaid", &["suspended"], &[Active, Cancelled, Expired]),
    row(Paused, "paused", &[], &[OnTrial, Active, PastDue, Cancelled, Expired]),
    row(Cancelled, "cancelled", &["canceled", "non_renewing"], &[Active, OnTrial, Expired]),
    row(Expired, "expired", &["ended", "terminated", "completed", "inactive"], &[]),
];

reads_and_writes_as_state!(SubscriptionStatus);

impl SubscriptionStatus {
    /// True if a subscription in this state grants access between its start and its end.
    pub const fn grants_access(self) -> bool {
        match self {
            OnTrial | Active | PastDue | Cancelled => true,
            Pending | Unpaid | Paused | Expired => false,
        }
    }

    /// Checks the transition to another state at `now`, for a subscription that ends at `ends_at` and whose trial
    /// ends at `trial_ends_at`.
    ///
    /// To stay in the same state is always allowed. A cancelled subscription can be resumed only before its end. A
    /// paused subscription can continue its trial only before the trial ends.
    pub fn step(
        self,
        to: Self,
        ends_at: Option<Timestamp>,
        trial_ends_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), InvalidTransition> {
        let comes_back_too_late = |next: Self| match self {
            Cancelled => next != Expired && ends_at.is_some_and(|at| at <= now),
            Paused => next == OnTrial && trial_ends_at.is_none_or(|at| at <= now),
            Pending | OnTrial | Active | PastDue | Unpaid | Expired => false,
        };
        let allowed = || self.next().iter().copied().filter(|next| !comes_back_too_late(*next));
        if self == to || allowed().any(|next| next == to) {
            return Ok(());
        }
        Err(InvalidTransition {
            record: "subscription",
            from: self.as_str(),
            to: to.as_str(),
            allowed: allowed().map(Self::as_str).collect(),
        })
    }
}

#[cfg(test)]
#[test]
fn the_table_is_in_order_and_documented() {
    states::check_table(&TABLE, include_str!("transitions.md"));
}
