//! Idempotency records: the stored result of a create, returned again for the same key.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::payments::Payment;
use crate::plans::Plan;
use crate::subscriptions::Subscription;
use crate::values::clock::Timestamp;
use crate::values::faults::{FaultCode, InvalidValue, named};
use crate::values::version::Version;

/// A caller's name for a request, as in the header `Idempotency-Key`: 1 to 255 visible ASCII characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyToken(Box<str>);

impl IdempotencyToken {
    /// The bare text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IdempotencyToken {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        if (1..=255).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidValue::new(
                FaultCode::BadFormat,
                "must be 1 to 255 visible ASCII characters",
            ))
        }
    }
}

impl fmt::Debug for IdempotencyToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdempotencyToken(…)")
    }
}

/// Marks a create that may be repeated: a second request returns the record that the first one created.
///
/// A key names one request (an order, a row), never a customer and a plan: until it expires, it returns
/// the record as it was created, even if that record has ended or was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The client that sent the key: the same key of another client is another request.
    pub client: String,
    /// The client's name for the request.
    pub key: IdempotencyToken,
}

/// An operation that accepts an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Creates a plan.
    CreatePlan,
    /// Creates a subscription.
    CreateSubscription,
    /// Creates a payment.
    CreatePayment,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 3] = [Self::CreatePlan, Self::CreateSubscription, Self::CreatePayment];

    /// The operation's name, as it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CreatePlan => "create_plan",
            Self::CreateSubscription => "create_subscription",
            Self::CreatePayment => "create_payment",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Operation {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        named(Self::ALL, Self::as_str, text)
    }
}

/// The key of an [`IdempotencyRecord`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey {
    /// The operation.
    pub operation: Operation,
    /// The client that sent the request.
    pub client: String,
    /// The client's name for the request.
    pub key: IdempotencyToken,
}

/// The stored result of a create, until it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// The operation, the client and its key.
    pub key: IdempotencyKey,
    /// How often the key was used for a new request: each time after the last use had expired.
    pub version: Version,
    /// A hash of the input: another input under the same key is refused.
    pub fingerprint: [u8; 32],
    /// The record that was created, as it was then.
    pub result: IdempotencyResult,
    /// The time from which the key may be used again.
    pub expires_at: Timestamp,
}

/// A record as it was when it was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdempotencyResult {
    /// A plan.
    Plan(Arc<Plan>),
    /// A subscription.
    Subscription(Arc<Subscription>),
    /// A payment.
    Payment(Arc<Payment>),
}
