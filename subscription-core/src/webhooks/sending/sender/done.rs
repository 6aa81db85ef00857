//! The ends of what the sending job has begun.

use std::sync::Arc;

use super::{Route, Sender};
use crate::error::Error;
use crate::store::{EventPage, StoreError};
use crate::values::{Timestamp, Version};
use crate::webhooks::EndpointId;
use crate::webhooks::sending::lane::{Commit, Documents, Lane, Tried, Turn};
use crate::webhooks::sending::schedule::PerMille;

/// The end of something that was under way.
#[expect(clippy::large_enum_variant, reason = "most ends are tries, which are among the largest")]
pub(crate) enum Done {
    LoadedAll(Result<Vec<Documents>, Error>),
    Due(Result<Vec<(EndpointId, Version)>, Error>),
    Loaded(EndpointId, Timestamp, Result<Option<Documents>, Error>),
    Checked(EndpointId, u64, Timestamp, Result<Option<Version>, Error>),
    Read(ReadBegun, Result<EventPage, Error>),
    Tried(EndpointId, u64, Turn, Result<Option<Tried>, Error>),
    Committed(EndpointId, u64, Commit, Result<(), StoreError>),
}

/// A read of the feed.
pub(crate) struct ReadBegun {
    pub(crate) readers: Vec<(EndpointId, u64)>,
    pub(crate) after: u64,
    pub(crate) wake: u64,
}

impl Sender {
    /// Takes in the end of something that was under way.
    pub(crate) fn done(&mut self, done: Done, now: Timestamp) {
        let ended = match done {
            Done::LoadedAll(documents) => documents.map(|documents| {
                for documents in documents {
                    self.load(documents, now);
                }
                self.is_loaded = true;
            }),
            Done::Due(due) => due.map(|due| self.due(due)),
            Done::Loaded(id, at, documents) => self.loaded(id, at, documents),
            Done::Checked(id, epoch, at, endpoint) => self.checked(id, epoch, at, endpoint),
            Done::Read(begun, page) => self.read(&begun, page, now),
            Done::Tried(id, epoch, turn, tried) => self.tried(id, epoch, &turn, tried, now),
            Done::Committed(id, epoch, commit, result) => {
                self.committed(id, epoch, commit, result, now)
            }
        };
        if let Err(error) = ended {
            self.failed = Some((error, now));
        }
    }

    /// Begins anew with the documents of an endpoint, as they were read. Tries in flight no longer count.
    fn load(&mut self, documents: Documents, at: Timestamp) {
        let id = documents.endpoint.body.id;
        let lane = Lane::new(documents, &self.webhooks.keys, at);
        self.epoch += 1;
        let route = Route {
            lane,
            epoch: self.epoch,
            busy: self.routes.get(&id).map_or(0, |route| route.busy),
            held: None,
            checked_at: at,
            is_checked: false,
            up_to_date: 0,
            is_checking: false,
            is_reading: false,
            is_committing: false,
        };
        self.routes.insert(id, route);
    }

    fn remove(&mut self, id: EndpointId) {
        self.routes.remove(&id);
        self.webhooks.tallies.lock().endpoints.remove(&id);
    }

    /// The part of an endpoint, unless its documents were read again meanwhile.
    fn route(&mut self, id: EndpointId, epoch: u64) -> Option<&mut Route> {
        self.routes.get_mut(&id).filter(|route| route.epoch == epoch)
    }

    fn loaded(
        &mut self,
        id: EndpointId,
        at: Timestamp,
        documents: Result<Option<Documents>, Error>,
    ) -> Result<(), Error> {
        // If the read failed, it is repeated.
        self.loads.insert(id, false);
        let documents = documents?;
        self.loads.remove(&id);
        match documents {
            Some(documents) => self.load(documents, at),
            None => self.remove(id),
        }
        Ok(())
    }

    /// Reads the endpoints again that a caller has changed.
    fn due(&mut self, due: Vec<(EndpointId, Version)>) {
        for (id, version) in due {
            // A commit that is under way is refused if a caller was faster.
            let is_known = self.routes.get(&id).is_some_and(|route| {
                route.is_committing || route.lane.delivery().version == version
            });
            if !is_known {
                self.loads.entry(id).or_default();
            }
        }
    }

