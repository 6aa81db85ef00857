//! How the fields of records are stored: each type of field has one or more columns.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::value::{Cells, Value};
use crate::accounts::{
    ClientKey, ClientKind, ClientSource, IdentityKey, Origin, Revocation, RevocationReason, Scope,
    WebOrigin,
};
use crate::events::{Actor, Change, Event, Subject};
use crate::payments::{Currency, Payment, PaymentStatus, RequestedPayment};
use crate::plans::{BillingCycle, Features, Plan, Span};
use crate::store::{
    Cause, Collection, DocumentId, DocumentKey, IdempotencyKey, IdempotencyResult,
    IdempotencyToken, Label, Operation,
};
use crate::subscriptions::{BillingState, ManagedBy, Quantity, Subscription, SubscriptionStatus};
use crate::values::{
    Amount, Bounded, Email, EventId, ExternalId, Href, Metadata, PaymentId, PlanId, SessionId,
    Slug, SubscriptionId, Text, Timestamp, UserId, Version,
};

/// A field of a record, as the values of its columns.
pub(super) trait Field: Sized {
    fn write(&self, to: &mut Vec<Value>);

    fn read(cells: &mut Cells<'_>) -> Result<Self, Cause>;
}

/// Implements [`Field`] for types that are stored in one column: each with the value to bind and the expression that
/// reads it.
macro_rules! one_column {
    ($($($type:ty),+ => |$field:ident, $cells:ident| $value:expr, $read:expr;)+) => {$($(
        impl Field for $type {
            fn write(&self, to: &mut Vec<Value>) {
                let $field = self;
                to.push($value);
            }

            fn read($cells: &mut Cells<'_>) -> Result<Self, Cause> {
                $read
            }
        }
    )+)+};
}

one_column! {
    PlanId, SubscriptionId, PaymentId, UserId, SessionId, EventId =>
        |id, cells| Value::Id(id.uuid()), cells.id();
    Option<Uuid> => |id, cells| Value::IdOrNull(*id), cells.id_or_null();
    Option<PlanId> => |id, cells|
        Value::IdOrNull(id.map(PlanId::uuid)),
        Ok(cells.id_or_null()?.map(PlanId::from));
    bool => |yes, cells| Value::Bool(*yes), cells.bool();
    u8, u32 => |number, cells| Value::Int((*number).into()), cells.number();
    u64 => |number, cells| Value::count(*number), cells.count();
    Quantity => |quantity, cells| Value::Int(quantity.get().into()), cells.number();
    Version => |version, cells| Value::version(*version), cells.count().map(Self::from);
    Timestamp => |time, cells| Value::time(*time), cells.time();
    Option<Timestamp> => |time, cells| Value::Time(*time), cells.time_or_null();
    Amount => |amount, cells| Value::Amount(amount.value()), cells.amount();
    [u8; 16], [u8; 32] => |bytes, cells| Value::Bytes(bytes.to_vec()), cells.bytes();
    Vec<ExternalId>, BTreeSet<WebOrigin>, Subject, Change =>
        |json, cells| Value::json(json), cells.json();
    String, Box<str> => |text, cells| Value::text(text), cells.text().map(Self::from);
    Option<Box<str>> => |text, cells|
        Value::Text(text.as_deref().map(str::to_owned)),
        Ok(cells.text_or_null()?.map(Into::into));
    // The JSON of these types is stored as text, which both databases return byte for byte.
    Option<Box<BillingState>>, Option<Box<RequestedPayment>> => |part, cells|
        Value::Text(part.as_ref().map(|part| serde_json::to_string(part).unwrap_or_default())),
        Ok(cells.text_or_null()?.map(|text| serde_json::from_str(&text)).transpose()?);
    BTreeSet<Scope> => |scopes, cells|
        Value::json(&scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>()),
        {
            let scopes: Vec<String> = cells.json()?;
            Ok(scopes.iter().map(|scope| scope.parse()).collect::<Result<_, _>>()?)
        };
    Vec<ClientKey> => |keys, cells|
        Value::json(&keys.iter().cloned().map(StoredKey).collect::<Vec<_>>()),
        Ok(cells.json::<Vec<StoredKey>>()?.into_iter().map(|StoredKey(key)| key).collect());
}

impl<const MAX: u64> Field for Bounded<MAX> {
    fn write(&self, to: &mut Vec<Value>) {
        to.push(Value::count(self.get()));
    }

    fn read(cells: &mut Cells<'_>) -> Result<Self, Cause> {
        cells.number()
    }
}

/// A field that is stored as text. An absent value is NULL.
trait TextField: FromStr<Err: Into<Cause>> {
    fn text(&self) -> String;
}

macro_rules! text {
    ($($type:ty => $text:ident),+ $(,)?) => {$(
        impl TextField for $type {
            fn text(&self) -> String {
                String::from(self.$text())
            }
        }
    )+};
}

text! {
    Slug => as_str, Href => as_str, Features => as_str, BillingCycle => to_string,
    SubscriptionStatus => as_str, PaymentStatus => as_str, Currency => code,
    ClientKind => as_str, ClientSource => as_str, RevocationReason => as_str, IpAddr => to_string,
    Operation => as_str, IdempotencyToken => as_str, Collection => as_str, DocumentId => as_str,
    Label => as_str, Actor => to_string, Metadata => to_string, ManagedBy => as_str, Span => to_string,
}

impl<const MIN: usize, const MAX: usize, const LINES: bool> TextField for Text<MIN, MAX, LINES> {
    fn text(&self) -> String {
        self.as_str().to_owned()
    }
}

impl<T: TextField> Field for T {
    fn write(&self, to: &mut Vec<Value>) {
        to.push(Value::Text(Some(self.text())));
    }

