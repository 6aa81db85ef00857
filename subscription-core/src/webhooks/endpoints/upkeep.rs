//! The facts about endpoints that upkeep, key rotation and imports need.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::service::SubscriptionService;
use crate::store::{Document, DocumentFilter, DocumentQuery, Store, StoreError, Stored};
use crate::values::Timestamp;
use crate::webhooks::documents::ENDPOINTS;
use crate::webhooks::{Delivery, Disabled, DisabledReason, Endpoint, Webhooks};

impl Webhooks {
    /// The lowest cursor of the enabled endpoints: the events after it are still to be sent. `None` without one.
    pub async fn lowest_cursor(&self) -> Result<Option<u64>, Error> {
        let mut lowest: Option<u64> = None;
        for endpoint in stored_endpoints(self.store()).await? {
            if !endpoint.body.is_enabled() {
                continue;
            }
            let key = Delivery::key(endpoint.body.id)?;
            let delivery: Option<Stored<Delivery>> = Stored::load(self.store(), &key).await?;
            let cursor = delivery.map(|delivery| delivery.body.cursor);
            lowest = lowest.into_iter().chain(cursor).min();
        }
        Ok(lowest)
    }
}

/// The numbers of the server keys that secrets of endpoints are derived from, with those of secrets that were replaced.
pub async fn server_keys_named(service: &SubscriptionService) -> Result<BTreeSet<u8>, Error> {
    let endpoints = stored_endpoints(service.store()).await?;
    let secrets = endpoints.iter().map(|endpoint| &endpoint.body.secret);
    let named = secrets.flat_map(|secret| {
        let previous = secret.previous.map(|previous| previous.key_id);
        [Some(secret.key_id), previous].into_iter().flatten()
    });
    Ok(named.collect())
}

/// The document of an endpoint that is enabled, disabled because it was imported: without this, a copy of a database
/// would send its events a second time. `None` if it is another document, which stays as it is.
pub fn disable_imported(document: &Document, now: Timestamp) -> Result<Option<Document>, Error> {
    if document.key.collection != ENDPOINTS {
        return Ok(None);
    }
    let mut endpoint: Endpoint = Stored::read(document)?.body;
    if !endpoint.is_enabled() {
        return Ok(None);
    }
    endpoint.disabled = Some(Disabled { reason: DisabledReason::Imported, at: now });
    let disabled = endpoint.document(document.version)?;
    Ok(Some(Document { version: document.version, ..disabled }))
}

pub(crate) async fn stored_endpoints(
    store: &dyn Store,
) -> Result<Vec<Stored<Endpoint>>, StoreError> {
    Stored::all(store, DocumentQuery::new(ENDPOINTS, DocumentFilter::All)).await
}
