//! What plans, subscriptions and payments have in common for the service.

use crate::events::Subject;
use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::{Answer, Write};
use crate::subscriptions::Subscription;
use crate::values::version::Version;

/// A record that the service makes, changes and deletes, each time with an event.
pub(crate) trait ServiceRecord: Clone + Send + Sync {
    fn subject(&self) -> Subject;
    fn version(&self) -> Version;
    fn write(&self) -> Write;
    fn answer(&self) -> Answer;
    /// The record that was given as an answer, if it is of this kind.
    fn from_answer(answer: &Answer) -> Option<&Self>;
}

impl ServiceRecord for Plan {
    fn subject(&self) -> Subject {
        Subject::Plan(self.id)
    }

    fn version(&self) -> Version {
        self.version
    }

    fn write(&self) -> Write {
        Write::Plan(self.clone())
    }

    fn answer(&self) -> Answer {
        Answer::Plan(self.clone())
    }

    fn from_answer(answer: &Answer) -> Option<&Self> {
        if let Answer::Plan(plan) = answer { Some(plan) } else { None }
    }
}

impl ServiceRecord for Subscription {
    fn subject(&self) -> Subject {
        Subject::Subscription(self.id)
    }

    fn version(&self) -> Version {
        self.version
    }

    fn write(&self) -> Write {
        Write::Subscription(self.clone())
    }

    fn answer(&self) -> Answer {
        Answer::Subscription(self.clone())
    }

    fn from_answer(answer: &Answer) -> Option<&Self> {
        if let Answer::Subscription(subscription) = answer { Some(subscription) } else { None }
    }
}

impl ServiceRecord for Payment {
    fn subject(&self) -> Subject {
        Subject::Payment(self.id)
    }

    fn version(&self) -> Version {
        self.version
    }

    fn write(&self) -> Write {
        Write::Payment(self.clone())
    }

    fn answer(&self) -> Answer {
        Answer::Payment(self.clone())
    }

    fn from_answer(answer: &Answer) -> Option<&Self> {
        if let Answer::Payment(payment) = answer { Some(payment) } else { None }
    }
}
