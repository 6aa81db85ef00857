//! The tables of the records: one description for each kind of record.
//!
//! A description lists the fields of a record in the order of the table's columns. A field has one column of the same
//! name, or the columns in the brackets after it. The columns after `and` are computed from the record, each by the
//! method of its name, and are never read back.

use std::sync::LazyLock;

use super::field::Field;
use super::table::{SqlRecord, Table, Texts, no_record};
use super::value::{Cells, Value};
use crate::accounts::{Client, Session, User};
use crate::events::RecordedEvent;
use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::{Cause, Document, IdempotencyRecord, Unique};
use crate::subscriptions::Subscription;

macro_rules! names {
    ($field:ident) => {
        &[stringify!($field)] as &[&str]
    };
    ($field:ident [$($column:ident)+]) => {
        &[$(stringify!($column)),+] as &[&str]
    };
}

macro_rules! record {
    (
        $record:ident: $static:ident = $name:literal, key $key:literal
        { $($field:ident $([$($column:ident),+])?),+ $(,)? }
        $(and [$($derived:ident),+])?
        $(, unique [$($unique:expr),+ $(,)?])?
        $(; holds $kind:ident)?
    ) => {
        pub(super) static $static: Table = Table {
            name: $name,
            key: $key,
            fields: &[$(names!($field $([$($column)+])?),)+ $($(names!($derived),)+)?],
            derived: (&[$($(stringify!($derived)),+)?] as &[&str]).len(),
            unique: &[$($($unique),+)?],
            read: no_record,
            texts: LazyLock::new(|| Texts::of(&$static)),
        }$(.holds::<$kind>())?;

        impl SqlRecord for $record {
            const TABLE: &'static Table = &$static;

            fn values(&self) -> Vec<Value> {
                let mut values = Vec::with_capacity(Self::TABLE.columns().len());
                $(self.$field.write(&mut values);)+
                $($(self.$derived().write(&mut values);)+)?
                values
            }

            fn read(cells: &mut Cells<'_>) -> Result<Self, Cause> {
                Ok(Self { $($field: Field::read(cells)?),+ })
            }
        }
    };
}

record! {
    Plan: PLANS = "plans", key 1 {
        id, name, product_id, variants, slug, price, currency, href, billing_cycle, trial_period,
        description, node_quota, features, most_popular, tier, is_active, metadata, created_at,
        updated_at, version,
    },
    unique [("plans_slug", "plans.slug", Unique::PlanSlug)];
    holds Plan
}

record! {
    Subscription: SUBSCRIPTIONS = "subscriptions", key 1 {
        id, user_id, subscription_plan_id, external_subscription_id, billing_cycle, status,
        is_active, renews_at, starts_at, ends_at, metadata, created_at, updated_at, version, blocked,
        anchor_at, managed_by, quantity, billing, live_key,
    } and [next_action_at, scheduled_plan_id, access_phase],
    unique [
        (
            "subscriptions_external_id",
            "subscriptions.external_subscription_id",
            Unique::ExternalSubscription,
        ),
        ("subscriptions_live", "subscriptions.live_key", Unique::LiveSubscription),
    ];
    holds Subscription
}

record! {
    Payment: PAYMENTS = "payments", key 1 {
        id, subscription_id, amount, currency, external_payment_id, status, metadata, created_at,
        updated_at, version, settled, asked,
    } and [due_at, next_attempt_at, whole_period],
    unique [
        ("payments_external_id", "payments.external_payment_id", Unique::ExternalPayment),
        ("payments_period", "payments.whole_period", Unique::PaymentPeriod),
    ];
    holds Payment
}

record! {
    User: USERS = "users", key 1 {
        id, identity [issuer, subject], email [email, email_key], closing, created_at, updated_at,
        version,
    },
    unique [
        ("users_identity", "users.issuer", Unique::UserIdentity),
        ("users_email", "users.email_key", Unique::UserEmail),
    ];
    holds User
}

record! {
    Session: SESSIONS = "sessions", key 1 {
        id, user_id, client_id, issuer, opened_with, key_id, salt, generation, rotated_at,
        successor_used, auth_time, last_seen_at, expires_at, idle_expires_at,
        revoked [revoked_at, revocation_reason], origin [ip, user_agent], created_at, updated_at,
        version,
    } and [ended_at];
    holds Session
}

record! {
    Client: CLIENTS = "clients", key 1 {
        id, name, kind, scopes, keys, revoked_at, origins, source, left_at, created_at, updated_at,
        version,
    };
    holds Client
}

record! {
    IdempotencyRecord: ANSWERS = "answers", key 3 {
        key [operation, client, request_key], version, fingerprint, result [answer, metadata], expires_at,
    };
    holds IdempotencyRecord
}

record! {
    Document: DOCUMENTS = "documents", key 2 {
        key [collection, id], version, owner, label, due_at, body,
    };
    holds Document
}

// A row of this table may have no sequence yet. A `RecordedEvent` always has a sequence, so it is read only from rows
// that have one.
record! {
    RecordedEvent: EVENTS = "events", key 1 {
        sequence, event [id, at, subject, version, change, actor],
    }
}
