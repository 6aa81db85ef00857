//! `Providers`: follows the subscriptions at payment providers, and copies their state to the records of a service.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::api::api_limits::ApiLimits;
use super::counters::Counters;
use super::source::ProviderAccount;
use super::sync::report::Run;
use crate::error::Error;
use crate::providers::Allowance;
use crate::service::{SubscriptionService, found};
use crate::store::{Position, Store};
use crate::values::{Slug, Timestamp, locked};

/// The maximum number of observations (immediate reads of an object at a provider) that callers may request per second,
/// in each process.
pub const OBSERVATIONS_PER_SECOND: u32 = 5;

/// Follows the subscriptions that payment providers run: see [`Providers::receive_webhook`] and [`Providers::advance`].
///
/// `Providers` runs no task of its own: call [`advance`](Self::advance) and [`sync_page`](Self::sync_page) from a loop,
/// a scheduler or a test. Any number of processes may do so at the same time. All clones share the same state.
#[derive(Debug, Clone)]
pub struct Providers {
    pub(super) service: SubscriptionService,
    sources: Arc<BTreeMap<Slug, Account>>,
    /// The rate limit of the observations that callers request.
    pub(super) manual_sync_allowance: Arc<Allowance>,
    /// Where the next search for due events begins; `None` for the event that has been due longest.
    pub(super) search_after: Arc<Mutex<Option<Position>>>,
}

/// A source, with the state that this process has for it.
#[derive(Debug)]
pub(crate) struct Account {
    pub(super) source: ProviderAccount,
    pub(super) api_limits: ApiLimits,
    counters: Mutex<Counters>,
    /// The progress of a sync that is a dry run (it writes nothing); `None` if no dry run is in progress.
    pub(super) dry_run: Mutex<Option<Run>>,
}

impl Providers {
    /// Follows these sources, and writes to the records in the store of `service`. The names of the sources must be
    /// unique.
    pub fn new(service: SubscriptionService, sources: Vec<ProviderAccount>) -> Self {
        let account = |source: ProviderAccount| {
            let api_limits = ApiLimits::new(source.kind, source.limited);
            let name = source.name.clone();
            (
                name,
                Account {
                    source,
                    api_limits,
                    counters: Mutex::default(),
                    dry_run: Mutex::default(),
                },
            )
        };
        let manual_sync_allowance = Allowance::new(Duration::from_secs(1), OBSERVATIONS_PER_SECOND);
        Self {
            service,
            sources: Arc::new(sources.into_iter().map(account).collect()),
            manual_sync_allowance: Arc::new(manual_sync_allowance),
            search_after: Arc::default(),
        }
    }

    /// The sources, by name.
    pub fn sources(&self) -> impl Iterator<Item = &ProviderAccount> {
        self.sources.values().map(|account| &account.source)
    }

    /// The counts of each source since the start of this process, for metrics.
    pub fn counters(&self) -> BTreeMap<Slug, Counters> {
        let counters = |account: &Account| locked(&account.counters).clone();
        self.sources.iter().map(|(name, account)| (name.clone(), counters(account))).collect()
    }

    pub(super) fn account(&self, source: &Slug) -> Option<&Account> {
        self.sources.get(source)
    }

    /// The source of this name, or [`Error::NotFound`].
    pub(super) fn expect(&self, source: &Slug) -> Result<&Account, Error> {
        found(Ok(self.account(source)), "source", source)
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.service.store()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.service.now()
    }
}

impl Account {
    pub(super) fn count(&self, count: impl FnOnce(&mut Counters)) {
        count(&mut locked(&self.counters));
    }
}
