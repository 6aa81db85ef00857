//! The result of an observation: the outcome of its events, or the reason why it was interrupted.

use crate::error::Error;
use crate::providers::api::api_limits::Held;
use crate::providers::{EventStatus, FoundObject, ObjectId, ObjectRef, Unmapped};
use crate::store::StoreError;
use crate::values::{SubscriptionId, Timestamp};

/// The outcome of an observation of an object, for the events of the object.
#[derive(Debug, Clone)]
pub(crate) struct EventOutcome {
    pub(crate) status: EventStatus,
    /// The JSON path of the value in the object that cannot be read; `None` if all values were read.
    pub(crate) path: Option<Box<str>>,
    pub(crate) customer: Option<ObjectId>,
    pub(crate) subscription_id: Option<SubscriptionId>,
    /// True if the object had no link to a record before the observation.
    pub(crate) is_new: bool,
}

impl From<EventStatus> for EventOutcome {
    fn from(status: EventStatus) -> Self {
        Self { status, path: None, customer: None, subscription_id: None, is_new: true }
    }
}

/// The reason why an observation does not write the records of its object.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// No record is written for the object, and its events get this outcome.
    Settled(EventOutcome),
    /// The object cannot be read now: reads of the source are paused after a failure, or the rate limit delays the
    /// read.
    RetryAt(Held),
    /// Another writer committed first. As the result of a whole observation: this happened at each of its tries.
    Lost,
    /// The object is an invoice, and this subscription of the invoice must be observed before it.
    NeedsFirst(ObjectRef),
    /// The store failed.
    Store(Error),
}

impl Interrupted {
    /// When to try again: the moment of [`Self::RetryAt`], otherwise `at`. The result is an error if the store failed.
    pub(crate) fn retry(self, at: Timestamp) -> Result<Held, Error> {
        match self {
            Self::RetryAt(held) => Ok(held),
            Self::Store(error) => Err(error),
            Self::Settled(_) | Self::Lost | Self::NeedsFirst(_) => {
                Ok(Held { until: at, unavailable: false })
            }
        }
    }

    /// Adds the customer of the object to the outcome, so that a binding of the customer later finds the events of the
    /// object.
    pub(crate) fn of_customer(mut self, object: &FoundObject) -> Self {
        if let Self::Settled(outcome) = &mut self {
            outcome.customer.clone_from(&object.customer);
        }
        self
    }
}

impl From<EventStatus> for Interrupted {
    fn from(status: EventStatus) -> Self {
        Self::Settled(status.into())
    }
}

impl From<Held> for Interrupted {
    fn from(held: Held) -> Self {
        Self::RetryAt(held)
    }
}

impl From<Error> for Interrupted {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}

impl From<Unmapped> for Interrupted {
    fn from(unmapped: Unmapped) -> Self {
        let mut outcome = EventOutcome::from(EventStatus::from(&unmapped));
        if let Unmapped::Unreadable { path } = unmapped {
            outcome.path = Some(path);
        }
        Self::Settled(outcome)
    }
}
