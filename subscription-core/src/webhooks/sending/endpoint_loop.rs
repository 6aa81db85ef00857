//! The loop that sends events to one endpoint. The loop makes at most one call of the store at a time. Its HTTP
//! requests that have begun continue during this call.

use std::sync::Arc;
use std::time::Duration;

use super::outcome::Tried;
use super::queue::{EndpointQueue, NextDelivery, Step};
use super::retry_schedule::PerMille;
use super::run::Run;
use super::running::Running;
use crate::error::Error;
use crate::store::{EventQuery, PageLimit, StoreError};
use crate::values::Timestamp;
use crate::webhooks::Endpoint;
use crate::webhooks::delivery::payload;

/// How long a check of the endpoint's version is valid. After that the version is checked again before the next request
/// to the endpoint.
const CHECKED_FOR: Duration = Duration::from_millis(1_500);
/// A request must begin within this time after the check of the endpoint's version, or it is not made.
const BEGUN_WITHIN: Duration = Duration::from_secs(2);

/// The reason why a loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// No try is in flight and no change is uncommitted, and either nothing is due or sending must stop.
    Idle,
    /// A caller or another leader has changed the documents, so they must be read again.
    Changed,
}

/// The queue of a loop that has ended, and the result. After an error the queue still has its uncommitted changes.
pub(crate) type Ended = (EndpointQueue, Result<End, Error>);

impl Run<'_> {
    /// The next step for an endpoint with `in_flight` tries in flight; `None` if there is nothing to do now.
    pub(crate) fn step(
        &self,
        queue: &EndpointQueue,
        in_flight: usize,
        now: Timestamp,
    ) -> Option<Step> {
        queue.step(in_flight, self.tick(), now, self.signals.is_stopped())
    }

    /// Sends to one endpoint until nothing is due, in flight or uncommitted. The loop also ends after an error, or when
    /// the documents were changed by others.
    pub(crate) async fn send_to(&self, mut queue: EndpointQueue) -> Ended {
        let webhooks = self.webhooks;
        let mut tries = Running::new();
        // When the last commit or check of the endpoint's version began: both show whether others changed the endpoint.
        // `None` before the first of them, and after a wait with no try in flight.
        let mut checked_at: Option<Timestamp> = None;
        // The error of the store. After an error no new try begins, and the loop ends once the tries in flight have
        // ended.
        let mut failure = None;
        loop {
            let now = webhooks.now();
            for (tried, next, _slot) in tries.take_ended() {
                if let Ok(Some(tried)) = tried {
                    webhooks.counters.tried(queue.id(), &tried);
                    if queue.ended(&next, tried, self.jitter()) {
                        webhooks.counters.given_up(queue.id());
                    }
                } else {
                    queue.put_back(&next);
                    failure = tried.err().or(failure);
                }
            }
            queue.expire(now);
            let in_flight = tries.len();
            let step = self.step(&queue, in_flight, now).filter(|_| failure.is_none());
            let is_checked = checked_at.is_some_and(|at| now <= at.saturating_add(CHECKED_FOR));
            let is_unchanged = if let Some(Step::Commit) = step {
                checked_at = Some(now);
                tries.beside(self.commit(&mut queue, now)).await
            } else if let (Some(Step::Try(_)), false) = (step, is_checked) {
                checked_at = Some(now);
                tries.beside(self.check(&queue)).await
            } else if let Some(Step::Try(due)) = step
                && let Some(slot) = self.slot(in_flight)
                && let Some(next) = queue.begin(due)
            {
                let begin_by = checked_at.unwrap_or(now).saturating_add(BEGUN_WITHIN);
                tries.push(async move { (self.attempt(&next, begin_by).await, next, slot) });
                continue;
            } else if let Some(Step::Read) = step {
                tries.beside(self.read_page(vec![&mut queue])).await.map(|()| true)
            } else if in_flight > 0 || (failure.is_none() && queue.is_changed()) {
                checked_at = checked_at.filter(|_| in_flight > 0);
                let commit_at = queue.commit_at(in_flight);
                self.wake_by(queue.next_at().into_iter().chain(commit_at), now);
                webhooks.counters.show(queue.id(), queue.state(self.feed_end()));
                tries.any_or(self.next_tick()).await;
                continue;
            } else {
                return (queue, failure.map_or(Ok(End::Idle), Err));
            };
            match is_unchanged {
                Ok(true) => {}
                Ok(false) => return (queue, Ok(End::Changed)),
                Err(error) => failure = Some(error),
            }
        }
    }

    /// Sends an event with the current state of its record. Returns `None` if the try could not begin in time, or if
    /// sending must stop.
    async fn attempt(
        &self,
        next: &NextDelivery,
        begin_by: Timestamp,
    ) -> Result<Option<Tried>, Error> {
        let NextDelivery { event, signing, .. } = next;
        let body = payload::body(&self.webhooks.service, event).await?;
        let begun_at = self.webhooks.now();
        if begun_at > begin_by || self.signals.is_stopped() {
            return Ok(None);
        }
        let request = signing.request(&event.event.id.to_string(), begun_at, body);
        let outcome = self.webhooks.transport.deliver(request).await;
        let at = self.webhooks.now();
        Ok(Some(Tried { outcome, at, took: at.since(begun_at) }))
    }

    fn jitter(&self) -> PerMille {
        let mut bytes = [0; 2];
        // If the source of randomness fails, the delays have no jitter: 500 leaves a delay as it is.
        match self.webhooks.service.randomness().fill_id(&mut bytes) {
            Ok(()) => PerMille::new(u16::from_le_bytes(bytes)),
            Err(_) => PerMille::new(500),
        }
    }

    /// Commits the changes of an endpoint. Returns false if its documents were changed by others since they were read.
    async fn commit(&self, queue: &mut EndpointQueue, now: Timestamp) -> Result<bool, Error> {
        match self.webhooks.store().commit(queue.changes()?).await {
            Ok(()) => {
                if let Some(reason) = queue.committed(now) {
                    *self.webhooks.counters.lock().disabled.entry(reason).or_default() += 1;
                }
                Ok(true)
            }
            Err(StoreError::Conflict(_)) => Ok(false),
            // The commit may have been applied despite the error. Then the next commit fails with a conflict.
            Err(error) => Err(error.into()),
        }
    }

    /// Checks the version of an endpoint. Returns false if the endpoint was changed or deleted.
    async fn check(&self, queue: &EndpointQueue) -> Result<bool, Error> {
        let version = self.webhooks.load_version(&Endpoint::key(queue.id())?).await?;
        Ok(version == Some(queue.endpoint().version))
    }

    /// Reads one page of the feed for several endpoints whose positions in the feed are close together.
    pub(crate) async fn read_page(&self, readers: Vec<&mut EndpointQueue>) -> Result<(), Error> {
        let tick = self.tick();
        let mut query = EventQuery::after(u64::MAX, PageLimit::MAX);
        for queue in &readers {
            query.after = query.after.min(queue.read_to());
            for pattern in &queue.endpoint().body.types {
                if !query.types.contains(pattern) {
                    query.types.push(*pattern);
                }
            }
        }
        let mut page = self.webhooks.store().events(&query).await?;
        self.feed_reached(page.last);
        let items: Vec<_> = std::mem::take(&mut page.items).into_iter().map(Arc::new).collect();
        // A page that reached no sequence after `query.after` also counts as the last one: the later events are not
        // visible to readers yet.
        let is_last = page.reached >= page.last || page.reached <= query.after;
        for queue in readers {
            queue.read(&page, &items, is_last.then_some(tick), self.webhooks.now());
        }
        Ok(())
    }
}
