//! `Webhooks`: the endpoints and the sending of events to them, over a service.

use std::sync::Arc;

use super::counters::{AllCounters, SharedCounters};
use crate::server_keys::ServerKeys;
use crate::service::SubscriptionService;
use crate::store::Store;
use crate::values::{Clock, SystemClock, Timestamp};
use crate::webhooks::{AddressRules, Deliver};

/// Endpoints, and the events that are sent to them.
///
/// It has no task of its own. Clones share their parts.
#[derive(Debug, Clone)]
pub struct Webhooks {
    pub(super) service: SubscriptionService,
    pub(super) keys: Arc<ServerKeys>,
    pub(super) transport: Arc<dyn Deliver>,
    pub(super) addresses: Arc<AddressRules>,
    pub(super) counters: SharedCounters,
    clock: Arc<dyn Clock>,
}

impl Webhooks {
    /// Sends events of the service's feed with `transport`. Secrets are derived from `keys`.
    pub fn new(
        service: SubscriptionService,
        keys: ServerKeys,
        transport: impl Deliver + 'static,
    ) -> Self {
        Self {
            service,
            keys: Arc::new(keys),
            transport: Arc::new(transport),
            addresses: Arc::default(),
            counters: SharedCounters::default(),
            clock: Arc::new(SystemClock),
        }
    }

    /// Allows and denies addresses by these rules when an endpoint is created or changed.
    #[must_use]
    pub fn with_addresses(mut self, addresses: AddressRules) -> Self {
        self.addresses = Arc::new(addresses);
        self
    }

    /// Takes the time of deliveries from this clock instead of the machine's. It need not be the service's clock:
    /// receivers compare the time of a delivery with their own clock.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The rules for addresses.
    pub fn addresses(&self) -> &AddressRules {
        &self.addresses
    }

    /// The counts of deliveries since the start of this process, and the present state of sending, for metrics.
    pub fn counters(&self) -> AllCounters {
        self.counters.lock().clone()
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.service.store()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
