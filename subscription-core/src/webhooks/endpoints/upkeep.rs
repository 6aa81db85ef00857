//! The facts about endpoints that upkeep, key rotation and imports need.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::service::SubscriptionService;
use crate::store::{Document, DocumentFilter, DocumentQuery, Store, StoreError, Stored};
use crate::values::FaultCode;
use crate::values::Timestamp;
use crate::webhooks::documents::{CreationRequest, DELIVERIES, ENDPOINTS, PARKED, REQUESTS};
use crate::webhooks::{
    AddressRules, Delivery, Disabled, DisabledReason, Endpoint, Parked, Webhooks,
};

impl Webhooks {
    /// The lowest cursor of all enabled endpoints: events after it may still have to be sent. `None` if no endpoint is
    /// enabled.
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

/// The numbers of all server keys from which secrets of endpoints are derived, including the previous secrets.
pub async fn server_keys_named(service: &SubscriptionService) -> Result<BTreeSet<u8>, Error> {
    let endpoints = stored_endpoints(service.store()).await?;
    let secrets = endpoints.iter().map(|endpoint| &endpoint.body.secret);
    let named = secrets.flat_map(|secret| {
        let previous = secret.previous.map(|previous| previous.key_id);
        [Some(secret.key_id), previous].into_iter().flatten()
    });
    Ok(named.collect())
}

/// Disables the endpoint that an imported document contains, and returns the changed document. If the endpoint stayed
/// enabled, a copy of a database would send the events to it a second time. Returns `None` if the document is not an
/// enabled endpoint; then the document needs no change.
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

/// Checks a document of an import: a document of webhooks must be readable, and the fields of an endpoint must be such
/// as a caller may set, with these rules for its URL. Without rules, the network of the URL is not checked.
pub fn check_imported(document: &Document, addresses: Option<&AddressRules>) -> Result<(), Error> {
    let collection = &document.key.collection;
    if *collection == ENDPOINTS {
        let endpoint: Endpoint = Stored::read(document)?.body;
        if Endpoint::key(endpoint.id)? != document.key {
            return Err(Error::invalid(
                FaultCode::NotAllowedValue,
                "must be the id of the document",
                "id",
            ));
        }
        endpoint.check(addresses)?;
    } else if *collection == DELIVERIES {
        Stored::<Delivery>::read(document)?;
    } else if *collection == PARKED {
        Stored::<Parked>::read(document)?;
    } else if *collection == REQUESTS {
        Stored::<CreationRequest>::read(document)?;
    }
    Ok(())
}

pub(crate) async fn stored_endpoints(
    store: &dyn Store,
) -> Result<Vec<Stored<Endpoint>>, StoreError> {
    Stored::all(store, DocumentQuery::new(ENDPOINTS, DocumentFilter::All)).await
}
