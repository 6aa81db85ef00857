//! The three kinds of record that the service creates, changes and deletes.

use std::sync::Arc;

use crate::events::Subject;
use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::{IdempotencyResult, Kind};
use crate::subscriptions::Subscription;
use crate::values::Version;

/// A record that the service creates, changes and deletes, each time with an event.
pub(crate) trait ServiceRecord: Kind {
    fn subject(&self) -> Subject;
    fn version(&self) -> Version;
    /// The record as the result that is stored under an idempotency key.
    fn into_result(self: Arc<Self>) -> IdempotencyResult;
    /// The record in a result that is stored under an idempotency key; `None` if it is of another kind.
    fn from_result(result: &IdempotencyResult) -> Option<Arc<Self>>;
}

macro_rules! service_records {
    ($($record:ident)+) => {$(
        impl ServiceRecord for $record {
            fn subject(&self) -> Subject {
                Subject::$record(self.id)
            }

            fn version(&self) -> Version {
                self.version
            }

            fn into_result(self: Arc<Self>) -> IdempotencyResult {
                IdempotencyResult::$record(self)
            }

            fn from_result(result: &IdempotencyResult) -> Option<Arc<Self>> {
                if let IdempotencyResult::$record(record) = result { Some(Arc::clone(record)) } else { None }
            }
        }
    )+};
}

service_records! { Plan Subscription Payment }
