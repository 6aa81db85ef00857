//! `Webhooks`: it manages the endpoints of a service and sends events to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::counters::{AllCounters, SharedCounters};
use crate::accounts::Scope;
use crate::server_keys::ServerKeys;
use crate::service::SubscriptionService;
use crate::store::Store;
use crate::values::{Clock, SystemClock, Timestamp};
use crate::webhooks::{AddressRules, Deliver};

/// Manages webhook endpoints, and creates the job that sends events to them.
///
/// A `Webhooks` starts no task. All clones share the same state.
#[derive(Debug, Clone)]
pub struct Webhooks {
    pub(super) service: SubscriptionService,
    pub(super) keys: Arc<ServerKeys>,
    pub(super) transport: Arc<dyn Deliver>,
    pub(super) addresses: Arc<AddressRules>,
    pub(super) counters: SharedCounters,
    /// The scopes of the caller; `None` if the caller may read all records.
    pub(super) allowed: Option<Arc<BTreeSet<Scope>>>,
    clock: Arc<dyn Clock>,
}

impl Webhooks {
    /// Sends events of the service's feed with `transport`. The secrets of the endpoints are derived from `keys`.
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
            allowed: None,
            clock: Arc::new(SystemClock),
        }
    }

    /// A clone for a caller who has only these scopes. Endpoints get whole records, so this clone makes no endpoint send
    /// records that the caller may not read, and shows no secret of an endpoint that gets such records.
    #[must_use]
    pub fn within(&self, scopes: &BTreeSet<Scope>) -> Self {
        Self { allowed: Some(Arc::new(scopes.clone())), ..self.clone() }
    }

    /// Sets the rules for the URLs of endpoints. A URL is checked when an endpoint is created with it or gets it by a
    /// change. The addresses to which its host name resolves must be checked by the transport.
    #[must_use]
    pub fn with_addresses(mut self, addresses: AddressRules) -> Self {
        self.addresses = Arc::new(addresses);
        self
    }

    /// Sets the clock that gives the time in the signatures of deliveries; the default is the machine's clock. Receivers
    /// compare this time with their own clock, so it must be the real time, even if the service runs on another clock
    /// (such as a manual clock in tests).
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The rules for the URLs of endpoints.
    pub fn addresses(&self) -> &AddressRules {
        &self.addresses
    }

    /// The counts of deliveries since the start of this process, and the present state of sending. Metrics show them.
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
