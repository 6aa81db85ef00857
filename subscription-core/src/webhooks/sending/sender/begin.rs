//! The reads, tries and commits that the sending job begins.

use std::time::Duration;

use futures_util::FutureExt as _;

use super::done::{Done, ReadBegun};
use super::{Route, Running, Sender};
use crate::error::Error;
use crate::events::TypePattern;
use crate::store::{EventQuery, PageLimit};
use crate::values::Timestamp;
use crate::webhooks::delivery::attempt::attempt;
use crate::webhooks::{EndpointId, Wake, Webhooks};

/// The largest number of tries in flight to all endpoints.
const IN_FLIGHT_MAX: usize = 256;
/// The shortest time between two reads of the due deliveries, however often the job is woken.
const DUE_READ_EVERY: Duration = Duration::from_millis(250);
/// The time after which an endpoint is read again before a try, and after which a try does not begin.
const CHECKED_FOR: Duration = Duration::from_millis(1_500);
const BEGUN_WITHIN: Duration = Duration::from_secs(2);
/// The pause after an error of the store while tries are in flight.
const ERROR_PAUSE: Duration = Duration::from_secs(1);

impl Sender {
    /// Begins all that can begin now.
    pub(crate) fn begin<'r>(
        &mut self,
        running: &Running<'r>,
        with: (&'r Webhooks, &'r dyn Wake),
        now: Timestamp,
        is_stopping: bool,
    ) {
        let webhooks = with.0;
        if self.failed.as_ref().is_some_and(|(_, at)| now >= at.saturating_add(ERROR_PAUSE))
            && let Some((error, _)) = self.failed.take()
        {
            tracing::warn!(%error, "webhooks: the store failed");
        }
        if self.failed.is_some() {
            return;
        }
        if !self.is_loaded {
            if running.is_empty() && !is_stopping {
                running.push(async { Done::LoadedAll(webhooks.load_all().await) }.boxed());
            }
            return;
        }
        if self.wakes_seen < self.wakes && !is_stopping {
            self.wakes_seen = self.wakes;
            self.woken(running, webhooks, now);
        }
        for (&id, is_loading) in &mut self.loads {
            if !is_stopping && !std::mem::replace(is_loading, true) {
                let load = async move { Done::Loaded(id, now, webhooks.load_one(id).await) };
                running.push(load.boxed());
            }
        }
        for (&id, route) in &mut self.routes {
            route.lane.expire(now);
            let commit_at = route.lane.commit_at(route.busy);
            let is_due = commit_at.is_some_and(|at| at <= now || is_stopping);
            if is_due && !route.is_committing && !self.loads.contains_key(&id) {
                match route.lane.commit(now) {
                    Ok((changes, commit)) => {
                        route.is_committing = true;
                        let epoch = route.epoch;
                        let commit = async move {
                            let result = webhooks.store().commit(changes).await;
                            Done::Committed(id, epoch, commit, result)
                        };
                        running.push(commit.boxed());
                    }
                    Err(error) => self.failed = Some((error, now)),
                }
            }
        }
        if !is_stopping {
            self.begin_reads(running, webhooks);
            self.begin_tries(running, with, now);
        }
    }

    /// Looks for endpoints that a caller has changed.
    fn woken<'r>(&mut self, running: &Running<'r>, webhooks: &'r Webhooks, now: Timestamp) {
        if self.due_read_at.is_none_or(|at| now.since(at) >= DUE_READ_EVERY) {
            self.due_read_at = Some(now);
            running.push(async move { Done::Due(webhooks.load_due(now).await) }.boxed());
        }
        self.show();
    }

    /// Reads the feed for the endpoints that have sent what was read: once for those that are at the same place.
    fn begin_reads<'r>(&mut self, running: &Running<'r>, webhooks: &'r Webhooks) {
        let wake = self.wakes_seen;
        let waiting = self.routes.iter_mut().filter(|(id, route)| {
            let is_under_way = route.is_reading || self.loads.contains_key(id);
            route.up_to_date < wake && !is_under_way && route.lane.needs_events()
        });
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_by_key(|(_, route)| route.lane.read_to());
        let page = u64::try_from(PageLimit::MAX.get()).unwrap_or_default();
        let near = |first: &(_, &mut Route), next: &(_, &mut Route)| {
            next.1.lane.read_to() - first.1.lane.read_to() <= page
        };
        for group in waiting.chunk_by_mut(near) {
            let mut query = EventQuery::after(u64::MAX, PageLimit::MAX);
            let mut readers = Vec::with_capacity(group.len());
            for (id, route) in group {
                route.is_reading = true;
                query.after = query.after.min(route.lane.read_to());
                add_types(&mut query.types, &route.lane.endpoint().body.types);
                readers.push((**id, route.epoch));
            }
            let read = async move {
                let page = webhooks.store().events(&query).await;
                let page = page.map_err(Error::Store);
                Done::Read(ReadBegun { readers, after: query.after, wake }, page)
            };
            running.push(read.boxed());
        }
    }

    /// Begins tries, one of each endpoint in turn. An endpoint with nothing in flight always finds room.
    fn begin_tries<'r>(
        &mut self,
        running: &Running<'r>,
        with: (&'r Webhooks, &'r dyn Wake),
        now: Timestamp,
    ) {
        let last = self.last_turn;
        let (later, earlier): (Vec<_>, Vec<_>) =
            self.routes.keys().partition(|id| Some(*id) > last.as_ref());
        let order: Vec<EndpointId> = later.into_iter().chain(earlier).copied().collect();
        let is_idle = |route: &&Route| route.busy == 0 && route.lane.is_enabled();
        let mut idle = self.routes.values().filter(is_idle).count();
        let mut has_begun = true;
        while std::mem::take(&mut has_begun) {
            for &id in &order {
                let Some(route) = self.routes.get_mut(&id) else { continue };
                let taken = self.in_flight + if route.busy == 0 { 0 } else { idle };
                if taken >= IN_FLIGHT_MAX || route.is_checking || self.loads.contains_key(&id) {
                    continue;
                }
                let next = route.held.take().or_else(|| route.lane.next(route.busy, now));
                let (Some(turn), Some(signing)) = (next, route.lane.signing().cloned()) else {
                    // With nothing in flight and nothing to send, it is read again before the next try.
                    route.is_checked &= route.busy > 0;
                    continue;
                };
                let epoch = route.epoch;
                if !route.is_checked || now > route.checked_at.saturating_add(CHECKED_FOR) {
                    route.held = Some(turn);
                    route.is_checking = true;
                    let check = async move {
                        let endpoint = with.0.load_endpoint(id).await;
                        Done::Checked(id, epoch, now, endpoint)
                    };
                    running.push(check.boxed());
                    continue;
                }
                let begin_by = route.checked_at.saturating_add(BEGUN_WITHIN);
                idle -= usize::from(route.busy == 0);
                route.busy += 1;
                self.in_flight += 1;
                self.last_turn = Some(id);
                has_begun = true;
                let tried = async move {
                    let tried = attempt(with, &signing, &turn.event, begin_by).await;
                    Done::Tried(id, epoch, turn, tried)
                };
                running.push(tried.boxed());
            }
        }
    }
}

/// Adds the types that are not there yet.
fn add_types(types: &mut Vec<TypePattern>, more: &[TypePattern]) {
    for pattern in more {
        if !types.contains(pattern) {
            types.push(*pattern);
        }
    }
}
