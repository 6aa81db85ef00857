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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::randomness::{SeededRandomness, SystemRandomness};

    #[test]
    fn ids_sort_as_their_moments_do_to_the_microsecond() {
        let ids = SeededRandomness::new(7);
        let start: Timestamp = "2025-01-31T00:00:00Z".parse().unwrap();

        let made: Vec<PlanId> = (0..5_000)
            .map(|micros| Timestamp::from_micros(start.micros() + micros).unwrap())
            .map(|at| PlanId::new(at, &ids).unwrap())
            .collect();

        assert!(made.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn an_id_is_a_uuid_of_version_7_at_both_ends_of_time() {
        for at in [Timestamp::MIN, Timestamp::MAX] {
            let id = EventId::new(at, &SystemRandomness).unwrap();

            assert_eq!(id.uuid().get_version_num(), 7, "{at}");
            assert_eq!(id.uuid().get_variant(), uuid::Variant::RFC4122, "{at}");
        }
    }

    #[test]
    fn a_foreign_name_has_the_id_that_other_languages_give_it() {
        let namespace = Uuid::new_v5(&Uuid::NAMESPACE_DNS, b"shop.example");

        // As the module `uuid` of Python has them.
        for (text, id) in [
            ("42", "966d0ee2-0ba0-53f6-be20-3288f30aad07"),
            ("042", "bc1e4cf9-c2f2-515c-a4bf-962108f46b71"),
            ("", "84f90269-4450-5307-b9cf-595b01f81e69"),
            ("Zo\u{eb}", "77c3e848-dd16-5386-9a8f-e36b39b7584b"),
        ] {
            let user = UserId::from_foreign(namespace, text);

            assert_eq!(user.to_string(), id, "{text:?}");
            assert_eq!(user.to_string().parse(), Ok(user), "{text:?}");
        }
    }

    #[test]
    fn reads_and_writes_plain_uuid_text_only() {
        let text = "01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77";
        let id: PlanId = text.to_uppercase().parse().unwrap();

        assert_eq!(id.to_string(), text);
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<PlanId>(&format!("\"{text}\"")).unwrap(), id);
        for other in [
            "",
            "plan",
            "01933b6e7a5c7cc08f3e2d9c5b1a4e77",
            "{01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77}",
            "urn:uuid:01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77",
            "01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e7g",
        ] {
            assert_eq!(
                other.parse::<PlanId>().unwrap_err().code(),
                FaultCode::BadFormat,
                "{other}"
            );
        }
    }

    #[test]
    fn a_seed_repeats_its_ids() {
        let at = Timestamp::MIN;
        let first = PlanId::new(at, &SeededRandomness::new(1)).unwrap();

        assert_eq!(PlanId::new(at, &SeededRandomness::new(1)).unwrap(), first);
        assert_ne!(PlanId::new(at, &SeededRandomness::new(2)).unwrap(), first);
    }
}
