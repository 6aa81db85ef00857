//! The three kinds of record that the service creates, changes and deletes.

use std::sync::Arc;

use crate::events::Subject;
use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::{Answer, Kind};
use crate::subscriptions::Subscription;
use crate::values::version::Version;

/// A record that the service creates, changes and deletes, each time with an event.
pub(crate) trait ServiceRecord: Kind {
    fn subject(&self) -> Subject;
    fn version(&self) -> Version;
    /// The record as the result of a create that may be repeated.
    fn into_answer(self: Arc<Self>) -> Answer;
    /// The record that an earlier create made, if it is of this kind.
    fn from_answer(answer: &Answer) -> Option<Arc<Self>>;
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

            fn into_answer(self: Arc<Self>) -> Answer {
                Answer::$record(self)
            }

            fn from_answer(answer: &Answer) -> Option<Arc<Self>> {
                if let Answer::$record(record) = answer { Some(Arc::clone(record)) } else { None }
            }
        }
    )+};
}

service_records! { Plan Subscription Payment }
