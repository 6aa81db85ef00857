//! Queries: lists of records, a page at a time.
//!
//! Pages are keyset pages: a page begins after the position of the last record of the page before it. So a page at the
//! end of a list costs the same as a page at its start. If a record is created or deleted between two pages, no other
//! record appears twice or is missed.

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::damaged::DamagedRecord;
use crate::payments::Payment;
use crate::plans::{BillingCycle, Plan, Tier};
use crate::values::{
    DocumentId, EmailKey, ExternalId, InvalidValue, Name, SubscriptionId, Timestamp, UserId,
};
use crate::with_fields;

/// The direction in which a list is sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the smallest or oldest to the largest or newest.
    #[default]
    Ascending,
    /// The exact reverse of [`Direction::Ascending`]: records without a value come first.
    Descending,
}

/// The largest number of records on a page: 1 to 200, by default 50. Only the code that computes business figures reads
/// larger pages, of 1,000 records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageLimit(u16);

impl PageLimit {
    /// The largest page that a caller can request.
    pub const MAX: Self = Self(200);
    pub(crate) const ONE: Self = Self(1);
    pub(crate) const FIGURES: Self = Self(1_000);

    /// Twice this limit; `None` if there is no such limit.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn doubled(self) -> Option<Self> {
        self.0.checked_mul(2).map(Self)
    }

    /// A page of at most `limit` records.
    pub fn new(limit: usize) -> Result<Self, InvalidValue> {
        match u16::try_from(limit) {
            Ok(limit @ 1..=200) => Ok(Self(limit)),
            _ => Err(InvalidValue::out_of_range("must be from 1 to 200")),
        }
    }

    /// The limit as a plain integer.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl Default for PageLimit {
    fn default() -> Self {
        Self(50)
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The records, in the order of the list.
    pub items: Vec<T>,
    /// The position of this page's last record, after which the next page begins; `None` if no more records follow.
    pub next: Option<Position>,
    /// The records of the list that cannot be read, as far as the store met them on its way to this page. They are not
    /// in `items`, and do not count towards the limit.
    pub damaged: Vec<DamagedRecord>,
}

impl<T> Page<T> {
    /// A page whose records can all be read.
    pub const fn new(items: Vec<T>, next: Option<Position>) -> Self {
        Self { items, next, damaged: Vec::new() }
    }
}

/// The position of a record in a list: the value that the list is sorted by, then the id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The value that the record is sorted by.
    pub key: SortKey,
    /// The record's id.
    pub id: Uuid,
}

/// A value that a record is sorted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SortKey {
    /// The time of creation. This variant has no value, because the order of ids is the order of creation.
    CreatedAt,
    /// A plan's tier.
    Tier(Tier),
    /// A plan's price, compared as a number.
    Price(#[serde(with = "rust_decimal_text")] Decimal),
    /// A plan's name, compared byte by byte.
    Name(Name),
    /// The time of a subscription's next renewal.
    RenewsAt(Timestamp),
    /// A subscription without a renewal. It is sorted after all subscriptions that have one.
    NeverRenews,
    /// The time at which a subscription or a payment is due.
    DueAt(Timestamp),
    /// The [key](crate::Email::key) of a user's e-mail address.
    Email(EmailKey),
    /// A document's id, preceded by its due time in a list of due documents. The id of the [`Position`] is
    /// the nil UUID, because the ids of documents are texts.
    Document {
        /// The document's due time in a list of due documents; `None` in other lists.
        due_at: Option<Timestamp>,
        /// The document's id.
        id: DocumentId,
    },
}

mod rust_decimal_text {
    use rust_decimal::Decimal;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(value: &Decimal, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Decimal, D::Error> {
        let text = String::deserialize(from)?;
        Decimal::from_str_exact(&text).map_err(de::Error::custom)
    }
}

/// The order of a list of plans; plans with the same value are sorted by id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanOrder {
    /// [`Plan::tier`].
    #[default]
    Tier,
    /// [`Plan::price`], compared as a number.
    Price,
    /// [`Plan::name`], compared byte by byte.
    Name,
    /// [`Plan::created_at`].
    CreatedAt,
}

impl PlanOrder {
    /// Every order.
    pub const ALL: [Self; 4] = [Self::Tier, Self::Price, Self::Name, Self::CreatedAt];

    /// The value that this order sorts `plan` by.
    pub fn key(self, plan: &Plan) -> SortKey {
        match self {
            Self::Tier => SortKey::Tier(plan.tier),
            Self::Price => SortKey::Price(plan.price.value().normalize()),
            Self::Name => SortKey::Name(plan.name.clone()),
            Self::CreatedAt => SortKey::CreatedAt,
        }
    }

    /// The position of `plan` in this order.
    pub fn position(self, plan: &Plan) -> Position {
        Position { key: self.key(plan), id: plan.id.uuid() }
    }

    /// True if `position` has the kind of sort key that the positions of a list in this order have.
    pub const fn fits(self, position: &Position) -> bool {
        matches!(
            (self, &position.key),
            (Self::Tier, SortKey::Tier(_))
                | (Self::Price, SortKey::Price(_))
                | (Self::Name, SortKey::Name(_))
                | (Self::CreatedAt, SortKey::CreatedAt)
        )
    }
}

