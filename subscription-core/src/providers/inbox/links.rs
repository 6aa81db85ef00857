//! Lists of the links between objects at providers and our records.

use serde::Serialize;

use super::documents::{LINKS, Link, link_label};
use crate::error::Error;
use crate::providers::{ObjectId, ObjectKind, ObjectRef, Providers};
use crate::store::{
    Document, DocumentFilter, DocumentId, Page, PageLimit, Position, StoreError, Stored,
};
use crate::values::{Slug, SubscriptionId, UserId};

/// The links to list: those that meet all conditions that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkFilter {
    /// Links of this source.
    pub source: Option<Slug>,
    /// Links of the subscription with this id, of its order and of its invoices.
    pub subscription_id: Option<SubscriptionId>,
    /// Links of the customers who are bound to this user.
    pub user_id: Option<UserId>,
}

crate::with_fields! {
    LinkFilter {
        with_source(impl Into<Option<Slug>>) => source,
        with_subscription_id(impl Into<Option<SubscriptionId>>) => subscription_id,
        with_user_id(impl Into<Option<UserId>>) => user_id,
    }
}

/// A link of an object at a provider to our record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ListedLink {
    /// The id of the link in this service.
    pub id: DocumentId,
    /// The source.
    pub source: Slug,
    /// The object: a customer, a subscription, an invoice or an order.
    pub object: ObjectRef,
    /// The customer of an object that is not a customer itself, if the object names one.
    pub customer: Option<ObjectId>,
    /// The user whom the customer is bound to, if the object is a customer.
    pub user_id: Option<UserId>,
    /// Our subscription that the object belongs to. `None` if the object is a customer.
    pub subscription_id: Option<SubscriptionId>,
}

impl Providers {
    /// A page of links. The page may have fewer links than the limit, even if more follow.
    pub async fn links(
        &self,
        filter: &LinkFilter,
        after: Option<Position>,
        limit: PageLimit,
    ) -> Result<Page<ListedLink>, Error> {
        let read = |document: &Document| {
            let listed = ListedLink::read(document)?;
            Ok(Some(listed).filter(|listed| filter.admits(listed)))
        };
        self.page(LINKS, &filter.lists(), after, limit, read).await
    }
}

impl ListedLink {
    fn read(document: &Document) -> Result<Self, StoreError> {
        let Link { source, object, customer, user_id, subscription_id, .. } =
            Stored::read(document)?.body;
        Ok(Self { id: document.key.id.clone(), source, object, customer, user_id, subscription_id })
    }
}

impl LinkFilter {
    /// The document filters that together select at least all links that this filter admits.
    fn lists(&self) -> Vec<DocumentFilter> {
        const KINDS: [ObjectKind; 4] = [
            ObjectKind::Customer,
            ObjectKind::Subscription,
            ObjectKind::Invoice,
            ObjectKind::Order,
        ];
        let owner = self.subscription_id.map(SubscriptionId::uuid);
        if let Some(owner) = owner.or(self.user_id.map(UserId::uuid)) {
            return vec![DocumentFilter::Owner(owner)];
        }
        let Some(source) = &self.source else { return vec![DocumentFilter::All] };
        let labels = KINDS.into_iter().filter_map(|kind| link_label(source, kind));
        labels.map(DocumentFilter::Label).collect()
    }

    fn admits(&self, link: &ListedLink) -> bool {
        self.source.as_ref().is_none_or(|source| link.source == *source)
            && self.subscription_id.is_none_or(|id| link.subscription_id == Some(id))
            && self.user_id.is_none_or(|id| link.user_id == Some(id))
    }
}
