//! Events: one for every change of a record, written in the same commit.
//!
//! The events are the audit trail, and the feed for webhooks and for caches of other processes.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::accounts::{Client, RevocationReason, User};
use crate::payments::{Payment, PaymentStatus};
use crate::plans::Plan;
use crate::subscriptions::{Subscription, SubscriptionStatus};
use crate::values::as_text::written_as_text;
use crate::values::{
    EventId, InvalidValue, PaymentId, PlanId, SessionId, Slug, SubscriptionId, Timestamp, UserId,
    Version,
};

/// An event: one change of one record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The event's id, which never changes.
    pub id: EventId,
    /// When the change happened.
    pub at: Timestamp,
    /// The record that changed.
    pub subject: Subject,
    /// The version of the record after the change; for a deletion, the last version plus 1.
    pub version: Version,
    /// The change of the record.
    #[serde(flatten)]
    pub change: Change,
    /// The actor that made the change.
    pub actor: Actor,
}

impl Event {
    /// The event's name: `subscription.status_changed`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.subject.kind(), self.change.name())
    }
}

/// The actor that made a change. As text: `client:shop`, `user:<uuid>`, `clock`, `provider:<source>`,
/// `command`, `library`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Actor {
    /// A client of the HTTP API.
    Client(Slug),
    /// A user who changed a record of their own.
    User(UserId),
    /// The service itself, when a renewal, a clean-up or other work was due.
    Clock,
    /// A payment provider, by the name of its source (the field `ProviderAccount::name`).
    Provider(Slug),
    /// A command of an operator, or the settings file.
    Command,
    /// The program that embeds the library, if it names no other actor.
    Library,
}

impl Actor {
    fn text(&self) -> Cow<'static, str> {
        match self {
            Self::Client(id) => format!("client:{id}").into(),
            Self::User(id) => format!("user:{id}").into(),
            Self::Clock => "clock".into(),
            Self::Provider(source) => format!("provider:{source}").into(),
            Self::Command => "command".into(),
            Self::Library => "library".into(),
        }
    }
}

written_as_text!(Actor, |actor| &actor.text());

impl FromStr for Actor {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        match text.split_once(':') {
            Some(("client", id)) => id.parse().map(Self::Client),
            Some(("user", id)) => id.parse().map(Self::User),
            Some(("provider", source)) => source.parse().map(Self::Provider),
            None if text == "clock" => Ok(Self::Clock),
            None if text == "command" => Ok(Self::Command),
            None if text == "library" => Ok(Self::Library),
            Some(_) | None => Err(InvalidValue::bad_format("must be an actor such as client:shop")),
        }
    }
}

/// The record that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", content = "id", rename_all = "snake_case")]
pub enum Subject {
    /// A plan.
    Plan(PlanId),
    /// A subscription.
    Subscription(SubscriptionId),
    /// A payment.
    Payment(PaymentId),
    /// A user. A sign-in and the revocation of all sessions are updates of the user.
    User(UserId),
    /// A session. A refresh and the use of a token write no event.
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

    /// The id of the record; `None` for a client, whose id is not a UUID.
    pub const fn uuid(&self) -> Option<Uuid> {
        match self {
            Self::Plan(id) => Some(id.uuid()),
            Self::Subscription(id) => Some(id.uuid()),
            Self::Payment(id) => Some(id.uuid()),
            Self::User(id) => Some(id.uuid()),
            Self::Session(id) => Some(id.uuid()),
            Self::Client(_) => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id: &dyn fmt::Display = match self {
            Self::Plan(id) => id,
            Self::Subscription(id) => id,
            Self::Payment(id) => id,
            Self::User(id) => id,
            Self::Session(id) => id,
            Self::Client(id) => id,
        };
        write!(f, "{} {id}", self.kind())
    }
}

/// A change of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// The record was created.
    Created,
    /// The record was changed, and its status stayed the same.
    Updated {
        /// The fields that changed.
        fields: ChangedFields,
    },
    /// A subscription's status changed, and perhaps other fields with it.
    SubscriptionStatusChanged {
        /// The status before the change.
        from: SubscriptionStatus,
        /// The status after the change.
        to: SubscriptionStatus,
    },
    /// A payment's status changed, and perhaps other fields with it.
    PaymentStatusChanged {
        /// The status before the change.
        from: PaymentStatus,
        /// The status after the change.
        to: PaymentStatus,
    },
    /// A period of a subscription started, and the status of the subscription stayed the same.
    PeriodStarted {
        /// The start of the period.
        period_start: Timestamp,
        /// The end of the period; `None` if the period has no end.
        period_end: Option<Timestamp>,
    },
    /// The oldest missed periods of a subscription were skipped, because more than `missed_periods_max` periods were
    /// due at once. No payment is requested for the skipped periods.
    PeriodsSkipped {
        /// The number of skipped periods.
        count: u32,
    },
    /// The plan, the billing cycle or the quantity of a subscription changed, and the status of the subscription stayed
    /// the same.
    PlanChanged {
        /// The plan before the change.
        from_plan: PlanId,
        /// The plan after the change, which may be the same plan.
        to_plan: PlanId,
    },
    /// The trial of a subscription ends soon.
    TrialWillEnd {
        /// When the trial ends.
        trial_ends_at: Timestamp,
    },
    /// A subscription renews soon.
    RenewalUpcoming {
        /// When the subscription renews.
        renews_at: Timestamp,
    },
    /// A session was revoked.
    Revoked {
        /// The reason for the revocation.
        reason: RevocationReason,
    },
    /// The record was deleted.
    Deleted,
}

