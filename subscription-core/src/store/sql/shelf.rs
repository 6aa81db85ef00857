//! Shelves: what subscriptions are sorted into, so that lists by status and by access are found in
//! an index and not by looking at each.
//!
//! A shelf is a status, with a mark for those that are blocked and for those that were cancelled and
//! are over. The database works it out by itself. Only for what is cancelled the time of the question
//! matters too; [`OVER`] keeps those apart for which it hardly ever does any more.

use crate::store::{SubscriptionFilter, SubscriptionQuery};
use crate::subscriptions::SubscriptionStatus;

/// Cancelled, and not known to be over.
pub(super) const CANCELLED: &str = "cancelled";
/// Cancelled, and over when somebody last looked.
pub(super) const OVER: &str = "cancelled.";

/// What a statement says besides the shelf where it goes by the ends: the index of those has no others,
/// and SQLite must read that to use it.
pub(super) const ENDING: &str = "status = 'cancelled'";

/// Which subscriptions of a shelf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    All,
    /// Those that end after the time of the question.
    Going,
    /// Those that end at the time of the question or have ended before.
    Ended,
}

/// A shelf, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shelf {
    pub(super) name: String,
    pub(super) part: Part,
}

/// The shelves that hold what `filter` asks for by status and access.
pub(super) fn shelves(filter: &SubscriptionFilter) -> Vec<Shelf> {
    let wanted = |status: &SubscriptionStatus| {
        filter.statuses.is_empty() || filter.statuses.contains(status)
    };
    let mut shelves = Vec::new();
    for status in SubscriptionStatus::all().filter(wanted) {
        let name = status.as_str();
        let mut add = |name: String, part| shelves.push(Shelf { name, part });
        match (filter.is_active, access(status)) {
            (None, Access::UntilItsEnd) => {
                add(name.to_owned(), Part::All);
                add(OVER.to_owned(), Part::All);
            }
            (Some(active), Access::UntilItsEnd) => {
                let part = if active { Part::Going } else { Part::Ended };
                add(name.to_owned(), part);
                add(OVER.to_owned(), part);
            }
            (None, _) | (Some(true), Access::Always) | (Some(false), Access::Never) => {
                add(name.to_owned(), Part::All);
            }
            (Some(true), Access::Never) | (Some(false), Access::Always) => {}
        }
        if filter.is_active != Some(true) {
            add(format!("{name}!"), Part::All);
        }
    }
    shelves
}

/// True if the page is of what ends, so that what has ended should be noted first.
pub(super) fn asks_for_endings(query: &SubscriptionQuery) -> bool {
    let statuses = &query.filter.statuses;
    query.filter.is_active.is_some()
        && query.filter.user_id.is_none()
        && (statuses.is_empty() || statuses.contains(&SubscriptionStatus::Cancelled))
}

enum Access {
    Always,
    UntilItsEnd,
    Never,
}

const fn access(status: SubscriptionStatus) -> Access {
    match status {
        SubscriptionStatus::OnTrial | SubscriptionStatus::Active | SubscriptionStatus::PastDue => {
            Access::Always
        }
        SubscriptionStatus::Cancelled => Access::UntilItsEnd,
        SubscriptionStatus::Pending
        | SubscriptionStatus::Unpaid
        | SubscriptionStatus::Paused
        | SubscriptionStatus::Expired => Access::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    #[test]
    fn access_by_shelf_is_access_by_status() {
        let now = Timestamp::MIN.saturating_add(std::time::Duration::from_secs(10));
        let ends = [Timestamp::MIN, now, Timestamp::MAX];
        for status in SubscriptionStatus::all() {
            for ends_at in ends {
                let by_shelf = match access(status) {
                    Access::Always => true,
                    Access::UntilItsEnd => ends_at > now,
                    Access::Never => false,
                };

                assert_eq!(
                    by_shelf,
                    status.grants_access(Some(ends_at), now),
                    "{status} {ends_at}"
                );
            }
        }
    }
}
