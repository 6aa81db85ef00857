//! Idempotency records: the stored result of a request, returned again for the same key.

use std::str::FromStr;
use std::sync::Arc;

use crate::payments::Payment;
use crate::plans::Plan;
use crate::subscriptions::Subscription;
use crate::values::as_text::{hidden_in_logs, named_enum};
use crate::values::{InvalidValue, Timestamp, Version};

/// The key that a client chose for a request, as in the header `Idempotency-Key`: 1 to 255 visible ASCII
/// characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyToken(Box<str>);

impl IdempotencyToken {
    /// The text as a plain `str`.
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
            Err(InvalidValue::bad_format("must be 1 to 255 visible ASCII characters"))
        }
    }
}

hidden_in_logs! { IdempotencyToken }

/// The idempotency key of a request: a second request with the same key changes nothing and returns the result of the
/// first request.
///
/// Choose one key for each request, for example the number of the order, and not one for each customer and plan. Until
/// the key expires, a request with the same key returns the record as the first request left it, even if since then the
/// record has ended or was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The client that sent the key. The same key from another client is another request.
    pub client: String,
    /// The key that the client chose.
    pub key: IdempotencyToken,
}

named_enum! {
    /// An operation that accepts an idempotency key.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Operation {
        /// Creates a plan.
        CreatePlan = "create_plan",
        /// Creates a subscription.
        CreateSubscription = "create_subscription",
        /// Creates a payment.
        CreatePayment = "create_payment",
        /// Changes a subscription, for example pauses or cancels it.
        Act = "act",
        /// Retries a payment that failed.
        RetryPayment = "retry_payment",
    }
}

/// The key of an [`IdempotencyRecord`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey {
    /// The operation.
    pub operation: Operation,
    /// The client that sent the request.
    pub client: String,
    /// The key that the client chose.
    pub key: IdempotencyToken,
}

/// The stored result of a request, until it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// The operation, the client and its key.
    pub key: IdempotencyKey,
    /// The version: 1 for the first request with the key, and 1 more for each new request with the key after the record
    /// had expired. After the record was deleted, the version begins at 1 again.
    pub version: Version,
    /// A hash of the input. A request with the same key and another input is refused.
    pub fingerprint: [u8; 32],
    /// The record that the request created or changed, as it was after the request.
    pub result: IdempotencyResult,
    /// The time from which the key may be used for a new request.
    pub expires_at: Timestamp,
}

/// A record as it was after the request that created or changed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdempotencyResult {
    /// A plan.
    Plan(Arc<Plan>),
    /// A subscription.
    Subscription(Arc<Subscription>),
    /// A payment.
    Payment(Arc<Payment>),
}
