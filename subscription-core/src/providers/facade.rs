//! `Providers`: the sources that are followed, over a service.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::source::Source;
use super::tally::Tally;
use crate::error::Error;
use crate::events::Actor;
use crate::service::SubscriptionService;
use crate::store::Store;
use crate::values::clock::Timestamp;
use crate::values::text::Slug;

/// Follows the subscriptions that payment providers run: see [`Providers::take_in`] and [`Providers::advance`].
///
/// It has no task of its own: call [`advance`](Self::advance) and [`sync_page`](Self::sync_page) from a loop, a
/// scheduler or a test. Any number of processes may do so at the same time. Clones share their parts.
#[derive(Debug, Clone)]
pub struct Providers {
    pub(super) service: SubscriptionService,
    sources: Arc<BTreeMap<Slug, Followed>>,
}

/// A source with the memory of this process about it.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) source: Source,
    tally: Mutex<Tally>,
}

impl Providers {
    /// Follows these sources, with the records in the store of `service`. Names must be unique.
    pub fn new(service: SubscriptionService, sources: Vec<Source>) -> Self {
        let followed =
            |source: Source| (source.name.clone(), Followed { source, tally: Mutex::default() });
        Self { service, sources: Arc::new(sources.into_iter().map(followed).collect()) }
    }

    /// The sources, by name.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.sources.values().map(|followed| &followed.source)
    }

    /// The counts of each source since the start of this process, for metrics.
    pub fn tallies(&self) -> BTreeMap<Slug, Tally> {
        let tally = |followed: &Followed| {
            followed.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        self.sources.iter().map(|(name, followed)| (name.clone(), tally(followed))).collect()
    }

    pub(super) fn followed(&self, source: &Slug) -> Option<&Followed> {
        self.sources.get(source)
    }

    /// The source of this name, or [`Error::NotFound`].
    pub(super) fn expect(&self, source: &Slug) -> Result<&Followed, Error> {
        let missing = || Error::NotFound { record: "source", name: source.to_string() };
        self.followed(source).ok_or_else(missing)
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.service.store()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.service.now()
    }
}

impl Followed {
    pub(super) fn count(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The service in the name of this source.
    pub(super) fn acting(&self, service: &SubscriptionService) -> SubscriptionService {
        service.by(Actor::Provider(self.source.name.clone()))
    }
}
