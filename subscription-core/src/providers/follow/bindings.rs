//! Bindings that callers make: a customer is bound to a user, or a subscription that was released from its provider is
//! bound to this provider again.

use std::collections::BTreeSet;

use super::observation::StoredEvent;
use super::users::binding;
use crate::error::{Conflict, Error};
use crate::providers::inbox::documents::{EVENTS, LINKS, Link};
use crate::providers::{
    EventStatus, ObjectId, ObjectKind, ObjectRef, ProviderEvent, Providers, Reason,
};
use crate::service::found;
use crate::store::{
    ChangeSet, Document, DocumentFilter, DocumentQuery, PageLimit, Record, StoreExt as _, Stored,
};
use crate::values::{FaultCode, Slug, SubscriptionId, UserId, Version};

impl Providers {
    /// Binds a customer to a user, and makes the waiting events of the customer due. The objects of these events then
    /// belong to the user, even if an event names another user. If the customer is bound to another user already, the
    /// error is [`Conflict::CustomerConflict`], unless the account of that other user was deleted or is being deleted.
    pub async fn bind_customer(
        &self,
        source: &Slug,
        customer: &ObjectId,
        user: UserId,
    ) -> Result<(), Error> {
        let account = self.expect(source)?;
        if !self.is_user(account, user).await? {
            return Err(Error::invalid(
                FaultCode::UnknownReference,
                "must be an existing user",
                "user_id",
            ));
        }
        self.service
            .retrying(|| async {
                let link = self.customer_link(account, customer).await?;
                match link.as_ref().and_then(|link| link.body.user_id) {
                    Some(bound) if bound == user => return Ok(()),
                    Some(bound) if self.is_user(account, bound).await? => {
                        return Err(Conflict::CustomerConflict.into());
                    }
                    Some(_) | None => {}
                }
                let before = link.map_or(Version::NEW, |link| link.version);
                self.write(vec![binding(account, customer, user).document(before)?]).await
            })
            .await?;
        self.wake(source, &[customer.clone()].into(), Some(user)).await
    }

    /// Lets the provider manage a subscription again that was released from the provider. The next
    /// [`advance`](Self::advance) observes the subscription.
    pub async fn attach(&self, source: &Slug, subscription: SubscriptionId) -> Result<(), Error> {
        self.expect(source)?;
        let query = DocumentQuery::new(LINKS, DocumentFilter::Owner(subscription.uuid()));
        self.service
            .retrying(|| async {
                let links: Vec<Stored<Link>> = Stored::all(self.store(), query.clone()).await?;
                let link = links.into_iter().find(|Stored { body: link, .. }| {
                    link.source == *source
                        && matches!(link.object.kind, ObjectKind::Subscription | ObjectKind::Order)
                });
                let mut link = found(Ok(link), "link", subscription)?;
                link.body.attach = true;
                let event = self.sync_event(source, link.body.object.clone()).await?;
                let due = event.body.document(event.version, Some(self.now()))?;
                self.write(vec![link.body.document(link.version)?, due]).await
            })
            .await
    }

    /// The event by which an object is observed without a webhook: the stored event if it is still open, otherwise a
    /// new one.
    pub(crate) async fn sync_event(
        &self,
        source: &Slug,
        object: ObjectRef,
    ) -> Result<StoredEvent, Error> {
        let mut body = ProviderEvent::of_sync(source.clone(), object, self.now());
        let stored: Option<StoredEvent> = Stored::load(self.store(), &body.document_key()?).await?;
        let version = stored.as_ref().map_or(Version::NEW, |stored| stored.version);
        // A stored event that is still open is used, because a caller may have named the owner of the object in it.
        if let Some(open) = stored.filter(|stored| stored.body.status().is_open()) {
            body = ProviderEvent { state: body.state, reason: body.reason, ..open.body };
        }
        Ok(Stored { version, due_at: None, body })
    }

    /// Makes the events of these customers due that wait because the user of the customer is unknown or in conflict.
    /// `decided` is the user that a caller has named for the customers; `None` if no caller has named a user.
    pub(crate) async fn wake(
        &self,
        source: &Slug,
        customers: &BTreeSet<ObjectId>,
        decided: Option<UserId>,
    ) -> Result<(), Error> {
        for reason in [Reason::UnknownCustomer, Reason::CustomerConflict] {
            let Some(label) = EventStatus::waiting(reason).label() else { continue };
            let query = DocumentQuery::new(EVENTS, DocumentFilter::Label(label));
            let mut query = query.with_limit(PageLimit::MAX);
            // The events are read page by page, because any number of events may wait.
            loop {
                let page = self.store().list_as::<Document>(query.clone()).await?;
                let mut waiting = Vec::new();
                for document in &page.items {
                    let mut event: StoredEvent = Stored::read(document)?;
                    let customer = event.body.customer.as_ref();
                    if event.body.source == *source
                        && customer.is_some_and(|it| customers.contains(it))
                    {
                        event.body.user_id = decided.or(event.body.user_id);
                        event.body.user_decides |= decided.is_some();
                        waiting.push(event);
                    }
                }
                self.postpone(&waiting, None, self.now()).await?;
                query.after = page.next;
                if query.after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Commits documents.
    pub(crate) async fn write(&self, documents: Vec<Document>) -> Result<(), Error> {
        let writes = documents.into_iter().map(Record::from).collect();
        let committed = self.store().commit(ChangeSet { writes, ..ChangeSet::default() }).await;
        committed.map_err(Error::Store)
    }
}
