//! Small types that validate their values, and the interfaces to the clock and to randomness.

pub(crate) mod as_text;
pub(crate) mod clock;
pub(crate) mod currency;
pub(crate) mod decimal;
pub(crate) mod document_id;
pub(crate) mod email_key;
pub(crate) mod faults;
pub(crate) mod id;
pub(crate) mod input;
mod locked;
mod members;
pub(crate) mod metadata;
pub(crate) mod named_enum;
pub(crate) mod randomness;
pub(crate) mod states;
pub(crate) mod text;
pub(crate) mod version;
mod with_fields;

pub(crate) use clock::{Clock, SystemClock, Timestamp};
pub(crate) use currency::Currency;
pub(crate) use decimal::{Amount, Bounded};
pub(crate) use document_id::{DocumentId, Label};
pub(crate) use email_key::{EmailKey, EmailPrefix};
pub(crate) use faults::{Fault, FaultCode, Faults, InvalidValue};
pub(crate) use id::{EventId, PaymentId, PlanId, SessionId, SubscriptionId, UserId};
pub(crate) use input::{Field, Fields, InputError, MalformedJson};
pub(crate) use locked::locked;
pub(crate) use metadata::Metadata;
pub(crate) use randomness::{Randomness, RandomnessUnavailable, SystemRandomness};
pub(crate) use states::{InvalidTransition, Row};
pub(crate) use text::{Description, Email, ExternalId, Href, HttpsUrl, Name, Slug, Text};
pub(crate) use version::Version;
