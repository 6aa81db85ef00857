//! What is written at once: guards, writes, deletes, events.

use std::collections::HashSet;
use std::fmt;

use super::error::BadChangeSet;
use super::idempotency::{IdempotencyKey, IdempotencyRecord};
use crate::accounts::{Client, Session, User};
use crate::events::{Event, Subject};
use crate::payments::Payment;
use crate::plans::Plan;
use crate::subscriptions::Subscription;
use crate::values::clock::Timestamp;
use crate::values::id::{PaymentId, PlanId, SessionId, SubscriptionId, UserId};
use crate::values::text::Slug;
use crate::values::version::Version;

/// A change that a store takes whole or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// What must still hold, though it is not changed.
    pub guards: Vec<Guard>,
    /// Records as they will be.
    pub writes: Vec<Write>,
    /// Records that will be gone.
    pub deletes: Vec<Delete>,
    /// What happened, at the end of the feed in this order.
    pub events: Vec<Event>,
    /// Events up to and with this sequence are gone from the feed.
    pub forget_events: Option<u64>,
}

impl ChangeSet {
    /// How many writes and deletes one commit takes.
    pub const RECORDS_MAX: usize = 1_000;

    /// True if it asks no more than whether the store takes writes.
    pub fn is_empty(&self) -> bool {
        let Self { guards, writes, deletes, events, forget_events } = self;
        guards.is_empty()
            && writes.is_empty()
            && deletes.is_empty()
            && events.is_empty()
            && forget_events.is_none()
    }

    /// The subscriptions that the set writes or deletes.
    pub fn subscriptions_named(&self) -> HashSet<SubscriptionId> {
        let written = self.writes.iter().map(Write::key);
        let named = written.chain(self.deletes.iter().map(|delete| delete.key.clone()));
        named
            .filter_map(|key| if let Key::Subscription(id) = key { Some(id) } else { None })
            .collect()
    }

    /// Checks what every store must refuse alike, before it looks at its records.
    pub fn check(&self) -> Result<(), BadChangeSet> {
        let records = self.writes.len() + self.deletes.len();
        if records > Self::RECORDS_MAX {
            return Err(BadChangeSet::TooLarge(records));
        }
        let written = self.writes.iter().map(|write| (write.key(), write.version()));
        let deleted = self.deletes.iter().map(|delete| (delete.key.clone(), delete.version));
        let mut named = HashSet::new();
        for (key, version) in written.chain(deleted) {
            if version == Version::NEW {
                return Err(BadChangeSet::NoVersion(key));
            }
            if records > 1 && !named.insert(key.clone()) {
                return Err(BadChangeSet::NamedTwice(key));
            }
        }
        Ok(())
    }
}

/// What must hold for a change set to be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// The record still has this version; with [`Version::NEW`], there is none.
    Unchanged {
        /// The record.
        key: Key,
        /// Its version as it was read.
        version: Version,
    },
    /// No subscription refers to the plan, but for those that this change set deletes.
    PlanUnused(PlanId),
    /// Every subscription of the user is expired, but for those that this change set writes or deletes.
    NoOtherLiveSubscription(UserId),
    /// The idempotency record of this key expires at this moment or before.
    Expired {
        /// The record.
        key: IdempotencyKey,
        /// The moment.
        by: Timestamp,
    },
}

/// A record as it will be.
///
/// Its version is one more than the version that was read; a new record has [`Version::FIRST`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// A plan.
    Plan(Plan),
    /// A subscription.
    Subscription(Subscription),
    /// A payment.
    Payment(Payment),
    /// A user.
    User(User),
    /// A session.
    Session(Session),
    /// A client.
    Client(Client),
    /// The answer to a request that may be repeated.
    Idempotency(IdempotencyRecord),
}

impl Write {
    /// The record's name.
    pub fn key(&self) -> Key {
        match self {
            Self::Plan(plan) => Key::Plan(plan.id),
            Self::Subscription(subscription) => Key::Subscription(subscription.id),
            Self::Payment(payment) => Key::Payment(payment.id),
            Self::User(user) => Key::User(user.id),
            Self::Session(session) => Key::Session(session.id),
            Self::Client(client) => Key::Client(client.id.clone()),
            Self::Idempotency(record) => Key::Idempotency(record.key.clone()),
        }
    }

    /// The version that the record will have.
    pub const fn version(&self) -> Version {
        match self {
            Self::Plan(plan) => plan.version,
            Self::Subscription(subscription) => subscription.version,
            Self::Payment(payment) => payment.version,
            Self::User(user) => user.version,
            Self::Session(session) => session.version,
            Self::Client(client) => client.version,
            Self::Idempotency(record) => record.version,
        }
    }
}

/// A record that will be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// The record.
    pub key: Key,
    /// Its version as it was read.
    pub version: Version,
}

/// The name of any record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A plan.
    Plan(PlanId),
    /// A subscription.
    Subscription(SubscriptionId),
    /// A payment.
    Payment(PaymentId),
    /// A user.
    User(UserId),
    /// A session.
    Session(SessionId),
    /// A client.
    Client(Slug),
    /// The answer to a request that may be repeated.
    Idempotency(IdempotencyKey),
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
            // The caller's key is nobody else's business, a log's least of all.
            Self::Idempotency(key) => write!(f, "the answer to a request to {}", key.operation),
        }
    }
}
