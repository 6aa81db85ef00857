//! Ids: a type for each kind of record. All ids are version 7 UUIDs, except those of users of other systems.
//!
//! An id starts with the microsecond of its record's creation, so the order of ids *is* the order of
//! creation: stores sort and page by the id alone, and insert new records at the end of every index.

use uuid::{Builder, Uuid};

use crate::values::clock::Timestamp;
use crate::values::faults::InvalidValue;
use crate::values::randomness::{Randomness, RandomnessUnavailable};

/// A version 7 UUID. Its first 60 bits, not counting those of the version, are the moment `at` to the microsecond.
pub(crate) fn time_ordered(
    at: Timestamp,
    source: &dyn Randomness,
) -> Result<Uuid, RandomnessUnavailable> {
    let mut bytes = [0; 10];
    source.fill_id(&mut bytes)?;
    let micros = at.micros().unsigned_abs();
    let millis = micros / 1_000;
    let sub_millis = micros % 1_000;
    // The twelve bits after the version count 4,096ths of a millisecond (RFC 9562, section 6.2,
    // method 3). `Builder` then writes the version into the upper half of `bytes[0]`.
    let [high, low] = u16::try_from(sub_millis * 4_096 / 1_000).unwrap_or_default().to_be_bytes();
    bytes[0] = high;
    bytes[1] = low;
    Ok(Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid())
}

pub(crate) fn from_text(text: &str) -> Result<Uuid, InvalidValue> {
    // `Uuid` also parses texts with braces, URNs and texts without hyphens. An id has only one form.
    let hyphenated = text.len() == 36;
    let message = "must be a UUID such as 01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77";
    let uuid = Uuid::try_parse(text).ok().filter(|_| hyphenated);
    uuid.ok_or_else(|| InvalidValue::bad_format(message))
}

macro_rules! id_types {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(uuid::Uuid);

        impl $name {
            /// A new id for a record that is created at the moment `at`. A later moment gives a greater id.
            pub fn new(
                at: $crate::values::clock::Timestamp,
                source: &dyn $crate::values::randomness::Randomness,
            ) -> Result<Self, $crate::values::randomness::RandomnessUnavailable> {
                $crate::values::id::time_ordered(at, source).map(Self)
            }

            /// The bare UUID.
            pub const fn uuid(self) -> uuid::Uuid {
                self.0
            }
        }

        impl From<uuid::Uuid> for $name {
            fn from(uuid: uuid::Uuid) -> Self {
                Self(uuid)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::values::faults::InvalidValue;

            fn from_str(text: &str) -> Result<Self, $crate::values::faults::InvalidValue> {
                $crate::values::id::from_text(text).map(Self)
            }
        }

        $crate::values::as_text::written_as_text!($name, |id| id.0.as_hyphenated().encode_lower(&mut [0; 36]));
    )+};
}

// Outside of this file, only the module `webhooks` uses this macro.
#[cfg(feature = "webhooks")]
pub(crate) use id_types;

id_types! {
    /// The id of a [`Plan`](crate::plans::Plan).
    PlanId;
    /// The id of a [`Subscription`](crate::subscriptions::Subscription).
    SubscriptionId;
    /// The id of a [`Payment`](crate::payments::Payment).
    PaymentId;
    /// The id of a [`User`](crate::accounts::User): the person who has a subscription.
    UserId;
    /// The id of a [`Session`](crate::accounts::Session).
    SessionId;
    /// The id of an access token.
    TokenId;
    /// The id of an [`Event`](crate::events::Event).
    EventId;
}

impl UserId {
    /// The id of a user who comes from another system, where the user's id is `text` and not a UUID. The result is a
    /// UUID of version 5 (RFC 9562): the same text gives the same id in every process and language.
    ///
    /// Choose the namespace once for all users of that system: the version 5 UUID of your domain in the DNS
    /// namespace. The text is compared byte for byte: `42` and `042` are two users.
    ///
    /// ```
    /// use subscription_core::UserId;
    /// use uuid::Uuid;
    ///
    /// let namespace = Uuid::new_v5(&Uuid::NAMESPACE_DNS, b"shop.example");
    /// assert_eq!(namespace.to_string(), "746f4b90-23d9-561a-8215-09fd380eccee");
    ///
    /// let user = UserId::from_foreign(namespace, "42");
    /// assert_eq!(user.to_string(), "966d0ee2-0ba0-53f6-be20-3288f30aad07");
    /// ```
    pub fn from_foreign(namespace: Uuid, text: &str) -> Self {
        Self(Uuid::new_v5(&namespace, text.as_bytes()))
    }
}
