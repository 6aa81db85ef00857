//! Queries that list subscriptions.

use super::query::{Direction, PageLimit, Position, SortKey};
use crate::subscriptions::{Subscription, SubscriptionStatus};
use crate::values::{ExternalId, PlanId, Timestamp, UserId};
use crate::with_fields;

/// The order of a list of subscriptions; subscriptions with the same value are sorted by id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubscriptionOrder {
    /// [`Subscription::created_at`].
    #[default]
    CreatedAt,
    /// [`Subscription::renews_at`]; subscriptions without a renewal come last.
    RenewsAt,
}

impl SubscriptionOrder {
    /// Every order.
    pub const ALL: [Self; 2] = [Self::CreatedAt, Self::RenewsAt];

    /// The value that this order sorts `subscription` by.
    pub const fn key(self, subscription: &Subscription) -> SortKey {
        match self {
            Self::CreatedAt => SortKey::CreatedAt,
            Self::RenewsAt => match subscription.renews_at {
                Some(renews_at) => SortKey::RenewsAt(renews_at),
                None => SortKey::NeverRenews,
            },
        }
    }

    /// The position of `subscription` in this order.
    pub const fn position(self, subscription: &Subscription) -> Position {
        Position { key: self.key(subscription), id: subscription.id.uuid() }
    }

    /// True if `position` has the kind of sort key that the positions of a list in this order have.
    pub const fn fits(self, position: &Position) -> bool {
        matches!(
            (self, &position.key),
            (Self::CreatedAt, SortKey::CreatedAt)
                | (Self::RenewsAt, SortKey::RenewsAt(_) | SortKey::NeverRenews)
        )
    }
}

/// The subscriptions to list: all subscriptions that meet every condition that is set. A field that is `None` sets no
/// condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionFilter {
    /// Subscriptions of this user.
    pub user_id: Option<UserId>,
    /// Subscriptions to this plan.
    pub subscription_plan_id: Option<PlanId>,
    /// Subscriptions with one of these statuses; with any status if empty.
    pub statuses: Vec<SubscriptionStatus>,
    /// `true`: subscriptions that grant access at [`SubscriptionQuery::now`]. `false`: subscriptions that do not.
    pub is_active: Option<bool>,
    /// The subscription with this id at the payment provider.
    pub external_subscription_id: Option<ExternalId>,
    /// Subscriptions that renew before this moment, not at it. Subscriptions that are cancelled, expired or
    /// unpaid still have a `renews_at`: to list subscriptions to be charged, set [`statuses`](Self::statuses) too.
    pub renews_before: Option<Timestamp>,
    /// Subscriptions that renew at this moment or after it, so that adjacent time windows share no record.
    pub renews_after: Option<Timestamp>,
}

impl SubscriptionFilter {
    /// True if `subscription` meets the conditions at `now`.
    pub fn admits(&self, subscription: &Subscription, now: Timestamp) -> bool {
        self.user_id.is_none_or(|user_id| subscription.user_id == user_id)
            && self.subscription_plan_id.is_none_or(|id| subscription.subscription_plan_id == id)
            && (self.statuses.is_empty() || self.statuses.contains(&subscription.status))
            && self.is_active.is_none_or(|active| subscription.is_active_at(now) == active)
            && (self.external_subscription_id.is_none()
                || subscription.external_subscription_id == self.external_subscription_id)
            && self.renews_before.is_none_or(|t| subscription.renews_at.is_some_and(|at| at < t))
            && self.renews_after.is_none_or(|t| subscription.renews_at.is_some_and(|at| at >= t))
    }
}

/// A page of subscriptions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionQuery {
    /// The subscriptions to list.
    pub filter: SubscriptionFilter,
    /// The value that the list is sorted by.
    pub order: SubscriptionOrder,
    /// The direction in which the list is sorted.
    pub direction: Direction,
    /// The position after which the page begins; from the start if `None`.
    pub after: Option<Position>,
    /// The largest number of records on the page.
    pub limit: PageLimit,
    /// The moment for which [`SubscriptionFilter::is_active`] is evaluated. The service sets it.
    pub now: Timestamp,
}

impl Default for SubscriptionQuery {
    /// The newest subscriptions.
    fn default() -> Self {
        Self {
            filter: SubscriptionFilter::default(),
            order: SubscriptionOrder::CreatedAt,
            direction: Direction::Descending,
            after: None,
            limit: PageLimit::default(),
            now: Timestamp::MIN,
        }
    }
}

with_fields! {
    SubscriptionFilter {
        with_user_id(impl Into<Option<UserId>>) => user_id,
        with_subscription_plan_id(impl Into<Option<PlanId>>) => subscription_plan_id,
        with_statuses(Vec<SubscriptionStatus>) => statuses,
        with_is_active(impl Into<Option<bool>>) => is_active,
        with_external_subscription_id(impl Into<Option<ExternalId>>) => external_subscription_id,
        with_renews_before(impl Into<Option<Timestamp>>) => renews_before,
        with_renews_after(impl Into<Option<Timestamp>>) => renews_after,
    }
    SubscriptionQuery {
        with_filter(SubscriptionFilter) => filter,
        with_order(SubscriptionOrder) => order,
        with_direction(Direction) => direction,
        with_after(impl Into<Option<Position>>) => after,
        with_limit(PageLimit) => limit,
        with_now(Timestamp) => now,
    }
}