impl Change {
    const fn name(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated { .. } => "updated",
            Self::SubscriptionStatusChanged { .. } | Self::PaymentStatusChanged { .. } => {
                "status_changed"
            }
            Self::PeriodStarted { .. } => "period_started",
            Self::PeriodsSkipped { .. } => "periods_skipped",
            Self::PlanChanged { .. } => "plan_changed",
            Self::TrialWillEnd { .. } => "trial_will_end",
            Self::RenewalUpcoming { .. } => "renewal_upcoming",
            Self::Revoked { .. } => "revoked",
            Self::Deleted => "deleted",
        }
    }

    /// The status of the record after the change; `None` if the change is not a change of status.
    fn new_status(&self) -> Option<&'static str> {
        match self {
            Self::SubscriptionStatusChanged { to, .. } => Some(to.as_str()),
            Self::PaymentStatusChanged { to, .. } => Some(to.as_str()),
            Self::Created
            | Self::Updated { .. }
            | Self::PeriodStarted { .. }
            | Self::PeriodsSkipped { .. }
            | Self::PlanChanged { .. }
            | Self::TrialWillEnd { .. }
            | Self::RenewalUpcoming { .. }
            | Self::Revoked { .. }
            | Self::Deleted => None,
        }
    }
}

/// Each kind of record that has events, and the names of its changes.
const TYPES: [(&str, &[&str]); 6] = [
    ("plan", &["created", "updated", "deleted"]),
    (
        "subscription",
        &[
            "created",
            "updated",
            "status_changed",
            "period_started",
            "periods_skipped",
            "plan_changed",
            "trial_will_end",
            "renewal_upcoming",
            "deleted",
        ],
    ),
    ("payment", &["created", "updated", "status_changed", "deleted"]),
    ("user", &["created", "updated", "deleted"]),
    ("session", &["created", "revoked", "deleted"]),
    ("client", &["created", "updated"]),
];

/// A set of event types, as text: `subscription.status_changed`, `subscription.*`,
/// `subscription.status_changed.expired` (only changes to the status `expired`), or `*` for all events of plans,
/// subscriptions and payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypePattern {
    /// The kind of record that the pattern names; `None` for `*`.
    kind: Option<&'static str>,
    change: Option<&'static str>,
    status: Option<&'static str>,
}

impl TypePattern {
    /// All events of plans, subscriptions and payments: `*`.
    pub const LEDGER: Self = Self { kind: None, change: None, status: None };

    /// True if the type of the event is in this set.
    pub fn admits(&self, event: &Event) -> bool {
        let Event { subject, change, .. } = event;
        let is_kind =
            self.kind.map_or_else(|| !is_account(subject.kind()), |it| it == subject.kind());
        is_kind
            && self.change.is_none_or(|name| name == change.name())
            && self.status.is_none_or(|status| change.new_status() == Some(status))
    }

    /// The kind of record that the pattern names: `plan` for `plan.*`. `None` for `*`, which names none.
    pub const fn kind(&self) -> Option<&'static str> {
        self.kind
    }

    /// True if the pattern admits events of users, sessions or clients.
    pub fn is_of_accounts(&self) -> bool {
        self.kind.is_some_and(is_account)
    }
}

fn is_account(kind: &str) -> bool {
    matches!(kind, "user" | "session" | "client")
}

