//! Names of records: one type each, all UUID version 7 but for users of other systems.
//!
//! An id starts with the microsecond of its record's creation, so the order of ids *is* the order of
//! creation: stores sort and page by the id alone, and new records land at the end of every index.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::{Builder, Uuid};

use crate::values::clock::Timestamp;
use crate::values::faults::{FaultCode, InvalidValue};
use crate::values::randomness::{Randomness, RandomnessUnavailable};

/// A version 7 UUID whose first 60 bits that are free hold `at` to the microsecond.
fn time_ordered(at: Timestamp, source: &dyn Randomness) -> Result<Uuid, RandomnessUnavailable> {
    let mut bytes = [0; 10];
    source.fill_id(&mut bytes)?;
    let micros = at.micros().unsigned_abs();
    let (millis, sub_millis) = (micros / 1_000, micros % 1_000);
    // The twelve bits after the version count 4,096ths of a millisecond (RFC 9562, section 6.2,
    // method 3). The version takes the upper half of the first byte.
    let [high, low] = u16::try_from(sub_millis * 4_096 / 1_000).unwrap_or_default().to_be_bytes();
    bytes[0] = high;
    bytes[1] = low;
    Ok(Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid())
}

fn from_text(text: &str) -> Result<Uuid, InvalidValue> {
    // `Uuid` also reads braces, URNs and bare digits: a record has one name, not five.
    let hyphenated = text.len() == 36;
    Uuid::try_parse(text).ok().filter(|_| hyphenated).ok_or_else(|| {
        InvalidValue::new(
            FaultCode::BadFormat,
            "must be a UUID such as 01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77",
        )
    })
}

macro_rules! id_types {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id for a record created `at`; later moments give greater ids.
            pub fn new(
                at: Timestamp,
                source: &dyn Randomness,
            ) -> Result<Self, RandomnessUnavailable> {
                time_ordered(at, source).map(Self)
            }

            /// The bare UUID.
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl FromStr for $name {
            type Err = InvalidValue;

            fn from_str(text: &str) -> Result<Self, InvalidValue> {
                from_text(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0.as_hyphenated(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.0.as_hyphenated().encode_lower(&mut [0; 36]))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )+};
}

id_types! {
    /// Names a [`Plan`](crate::plans::Plan).
    PlanId;
    /// Names a [`Subscription`](crate::subscriptions::Subscription).
    SubscriptionId;
    /// Names a [`Payment`](crate::payments::Payment).
    PaymentId;
    /// Names a [`User`](crate::accounts::User): the person who has a subscription.
    UserId;
    /// Names a [`Session`](crate::accounts::Session).
    SessionId;
    /// Names an access token.
    TokenId;
    /// Names an [`Event`](crate::events::Event).
    EventId;
}

impl UserId {
    /// The id of a user whom another system names by a text that is no UUID: the same for the same text,
    /// in every process and language (UUID version 5, RFC 9562).
    ///
    /// The namespace is chosen once for all users of that system, as the version 5 UUID of one's own
    /// domain in the DNS namespace. The text is read byte for byte: `42` and `042` are two users.
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