    fn checked(
        &mut self,
        id: EndpointId,
        epoch: u64,
        at: Timestamp,
        endpoint: Result<Option<Version>, Error>,
    ) -> Result<(), Error> {
        let Some(route) = self.route(id, epoch) else { return Ok(()) };
        route.is_checking = false;
        if endpoint? == Some(route.lane.endpoint().version) {
            route.is_checked = true;
            route.checked_at = at;
        } else {
            self.loads.entry(id).or_default();
        }
        Ok(())
    }

    fn read(
        &mut self,
        begun: &ReadBegun,
        page: Result<EventPage, Error>,
        now: Timestamp,
    ) -> Result<(), Error> {
        for &(id, epoch) in &begun.readers {
            if let Some(route) = self.route(id, epoch) {
                route.is_reading = false;
            }
        }
        let mut page = page?;
        let items: Vec<_> = std::mem::take(&mut page.items).into_iter().map(Arc::new).collect();
        for &(id, epoch) in &begun.readers {
            let Some(route) = self.route(id, epoch) else { continue };
            route.lane.read(&page, &items, now);
            if page.reached >= page.last || page.reached <= begun.after {
                route.up_to_date = begun.wake;
            }
        }
        Ok(())
    }

    fn tried(
        &mut self,
        id: EndpointId,
        epoch: u64,
        turn: &Turn,
        tried: Result<Option<Tried>, Error>,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.in_flight -= 1;
        let jitter = self.jitter();
        let tallies = self.webhooks.tallies.clone();
        if let Ok(Some(tried)) = &tried {
            tallies.tried(id, tried);
        }
        let Some(route) = self.routes.get_mut(&id) else { return Ok(()) };
        route.busy -= 1;
        if route.epoch != epoch {
            return Ok(());
        }
        match tried {
            Ok(Some(tried)) => {
                if route.lane.ended(turn, tried, jitter) {
                    tallies.lock().endpoints.entry(id).or_default().given_up += 1;
                }
                // An event that waits for a read of the endpoint is sent only if the others go on.
                let goes_on = route.lane.is_enabled() && route.lane.stall().is_none();
                if let Some(held) = route.held.take_if(|_| !goes_on) {
                    route.lane.not_begun(&held, now);
                }
                Ok(())
            }
            Ok(None) => {
                route.lane.not_begun(turn, now);
                Ok(())
            }
            Err(error) => {
                route.lane.not_begun(turn, now);
                Err(error)
            }
        }
    }

    fn jitter(&self) -> PerMille {
        let mut bytes = [0; 2];
        // Without randomness the delays are as they stand in the table.
        match self.webhooks.service.randomness().fill_id(&mut bytes) {
            Ok(()) => PerMille::new(u16::from_le_bytes(bytes)),
            Err(_) => PerMille::new(500),
        }
    }

    fn committed(
        &mut self,
        id: EndpointId,
        epoch: u64,
        commit: Commit,
        result: Result<(), StoreError>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let tallies = self.webhooks.tallies.clone();
        let Some(route) = self.route(id, epoch) else { return Ok(()) };
        route.is_committing = false;
        match result {
            Ok(()) => {
                route.checked_at = commit.at;
                if let Some(reason) = route.lane.committed(commit, now) {
                    *tallies.lock().disabled.entry(reason).or_default() += 1;
                }
                Ok(())
            }
            Err(StoreError::Conflict(_)) => {
                self.loads.entry(id).or_default();
                Ok(())
            }
            Err(error) => {
                route.lane.not_committed(commit);
                Err(error.into())
            }
        }
    }

    /// Shows the present state in the metrics.
    pub(crate) fn show(&self) {
        let tallies = &self.webhooks.tallies;
        tallies.lock().in_flight = self.in_flight;
        for route in self.routes.values() {
            tallies.show(&route.lane);
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.webhooks.tallies.hide();
    }
}
