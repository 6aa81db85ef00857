//! What subscriptions are listed by that access depends on, as time goes on.
//!
//! What is cancelled ends by the clock alone, and nobody writes it then. So it is listed as live until
//! somebody asks who has access, and from then on as ended.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::clock::Timestamp;
use crate::id::SubscriptionId;
use crate::store::query::SubscriptionQuery;
use crate::subscriptions::{Subscription, SubscriptionStatus};

/// What decides whether access is granted.
pub(super) type Standing = (SubscriptionStatus, Access);

/// What stands in the way of access, beside the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    Free,
    Blocked,
    /// Cancelled, and known to have ended.
    Ended,
}

/// When, and which.
pub(super) type Ending = (Timestamp, SubscriptionId);

/// When what is cancelled ends, and how far that has been taken into the lists.
#[derive(Debug, Default)]
pub(super) struct Endings {
    by_end: BTreeSet<Ending>,
    /// All up to this one are listed as ended.
    pub(super) swept: Option<Ending>,
}

impl Endings {
    /// What a record is to be listed by.
    pub(super) fn standing(&self, record: &Subscription) -> Standing {
        let is_swept = |ending| self.swept.is_some_and(|swept| ending <= swept);
        let access = if record.blocked {
            Access::Blocked
        } else if ending(record).is_some_and(is_swept) {
            Access::Ended
        } else {
            Access::Free
        };
        (record.status, access)
    }

    /// Takes in that `new` is there in place of `old`.
    pub(super) fn replace(&mut self, old: Option<&Subscription>, new: Option<&Subscription>) {
        if let Some(ending) = old.and_then(ending) {
            self.by_end.remove(&ending);
        }
        self.by_end.extend(new.and_then(ending));
    }

    /// What has ended by `now` and is not listed so.
    pub(super) fn overdue(&self, now: Timestamp) -> impl Iterator<Item = &Ending> {
        let from = self.swept.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_end.range((from, Bound::Unbounded)).take_while(move |(end, _)| *end <= now)
    }
}

/// When access ends, if that is a matter of time.
fn ending(record: &Subscription) -> Option<Ending> {
    let by_time = record.status == SubscriptionStatus::Cancelled && !record.blocked;
    record.ends_at.filter(|_| by_time).map(|end| (end, record.id))
}

/// The standings that may hold what is asked for. While the lists are behind the time, or ahead of a
/// clock that was turned back, there may be others among them.
pub(super) fn standings(
    query: &SubscriptionQuery,
    endings: &Endings,
) -> impl Iterator<Item = Standing> {
    let (filter, now) = (&query.filter, query.now);
    let is_behind = endings.overdue(now).next().is_some();
    let is_ahead = endings.swept.is_some_and(|(end, _)| end > now);
    let grants = move |status: SubscriptionStatus| status.grants_access(None, now);
    let may_grant = move |(status, access)| match access {
        Access::Free => grants(status),
        Access::Blocked => false,
        Access::Ended => is_ahead,
    };
    let must_grant = move |(status, access)| {
        let ends = status == SubscriptionStatus::Cancelled;
        access == Access::Free && grants(status) && !(ends && is_behind)
    };
    SubscriptionStatus::all()
        .filter(|status| filter.statuses.is_empty() || filter.statuses.contains(status))
        .flat_map(|status| {
            [Access::Free, Access::Blocked, Access::Ended].map(|access| (status, access))
        })
        .filter(move |standing| match filter.is_active {
            None => true,
            Some(true) => may_grant(*standing),
            Some(false) => !must_grant(*standing),
        })
}
