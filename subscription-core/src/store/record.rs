//! The kinds of record: each with its key, its query, and the values by which its records are found.

use std::fmt;
use std::sync::Arc;

use super::damaged::DamagedRecord;
use super::document::{Document, DocumentKey, DocumentQuery};
use super::due::{DuePayments, DueSubscriptions};
use super::idempotency::{IdempotencyKey, IdempotencyRecord};
use super::query::{
    ClientQuery, IdempotencyQuery, Page, PageLimit, PaymentQuery, PlanQuery, Position, SessionQuery,
};
use super::subscription_query::SubscriptionQuery;
use super::unique::UniqueValue;
use super::user_query::UserQuery;
use crate::accounts::{Client, Session, User};
use crate::events::Subject;
use crate::payments::Payment;
use crate::plans::Plan;
use crate::subscriptions::Subscription;
use crate::values::{PaymentId, PlanId, SessionId, Slug, SubscriptionId, UserId, Version};

impl Record {
    /// The values of the record that no other record of its kind may have.
    pub fn unique_values(&self) -> impl Iterator<Item = UniqueValue<'_>> {
        let values = match self {
            Self::Plan(plan) => [Some(UniqueValue::PlanSlug(&plan.slug)), None],
            Self::Subscription(subscription) => {
                let id = subscription.external_subscription_id.as_ref();
                let live = subscription.live_key.as_deref();
                [id.map(UniqueValue::ExternalSubscription), live.map(UniqueValue::LiveKey)]
            }
            Self::Payment(payment) => {
                let id = payment.external_payment_id.as_ref();
                let period = payment.claimed_period();
                let of = payment.subscription_id;
                [
                    id.map(UniqueValue::ExternalPayment),
                    period.map(|start| UniqueValue::PaymentPeriod(of, start)),
                ]
            }
            Self::User(user) => [
                Some(UniqueValue::UserIdentity(&user.identity)),
                Some(UniqueValue::UserEmail(&user.email)),
            ],
            Self::Session(_) | Self::Client(_) | Self::Idempotency(_) | Self::Document(_) => {
                [None, None]
            }
        };
        values.into_iter().flatten()
    }
}

