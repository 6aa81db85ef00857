//! Observations that a caller requests: after a checkout, and the replay of an event.

use std::sync::Arc;
use std::time::Duration;

use super::observation::StoredEvent;
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
    /// The subscription in this service. It has the state of the object at the provider now.
    Subscription(Arc<Subscription>),
    /// The object has no subscription in this service, or not yet: the status of its event says why. A dry run of
    /// [`Providers::sync_object`] returns only the status.
    EventStatus(EventStatus),
    /// Too many observations were requested: the caller must wait for this time.
    Limited(Duration),
}

impl Providers {
    /// Observes a subscription, checkout session or order at once, for the page that the buyer sees after a checkout.
    /// `user_id` names the owner, even if the customer is bound to another user.
    ///
    /// An object that cannot be applied yet is stored as an event.
    pub async fn observe_now(
        &self,
        source: &Slug,
        target: &ObjectRef,
        user_id: Option<UserId>,
    ) -> Result<ObservedNow, Error> {
        let account = self.expect(source)?;
        if let Err(until) = self.manual_sync_allowance.take(self.now()) {
            return Ok(ObservedNow::Limited(until.since(self.now())));
        }
        let mut stored_event = self.sync_event(source, target.clone()).await?;
        if user_id.is_some() {
            stored_event.body.user_id = user_id;
            stored_event.body.user_decides = true;
        }
        let outcome = self.observe_at_once(account, target.clone(), stored_event).await?;
        self.shown(&outcome).await
    }

    /// Observes the object of an event again, whatever the state of the event is, and returns the event.
    pub async fn replay(&self, id: &DocumentId) -> Result<ListedEvent, Error> {
        let key = DocumentKey { collection: EVENTS, id: id.clone() };
        let stored_event: Option<StoredEvent> = Stored::load(self.store(), &key).await?;
        if let Some(stored_event) = stored_event
            && let Some(account) = self.account(&stored_event.body.source)
            && let Some(object) =
                stored_event.body.resolved.clone().or(stored_event.body.object.clone())
        {
            self.observe_at_once(account, object, stored_event).await?;
        }
        self.event(id).await
    }

    /// Observes an object for one event. If the observation must be tried again later, the event is stored as pending.
    async fn observe_at_once(
        &self,
        account: &Account,
        object: ObjectRef,
        stored_event: StoredEvent,
    ) -> Result<EventOutcome, Error> {
        let interrupted =
            match self.observe_for(account, object, vec![stored_event.clone()], None).await {
                Ok(outcome) => return Ok(outcome),
                Err(interrupted) => interrupted,
            };
        let is_held = matches!(interrupted, Interrupted::RetryAt(_));
        let status = if is_held { EventStatus::UNAVAILABLE } else { EventStatus::PENDING };
        let held = interrupted.retry(self.now())?;
        self.postpone(&[stored_event], Some(status), held.until).await?;
        Ok(status.into())
    }

    /// The subscription that an observation has updated or found unchanged; otherwise the status of its event.
    pub(crate) async fn shown(&self, outcome: &EventOutcome) -> Result<ObservedNow, Error> {
        match outcome.subscription_id {
            Some(id) if matches!(outcome.status, EventStatus::APPLIED | EventStatus::SAME) => {
                Ok(ObservedNow::Subscription(self.service.subscription(id).await?))
            }
            _ => Ok(ObservedNow::EventStatus(outcome.status)),
        }
    }
}
