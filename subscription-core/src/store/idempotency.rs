//! Answers kept so that a request may be repeated without doing its work twice.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::payments::Payment;
use crate::plans::Plan;
use crate::subscriptions::Subscription;
use crate::values::clock::Timestamp;
use crate::values::faults::{FaultCode, InvalidValue, named};
use crate::values::version::Version;

/// What a caller names a request by: 1 to 255 visible ASCII characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey(Box<str>);

impl RequestKey {
    /// The bare text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RequestKey {
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

impl fmt::Debug for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestKey(…)")
    }
}

/// Marks a request that may be repeated: the second time it gets the first answer.
///
/// A key names one request (an order, a row), never a customer and a plan: for as long as it is kept, it
/// gives the record as it was when it was made, also after that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// Whose key it is: the same key of another client is another request.
    pub client: String,
    /// The client's name for the request.
    pub key: RequestKey,
}

/// What may be asked for repeatedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Making a plan.
    CreatePlan,
    /// Making a subscription.
    CreateSubscription,
    /// Making a payment.
    CreatePayment,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 3] = [Self::CreatePlan, Self::CreateSubscription, Self::CreatePayment];

    /// The operation's name, as stores keep it.
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

/// Names the answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey {
    /// What was asked for.
    pub operation: Operation,
    /// Who asked.
    pub client: String,
    /// The client's name for the request.
    pub key: RequestKey,
}

/// The answer to a request, kept for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// Which request.
    pub key: IdempotencyKey,
    /// How often the key has been used for a new request, one after the other had expired.
    pub version: Version,
    /// A hash of what was asked for: another request may not come under the same key.
    pub fingerprint: [u8; 32],
    /// The record that was made, as it was then.
    pub answer: Answer,
    /// From when on the key is free again.
    pub expires_at: Timestamp,
}

/// A record as it was when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A plan.
    Plan(Arc<Plan>),
    /// A subscription.
    Subscription(Arc<Subscription>),
    /// A payment.
    Payment(Arc<Payment>),
}