/// The plans to list: all plans that meet every condition that is set. A field that is `None` sets no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanFilter {
    /// `true`: plans that are open for new subscriptions. `false`: plans that are closed.
    pub is_active: Option<bool>,
    /// Plans with this billing cycle.
    pub billing_cycle: Option<BillingCycle>,
    /// Plans of this product at the payment provider.
    pub product_id: Option<ExternalId>,
    /// Plans of this tier.
    pub tier: Option<Tier>,
    /// `true`: plans that are marked as most popular. `false`: plans that are not.
    pub most_popular: Option<bool>,
}

impl PlanFilter {
    /// True if `plan` meets the conditions.
    pub fn admits(&self, plan: &Plan) -> bool {
        self.is_active.is_none_or(|is_active| plan.is_active == is_active)
            && self.billing_cycle.is_none_or(|cycle| plan.billing_cycle == cycle)
            && self.product_id.as_ref().is_none_or(|id| plan.product_id.as_ref() == Some(id))
            && self.tier.is_none_or(|tier| plan.tier == tier)
            && self.most_popular.is_none_or(|popular| plan.most_popular == popular)
    }
}

/// A page of plans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanQuery {
    /// The plans to list.
    pub filter: PlanFilter,
    /// The value that the list is sorted by.
    pub order: PlanOrder,
    /// The direction in which the list is sorted.
    pub direction: Direction,
    /// The position after which the page begins; from the start if `None`.
    pub after: Option<Position>,
    /// The largest number of records on the page.
    pub limit: PageLimit,
}

/// A page of payments in the order of their creation: those of one subscription, those of one user, or all payments.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PaymentQuery {
    /// The subscription whose payments are listed; `None` for the payments of all subscriptions.
    pub subscription_id: Option<SubscriptionId>,
    /// The user whose payments are listed; `None` for the payments of all users. A payment for a deleted subscription
    /// belongs to no user.
    pub user_id: Option<UserId>,
    /// The direction in which the list is sorted.
    pub direction: Direction,
    /// The position after which the page begins; from the start if `None`.
    pub after: Option<Position>,
    /// The largest number of records on the page.
    pub limit: PageLimit,
}

impl PaymentQuery {
    /// The oldest payments of a subscription.
    pub fn of(subscription_id: SubscriptionId) -> Self {
        Self { subscription_id: Some(subscription_id), ..Self::all() }
    }

    /// The newest payments for the subscriptions of a user.
    pub fn of_user(user_id: UserId) -> Self {
        Self { user_id: Some(user_id), direction: Direction::Descending, ..Self::all() }
    }

    /// The oldest payments of all subscriptions, including deleted subscriptions.
    pub fn all() -> Self {
        Self {
            subscription_id: None,
            user_id: None,
            direction: Direction::Ascending,
            after: None,
            limit: PageLimit::default(),
        }
    }

    /// The position of `payment` in a list of payments.
    pub const fn position(payment: &Payment) -> Position {
        Position { key: SortKey::CreatedAt, id: payment.id.uuid() }
    }

    /// True if `position` has the kind of sort key that the positions of a list of payments have.
    pub const fn fits(position: &Position) -> bool {
        matches!(position.key, SortKey::CreatedAt)
    }
}

with_fields! {
    PlanFilter {
        with_is_active(impl Into<Option<bool>>) => is_active,
        with_billing_cycle(impl Into<Option<BillingCycle>>) => billing_cycle,
        with_product_id(impl Into<Option<ExternalId>>) => product_id,
        with_tier(impl Into<Option<Tier>>) => tier,
        with_most_popular(impl Into<Option<bool>>) => most_popular,
    }
    PlanQuery {
        with_filter(PlanFilter) => filter,
        with_order(PlanOrder) => order,
        with_direction(Direction) => direction,
        with_after(impl Into<Option<Position>>) => after,
        with_limit(PageLimit) => limit,
    }
    PaymentQuery {
        with_direction(Direction) => direction,
        with_after(impl Into<Option<Position>>) => after,
        with_limit(PageLimit) => limit,
    }
}

/// A list of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionQuery {
    /// All sessions of a user that [end](crate::accounts::Session::ended_at) after `now`, newest first.
    LiveOf {
        /// The user whose sessions are listed.
        user: UserId,
        /// The present moment.
        now: Timestamp,
    },
    /// Sessions of a user that ended at `now` or before, the latest ended first.
    EndedOf {
        /// The user whose sessions are listed.
        user: UserId,
        /// The present moment.
        now: Timestamp,
        /// The number of sessions at the start of the list that are left out.
        skip: usize,
        /// The largest number of sessions.
        limit: PageLimit,
    },
    /// Sessions of all users that ended at `by` or before, the longest ended first.
    Ended {
        /// Sessions that ended at this moment or before are listed.
        by: Timestamp,
        /// The largest number of sessions.
        limit: PageLimit,
    },
}

/// A list of clients, sorted by id.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientQuery {
    /// Every client.
    All,
}

/// A list of idempotency records.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdempotencyQuery {
    /// Records that expire at `by` or before, the longest expired first.
    Expired {
        /// Records that expire at this moment or before are listed.
        by: Timestamp,
        /// The largest number of records.
        limit: PageLimit,
    },
}
