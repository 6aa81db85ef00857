//! Observations that a caller requests: after a checkout, and the replay of an event.

use std::sync::Arc;
use std::time::Duration;

use super::observation::Ticket;
use super::outcome::{EventOutcome, Interrupted};
use crate::error::Error;
use crate::providers::facade::Account;
use crate::providers::inbox::documents::EVENTS;
use crate::providers::{EventStatus, ListedEvent, ObjectRef, Providers};
use crate::store::{DocumentId, DocumentKey, Stored};
use crate::subscriptions::Subscription;
use crate::values::{Slug, UserId};

/// The result of [`Providers::observe_now`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObservedNow {
    /// The subscription follows its provider.
    Subscription(Arc<Subscription>),
    /// There is no subscription, or not yet.
    EventStatus(EventStatus),
    /// Too many observations were requested: wait this long.
    Limited(Duration),
}

impl Providers {
    /// Observes a subscription, checkout session or order at once, for the page after a checkout. `user_id` says
    /// the owner, also if the customer is bound to another user.
    ///
    /// An object that cannot be applied yet is stored as an event.
    pub async fn observe_now(
        &self,
        source: &Slug,
        target: &ObjectRef,
        user_id: Option<UserId>,
    ) -> Result<ObservedNow, Error> {
        let account = self.expect(source)?;
        if let Err(until) = self.asked_now.take(self.now()) {
            return Ok(ObservedNow::Limited(until.since(self.now())));
        }
        let mut ticket = self.sync_ticket(source, target.clone()).await?;
        if user_id.is_some() {
            ticket.body.user_id = user_id;
            ticket.body.user_decides = true;
        }
        let outcome = self.observe_at_once(account, target.clone(), ticket).await?;
        self.shown(&outcome).await
    }

    /// Observes the object of an event again, whatever its state, and returns the event.
    pub async fn replay(&self, id: &DocumentId) -> Result<ListedEvent, Error> {
        let key = DocumentKey { collection: EVENTS, id: id.clone() };
        let ticket: Option<Ticket> = Stored::load(self.store(), &key).await?;
        if let Some(ticket) = ticket
            && let Some(account) = self.account(&ticket.body.source)
            && let Some(object) = ticket.body.resolved.clone().or(ticket.body.object.clone())
        {
            self.observe_at_once(account, object, ticket).await?;
        }
        self.event(id).await
    }

    /// Observes an object for one event. If the provider is out of reach, the event is stored as pending.
    async fn observe_at_once(
        &self,
        account: &Account,
        object: ObjectRef,
        ticket: Ticket,
    ) -> Result<EventOutcome, Error> {
        let interrupted = match self.observe_for(account, object, vec![ticket.clone()], None).await
        {
            Ok(outcome) => return Ok(outcome),
            Err(interrupted) => interrupted,
        };
        let is_held = matches!(interrupted, Interrupted::RetryAt(_));
        let status = if is_held { EventStatus::UNAVAILABLE } else { EventStatus::PENDING };
        let held = interrupted.retry(self.now())?;
        self.postpone(&[ticket], Some(status), held.until).await?;
        Ok(status.into())
    }

    /// The subscription of an observation, if it follows its provider.
    pub(crate) async fn shown(&self, outcome: &EventOutcome) -> Result<ObservedNow, Error> {
        match outcome.subscription_id {
            Some(id) if matches!(outcome.status, EventStatus::APPLIED | EventStatus::SAME) => {
                Ok(ObservedNow::Subscription(self.service.subscription(id).await?))
            }
            _ => Ok(ObservedNow::EventStatus(outcome.status)),
        }
    }
}