/// A kind of record: the type of its records, its id, its query, and its variant of [`Record`], [`Key`] and
/// [`Query`].
pub trait Kind: Sized + Send + Sync + 'static {
    /// The id of a record of this kind.
    type Id: Send + Sync;
    /// The query that lists records of this kind.
    type Query: Send;

    /// The key of the record with this id.
    fn key(id: &Self::Id) -> Key;

    /// Converts the query to a [`Query`].
    fn query(query: Self::Query) -> Query;

    /// Converts the record to a [`Record`].
    fn into_record(self: Arc<Self>) -> Record;

    /// The record of this kind; `None` if `record` is of another kind.
    fn from_record(record: Record) -> Option<Arc<Self>>;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident: $record:ty, $key:ident: $id:ty, $query:ty;)+) => {
        /// A stored record of any kind.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Record {
            $($(#[$doc])* $variant(Arc<$record>),)+
        }

        impl Record {
            /// The key that names the record.
            pub fn key(&self) -> Key {
                match self {
                    $(Self::$variant(record) => Key::$variant(record.$key.clone()),)+
                }
            }

            /// The version of the record.
            pub fn version(&self) -> Version {
                match self {
                    $(Self::$variant(record) => record.version,)+
                }
            }
        }

        /// The key that names a record of any kind.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Key {
            $($(#[$doc])* $variant($id),)+
        }

        /// A query that lists records of any kind.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Query {
            $($(#[$doc])* $variant($query),)+
            /// Subscriptions that are due, by `next_action_at`.
            DueSubscriptions(DueSubscriptions),
            /// Payments that are due, by [`Payment::action_at`].
            DuePayments(DuePayments),
        }

        $(impl From<$record> for Record {
            fn from(record: $record) -> Self {
                Self::$variant(Arc::new(record))
            }
        }

        impl Kind for $record {
            type Id = $id;
            type Query = $query;

            fn key(id: &$id) -> Key {
                Key::$variant(id.clone())
            }

            fn query(query: $query) -> Query {
                Query::$variant(query)
            }

            fn into_record(self: Arc<Self>) -> Record {
                Record::$variant(self)
            }

            fn from_record(record: Record) -> Option<Arc<Self>> {
                if let Record::$variant(record) = record { Some(record) } else { None }
            }
        })+
    };
}

kinds! {
    /// Plans.
    Plan: Plan, id: PlanId, PlanQuery;
    /// Subscriptions.
    Subscription: Subscription, id: SubscriptionId, SubscriptionQuery;
    /// Payments.
    Payment: Payment, id: PaymentId, PaymentQuery;
    /// Users.
    User: User, id: UserId, UserQuery;
    /// Sessions.
    Session: Session, id: SessionId, SessionQuery;
    /// Clients.
    Client: Client, id: Slug, ClientQuery;
    /// Idempotency records.
    Idempotency: IdempotencyRecord, key: IdempotencyKey, IdempotencyQuery;
    /// Documents.
    Document: Document, key: DocumentKey, DocumentQuery;
}

impl Query {
    /// Makes a page of the records that a store found, in the order of the list. A store looks for one record more than
    /// the page may have: if it found that record, the page has a [`next`](Page::next).
    pub(super) fn page(&self, mut items: Vec<Record>) -> Page<Record> {
        let limit = self.limit().map_or(items.len(), PageLimit::get);
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).and_then(|last| self.position(last));
        Page::new(items, next)
    }

    /// The largest number of records on a page; `None` if the list has no positions, and so no second page.
    pub(super) const fn limit(&self) -> Option<PageLimit> {
        match self {
            Self::Plan(query) => Some(query.limit),
            Self::Subscription(query) => Some(query.limit),
            Self::Payment(query) => Some(query.limit),
            Self::User(UserQuery::Open { limit, .. }) => Some(*limit),
            Self::Document(query) => Some(query.limit),
            Self::DueSubscriptions(query) => Some(query.limit),
            Self::DuePayments(query) => Some(query.limit),
            Self::User(UserQuery::Closing { .. })
            | Self::Session(_)
            | Self::Client(_)
            | Self::Idempotency(_) => None,
        }
    }

    /// The largest number of records that a store looks for, and the same query with twice its limit, for a store that
    /// found damaged records among them. `None` if the query has no limit, or if the limit cannot be doubled.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn doubled(&self) -> Option<(usize, Self)> {
        let mut query = self.clone();
        let limit = query.limit_mut()?;
        let found_max = limit.get() + usize::from(self.limit().is_some());
        *limit = limit.doubled()?;
        Some((found_max, query))
    }

    /// The limit of the query; `None` if it has none.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    const fn limit_mut(&mut self) -> Option<&mut PageLimit> {
        match self {
            Self::Plan(query) => Some(&mut query.limit),
            Self::Subscription(query) => Some(&mut query.limit),
            Self::Payment(query) => Some(&mut query.limit),
            Self::Document(query) => Some(&mut query.limit),
            Self::DueSubscriptions(query) => Some(&mut query.limit),
            Self::DuePayments(query) => Some(&mut query.limit),
            Self::User(UserQuery::Open { limit, .. } | UserQuery::Closing { limit })
            | Self::Session(
                SessionQuery::EndedOf { limit, .. } | SessionQuery::Ended { limit, .. },
            )
            | Self::Idempotency(IdempotencyQuery::Expired { limit, .. }) => Some(limit),
            Self::Session(SessionQuery::LiveOf { .. }) | Self::Client(_) => None,
        }
    }

    /// The position of a record in the list; `None` if the list has no positions.
    fn position(&self, record: &Record) -> Option<Position> {
        match (self, record) {
            (Self::Plan(query), Record::Plan(plan)) => Some(query.order.position(plan)),
            (Self::Subscription(query), Record::Subscription(found)) => {
                Some(query.order.position(found))
            }
            (Self::Payment(_), Record::Payment(payment)) => Some(PaymentQuery::position(payment)),
            (Self::User(UserQuery::Open { filter, .. }), Record::User(user)) => {
                Some(filter.position(user))
            }
            (Self::DueSubscriptions(_), Record::Subscription(found)) => {
                DueSubscriptions::position(found)
            }
            (Self::DuePayments(_), Record::Payment(payment)) => DuePayments::position(payment),
            (Self::Document(query), Record::Document(document)) => Some(query.position(document)),
            _ => None,
        }
    }
}

impl From<Subject> for Key {
    fn from(subject: Subject) -> Self {
        match subject {
            Subject::Plan(id) => Self::Plan(id),
            Subject::Subscription(id) => Self::Subscription(id),
            Subject::Payment(id) => Self::Payment(id),
            Subject::User(id) => Self::User(id),
            Subject::Session(id) => Self::Session(id),
            Subject::Client(id) => Self::Client(id),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(id) => Subject::Plan(*id).fmt(f),
            Self::Subscription(id) => Subject::Subscription(*id).fmt(f),
            Self::Payment(id) => Subject::Payment(*id).fmt(f),
            Self::User(id) => Subject::User(*id).fmt(f),
            Self::Session(id) => Subject::Session(*id).fmt(f),
            Self::Client(id) => Subject::Client(id.clone()).fmt(f),
            // The key of an idempotency record is not shown, because it must not be logged.
            Self::Idempotency(key) => write!(f, "the idempotency record of {}", key.operation),
            Self::Document(key) => write!(f, "{} {}", key.collection, key.id),
        }
    }
}

impl DamagedRecord {
    /// The record of this key, and why it cannot be read.
    pub fn of(key: &Key, cause: impl fmt::Display) -> Self {
        let (kind, id) = match key {
            Key::Plan(id) => ("plan", id.to_string()),
            Key::Subscription(id) => ("subscription", id.to_string()),
            Key::Payment(id) => ("payment", id.to_string()),
            Key::User(id) => ("user", id.to_string()),
            Key::Session(id) => ("session", id.to_string()),
            Key::Client(id) => ("client", id.to_string()),
            Key::Idempotency(_) => ("idempotency record", String::new()),
            Key::Document(key) => ("document", format!("{} {}", key.collection, key.id)),
        };
        Self { kind, id, cause: cause.to_string() }
    }
}