    fn read(cells: &mut Cells<'_>) -> Result<Self, Cause> {
        cells.text()?.parse().map_err(Into::into)
    }
}

impl<T: TextField> Field for Option<T> {
    fn write(&self, to: &mut Vec<Value>) {
        to.push(Value::Text(self.as_ref().map(TextField::text)));
    }

    fn read(cells: &mut Cells<'_>) -> Result<Self, Cause> {
        cells.text_or_null()?.map(|text| text.parse()).transpose().map_err(Into::into)
    }
}

/// Implements [`Field`] for types of several columns. Each part of such a type implements [`Field`] itself.
macro_rules! columns {
    ($($type:ident { $($field:ident),+ $(,)? })+) => {$(
        impl Field for $type {
            fn write(&self, to: &mut Vec<Value>) {
                $(self.$field.write(to);)+
            }

            fn read(cells: &mut Cells<'_>) -> Result<Self, Cause> {
                Ok(Self { $($field: Field::read(cells)?),+ })
            }
        }
    )+};
}

columns! {
    IdentityKey { issuer, subject }
    Origin { ip, user_agent }
    IdempotencyKey { operation, client, key }
    DocumentKey { collection, id }
    Event { id, at, subject, version, change, actor }
}

impl Field for Email {
    fn write(&self, to: &mut Vec<Value>) {
        to.extend([Value::text(self.as_str()), Value::text(self.key())]);
    }

    fn read(cells: &mut Cells<'_>) -> Result<Self, Cause> {
        let email = cells.text()?.parse()?;
        // The column of the key is skipped, because the key is computed from the address.
        cells.text()?;
        Ok(email)
    }
}

impl Field for Option<Revocation> {
    fn write(&self, to: &mut Vec<Value>) {
        self.map(|revocation| revocation.at).write(to);
        self.map(|revocation| revocation.reason).write(to);
    }

    fn read(cells: &mut Cells<'_>) -> Result<Self, Cause> {
        match (cells.time_or_null()?, Field::read(cells)?) {
            (Some(at), Some(reason)) => Ok(Some(Revocation { at, reason })),
            (None, None) => Ok(None),
            _ => {
                Err("a session has a time of revocation but no reason, or a reason but no time"
                    .into())
            }
        }
    }
}

/// Two columns: the record as JSON, and its metadata as text, because PostgreSQL would sort the keys of metadata in
/// JSON.
impl Field for IdempotencyResult {
    fn write(&self, to: &mut Vec<Value>) {
        let (stored, metadata) = match self {
            Self::Plan(plan) => (StoredResult::Plan(Plan::clone(plan)), &plan.metadata),
            Self::Subscription(shown) => {
                let stored = StoredResult::Subscription {
                    shown: Subscription::clone(shown),
                    blocked: shown.blocked,
                    anchor_at: shown.anchor_at,
                    billing: shown.billing.clone(),
                    live_key: shown.live_key.clone(),
                };
                (stored, &shown.metadata)
            }
            Self::Payment(shown) => {
                let stored = StoredResult::Payment {
                    shown: Payment::clone(shown),
                    settled: shown.settled,
                    asked: shown.asked.clone(),
                };
                (stored, &shown.metadata)
            }
        };
        to.push(Value::json(&stored));
        metadata.write(to);
    }

    fn read(cells: &mut Cells<'_>) -> Result<Self, Cause> {
        let stored = cells.json()?;
        let metadata: Option<Metadata> = Field::read(cells)?;
        Ok(match stored {
            StoredResult::Plan(plan) => Self::Plan(Plan { metadata, ..plan }.into()),
            StoredResult::Subscription { shown, blocked, anchor_at, billing, live_key } => {
                let hidden =
                    Subscription { metadata, blocked, anchor_at, billing, live_key, ..shown };
                Self::Subscription(hidden.into())
            }
            StoredResult::Payment { shown, settled, asked } => {
                Self::Payment(Payment { metadata, settled, asked, ..shown }.into())
            }
        })
    }
}

/// A client's key in its JSON column.
#[derive(Serialize, Deserialize)]
struct StoredKey(#[serde(with = "KeyFields")] ClientKey);

#[derive(Serialize, Deserialize)]
#[serde(remote = "ClientKey")]
struct KeyFields {
    key_id: u8,
    hash: [u8; 32],
    created_at: Timestamp,
}

/// The result of an idempotency record in its JSON column, with the fields that the JSON for callers leaves out.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredResult {
    Plan(Plan),
    Subscription {
        shown: Subscription,
        blocked: bool,
        anchor_at: Option<Timestamp>,
        #[serde(skip_serializing_if = "Option::is_none")]
        billing: Option<Box<BillingState>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        live_key: Option<Box<str>>,
    },
    Payment {
        shown: Payment,
        settled: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        asked: Option<Box<RequestedPayment>>,
    },
}
