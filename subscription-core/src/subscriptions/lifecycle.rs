//! The states of a subscription, the moves between them, and which of them grant access in time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::values::clock::Timestamp;
use crate::values::faults::InvalidValue;
use crate::values::states::{self, InvalidTransition, Row, reads_and_writes_as_state};

#[doc = include_str!("transitions.md")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubscriptionStatus {
    /// Not yet begun.
    Pending,
    /// In its free trial.
    OnTrial,
    /// Paid for.
    Active,
    /// The last payment failed; access goes on while it is tried again.
    PastDue,
    /// The tries are over; access is off until it is paid.
    Unpaid,
    /// Set aside by its owner.
    Paused,
    /// Will not renew; grants access until `ends_at`.
    Cancelled,
    /// Over.
    Expired,
}

use SubscriptionStatus::{Active, Cancelled, Expired, OnTrial, PastDue, Paused, Pending, Unpaid};

static TABLE: [Row<SubscriptionStatus>; 8] = [
    Row {
        state: Pending,
        name: "pending",
        aliases: &["incomplete", "scheduled"],
        next: &[OnTrial, Active, Expired],
    },
    Row {
        state: OnTrial,
        name: "on_trial",
        aliases: &["trialing", "trial", "in_trial"],
        next: &[Active, PastDue, Paused, Cancelled, Expired],
    },
    Row {
        state: Active,
        name: "active",
        aliases: &[],
        next: &[PastDue, Paused, Cancelled, Expired],
    },
    Row {
        state: PastDue,
        name: "past_due",
        aliases: &["overdue"],
        next: &[Active, Unpaid, Paused, Cancelled, Expired],
    },
    Row {
        state: Unpaid,
        name: "unpaid",
        aliases: &["suspended"],
        next: &[Active, Cancelled, Expired],
    },
    Row {
        state: Paused,
        name: "paused",
        aliases: &[],
        next: &[Active, PastDue, Cancelled, Expired],
    },
    Row {
        state: Cancelled,
        name: "cancelled",
        aliases: &["canceled", "non_renewing"],
        next: &[Active, OnTrial, Expired],
    },
    Row {
        state: Expired,
        name: "expired",
        aliases: &["ended", "terminated", "completed", "inactive"],
        next: &[],
    },
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

    /// Checks the step to another state at `now`, of a subscription that ends at `ends_at`.
    ///
    /// The same state again is no step. What is cancelled comes back only before its end.
    pub fn step(
        self,
        to: Self,
        ends_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), InvalidTransition> {
        let comes_back_too_late = |next: Self| {
            self == Cancelled && next != Expired && ends_at.is_some_and(|at| at <= now)
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
mod tests {
    use super::*;

    #[test]
    fn the_table_stands_in_the_order_of_the_enum() {
        for (nth, row) in TABLE.iter().enumerate() {
            assert_eq!(row.state as usize, nth, "{}", row.name);
        }
    }

    #[test]
    fn the_documentation_shows_the_table() {
        let documented = include_str!("transitions.md");

        assert!(documented.contains(&states::markdown(&TABLE)), "{}", states::markdown(&TABLE));
    }

    #[test]
    fn every_name_and_alias_is_read_in_any_case() {
        for row in &TABLE {
            for given in std::iter::once(&row.name).chain(row.aliases) {
                assert_eq!(given.parse(), Ok(row.state), "{given}");
                assert_eq!(given.to_uppercase().parse(), Ok(row.state), "{given}");
            }
            assert_eq!(row.state.to_string(), row.name);
            assert_eq!(format!("{:>10}", row.state), format!("{:>10}", row.name));
        }
        let refused = "dead".parse::<SubscriptionStatus>().unwrap_err();
        assert!(refused.to_string().contains("pending, on_trial, active"), "{refused}");
    }
}