/// The status of this kind of record with exactly this name; `None` if there is no such status.
fn status_of(kind: &str, name: &str) -> Option<&'static str> {
    match kind {
        "subscription" => {
            SubscriptionStatus::all().map(SubscriptionStatus::as_str).find(|it| *it == name)
        }
        "payment" => PaymentStatus::all().map(PaymentStatus::as_str).find(|it| *it == name),
        _ => None,
    }
}

impl FromStr for TypePattern {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let refused = |message| Err(InvalidValue::not_allowed(message));
        if text == "*" {
            return Ok(Self::LEDGER);
        }
        let mut parts = text.splitn(3, '.');
        let named = parts.next();
        let change = parts.next();
        let status = parts.next();
        let Some((kind, changes)) = TYPES.into_iter().find(|(kind, _)| named == Some(kind)) else {
            let kinds = TYPES.map(|(kind, _)| kind).join(", ");
            return refused(format!(
                "must be *, or a type such as plan.created or plan.*; the kinds are {kinds}"
            ));
        };
        let pattern = Self { kind: Some(kind), change: None, status: None };
        if (change, status) == (Some("*"), None) {
            return Ok(pattern);
        }
        let Some(change) = changes.iter().copied().find(|name| change == Some(name)) else {
            return refused(format!(
                "must be {kind}.* or {kind}.CHANGE, where CHANGE is one of {}",
                changes.join(", ")
            ));
        };
        let known =
            status.and_then(|name| status_of(kind, name)).filter(|_| change == "status_changed");
        if status.is_some() && known.is_none() {
            return refused(format!(
                "must be {kind}.{change}; only status_changed can have a third part, the new status"
            ));
        }
        Ok(Self { change: Some(change), status: known, ..pattern })
    }
}

impl TypePattern {
    fn text(&self) -> String {
        let Some(kind) = self.kind else { return "*".to_owned() };
        let status = self.status.map_or(String::new(), |status| format!(".{status}"));
        format!("{kind}.{}{status}", self.change.unwrap_or("*"))
    }
}

written_as_text!(TypePattern, |pattern| &pattern.text());

/// The names of the fields that differ between two versions of a record, in the order of the record's JSON.
/// `version` and `updated_at`, which always differ, are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChangedFields(Vec<Cow<'static, str>>);

impl ChangedFields {
    /// Iterates over the names of the changed fields.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }
}

macro_rules! changed_fields {
    ($($record:ident { $($field:ident $(($($argument:tt)*))?),+ $(,)? })+) => {$(
        impl $record {
            /// The fields that have another value in `next`.
            pub fn changed_fields(&self, next: &Self) -> ChangedFields {
                let mut names = Vec::new();
                $(if self.$field $(($($argument)*))? != next.$field $(($($argument)*))? {
                    names.push(Cow::Borrowed(stringify!($field)));
                })+
                ChangedFields(names)
            }
        }
    )+};
}

changed_fields! {
    Plan {
        name, product_id, variants, slug, price, href, billing_cycle, description, node_quota,
        features, most_popular, tier, is_active, metadata, currency, trial_period,
    }
    Subscription {
        user_id, subscription_plan_id, external_subscription_id, billing_cycle, status, is_active,
        blocked, renews_at, starts_at, ends_at, current_period_start(), current_period_end(),
        metadata, managed_by, quantity, price(), currency(), credit(), discount(), trial_ends_at(), resumes_at(),
        past_due_since(), next_action_at(), scheduled_change(), manage_url(),
    }
    Payment {
        subscription_id, amount, currency, external_payment_id, status, metadata, kind(),
        period_start(), period_end(), due_at(), attempt(), next_attempt_at(),
    }
    User { identity, email, closing }
    Client { name, kind, scopes, keys, revoked_at, origins, source, left_at }
}

impl Subscription {
    /// The change from this subscription to `next`, its later version.
    pub fn change_to(&self, next: &Self) -> Change {
        if next.status == self.status {
            Change::Updated { fields: self.changed_fields(next) }
        } else {
            Change::SubscriptionStatusChanged { from: self.status, to: next.status }
        }
    }
}

impl Payment {
    /// The change from this payment to `next`, its later version.
    pub fn change_to(&self, next: &Self) -> Change {
        if next.status == self.status {
            Change::Updated { fields: self.changed_fields(next) }
        } else {
            Change::PaymentStatusChanged { from: self.status, to: next.status }
        }
    }
}

/// An event with its sequence number in the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedEvent {
    /// The sequence number. It rises from event to event, in the order of the feed; numbers may be missing.
    pub sequence: u64,
    /// The event.
    pub event: Event,
}
