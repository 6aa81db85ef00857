//! Events: one for every change of a record, written in the same commit.
//!
//! They are the audit trail, the feed for webhooks, and what tells others to forget a cached record.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::accounts::RevocationReason;
use crate::payments::PaymentStatus;
use crate::subscriptions::SubscriptionStatus;
use crate::values::clock::Timestamp;
use crate::values::id::{EventId, PaymentId, PlanId, SessionId, SubscriptionId, UserId};
use crate::values::text::Slug;
use crate::values::version::Version;

/// That a record changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Names the event for ever.
    pub id: EventId,
    /// When it happened.
    pub at: Timestamp,
    /// The record that changed.
    pub subject: Subject,
    /// The version that the record has since; for a deletion, one more than its last.
    pub version: Version,
    /// What happened to it.
    #[serde(flatten)]
    pub change: Change,
}

impl Event {
    /// The event's name: `subscription.status_changed`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.subject.kind(), self.change.name())
    }
}

/// The record that an event tells of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", content = "id", rename_all = "snake_case")]
pub enum Subject {
    /// A plan.
    Plan(PlanId),
    /// A subscription.
    Subscription(SubscriptionId),
    /// A payment.
    Payment(PaymentId),
    /// A user. That one signs in, or ends all sessions, is an update.
    User(UserId),
    /// A session. That one is refreshed or seen is no event.
    Session(SessionId),
    /// A client.
    Client(Slug),
}

impl Subject {
    /// The kind of record: `plan`, `subscription`, `payment`, `user`, `session`, `client`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Plan(_) => "plan",
            Self::Subscription(_) => "subscription",
            Self::Payment(_) => "payment",
            Self::User(_) => "user",
            Self::Session(_) => "session",
            Self::Client(_) => "client",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(id) => write!(f, "plan {id}"),
            Self::Subscription(id) => write!(f, "subscription {id}"),
            Self::Payment(id) => write!(f, "payment {id}"),
            Self::User(id) => write!(f, "user {id}"),
            Self::Session(id) => write!(f, "session {id}"),
            Self::Client(id) => write!(f, "client {id}"),
        }
    }
}

/// What happened to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// It was made.
    Created,
    /// Some of its fields changed, but not its status.
    Updated,
    /// A subscription's status changed, and perhaps other fields with it.
    SubscriptionStatusChanged {
        /// The status before.
        from: SubscriptionStatus,
        /// The status since.
        to: SubscriptionStatus,
    },
    /// A payment's status changed, and perhaps other fields with it.
    PaymentStatusChanged {
        /// The status before.
        from: PaymentStatus,
        /// The status since.
        to: PaymentStatus,
    },
    /// A session was ended before its time.
    Revoked {
        /// Why.
        reason: RevocationReason,
    },
    /// It is gone.
    Deleted,
}

impl Change {
    const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::SubscriptionStatusChanged { .. } | Self::PaymentStatusChanged { .. } => {
                "status_changed"
            }
            Self::Revoked { .. } => "revoked",
            Self::Deleted => "deleted",
        }
    }
}

/// An event with its place in the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordedEvent {
    /// Rises from event to event, in the order in which they can be read; gaps mean nothing.
    pub sequence: u64,
    /// What happened.
    pub event: Event,
}
