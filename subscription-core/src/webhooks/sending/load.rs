//! The store reads of the sending job.

use super::queue::Documents;
use crate::error::Error;
use crate::store::{Document, DocumentFilter, DocumentKey, DocumentQuery, StoreExt as _, Stored};
use crate::values::{Timestamp, Version};
use crate::webhooks::documents::{DELIVERIES, ENDPOINTS};
use crate::webhooks::{Delivery, Endpoint, EndpointId, Webhooks};

impl Webhooks {
    /// The ids of all endpoints, also of those whose documents cannot be read.
    pub(crate) async fn endpoint_ids(&self) -> Result<Vec<EndpointId>, Error> {
        let query = DocumentQuery::new(ENDPOINTS, DocumentFilter::All);
        let documents = query.all(self.store()).await?;
        Ok(documents.iter().filter_map(|it| it.key.id.as_str().parse().ok()).collect())
    }

    /// The version of a document; `None` if the document is deleted.
    pub(crate) async fn load_version(&self, key: &DocumentKey) -> Result<Option<Version>, Error> {
        let document = self.store().get_as::<Document>(key).await?;
        Ok(document.map(|document| document.version))
    }

    /// The documents of an endpoint, read as of one moment; `None` if the endpoint is deleted.
    pub(crate) async fn load_one(&self, id: EndpointId) -> Result<Option<Documents>, Error> {
        let delivery_key = Delivery::key(id)?;
        loop {
            let endpoint = Stored::load(self.store(), &Endpoint::key(id)?).await?;
            let delivery = Stored::<Delivery>::load(self.store(), &delivery_key).await?;
            let (Some(endpoint), Some(delivery)) = (endpoint, delivery) else { return Ok(None) };
            let parked = self.parked_of(id).await?;
            // Parked events are written only together with the delivery document. If the version of this document is
            // unchanged, the parked events are unchanged too.
            if self.load_version(&delivery_key).await? == Some(delivery.version) {
                return Ok(Some(Documents { endpoint, delivery, parked }));
            }
        }
    }

    /// The endpoints whose delivery documents are due, with the versions of these documents. A delivery document is due
    /// if a caller changed the endpoint, or if the next probe of a stalled endpoint is due.
    pub(crate) async fn load_due(
        &self,
        now: Timestamp,
    ) -> Result<Vec<(EndpointId, Version)>, Error> {
        let query = DocumentQuery::new(DELIVERIES, DocumentFilter::DueBy(now));
        let due = query.all(self.store()).await?;
        let due = due.iter().filter_map(|it| Some((EndpointId::from(it.owner?), it.version)));
        Ok(due.collect())
    }
}
