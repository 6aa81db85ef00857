//! Reads of whole lists of documents, and those of the sending job.

use std::collections::HashMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::lane::Documents;
use crate::error::Error;
use crate::store::{
    Document, DocumentFilter, DocumentQuery, PageLimit, Store, StoreExt as _, Stored,
};
use crate::values::{Timestamp, Version};
use crate::webhooks::documents::{DELIVERIES, ENDPOINTS, PARKED};
use crate::webhooks::{Delivery, Endpoint, EndpointId, Parked, Webhooks};

impl Webhooks {
    /// The documents of all endpoints.
    pub(crate) async fn load_all(&self) -> Result<Vec<Documents>, Error> {
        let all = |collection| DocumentQuery::new(collection, DocumentFilter::All);
        let list = |collection| all_documents(self.store(), all(collection));
        // Endpoints come first: one that is created meanwhile is due, and read then.
        let endpoints = list(ENDPOINTS).await?;
        let mut deliveries = HashMap::new();
        for document in list(DELIVERIES).await? {
            deliveries.insert(document.owner, Stored::<Delivery>::read(&document)?);
        }
        let mut parked = HashMap::<_, Vec<_>>::new();
        for document in list(PARKED).await? {
            let of = parked.entry(document.owner).or_default();
            of.push(Stored::<Parked>::read(&document)?);
        }
        let mut all = Vec::with_capacity(endpoints.len());
        for document in endpoints {
            let endpoint = Stored::<Endpoint>::read(&document)?;
            let owner = Some(endpoint.body.id.uuid());
            // One that is deleted meanwhile has no delivery.
            if let Some(delivery) = deliveries.remove(&owner) {
                let parked = parked.remove(&owner).unwrap_or_default();
                all.push(Documents { endpoint, delivery, parked });
            }
        }
        Ok(all)
    }

    /// The version of an endpoint; `None` if it is deleted.
    pub(crate) async fn load_endpoint(&self, id: EndpointId) -> Result<Option<Version>, Error> {
        let document = self.store().get_as::<Document>(&Endpoint::key(id)?).await?;
        Ok(document.map(|document| document.version))
    }

    /// The documents of an endpoint; `None` if it is deleted.
    pub(crate) async fn load_one(&self, id: EndpointId) -> Result<Option<Documents>, Error> {
        let endpoint = Stored::load(self.store(), &Endpoint::key(id)?).await?;
        let delivery = Stored::load(self.store(), &Delivery::key(id)?).await?;
        let (Some(endpoint), Some(delivery)) = (endpoint, delivery) else { return Ok(None) };
        let query = DocumentQuery::new(PARKED, DocumentFilter::Owner(id.uuid()));
        let parked = Stored::all(self.store(), query).await?;
        Ok(Some(Documents { endpoint, delivery, parked }))
    }

    /// The endpoints whose deliveries are due, with the versions of their documents: those that a caller changed, and
    /// stalled ones.
    pub(crate) async fn load_due(
        &self,
        now: Timestamp,
    ) -> Result<Vec<(EndpointId, Version)>, Error> {
        let query = DocumentQuery::new(DELIVERIES, DocumentFilter::DueBy(now));
        let due = all_documents(self.store(), query).await?;
        let due = due.iter().filter_map(|it| Some((EndpointId::from(it.owner?), it.version)));
        Ok(due.collect())
    }
}

impl<T: DeserializeOwned> Stored<T> {
    /// Reads all documents of a list.
    pub(crate) async fn all(store: &dyn Store, query: DocumentQuery) -> Result<Vec<Self>, Error> {
        let documents = all_documents(store, query).await?;
        Ok(documents.iter().map(|it| Self::read(it)).collect::<Result<_, _>>()?)
    }
}

async fn all_documents(
    store: &dyn Store,
    query: DocumentQuery,
) -> Result<Vec<Arc<Document>>, Error> {
    let mut query = query.with_limit(PageLimit::MAX);
    let mut all = Vec::new();
    loop {
        let page = store.list_as::<Document>(query.clone()).await?;
        all.extend(page.items);
        query.after = page.next;
        if query.after.is_none() {
            return Ok(all);
        }
    }
}
