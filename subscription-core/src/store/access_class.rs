//! Access classes: the values by which subscriptions are indexed for lists by status and by access.
//!
//! A class is made of the status of a subscription and a mark. The mark shows that the subscription is blocked or, for
//! a status that grants access, in which phase it is: before its start, between its start and its end, or after its
//! end. Time alone moves a subscription from one class to the next: no record is written when its start or its end
//! passes. So a store saves the class that each record had when it was last written or moved, and before a list by
//! access it moves the records whose start or end has passed. Until a record is moved the classes are *behind*; after
//! the clock was set back, or for an instance whose clock is slower, they are *ahead*. Lists are right in either case,
//! because they also compare the start and the end of each record with the time.

use super::subscription_query::SubscriptionFilter;
use crate::subscriptions::{Phase, SubscriptionStatus};

/// The access class of a subscription. Both fields are enums without data, because lists in memory compare classes
/// often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct AccessClass {
    pub(super) status: SubscriptionStatus,
    pub(super) mark: Mark,
}

/// The second part of a class: the phase of the subscription when it was last written or moved to another class, or the
/// mark of a blocked subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Mark {
    /// The subscription is between its start and its end, or has a status that grants no access.
    Current,
    /// The status grants access, and the start has not come.
    Waiting,
    /// The status grants access, and the end has passed.
    Over,
    /// The subscription is blocked, in any status.
    Blocked,
}

impl From<Phase> for Mark {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Waiting => Self::Waiting,
            Phase::Current => Self::Current,
            Phase::Over => Self::Over,
        }
    }
}

impl AccessClass {
    /// The phase that the class stands for; `None` for a blocked subscription and for a status that grants no access.
    pub(super) fn phase(self) -> Option<Phase> {
        match self.mark {
            _ if !self.status.grants_access() => None,
            Mark::Current => Some(Phase::Current),
            Mark::Waiting => Some(Phase::Waiting),
            Mark::Over => Some(Phase::Over),
            Mark::Blocked => None,
        }
    }
}

/// The condition under which a class can contain records that a list requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MayContain {
    /// At any time.
    Always,
    /// Only while the classes are behind: a start or an end has passed, and its record was not moved yet.
    IfBehind,
    /// Only while the classes are ahead: a record was moved at a later time than the time of the list.
    IfAhead,
    /// Only while the classes are behind or ahead.
    IfOutdated,
}

/// The classes that can contain records which `filter` admits, each with the condition under which it can.
pub(super) fn classes(
    filter: &SubscriptionFilter,
) -> impl Iterator<Item = (AccessClass, MayContain)> + '_ {
    let wanted = |status: &SubscriptionStatus| {
        filter.statuses.is_empty() || filter.statuses.contains(status)
    };
    SubscriptionStatus::all().filter(wanted).flat_map(|status| {
        let current = match (filter.is_active, status.grants_access()) {
            (None, _) | (Some(true), true) | (Some(false), false) => Some(MayContain::Always),
            (Some(false), true) => Some(MayContain::IfOutdated),
            (Some(true), false) => None,
        };
        let [waiting, over] = match (filter.is_active, status.grants_access()) {
            (None | Some(false), true) => [Some(MayContain::Always); 2],
            (Some(true), true) => [Some(MayContain::IfBehind), Some(MayContain::IfAhead)],
            (_, false) => [None; 2],
        };
        let blocked = (filter.is_active != Some(true)).then_some(MayContain::Always);
        let marks = [
            (Mark::Current, current),
            (Mark::Waiting, waiting),
            (Mark::Over, over),
            (Mark::Blocked, blocked),
        ];
        let class = move |(mark, may_contain): (Mark, Option<MayContain>)| {
            Some((AccessClass { status, mark }, may_contain?))
        };
        marks.into_iter().filter_map(class)
    })
}

/// True if subscriptions must be moved to their current class before the list is read: the list is filtered by access,
/// includes a status that grants access, and is not limited to one user or one external id.
pub(super) fn is_by_access(filter: &SubscriptionFilter) -> bool {
    filter.is_active.is_some()
        && filter.user_id.is_none()
        && filter.external_subscription_id.is_none()
        && (filter.statuses.is_empty()
            || filter.statuses.iter().any(|status| status.grants_access()))
}
